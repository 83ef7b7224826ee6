"""The demonstrations in a request, for tests."""

from __future__ import annotations

import itertools

from dspy.lm15 import Message, Request


def demo_texts(request: Request) -> list[tuple[str, str]]:
    """The demonstrations of a request: each user message with the assistant message that follows it."""
    return [
        (_text(first), _text(second))
        for first, second in itertools.pairwise(request.messages)
        if first.role == "user" and second.role == "assistant"
    ]


def _text(message: Message) -> str:
    return "".join(part.text for part in message.parts if part.type == "text")
