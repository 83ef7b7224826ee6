"""Train the head of commands on labelled turns."""

from __future__ import annotations

from collections.abc import Sequence

from jazzmine_dspy.datasets.schema import Example
from jazzmine_dspy.models.commands import Command
from jazzmine_dspy.program.heads.acts import ActsHead
from jazzmine_dspy.program.local.head_input import head_input
from jazzmine_dspy.program.ports import HeadExample
from jazzmine_dspy.program.state import TurnState
from jazzmine_dspy.program.turn import TurnProgram


def fit_acts(program: TurnProgram, examples: Sequence[Example], seed: int) -> ActsHead | None:
    """Train the head; None without an embedding model or labels."""
    labelled = [each for each in examples if each.labels.commands is not None]
    embedder = program.bindings.embedder
    if not labelled or embedder is None:
        return None
    return ActsHead.train([head_example(program, each) for each in labelled], seed, embedder=embedder)


def head_example(program: TurnProgram, example: Example) -> HeadExample[list[Command]]:
    """A labelled turn as training example of the head."""
    turn, flows = example.turn, example.labels.flows or ()
    state = TurnState(turn, program.registry, program.policy, program.bindings).with_selected(flows)
    commands = [command for command in example.labels.commands or () if command.understood]
    given = head_input(_READER, state, state.choosable, rewritten=False)
    return HeadExample(given, commands, example.conversation_id, tuple(flows))


class _Reader:
    """Stands in for the head to compute its inputs before training."""

    fingerprint = ""
    texts_of = staticmethod(ActsHead.texts_of)

    def texts(self, message: str) -> tuple[str, ...]:
        return (message,)

    def predict(self, given: object) -> None:
        raise NotImplementedError


_READER = _Reader()
