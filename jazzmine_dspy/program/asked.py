"""What a program is asked about: a turn, or a bare text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from jazzmine_dspy.models.errors import InputError
from jazzmine_dspy.models.turn import MAX_TEXT, NLUContext, Turn


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
