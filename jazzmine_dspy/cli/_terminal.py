"""A console that prints texts from outside as they are, and obeys none of them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, TextIO

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


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
