"""The first stage of a program on its own: one call, without a flow chosen or a state changed."""

from __future__ import annotations

import functools
from typing import Any

from jazzmine_dspy.lm.resolve import as_lm
from jazzmine_dspy.models import Enhancement, FlowRegistry, StageRecord, Turn
from jazzmine_dspy.program.deadline import Deadline, in_thread
from jazzmine_dspy.program.deciding import read
from jazzmine_dspy.program.lm_decider import LMDecider
from jazzmine_dspy.program.policy import Policy
from jazzmine_dspy.program.state import TurnState
from jazzmine_dspy.program.turn import TurnProgram
from jazzmine_dspy.signatures.contract import CONTRACTS, asking

_OTHER_STAGES = ("flows", "commands")


async def aenhance(
    program: TurnProgram, turn: Turn, seconds: float | None
) -> tuple[Enhancement, StageRecord]:
    """The enhancement alone: by the language model where one is bound, else as the whole turn is decided.

    Args:
        program: Made by :func:`enhancing_program`.
        turn: The message with its history and its snippets.
        seconds: The deadline; None for no limit.
    """
    if "lm" not in program.policy.names:
        # Sentiment, topic, entities and intent are read after the commands, so the whole turn is decided.
        decision = await program.adecide(turn, deadline=seconds)
        return decision.enhancement, decision.stages["enhance"]
    deadline = Deadline(seconds, program.bindings.clock)
    state = TurnState(turn, program.registry, program.policy, program.bindings, deadline=deadline)
    if program.shape == "fused":
        state = await in_thread(functools.partial(read, program, turn, (), deadline))
    draft = await LMDecider(program, stages=("enhance",)).adraft(state, deadline)
    return draft.enhancement or Enhancement(enhanced_query=turn.text), draft.records["enhance"]


def enhancing_program(llm: Any, registry: FlowRegistry | None, history_window: int) -> TurnProgram:
    """A program whose first stage asks a language model for the enhancement.

    Args:
        llm: What :func:`as_lm` takes, or a program. Of a program a copy asks with its compiled prompt: that of the
            enhancement, or in the fused shape the compiled one for all stages with the fields of the enhancement alone.
            A program that has none reads the message by itself.
        registry: Flows whose names are the closed set of intents, where they are not the program's own.
        history_window: Turns of the user that its prompt shows.

    Raises:
        InputError: ``llm`` is no language model.
    """
    if isinstance(llm, TurnProgram):
        program = llm.with_policy(_alone(llm, history_window))
        return program if registry is None else program.bind(registry=registry)
    policy = Policy(shape="staged", deciders=(("lm", None),), history_window=history_window)
    return TurnProgram(registry, policy=policy).bind(lm=as_lm(llm))


def _alone(program: TurnProgram, history_window: int) -> Policy:
    policy = program.policy.model_copy(update={"history_window": history_window, "enhance": "decider"})
    if not policy.asks("enhance"):
        # Nobody labelled it, and no language model is asked for it.
        return policy.named("local")
    if program.bindings.lm_for() is None:
        return policy.named("local") if "local" in policy.names else policy
    fused = policy.shape == "fused" and _is_compiled(program, "fused")
    update: dict[str, Any] = {"shape": "staged"}
    if fused and not _is_compiled(program, "enhance"):
        update = {"unasked": (*policy.unasked, *_OTHER_STAGES)}
    return policy.named("lm").model_copy(update=update)


def _is_compiled(program: TurnProgram, name: str) -> bool:
    """Whether a predictor has demonstrations, or other words than the package's."""
    predictor = program.predictor(name)
    plain = asking(name, CONTRACTS[name].signature, program.policy.unasked)
    own = predictor.signature
    return bool(predictor.demos) or _words(own) != _words(plain)


def _words(signature: Any) -> list[str]:
    return [
        signature.instructions,
        *(str(field.json_schema_extra["desc"]) for field in signature.fields.values()),
    ]
