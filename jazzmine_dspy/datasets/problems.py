"""What is wrong with a dataset, where, and what to do about it."""

from __future__ import annotations

import difflib
from typing import Literal

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from jazzmine_dspy.datasets.schema import LabelledConversation, LabelledTurn, Labels, Splits, StateBefore
from jazzmine_dspy.models.base import Value
from jazzmine_dspy.models.commands import COMMAND_KINDS
from jazzmine_dspy.models.errors import DatasetError
from jazzmine_dspy.models.turn import MAX_TEXT

_PARTS = (LabelledConversation, LabelledTurn, StateBefore, Labels, Splits)
_KEYS = sorted({key for part in _PARTS for key in part.model_fields})


class Problem(Value):
    """One fault of a dataset. An error makes it unfit for use; a warning is to be looked at.

    Args:
        file, line: Where; the line counts from 1 and is None where the whole file is meant.
        field: Path of the field inside the line, such as ``turns.2.labels.flows.0``; may be empty.

    Example:
        >>> problem = Problem(severity="error", file="conversations.jsonl", line=3, field="turns.0.text",
        ...                   message="The text is empty", remedy="Remove the turn.")
        >>> print(problem.error())
        The text is empty (conversations.jsonl:3, field turns.0.text). Remove the turn.
    """

    severity: Literal["error", "warning"]
    file: str
    line: int | None = None
    field: str = ""
    message: str
    remedy: str

    @property
    def where(self) -> str:
        """File, line and field as one text."""
        place = self.file if self.line is None else f"{self.file}:{self.line}"
        return f"{place}, field {self.field}" if self.field else place

    def error(self) -> DatasetError:
        """The exception that says the same."""
        return DatasetError(self.message, where=self.where, remedy=self.remedy)


def explain(error: ValidationError, *, file: str, line: int | None) -> list[Problem]:
    """The faults that Pydantic found, in words for the author of the dataset."""
    return [_explain_one(detail, file=file, line=line) for detail in error.errors(include_url=False)]


def _explain_one(detail: ErrorDetails, *, file: str, line: int | None) -> Problem:
    field, name = _field(detail["loc"]), str(detail["loc"][-1]) if detail["loc"] else ""
    found, context = detail["input"], detail.get("ctx", {})
    match detail["type"]:
        case "extra_forbidden":
            close = difflib.get_close_matches(name, _KEYS, n=1)
            instead = f"correct it to {close[0]!r}" if close else "remove it"
            message = f"Unknown key {name!r}"
            remedy = f"If it is a slip, {instead}; a note of yours begins with 'x-'."
        case "missing":
            message, remedy = f"The key {name!r} is missing", "Add it."
        case "string_too_long" if name == "text":
            message = f"The text has {len(found):,} characters; {MAX_TEXT:,} are the limit"
            remedy = "Shorten the text, or leave the conversation out."
        case "string_too_short" | "value_error" if name == "text":
            message, remedy = "The text is empty", "Write what was said, or remove the turn."
        case "union_tag_invalid" | "union_tag_not_found":
            tag = context.get("tag")
            message = f"Unknown command {tag!r}" if tag else "A command has no type"
            remedy = f"Use one of: {', '.join(COMMAND_KINDS)}."
        case _:
            message = detail["msg"].removeprefix("Value error, ")
            remedy = "Correct this field; datasets/schema.json shows its form."
    return Problem(severity="error", file=file, line=line, field=field, message=message, remedy=remedy)


def _field(loc: tuple[int | str, ...]) -> str:
    parts = [str(part) for part in loc]
    # Pydantic adds the command's kind to the path, which is no key of the data.
    kinds = {i for i in range(2, len(parts)) if parts[i - 2] == "commands" and parts[i] in COMMAND_KINDS}
    return ".".join(part for i, part in enumerate(parts) if i not in kinds)
