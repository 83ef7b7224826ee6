"""What records and logs say of an error: a class and words of ours, never what somebody outside wrote."""

from __future__ import annotations

import dspy.utils.exceptions as theirs
import pytest
from pydantic import BaseModel, ValidationError

from jazzmine_dspy.lm.errors import (
    EngineError,
    LMRequestError,
    ScriptMissError,
)
from jazzmine_dspy.models.errors import MAX_SHOWN, InputError, JazzmineError, SelectionError, format_error

SECRET = "sk-live-0123 of ann@example.org"


class Holder(BaseModel):
    number: int


def _of_pydantic() -> ValidationError:
    with pytest.raises(ValidationError) as caught:
        Holder.model_validate({"number": SECRET})
    return caught.value


LM_ERRORS = [
    kind
    for kind in vars(theirs).values()
    if isinstance(kind, type) and issubclass(kind, theirs.LMError) and kind is not theirs.LMUnexpectedError
]


@pytest.mark.row("G4")
@pytest.mark.parametrize("kind", LM_ERRORS, ids=lambda kind: kind.__name__)
def test_every_error_of_dspys_language_models_has_words_of_ours(kind: type[theirs.LMError]) -> None:
    error = kind(message=SECRET, model=SECRET, provider_code=SECRET, request_id=SECRET, status=418)
    told = format_error(error)
    assert told.startswith(f"{kind.__name__}, HTTP 418: ")
    assert "live" not in told
    assert "example" not in told


@pytest.mark.row("G4")
def test_foreign_errors_are_told_by_their_class() -> None:
    class OfAPackageError(Exception):
        status_code = SECRET

    found = theirs.LMUnexpectedError(SECRET)
    found.__cause__ = TimeoutError(SECRET)
    for error, told in (
        (OfAPackageError(SECRET), "OfAPackageError"),
        (ValueError(SECRET), "ValueError"),
        (ConnectionRefusedError(111, SECRET), "ConnectionRefusedError: the connection failed"),
        (OSError(28, SECRET), "OSError: No space left on device"),
        (OSError(SECRET), "OSError"),
        (TimeoutError(SECRET), "TimeoutError: no answer in time"),
        (_of_pydantic(), "ValidationError: a value does not fit its model"),
        (found, "LMUnexpectedError, from TimeoutError: no answer in time"),
    ):
        assert format_error(error) == told


@pytest.mark.row("G4")
@pytest.mark.parametrize("kind", [LMRequestError, ScriptMissError])
def test_errors_of_ours_that_quote_others_keep_it_to_themselves(kind: type[EngineError]) -> None:
    error = kind(SECRET, where=SECRET, remedy="Ask again.")
    assert SECRET in str(error)
    assert format_error(error) == f"{kind.__name__}: {kind.explanation}"


def test_errors_of_ours_keep_their_message() -> None:
    error = InputError("The text is empty", where="text", remedy="Pass what the user wrote.")
    assert format_error(error) == "InputError: The text is empty (text). Pass what the user wrote."
    unread = theirs.AdapterParseError("DecisionAdapter", _signature(), SECRET)
    assert format_error(unread) == "AdapterParseError: the answer cannot be read"
    unread.__cause__ = SelectionError("The answer breaks off")
    assert format_error(unread) == "SelectionError: The answer breaks off."
    assert len(format_error(JazzmineError("x" * 10_000))) == MAX_SHOWN
    assert format_error(JazzmineError("half \ud83d")) == "JazzmineError: half ?."


def _signature() -> type[theirs.Signature]:
    from jazzmine_dspy.signatures.definitions import SelectFlows

    return SelectFlows  # type: ignore[no-any-return]
