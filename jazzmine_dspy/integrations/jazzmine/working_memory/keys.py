"""What lies where when records are shared with jazzmine."""

from __future__ import annotations

from binascii import crc_hqx
from functools import lru_cache
from itertools import count
from urllib.parse import unquote

from jazzmine_dspy.memory.working.redis.keys import Keys

_SLOTS = 16384
_OF_JAZZMINE = {"state": "wm:", "lock": "wm_lock:"}


class SharedKeys(Keys):
    """The record is ``wm:ID`` and the lock ``wm_lock:ID``, as jazzmine names them; all else is ours.

    Ours are ``{TAG}:PREFIX:ID:PART``, the id percent-encoded, with a tag that puts them into the cluster slot
    of the record. The lock has another slot, which its name alone decides.

    Example:
        >>> keys = SharedKeys("jazzmine")
        >>> keys.part("c 1", "state"), keys.part("c 1", "lock"), keys.part("c 1", "rest")
        ('wm:c 1', 'wm_lock:c 1', '{wm:c 1}:jazzmine:c%201:rest')
    """

    def part(self, conversation_id: str, part: str) -> str:
        """The key of one part of a conversation."""
        if part in _OF_JAZZMINE:
            return _OF_JAZZMINE[part] + conversation_id
        return f"{{{_tag(conversation_id)}}}:{self.prefix}:{self.tag(conversation_id)}:{part}"

    def pattern(self, part: str) -> str:
        """A pattern of SCAN for the keys of one part, of all conversations."""
        if part in _OF_JAZZMINE:
            return f"{_OF_JAZZMINE[part]}*"
        return f"{{*}}:{_literal(self.prefix)}:*:{part}"

    def conversation_of(self, key: bytes, part: str) -> str | None:
        """The id that a key belongs to; None for a key of another kind."""
        text = key.decode(errors="replace")
        if part in _OF_JAZZMINE:
            found = text.removeprefix(_OF_JAZZMINE[part])
        else:
            found = unquote(text.removesuffix(f":{part}").rpartition(":")[2])
        return found if found and self.part(found, part).encode() == key else None


def _literal(text: str) -> str:
    return "".join(f"\\{c}" if c in "*?[]\\^-" else c for c in text)


@lru_cache(maxsize=1024)
def _tag(conversation_id: str) -> str:
    """A hash tag of the slot that the record's own key has."""
    key = f"wm:{conversation_id}"
    _, opened, rest = key.partition("{")
    inner, closed, _ = rest.partition("}")
    if opened and closed and inner:
        return inner
    if "}" not in key:
        return key
    # No tag can have a closing brace in it; some number has the same slot.
    slot = _slot(key)
    return next(str(number) for number in count() if _slot(str(number)) == slot)


def _slot(text: str) -> int:
    return crc_hqx(text.encode(), 0) % _SLOTS
