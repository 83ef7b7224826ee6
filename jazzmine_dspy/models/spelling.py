"""Names that were probably misspelt."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A sentence with the nearest known name; without one, the list of them; "" if there are none.

    Example:
        >>> did_you_mean("curency", ["region", "currency"]), did_you_mean("colour", ["region", "currency"])
        ("Did you mean 'currency'?", 'Known: region, currency.')
    """
    names = list(known)
    near = difflib.get_close_matches(name, names, n=1)
    if near:
        return f"Did you mean {near[0]!r}?"
    return f"Known: {', '.join(names)}." if names else ""
