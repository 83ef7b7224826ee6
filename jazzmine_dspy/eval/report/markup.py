"""HTML and SVG from calls; what is not markup already is escaped, so that no text can be taken for a tag."""

from __future__ import annotations

from typing import Any

from markupsafe import Markup, escape

__all__ = ["Markup", "join", "tag"]

_SHAPES = {"line", "rect", "circle", "polyline"}


def tag(name: str, /, *children: Any, cls: str = "", **attributes: Any) -> Markup:
    """One element.

    Args:
        children: Markup, or anything else as escaped text; None is left out.
        cls: The class.
        attributes: An underscore stands for a hyphen.

    Example:
        >>> print(tag("b", "1 < 2", cls="x", data_of="a&b"))
        <b class="x" data-of="a&amp;b">1 &lt; 2</b>
    """
    named = {"class": cls, **attributes} if cls else attributes
    words = (f' {key.replace("_", "-")}="{escape(_text(value))}"' for key, value in named.items())
    head, inner = f"<{name}{''.join(words)}", join(*children)
    return Markup(f"{head}/>" if name in _SHAPES and not inner else f"{head}>{inner}</{name}>")


def join(*children: Any) -> Markup:
    """Several children as one piece of markup."""
    return Markup("").join(_text(child) for child in children if child is not None)


def _text(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.2f}".rstrip("0").rstrip(".")
    return value if isinstance(value, str) else str(value)
