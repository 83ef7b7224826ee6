"""Training rows: labelled turns with the state of the local decider before it chooses flows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Literal, NamedTuple

from jazzmine_dspy.datasets.schema import Example
from jazzmine_dspy.models.registry import FlowRegistry
from jazzmine_dspy.program.local.understanding import read_closed
from jazzmine_dspy.program.ports import EmbedderPort, Recalled
from jazzmine_dspy.program.state import TurnState
from jazzmine_dspy.program.turn import TurnProgram

Load = Literal["idle", "busy"]

_BULK = 512


class Row(NamedTuple):
    """A labelled turn with its state in service, before flows are chosen.

    Args:
        example: The turn, with its labels.
        state: The turn with its candidates from recall, without its own conversation.
        ruled: Whether a rule chooses its flows, so that no model is asked.
    """

    example: Example
    state: TurnState
    ruled: bool

    @property
    def wanted(self) -> tuple[str, ...]:
        """The flows that it starts."""
        return self.example.labels.flows or ()

    @property
    def recalled(self) -> tuple[Recalled, ...]:
        """Candidates from recall."""
        return self.state.recalled


class Exclusions:
    """Conversations to hide from a turn during training: its own, and those with the same text."""

    def __init__(self, examples: Sequence[Example]) -> None:
        self._saying: dict[str, set[str]] = defaultdict(set)
        for example in examples:
            self._saying[plain(example.turn.text)].add(example.conversation_id)

    def of(self, example: Example) -> tuple[str, ...]:
        """Ids of conversations, sorted."""
        return tuple(sorted({example.conversation_id, *self._saying.get(plain(example.turn.text), ())}))


def collect_rows(
    program: TurnProgram,
    examples: Sequence[Example],
    *,
    exclude: Exclusions | None = None,
) -> list[Row]:
    """The turns whose flows are labelled.

    Args:
        program: Its index is queried.
        examples: Turns; those without labelled flows are left out.
        exclude: Conversations to hide from each turn; None if the index holds no labelled turns.
    """
    labelled = [example for example in examples if example.labels.flows is not None]
    if program.bindings.embedder is not None:
        warm(program.bindings.embedder, [example.turn.text for example in labelled])
    return [
        Row(
            example,
            program.read(example.turn, exclude.of(example) if exclude is not None else ()),
            is_ruled(program.registry, example),
        )
        for example in labelled
    ]


def is_ruled(registry: FlowRegistry, example: Example) -> bool:
    """Whether a rule chooses the flows of a turn, so that no model is asked."""
    state = TurnState(example.turn, registry)
    closed = read_closed(state)
    picks = closed.picked is not None and set(closed.picked) <= {*state.choosable}
    return not registry or picks or closed.commands is not None


def warm(embedder: EmbedderPort, texts: Sequence[str]) -> None:
    """Embed many texts in batches, so that the embedder has them in its cache."""
    set_cache_size = getattr(embedder, "set_cache_size", None)
    distinct = list(dict.fromkeys(texts))
    if set_cache_size is not None:
        # Leaves room for other texts, such as those of the flows.
        set_cache_size(2 * len(distinct) + _BULK)
    for start in range(0, len(distinct), _BULK):
        embedder.features(distinct[start : start + _BULK])


def plain(text: str) -> str:
    """A text in the form in which turns are compared: lower case, single spaces."""
    return " ".join(text.lower().split())
