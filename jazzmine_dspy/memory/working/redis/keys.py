"""Names of the keys of a conversation: all of them in one slot of a Redis Cluster."""

from __future__ import annotations

from urllib.parse import quote, unquote

from jazzmine_dspy.models.errors import InputError


class Keys:
    """What lies where: ``PREFIX:{ID}:PART``, with the id percent-encoded, so that any id makes a good key.

    The parts are ``state`` (the record), ``meta`` (counters, which outlive it), ``lock``,
    ``aside`` (what was set aside, and why) and ``aside:N`` (a record that was).

    Example:
        >>> keys = Keys("jazzmine")
        >>> keys.part("order 7{", "state")
        'jazzmine:{order%207%7B}:state'
        >>> keys.conversation_of(b"jazzmine:{order%207%7B}:state", "state")
        'order 7{'
    """

    listed: tuple[str, ...] = ("state", "aside")
    """The parts by which conversations are found."""

    def __init__(self, prefix: str) -> None:
        if not prefix or set("{}") & set(prefix):
            raise InputError(
                f"{prefix!r} is no prefix of keys",
                where="prefix",
                remedy="Name one without braces, which choose the slot in a cluster.",
            )
        self.prefix = prefix

    def tag(self, conversation_id: str) -> str:
        """The id as it stands in keys, between the braces.

        Raises:
            InputError: it is no text, but holds half a surrogate pair.
        """
        try:
            return quote(conversation_id, safe="")
        except UnicodeEncodeError as error:
            raise InputError(
                "The conversation's id is no text", where="conversation_id", remedy="Give another one."
            ) from error

    def part(self, conversation_id: str, part: str) -> str:
        """The key of one part of a conversation."""
        return f"{self.prefix}:{{{self.tag(conversation_id)}}}:{part}"

    def pattern(self, part: str) -> str:
        """A pattern of SCAN for the keys of one part, of all conversations."""
        literal = "".join(f"\\{c}" if c in "*?[]\\^-" else c for c in self.prefix)
        return f"{literal}:{{*}}:{part}"

    def conversation_of(self, key: bytes, part: str) -> str | None:
        """The id that a key belongs to; None for a key of another kind."""
        before, after = f"{self.prefix}:{{".encode(), f"}}:{part}".encode()
        if not key.startswith(before) or not key.endswith(after):
            return None
        tag = key[len(before) : -len(after)].decode(errors="replace")
        found = unquote(tag)
        return found if quote(found, safe="") == tag else None
