"""Text from outside: one form for what means the same, nothing that cannot be seen; and misspelt names."""

from __future__ import annotations

import difflib
import re
import unicodedata
from collections.abc import Iterable

from jazzmine_dspy.models.errors import InputError

_LINE_BREAKS = re.compile("\r\n?|[\v\f\x85\u2028\u2029]")
_SEPARATORS = re.compile("[\x1c-\x1f]")
_SURROGATE = re.compile("[\ud800-\udfff]")
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")

_UNSEEN = re.compile(
    "[\u00ad\u061c\u200b\u200e\u200f\u202a-\u202e\u2060-\u2064\u2066-\u206f\ufeff\ufff9-\ufffb]"
)
"""What has no form of its own: soft hyphens, marks and controls of direction, and spaces of no width.

Those of direction make a text look other than it reads, and come along with numbers copied from an address book: a
"4471" with one before it is the number of no order. Letters keep the direction that they have by themselves.
"""

_JOINERS = re.compile("(?:^|(?<=[\x00-\x7f]))[\u200c\u200d]+")
"""Joiners with nothing before them that they could join. After other letters and signs they stay: they make one
emoji of several, and spell Persian and the languages of India."""

_TAGS = re.compile(
    "(\U0001f3f4[\U000e0030-\U000e0039\U000e0061-\U000e007a]{1,6}\U000e007f)|[\U000e0000-\U000e007f]"
)
"""Letters that no one sees but a language model reads. They stay in the flags that they are made for."""

_SELECTORS = re.compile("([\ufe00-\ufe0f\U000e0100-\U000e01ef])[\ufe00-\ufe0f\U000e0100-\U000e01ef]+")
"""More than one choice of form for a sign: the first is meant, in the rest anything may be hidden."""

_FORMS = re.compile("[\U0001f3fb-\U0001f3ff\ufe0f\ufe0e\u200d\u2640\u2642]")
_ARABIC = str.maketrans("أإآٱى", "ااااي", "\u064b\u064c\u064d\u064e\u064f\u0650\u0651\u0652\u0640")

_BARE = frozenset({"Cc", "Cf", "Mn", "Me", "Zl", "Zp", "Zs"})
"""Categories of signs that say nothing alone."""

_BLANK = frozenset("\u115f\u1160\u2800\u3164\uffa0")
"""Letters and signs that are blank."""

_BEFORE_NFC = 2
"""How often the limit a text may fill before it is normalised: composing makes it shorter, but a text of nothing but
accents takes time with the square of its length."""


def clean_text(text: str, *, limit: int, field: str) -> str:
    """A text from outside as it is kept: in normal form NFC, line breaks as ``\\n``, control characters left out.

    Left out as well are signs that cannot be seen: those that steer the direction of writing, spaces of no width, soft
    hyphens, hidden tags, and joiners that join nothing. Emoji and all that letters are made of survive. Spaces around
    the text stay.

    Args:
        text: What came in.
        limit: Characters that the clean text may have.
        field: What the text is, for the errors: the name of a field or an argument.

    Raises:
        InputError: no text at all, half of a surrogate pair, nothing left that could be read, or over the limit.

    Example:
        >>> clean_text("Cafe\\u0301\\r\\nat\\x07 8", limit=100, field="text")
        'Café\\nat 8'
    """
    checked_text(text, field=field)
    _within(text, _BEFORE_NFC * limit, limit, field)
    text = _SEPARATORS.sub(" ", _LINE_BREAKS.sub("\n", text))
    text = _TAGS.sub(lambda found: found[1] or "", _UNSEEN.sub("", _CONTROL.sub("", text)))
    text = unicodedata.normalize("NFC", _SELECTORS.sub(r"\1", text))
    # What a joiner kept apart may compose; what a joiner follows may have become another letter.
    text = unicodedata.normalize("NFC", _JOINERS.sub("", text))
    if all(sign in _BLANK or sign.isspace() or unicodedata.category(sign) in _BARE for sign in text):
        raise InputError(f"The {field} is empty", where=field, remedy="Pass what the user wrote.")
    _within(text, limit, limit, field)
    return text


def checked_text(text: str, *, field: str) -> str:
    """The text as it is, if it can be stored, hashed and sent.

    Args:
        text: What came in.
        field: What the text is, for the errors: the name of a field or an argument.

    Raises:
        InputError: no text at all, or half of a surrogate pair.

    Example:
        >>> checked_text("shop-é", field="agent_id")
        'shop-é'
    """
    if not isinstance(text, str):
        raise InputError(
            f"The {field} must be a string, not {type(text).__name__}", where=field, remedy="Pass a string."
        )
    if half := _SURROGATE.search(text):
        raise InputError(
            f"The {field} holds half of a surrogate pair, U+{ord(half[0]):04X}, as its character "
            f"{half.start() + 1:,}",
            where=field,
            remedy="Decode it again from its bytes as UTF-8 or UTF-16, or leave that character out.",
        )
    return text


def _within(text: str, most: int, limit: int, field: str) -> None:
    if len(text) > most:
        raise InputError(
            f"The {field} has {len(text):,} characters",
            where=field,
            remedy=f"Shorten it to {limit:,} at most.",
        )


def plain(text: str) -> str:
    """A text without case, outer punctuation and doubled spaces, to compare what is said.

    Example:
        >>> plain("  Yes -- PLEASE! ")
        'yes -- please'
    """
    text = unicodedata.normalize("NFC", text).casefold().replace("\u2019", "'")
    return " ".join(re.sub(r"[^\w'+@.-]+", " ", text).strip(" .-'").split())


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


MAX_ID = 1_000
"""Characters that the id of a conversation may have."""


def checked_id(conversation_id: str) -> str:
    """The id of a conversation, if it is one: any text of 1 to 1,000 characters.

    Raises:
        InputError: the id is no text, empty, too long, or holds half of a surrogate pair.

    Example:
        >>> checked_id("shop:{4471}/é")
        'shop:{4471}/é'
    """
    text = checked_text(conversation_id, field="conversation_id")
    if not 0 < len(text) <= MAX_ID:
        raise InputError(
            f"The id of the conversation has {len(text):,} characters, of 1 to {MAX_ID:,}",
            where="conversation_id",
            remedy="Pass a text of its own for each conversation.",
        )
    return text


def simplified(text: str) -> str:
    """A text in small letters, with one form of each sign.

    Example:
        >>> simplified("S\u00cd, por favor \U0001f44d\U0001f3fd") == "s\u00ed, por favor \U0001f44d"
        True
    """
    text = unicodedata.normalize("NFC", text).casefold().replace("\u2019", "'").replace("i\u0307", "i")
    return _FORMS.sub("", text).translate(_ARABIC)
