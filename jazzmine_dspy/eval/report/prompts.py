"""What compiling changed in the prompts, line by line."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from typing import Any

from jazzmine_dspy.eval.report.markup import Markup, tag

_AROUND = 3
"""Lines that stay, shown above and below a change."""

_NAMES = {"+": "added", "-": "removed", "@": "hunk"}


def changed(prompt: dict[str, Any]) -> list[str]:
    """The lines of a unified difference, without its head; none where nothing changed.

    Example:
        >>> changed({"before": "Say it.\\nBriefly.", "after": "Say it.\\nIn full."})
        ['@@ -1,2 +1,2 @@', ' Say it.', '-Briefly.', '+In full.']
    """
    found = difflib.unified_diff(
        prompt["before"].splitlines(), prompt["after"].splitlines(), lineterm="", n=_AROUND
    )
    return list(found)[2:]


def difference(prompt: dict[str, Any]) -> Markup:
    """The same as a block of the page."""
    return tag("pre", *_lines(changed(prompt)), cls="diff")


def _lines(lines: list[str]) -> Iterator[Markup]:
    for line in lines:
        yield tag("span", line + "\n", cls=_NAMES.get(line[:1], "same"))
