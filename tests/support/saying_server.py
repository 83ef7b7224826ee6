"""Servers of OpenAI's protocol that think first, refuse what they are sent, or answer with nothing."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Sequence
from typing import Any

from fake_openai import FakeOpenAI, Flavour
from provider_server import Asked, Reply

EMPTY = {"id": "1", "object": "chat.completion", "created": 1, "model": "m", "choices": []}


def answering(content: str | None, finish: str | None = "stop", **message: Any) -> dict[str, Any]:
    """The body of an answer with one choice."""
    choice = {
        "index": 0,
        "finish_reason": finish,
        "message": {"role": "assistant", "content": content, **message},
    }
    usage = {"prompt_tokens": 9, "completion_tokens": 0, "total_tokens": 9}
    return {**EMPTY, "choices": [choice], "usage": usage}


NOTHING: dict[str, dict[str, Any]] = {
    "no choices": EMPTY,
    "null": answering(None, None),
    "null and a stop": answering(None),
    "blank": answering(" \n"),
    "an error inside": {"error": {"message": "the upstream failed", "code": 502}},
    "an error in words": {**EMPTY, "error": "overloaded"},
    "an error in the middle": answering('{"enhanced_query": "wh', "error"),
}
"""Bodies with status 200 that hold no answer."""


class Saying(FakeOpenAI):
    """Sends bodies as they are, one after another, and then answers well.

    Args:
        bodies: What is sent, with status 200; a pair of a status and a body has that status.
        for_ever: Whether the last of them is sent for ever.
    """

    def __init__(self, bodies: Sequence[Any], *, for_ever: bool = False, **settings: Any) -> None:
        super().__init__(**{"flavour": "vllm", **settings})
        self.bodies, self.for_ever = list(bodies), for_ever

    def respond(self, asked: Asked) -> Reply:
        reply = super().respond(asked)
        if not self.is_call(asked) or reply.status != 200 or not self.bodies:
            return reply
        body = self.bodies[0] if self.for_ever and len(self.bodies) == 1 else self.bodies.pop(0)
        status, content = body if isinstance(body, tuple) else (200, body)
        return Reply(status, content)


class ThinkingFirst(FakeOpenAI):
    """A model whose thoughts count as part of the answer: so many tokens pass before its first word."""

    def __init__(self, thoughts: int = 3000, most: int | None = None, **settings: Any) -> None:
        super().__init__(**{"flavour": "vllm", **settings})
        self.thoughts, self.most = thoughts, most

    def _body_refusal(self, body: dict[str, Any], model: str) -> tuple[int, str, str | None] | None:
        limit = body.get("max_completion_tokens") or body.get("max_tokens") or 0
        if self.most is not None and limit > self.most:
            return (
                400,
                f"max_tokens is too large: {limit}. This model supports at most {self.most} tokens.",
                None,
            )
        return super()._body_refusal(body, model)

    def _limited(self, asked: Asked, text: str) -> tuple[str, str]:
        limit = asked.body.get("max_completion_tokens") or asked.body.get("max_tokens")
        if limit and limit <= self.thoughts:
            return "", "length"
        return super()._limited(asked, text)


class Refusing(FakeOpenAI):
    """Refuses parameters in its own words, the first of them that a request holds.

    Args:
        words: What it says of each parameter that it refuses.
        flavour: As of `FakeOpenAI`.
    """

    def __init__(self, words: dict[str, str], flavour: Flavour = "vllm", **settings: Any) -> None:
        super().__init__(flavour=flavour, **settings)
        self.words = words

    def _body_refusal(self, body: dict[str, Any], model: str) -> tuple[int, str, str | None] | None:
        for name, said in self.words.items():
            if name in body:
                return 400, said, None
        return super()._body_refusal(body, model)


class AtOnce(Refusing):
    """Answers none of the first requests before all of them are there.

    Args:
        first: How many they are.
    """

    def __init__(self, first: int, words: dict[str, str]) -> None:
        super().__init__(words)
        self._barrier, self._first = threading.Barrier(first), itertools.count()

    def _body_refusal(self, body: dict[str, Any], model: str) -> tuple[int, str, str | None] | None:
        if next(self._first) < self._barrier.parties:
            self._barrier.wait(timeout=20.0)
        return super()._body_refusal(body, model)


def asked_of(server: FakeOpenAI, *names: str) -> list[tuple[Any, ...]]:
    """What each call held of some parameters."""
    read: Callable[[Asked], tuple[Any, ...]] = lambda call: tuple(call.body.get(name) for name in names)  # noqa: E731
    return [read(call) for call in server.calls]
