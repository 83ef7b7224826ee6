"""Where a command writes: one JSON document or text on stdout, everything else on stderr."""

from __future__ import annotations

import contextlib
import io
import json
import logging
import os
import re
import sys
import warnings
from collections.abc import Iterator
from typing import Annotated, Any, TextIO

import typer
from rich.console import RenderableType

from jazzmine_dspy.cli._terminal import PlainConsole

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout and nothing else.")]
"""Declares the flag. :func:`session` has read it by then: errors of usage are reported as JSON too."""

Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")]

_SECRET_NAME = re.compile(r"(KEY|TOKEN|SECRET|PASSWORD)$", re.IGNORECASE)
_USER_IN_URL = re.compile(r"(?<=://)[^/\s@]+@")
_SHORTEST_SECRET = 8
_WIDTH = 120
"""Characters of a line where there is no terminal to ask."""


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

    def show(self, *renderables: RenderableType) -> None:
        """Print for people; with ``--json`` nothing. Texts are taken as they are, without markup."""
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
        warnings.showwarning = _shown(out)
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


def _shown(out: Output) -> Any:
    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        out.warn(str(message))

    return show


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
