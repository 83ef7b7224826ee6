"""Which ids a conversation may have."""

from __future__ import annotations

from jazzmine_dspy.models.errors import InputError

MAX_ID = 1_000
"""Characters that the id of a conversation may have."""


def checked_id(conversation_id: str) -> str:
    """The id, if it is one: text of 1 to 1,000 characters, whatever they are.

    Raises:
        InputError: it is none.

    Example:
        >>> checked_id("shop:{4471}/é")
        'shop:{4471}/é'
    """
    if not isinstance(conversation_id, str):
        wrong = f"is a {type(conversation_id).__name__}, not a text"
    elif not conversation_id:
        wrong = "is empty"
    elif len(conversation_id) > MAX_ID:
        wrong = f"has {len(conversation_id):,} characters, of {MAX_ID:,} at most"
    else:
        try:
            conversation_id.encode()
        except UnicodeEncodeError:
            wrong = "is no text: it holds half of a surrogate pair"
        else:
            return conversation_id
    raise InputError(
        f"The id of the conversation {wrong}",
        where="conversation_id",
        remedy="Name the conversation by a text of its own.",
    )
