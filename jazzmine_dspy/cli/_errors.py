"""From an exception to what is reported, and to the exit code."""

from __future__ import annotations

import os
import traceback
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from jazzmine_dspy.cli._output import Output, without_secrets

if TYPE_CHECKING:
    from pydantic import ValidationError

CHECK_FAILED = 1
BAD_INPUT = 2
AWAITING = 3
"""Answers of a deferred language model are not there yet; call the command again with them."""

INTERNAL = 70
"""A fault of ours: neither a check that failed nor bad input (sysexits' EX_SOFTWARE)."""

INTERRUPTED = 130

_EXTRAS = {
    "optimize": ("mlflow", "optuna", "scipy", "sklearn"),
    "local": ("gguf", "xllamacpp"),
}
"""What is imported from the packages that come with an extra."""


@dataclass(frozen=True)
class Failure:
    """An error as it is reported."""

    kind: str
    message: str
    where: str = ""
    remedy: str = ""
    code: int = BAD_INPUT

    def to_json(self) -> dict[str, str]:
        """The error as JSON data, without secrets."""
        fields = {"message": self.message.rstrip("."), "where": self.where, "remedy": self.remedy}
        return {"type": self.kind, **{name: without_secrets(text) for name, text in fields.items()}}

    def report(self, out: Output) -> None:
        """Print it on stderr, and with ``--json`` as the document."""
        fields = self.to_json()
        out.document({"error": fields})
        out.note(f"error: {fields['message']}")
        for name in ("where", "remedy"):
            if fields[name]:
                out.note(f"  {name}: {fields[name]}")


def failure_of(error: BaseException) -> Failure:
    """What to report of an exception, with the notes that were added to it."""
    failure = _without_notes(error)
    return replace(failure, remedy=" ".join(filter(None, (failure.remedy, *getattr(error, "__notes__", ())))))


def _without_notes(error: BaseException) -> Failure:
    """What to report of an exception; whatever is not known is a fault of ours."""
    # Pydantic takes longer to import than `--help` to print.
    from pydantic import ValidationError

    from jazzmine_dspy.models.errors import JazzmineError, LMUnansweredError

    kind = type(error).__name__
    if isinstance(error, JazzmineError):
        code = CHECK_FAILED if isinstance(error, LMUnansweredError) else BAD_INPUT
        return Failure(kind, error.message, error.where, error.remedy, code)
    if isinstance(error, ValidationError):
        return _of_validation(error)
    if isinstance(error, ModuleNotFoundError) and error.name and not error.name.startswith("jazzmine_dspy"):
        package = error.name.partition(".")[0]
        extra = next((extra for extra, names in _EXTRAS.items() if package in names), None)
        what = f"'jazzmine-dspy[{extra}]'" if extra else package
        return Failure(kind, f"The package {package} is not installed", "", f"Run: pip install {what}.")
    if isinstance(error, UnicodeDecodeError):
        message = f"A file is not UTF-8: {error.reason} at byte {error.start}"
        return Failure(kind, message, "", "Save it as UTF-8.")
    if isinstance(error, OSError):
        remedy = "Name another path, or change its rights."
        return Failure(kind, error.strerror or str(error), str(error.filename or ""), remedy)
    if hasattr(error, "format_message") and hasattr(error, "exit_code"):  # typer's, whichever click it brings
        context = getattr(error, "ctx", None)
        command = context.command_path if context else "jazzmine-dspy"
        return Failure("UsageError", error.format_message(), command, f"See '{command} --help'.")
    if os.environ.get("JAZZMINE_DEBUG"):
        traceback.print_exception(error)
    remedy = "This is a fault of jazzmine-dspy: set JAZZMINE_DEBUG=1 for the traceback, and report it."
    return Failure(kind, f"{kind}: {error}", "", remedy, INTERNAL)


def _of_validation(error: ValidationError) -> Failure:
    details = error.errors(include_url=False)
    first = details[0]
    field = ".".join(str(part) for part in first["loc"]) or error.title
    message = first["msg"].removeprefix("Value error, ")
    more = f" ({len(details) - 1} more)" if len(details) > 1 else ""
    if first["type"] == "extra_forbidden":
        message, remedy = f"{error.title} has no field {field!r}", "Remove it, or correct its name."
    else:
        remedy = "Correct this field."
    return Failure("ValidationError", message + more, f"field {field}", remedy)
