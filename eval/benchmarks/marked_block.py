"""Blocks of pages that commands fill: what stands between ``<!-- NAME -->`` and ``<!-- /NAME -->``."""

from __future__ import annotations

from jazzmine_dspy.models.errors import InputError


def filled(text: str, content: str, name: str) -> str:
    """A text with the block between its markers replaced.

    Args:
        text: The page.
        content: What stands between the markers afterwards.
        name: Of the block.

    Raises:
        InputError: the text lacks a marker.

    Example:
        >>> filled("a <!-- x -->old<!-- /x --> b", "new", "x")
        'a <!-- x -->\\nnew\\n<!-- /x --> b'
    """
    begin, end = f"<!-- {name} -->", f"<!-- /{name} -->"
    before, opened, rest = text.partition(begin)
    _, closed, after = rest.partition(end)
    if not (opened and closed):
        raise InputError(
            "There is no place for the table",
            where=f"no {end if opened else begin}",
            remedy=f"Put {begin} and {end} on lines of their own, in this order.",
        )
    return f"{before}{begin}\n{content}\n{end}{after}"
