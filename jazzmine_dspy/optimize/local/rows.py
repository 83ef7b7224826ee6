"""Rows to fit on: labelled turns as the local decider finds them, before it chooses flows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple

from jazzmine_dspy.datasets.schema import Example
from jazzmine_dspy.models.registry import FlowRegistry
from jazzmine_dspy.program.local.closed import read_closed
from jazzmine_dspy.program.local.head_input import head_input
from jazzmine_dspy.program.ports import HeadPort, Recalled, SelectionOutput
from jazzmine_dspy.program.state import TurnState
from jazzmine_dspy.program.turn import TurnProgram

if TYPE_CHECKING:
    from jazzmine_dspy.program.ports import EmbedderPort

Load = Literal["idle", "busy"]

_BULK = 512


class Row(NamedTuple):
    """A labelled turn as flows are chosen for it in service.

    Args:
        example: The turn, with its labels.
        state: The turn with what recall finds for it without its own conversation.
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
        """What recall found."""
        return self.state.recalled

    @property
    def load(self) -> Load:
        """Whether something runs before the turn."""
        return self.example.turn.load


class Exclusions:
    """Which conversations a turn must not find while something is fitted: its own, and those that say the same."""

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
        program: Its index is asked.
        examples: Turns; those without the label are left out.
        exclude: Which conversations a turn must not find; none where the index holds no turns of these.
    """
    labelled = [example for example in examples if example.labels.flows is not None]
    if program.bindings.embedder is not None:
        warm(program.bindings.embedder, [example.turn.text for example in labelled])
    rows = []
    for example in labelled:
        left_out = exclude.of(example) if exclude is not None else ()
        rows.append(Row(example, program.read(example.turn, left_out), is_ruled(program.registry, example)))
    return rows


def is_ruled(registry: FlowRegistry, example: Example) -> bool:
    """Whether a rule chooses the flows of a turn, so that no model is ever asked."""
    state = TurnState(example.turn, registry)
    closed = read_closed(state)
    picks = closed.picked is not None and set(closed.picked) <= {*state.choosable}
    return not registry or picks or closed.commands is not None


def predict(head: HeadPort[SelectionOutput], row: Row) -> SelectionOutput:
    """What a head says of a turn."""
    return head.predict(head_input(head, row.state, tuple(row.state.choosable)))


def warm(embedder: EmbedderPort, texts: Sequence[str]) -> None:
    """Let an embedder see many texts in bulk, so that it remembers them when they are asked for one by one."""
    set_cache_size = getattr(embedder, "set_cache_size", None)
    distinct = list(dict.fromkeys(texts))
    if set_cache_size is not None:
        # Other texts are asked for in between, such as those of the flows.
        set_cache_size(2 * len(distinct) + _BULK)
    for start in range(0, len(distinct), _BULK):
        embedder.features(distinct[start : start + _BULK])


def plain(text: str) -> str:
    """A text as two turns are compared by."""
    return " ".join(text.lower().split())
