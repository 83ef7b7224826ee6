"""HTML and SVG from calls: what is not markup already is escaped, so that no text can be taken for a tag."""

from __future__ import annotations

from html import escape
from typing import Any

_VOID = {"meta", "br", "hr", "col"}
_SHAPES = {"line", "rect", "circle", "path", "polyline"}


class Markup(str):
    """Text that is markup, not to be escaped again."""

    __slots__ = ()


def tag(name: str, /, *children: Any, cls: str = "", **attributes: Any) -> Markup:
    """One element.

    Args:
        children: Markup, or anything else as escaped text; None is left out.
        cls: The class.
        attributes: An underscore stands for a hyphen, one at the end is dropped; None is left out, True is a
            bare name.

    Example:
        >>> tag("b", "1 < 2", cls="x", data_of="a&b")
        '<b class="x" data-of="a&amp;b">1 &lt; 2</b>'
    """
    words = [f'class="{escape(cls)}"'] if cls else []
    for key, value in attributes.items():
        if value is None or value is False:
            continue
        key = key.rstrip("_").replace("_", "-")
        words.append(key if value is True else f'{key}="{escape(_text(value))}"')
    head = " ".join([name, *words])
    if name in _VOID:
        return Markup(f"<{head}>")
    inner = join(*children)
    if name in _SHAPES and not inner:
        return Markup(f"<{head}/>")
    return Markup(f"<{head}>{inner}</{name}>")


def join(*children: Any) -> Markup:
    """Several children as one piece of markup."""
    return Markup(
        "".join(
            child if isinstance(child, Markup) else escape(_text(child))
            for child in children
            if child is not None
        )
    )


def _text(value: Any) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)
