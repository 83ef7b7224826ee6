"""Who says a message in a table: the words that stand for a role, ours and those that a map adds."""

from __future__ import annotations

from collections.abc import Mapping

ROLES = ("user", "assistant", "system", "colleague_assistant")
"""What a map may give further words for, as ``user=patient,guest``."""

_WORDS = {
    "user": "user", "customer": "user", "client": "user", "human": "user", "visitor": "user", "caller": "user",
    "assistant": "assistant", "agent": "assistant", "bot": "assistant", "operator": "assistant",
    "system": "system", "colleague_assistant": "colleague_assistant",
}  # fmt: skip


def words_of(named: Mapping[str, str]) -> dict[str, str]:
    """The role that each word stands for, in small letters.

    Args:
        named: What a map says; of it the roles count, each with words between commas.

    Example:
        >>> words_of({"text": "Nachricht", "user": "Patient, Gast"})["gast"]
        'user'
    """
    added = {
        word.strip().casefold(): role for role in ROLES if role in named for word in named[role].split(",")
    }
    return _WORDS | added


def no_role(said: str) -> str:
    """What is wrong with a word that stands for no role."""
    ours = [word for word, role in _WORDS.items() if role == "user"]
    theirs = [word for word, role in _WORDS.items() if role == "assistant"]
    return (
        f"{said!r} is no role; write {', '.join(ours)}, or {', '.join(theirs)}; or say whose word it is: "
        f"--map user={said} or --map assistant={said}"
    )
