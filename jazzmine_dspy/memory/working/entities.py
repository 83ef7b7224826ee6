"""When two names are of the same thing."""

from __future__ import annotations

import re
import unicodedata

# "no" and "number" are marks only before a number: "no sugar" is no mark. Nor is the end of "C#".
_MARK = re.compile(r"(?<!\w)#|#(?=\d)|\b(?:no|nr|num|number)\b\.?(?=\s*#?\s*\d)")
_EDGE = "\"'\u201c\u201d\u2018\u2019\u00ab\u00bb\u201e"


def identity(name: str) -> str:
    """A name without what does not tell things apart: case, white space, quotation marks, marks of a number.

    Example:
        >>> identity("Order #555"), identity("order No. 555"), identity("order 556")
        ('order 555', 'order 555', 'order 556')
    """
    # Normalising would make letters of the sign for "number".
    folded = unicodedata.normalize("NFKC", name.replace("\u2116", "#")).casefold()
    return " ".join(_MARK.sub(" ", folded).strip(_EDGE + " ").split())


def same_entity(one: str, other: str) -> bool:
    """Whether two names are of the same thing."""
    return one == other or identity(one) == identity(other)
