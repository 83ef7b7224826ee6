"""Where a command writes: one JSON document or text on stdout, everything else on stderr.

The console prints texts from outside as they are, and obeys none of them.
"""

from __future__ import annotations

import contextlib
import io
import json
import logging
import os
import re
import sys
import warnings
from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated, Any, TextIO

import typer
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout and nothing else.")]
"""Declares the flag. :func:`session` has read it by then: errors of usage are reported as JSON too."""

Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")]

_SECRET_NAME = re.compile(r"(KEY|TOKEN|SECRET|PASSWORD)$", re.IGNORECASE)
_USER_IN_URL = re.compile(r"(?<=://)[^/\s@]+@")
_SHORTEST_SECRET = 8
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
_WIDTH = 120
"""Characters of a line where there is no terminal to ask."""


def harmless(text: str) -> str:
    """A text in which what would steer a terminal is spelled out: escape sequences, and marks of direction.

    Line breaks and tabs stay.

    Example:
        >>> harmless("\\x1b[2Jgone\\r\\n")
        '\\\\x1b[2Jgone\\\\x0d\\n'
    """
    return _CONTROL.sub(lambda match: _spelled(ord(match[0])), text)


def _spelled(code: int) -> str:
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"


class PlainConsole(Console):
    """Takes no markup and no emoji codes in texts, and spells control characters out; colours of ours stay.

    Args:
        file: Where it prints.
    """

    def __init__(self, file: TextIO) -> None:
        super().__init__(file=file, highlight=False, markup=False, emoji=False)

    def on_broken_pipe(self) -> None:
        """Whoever read has left: that is for the application to end."""
        raise BrokenPipeError

    def render_str(self, text: str, **options: Any) -> Text:
        """A text, harmless before its width is measured."""
        return super().render_str(harmless(text), **{**options, "markup": False, "emoji": False})

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """All that is printed, made harmless; rich's own controls are no texts."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=harmless(segment.text))


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
        self.console = PlainConsole(stdout)
        if not self.console.is_terminal:
            self.console.width = _WIDTH
        # The stream of now: libraries may put another in the place of sys.stderr for a while.
        self.err = PlainConsole(sys.stderr)

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
    out, before = Output(as_json, sys.stdout), _current
    handler = _Handler(out)
    logger = logging.getLogger("jazzmine_dspy")
    propagate = logger.propagate
    with contextlib.ExitStack() as stack:
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
