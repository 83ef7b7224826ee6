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
    turn knows how an earlier one was understood.
    """

    def __init__(self) -> None:
        self._roles: dict[str, str] = {}
        self._instructions: dict[str, tuple[str, ...]] = {}
        self._met: dict[str, dict[tuple[str, str], frozenset[str]]] = {}
        """Of each reader the marks of each request, by folder and key."""

    def note(self, by: str, role: str, request: tuple[str, str], body: Mapping[str, Any]) -> None:
        """A reader has answered a request: folder and key."""
        self._roles.setdefault(by, role)
        self._instructions.setdefault(by, instruction(body))
        self._met.setdefault(by, {})[request] = utterances(body)

    def problem(
        self, by: str, role: str, beside: Collection[tuple[str, str]], body: Mapping[str, Any]
    ) -> str:
        """Why a reader must not answer a request; empty if nothing speaks against it.

        Args:
            by: The reader's name.
            role: Of the request.
            beside: Requests of the same batch, which the desk keeps apart itself.
            body: Of the request.
        """
        if not by:
            return 'names no reader; add "by": "your name"'
        if (other := self._roles.get(by, role)) != role:
            return f"{by} has answered the role {other}: another reader must answer {role}"
        if role == "reflect":
            return ""
        if self._instructions.get(by, instruction(body)) != instruction(body):
            return f"{by} has answered under another instruction: it is for another reader"
        met = (marks for request, marks in self._met.get(by, {}).items() if request not in beside)
        if any(share_text(utterances(body), marks) for marks in met):
            return f"{by} has answered another turn of the conversation: it is for another reader"
        return ""


def instruction(body: Mapping[str, Any]) -> tuple[str, ...]:
    """The system messages of a request."""
    return tuple(str(each["content"]) for each in body["messages"] if each["role"] == "system")
