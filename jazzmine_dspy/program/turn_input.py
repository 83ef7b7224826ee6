"""What a program is asked about: a turn, or a bare text; and what cannot be in the state of a turn."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from jazzmine_dspy.models.errors import InputError
from jazzmine_dspy.models.nlu_context import NLUContext
from jazzmine_dspy.models.turn import MAX_TEXT, ConversationStatus, Turn

if TYPE_CHECKING:
    from jazzmine_dspy.models.flows import Flow
    from jazzmine_dspy.models.turn import Turn


def as_turn(turn: Turn | Mapping[str, Any] | str | None, text: str | None = None) -> Turn:
    """A turn from a turn, from its plain form, from a bare text, or from a context and the text that it lacks.

    Raises:
        InputError: nothing is given, both are, or what is given is no turn: a text that is empty or over the limit.

    Example:
        >>> as_turn("hello") == as_turn(None, "hello") == as_turn({"text": "hello"})
        True
    """
    if isinstance(turn, NLUContext):
        return turn.turn(None if text is None else as_turn(text).text)
    if turn is not None and text is not None:
        raise InputError("Both a turn and a text are given", remedy="Pass one of them.")
    if isinstance(turn, Turn):
        return turn
    if isinstance(turn, Mapping):
        try:
            return Turn.model_validate(dict(turn))
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            where = ".".join(["turn", *map(str, first["loc"])])
            raise InputError(str(first["msg"]), where=where, remedy="Correct the turn.") from error
    given = text if turn is None else turn
    if given is None:
        raise InputError("Nothing to decide", remedy="Pass a Turn, or text='…'.")
    if not isinstance(given, str):
        raise InputError(
            f"The text is no text but {type(given).__name__}", where="text", remedy="Pass a string."
        )
    if len(given) > MAX_TEXT:
        raise InputError(
            f"The text has {len(given):,} characters",
            where="text",
            remedy=f"Shorten it to {MAX_TEXT:,} at most.",
        )
    if not given.strip():
        raise InputError("The text is empty", where="text", remedy="Pass what the user wrote.")
    try:
        return Turn(text=given)
    except ValidationError as error:
        raise InputError(str(error.errors()[0]["msg"]), where="text", remedy="Correct the text.") from error


def turn_problems(turn: Turn, registry: Mapping[str, Flow]) -> Iterator[str]:
    """The problems of a turn, each as a sentence.

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
        yield f"awaiting: {turn.awaiting!r} is awaited, but no flow runs"
    if turn.awaiting and flow is not None and flow.slot(turn.awaiting) is None:
        yield f"awaiting: flow {flow.name!r} has no slot {turn.awaiting!r}"
    for field, names in (
        ("paused", turn.paused),
        ("available_flows", [view.name for view in turn.available_flows]),
    ):
        for name in names:
            if name not in registry:
                yield f"{field}: no flow is called {name!r}"
    if turn.confirming is not None and turn.confirming.flow and turn.confirming.flow not in registry:
        yield f"confirming: no flow is called {turn.confirming.flow!r}"
    if turn.status is ConversationStatus.AWAITING_CONFIRMATION and turn.confirming is None:
        yield "status: a confirmation is awaited, but 'confirming' does not say which"
