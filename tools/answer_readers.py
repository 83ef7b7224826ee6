"""Who answers: a reader has one role and one instruction, and answers no two turns of a conversation."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any

#: What the user says in a prompt, as lines behind a name and as messages in JSON.
_SPOKEN = re.compile(
    r'^(?:[\w ]{1,24}:\s*"?){0,2}(?:user|customer|human|message)\s*:\s*(\S.*)$'
    r'|"user",\s*"content":\s*"((?:[^"\\]|\\.)*)',
    re.IGNORECASE | re.MULTILINE,
)


LONGEST_NAME = 60
"""Characters of a reader's name."""


def utterances(body: Mapping[str, Any]) -> frozenset[str]:
    """The beginnings of what the user says in a request; turns of one conversation share at least one of them."""
    last = next((str(each["content"]) for each in reversed(body["messages"]) if each["role"] == "user"), "")
    spoken = (
        " ".join((one or other).strip(' ".…').casefold().split()) for one, other in _SPOKEN.findall(last)
    )
    return frozenset(text[:40] for text in spoken if len(text) >= 12)


def share_text(marks: Collection[str], others: Collection[str]) -> bool:
    """Whether one text of each begins with the other, since prompts cut what was said earlier."""
    return any(one.startswith(other) or other.startswith(one) for one in marks for other in others)


class Readers:
    """What each named reader has answered, in all folders of a server.

    Whoever has met one instruction answers another better than that one alone would make it; whoever has met a later
    turn knows how an earlier one was understood. Names differ by more than case and space.
    """

    def __init__(self) -> None:
        self._roles: dict[str, str] = {}
        self._instructions: dict[str, tuple[str, ...]] = {}
        self._met: dict[str, dict[str, frozenset[str]]] = {}
        """Of each reader the marks of each request, by key."""

    def note(self, by: str, role: str, key: str, body: Mapping[str, Any], marks: frozenset[str]) -> None:
        """A reader has answered a request with these marks of its conversation."""
        name = _same(by)
        self._roles.setdefault(name, role)
        if role != "reflect":
            self._instructions.setdefault(name, instruction(body))
            self._met.setdefault(name, {})[key] = marks

    def problem(
        self, by: Any, role: str, beside: Collection[str], body: Mapping[str, Any], marks: frozenset[str]
    ) -> str:
        """Why a reader must not answer a request; empty if nothing speaks against it.

        Args:
            by: The reader's name, as it was written.
            role: Of the request.
            beside: Keys of the same batch, which the desk keeps apart itself.
            body: Of the request.
            marks: Of its conversation.
        """
        if not isinstance(by, str) or not by.strip():
            return 'names no reader; add "by": "your name"'
        if len(by) > LONGEST_NAME or not by.isprintable():
            return f"the reader's name is longer than {LONGEST_NAME} characters, or has some that cannot be printed"
        name = _same(by)
        if (other := self._roles.get(name, role)) != role:
            return f"{by} has answered the role {other}: another reader must answer {role}"
        if self._instructions.get(name, instruction(body)) != instruction(body):
            return f"{by} has answered under another instruction: it is for another reader"
        met = (own for key, own in self._met.get(name, {}).items() if key not in beside)
        if any(share_text(marks, own) for own in met):
            return f"{by} has answered another turn of the conversation: it is for another reader"
        return ""


def _same(name: str) -> str:
    return " ".join(name.split()).casefold()


def instruction(body: Mapping[str, Any]) -> tuple[str, ...]:
    """The system messages of a request."""
    return tuple(str(each["content"]) for each in body["messages"] if each["role"] == "system")
