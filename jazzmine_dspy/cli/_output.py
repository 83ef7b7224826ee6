"""Where a command writes: one JSON document or text on stdout, all else on stderr; and how errors are reported."""

from __future__ import annotations

import contextlib
import io
import json
import logging
import os
import re
import sys
import traceback
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer
from rich.console import Console, RenderableType
from rich.table import Table

if TYPE_CHECKING:
    from pydantic import ValidationError

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout and nothing else.")]
"""Declares the flag. :func:`session` has read it by then: errors of usage are reported as JSON too."""

Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")]

_SECRET_NAME = re.compile(r"(KEY|TOKEN|SECRET|PASSWORD)$", re.IGNORECASE)
_USER_IN_URL = re.compile(r"(?<=://)[^/\s@]+@")
_SHORTEST_SECRET = 8
_WIDTH = 120
"""Characters of a line where there is no terminal to ask."""


class _Console(Console):
    """Takes no markup and no emoji codes in texts.

    Args:
        file: Where it prints.
    """

    def __init__(self, file: TextIO) -> None:
        super().__init__(file=file, highlight=False, markup=False, emoji=False)

    def on_broken_pipe(self) -> None:
        """Whoever read has left: that is for the application to end."""
        raise BrokenPipeError


class Output:
    """What one call of the command line writes. The current one is :func:`output`.

    Args:
        as_json: Whether stdout carries a document; texts for people are then dropped.
        stdout: Where documents and texts go.
    """

    def __init__(self, as_json: bool, stdout: TextIO) -> None:
        self.as_json = as_json
        self._stdout = stdout
        self._document: str | None = None
        self._warned: set[str] = set()
        if isinstance(stdout, io.TextIOWrapper) and stdout.errors in ("strict", "surrogateescape"):
            # A terminal that lacks a letter shows its code, instead of ending the command.
            stdout.reconfigure(errors="backslashreplace")
        self.console = _Console(stdout)
        if not self.console.is_terminal:
            self.console.width = _WIDTH
        # The stream of now: libraries may put another in the place of sys.stderr for a while.
        self.err = _Console(sys.stderr)

    def document(self, data: Any) -> None:
        """Set the document that ``--json`` prints at the end; without ``--json`` nothing."""
        if self.as_json:
            self._document = json.dumps(data, indent=1, ensure_ascii=False, allow_nan=False)

    def show(self, *renderables: RenderableType, document: Any = None) -> None:
        """Print for people; with ``--json`` nothing. Texts are taken as they are, without markup.

        Args:
            renderables: Texts and tables.
            document: What ``--json`` prints instead, at the end; None leaves the document as it is.
        """
        if document is not None:
            self.document(document)
        if not self.as_json:
            for renderable in renderables:
                self.console.print(renderable, markup=False, soft_wrap=isinstance(renderable, str))

    def note(self, text: str) -> None:
        """Print a line on stderr."""
        self.err.print(without_secrets(text), markup=False, soft_wrap=True)

    def warn(self, text: str) -> None:
        """Print a warning on stderr, the same text once: a part that is down is down for every turn."""
        if text not in self._warned:
            self._warned.add(text)
            self.note(f"warning: {text}")

    def finish(self) -> None:
        """Write the document, if one was set."""
        if self._document is not None:
            text = self._document + "\n"
            try:
                text.encode(self._stdout.encoding or "utf-8")
            except UnicodeEncodeError:
                text = json.dumps(json.loads(self._document), indent=1, allow_nan=False) + "\n"
            self._stdout.write(text)
        with contextlib.suppress(BrokenPipeError):
            self._stdout.flush()


def table(
    columns: Sequence[str], rows: Iterable[Sequence[str]], *, title: str = "", numbers: bool = False
) -> Table:
    """A table without lines.

    Args:
        columns: Headings; none for a table without a heading.
        rows: Cells of each row.
        title: Line above the table.
        numbers: Whether all columns but the first stand to the right.
    """
    built = Table(title=title or None, title_justify="left", box=None, show_header=bool(columns))
    for name in columns:
        built.add_column(name, justify="right" if numbers and name != columns[0] else "left")
    for row in rows:
        built.add_row(*row)
    return built


_current: Output | None = None


def output() -> Output:
    """The output of the command that runs."""
    return _current if _current is not None else Output(False, sys.stdout)


@contextlib.contextmanager
def session(as_json: bool) -> Iterator[Output]:
    """Hold stdout free for the document while a command runs; logs and warnings go to stderr, each once."""
    global _current
    from jazzmine_dspy.models.validators import COMMAND

    out, before = Output(as_json, sys.stdout), _current
    handler = _Handler(out)
    logger = logging.getLogger("jazzmine_dspy")
    propagate = logger.propagate
    with contextlib.ExitStack() as stack:
        stack.callback(COMMAND.reset, COMMAND.set(True))
        stack.enter_context(warnings.catch_warnings())
        warnings.showwarning = lambda message, *_, **__: out.warn(str(message))
        logger.addHandler(handler)
        logger.propagate = False
        if as_json:
            stack.enter_context(_stdout_is_stderr())
        _current = out
        try:
            yield out
        finally:
            _current = before
            logger.removeHandler(handler)
            logger.propagate = propagate
    out.finish()


@contextlib.contextmanager
def _stdout_is_stderr() -> Iterator[None]:
    """Send prints, those of native code and of child processes too, to stderr."""
    saved: int | None = None
    with contextlib.suppress(OSError, io.UnsupportedOperation, AttributeError, ValueError):
        if sys.stdout.fileno() == 1:
            sys.stdout.flush()
            saved = os.dup(1)
            os.dup2(2, 1)
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    finally:
        if saved is not None:
            os.dup2(saved, 1)
            os.close(saved)


class _Handler(logging.Handler):
    """Prints what our modules log as a warning or worse."""

    def __init__(self, out: Output) -> None:
        super().__init__(logging.WARNING)
        self._out = out

    def emit(self, record: logging.LogRecord) -> None:
        self._out.warn(record.getMessage())


def without_secrets(text: str) -> str:
    """A text without what the environment keeps under names like ``X_API_KEY``, or users in addresses.

    Example:
        >>> without_secrets("cannot reach redis://ann:pa55@cache:6379")
        'cannot reach redis://***@cache:6379'
    """
    for name, value in os.environ.items():
        if _SECRET_NAME.search(name) and len(value) >= _SHORTEST_SECRET:
            text = text.replace(value, "***")
    return _USER_IN_URL.sub("***@", text)


def count(number: int, noun: str) -> str:
    """A number with its noun.

    Example:
        >>> count(1, "flow"), count(0, "error")
        ('1 flow', '0 errors')
    """
    return f"{number} {noun}{'' if number == 1 else 's'}"


CHECK_FAILED = 1
BAD_INPUT = 2
AWAITING = 3
"""Answers of a deferred language model are not there yet; call the command again with them."""

INTERNAL = 70
"""A fault of ours: neither a check that failed nor bad input (sysexits' EX_SOFTWARE)."""

INTERRUPTED = 130

_EXTRAS = {
    "optimize": ("mlflow", "optuna", "pandas", "scipy", "sklearn"),
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
    others: tuple[Failure, ...] = ()

    def to_json(self) -> dict[str, str]:
        """The error as JSON data, without secrets."""
        fields = {"message": self.message.rstrip("."), "where": self.where, "remedy": self.remedy}
        return {"type": self.kind, **{name: without_secrets(text) for name, text in fields.items()}}

    def report(self, out: Output) -> None:
        """Print it and the others on stderr, and with ``--json`` as the document."""
        first, *others = errors = [each.to_json() for each in (self, *self.others)]
        out.document({"error": first} | ({"others": others} if others else {}))
        for fields in errors:
            out.note(f"error: {fields['message']}")
            for name in ("where", "remedy"):
                if fields[name]:
                    out.note(f"  {name}: {fields[name]}")


def failure_of(error: BaseException) -> Failure:
    """What to report of an exception, with the notes that were added to it."""
    failure = _without_notes(error)
    # The notes of an error with others are these.
    notes = () if failure.others else getattr(error, "__notes__", ())
    return replace(failure, remedy=" ".join(filter(None, (failure.remedy, *notes))))


def _without_notes(error: BaseException) -> Failure:
    """What to report of an exception; whatever is not known is a fault of ours."""
    # Pydantic takes longer to import than `--help` to print.
    from pydantic import ValidationError

    from jazzmine_dspy.models.errors import JazzmineError, LMUnansweredError

    kind = type(error).__name__
    if isinstance(error, JazzmineError):
        code = CHECK_FAILED if isinstance(error, LMUnansweredError) else BAD_INPUT
        others = map(_without_notes, getattr(error, "others", ()))
        return Failure(kind, error.message, error.where, error.remedy, code, tuple(others))
    if isinstance(error, ValidationError):
        return _of_validation(error)
    if isinstance(error, ModuleNotFoundError) and error.name and not error.name.startswith("jazzmine_dspy"):
        package = error.name.partition(".")[0]
        extra = next((extra for extra, names in _EXTRAS.items() if package in names), None)
        what = f"'jazzmine-dspy[{extra}]'" if extra else package
        return Failure(kind, f"The package {package} is not installed", "", f"Run: pip install {what}.")
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
