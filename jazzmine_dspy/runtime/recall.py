"""Recall for a runtime: from procedural memory, with the registry's own index as its stand-in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jazzmine_dspy.memory.procedural import FallbackRecall, FlowIndex, QdrantProceduralMemory

if TYPE_CHECKING:
    from jazzmine_dspy.models.ports import Embedder, RecallPort
    from jazzmine_dspy.program.turn import TurnProgram


def resilient(
    memory: QdrantProceduralMemory | RecallPort, program: TurnProgram, agent_id: str
) -> FallbackRecall:
    """A port over procedural memory that goes on where the memory is down.

    The stand-in is the index that the program is bound to already, with its labelled examples and its fitted ranking;
    else one over the registry, built when it is first needed; none where there is no embedding model to build it with.
    """
    if isinstance(memory, FallbackRecall):
        return memory
    own = program.bindings.recall
    embedder: Embedder | None = program.bindings.embedder
    port: RecallPort
    if isinstance(memory, QdrantProceduralMemory):
        fitted, turns = None, []
        if isinstance(own, FlowIndex):
            fitted = own.settings
            # What the program learnt from labelled turns: the registry alone does not hold it.
            turns = [
                (point.text, point.flow, point.conversation)
                for point in own.points
                if point.kind == "turn" and point.flow in program.registry
            ]
        port = memory.port(program.registry, agent_id, settings=fitted, examples=turns)
        embedder = embedder or memory.embedder
    else:
        port = memory

    def stand_in() -> RecallPort:
        if isinstance(own, FlowIndex):
            return own
        assert embedder is not None
        return FlowIndex(program.registry, embedder)

    return FallbackRecall(port, stand_in if isinstance(own, FlowIndex) or embedder is not None else None)
