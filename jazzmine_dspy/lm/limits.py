"""Limits on what answers take: they are known only afterwards, so room for the most is kept beforehand."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import NamedTuple

from dspy._vendor.lm15.serde import request_to_dict
from dspy.lm15 import Request, Usage


class Tokens(NamedTuple):
    """Tokens of a call, or of many: sent, answered, and how many of those sent the provider had read before."""

    prompt: int = 0
    completion: int = 0
    cached: int = 0

    @property
    def total(self) -> int:
        """Sent and answered."""
        return self.prompt + self.completion

    def plus(self, other: Tokens, times: int = 1) -> Tokens:
        """The sum; with ``times`` -1 the difference."""
        return Tokens(*(mine + times * theirs for mine, theirs in zip(self, other, strict=True)))


def tokens_of(usage: Usage | None) -> Tokens | None:
    """What an engine says that a call took; None where it does not tell.

    Providers that count reasoning apart from the answer have it in their total alone.
    """
    if usage is None or usage.input_tokens is None or usage.output_tokens is None:
        return None
    sent, total = usage.input_tokens, usage.total_tokens or 0
    return Tokens(sent, max(usage.output_tokens, total - sent), min(usage.cache_read_tokens or 0, sent))


def most_of(request: Request) -> Tokens:
    """What a call may take at most: a token for every byte that is sent, and the longest answer that it allows."""
    sent = json.dumps(request_to_dict(request), ensure_ascii=False)
    return Tokens(len(sent.encode("utf-8", "replace")), request.config.max_tokens or 0)


class Limit:
    """One limit, such as that on tokens. Not thread-safe: the meter holds its lock.

    Args:
        name: The limit in words, for messages: "9,000 tokens".
        limit: How much of it.
        weigh: How much of it some tokens are; at least 0, and no less for more tokens.
    """

    def __init__(self, name: str, limit: float, weigh: Callable[[Tokens], float]) -> None:
        self.name = name
        self.limit = limit
        self._weigh = weigh
        self._taken = 0.0
        """The most that a call has taken so far."""
        self._reserved = 0.0
        """The most that was kept for a call so far."""

    def admits(self, held: Tokens, most: Tokens) -> bool:
        """Whether a call of so much at most fits beside what is taken and kept."""
        if self._weigh(held.plus(most)) > self.limit:
            return False
        self._reserved = max(self._reserved, self._weigh(most))
        return True

    def taken(self, call: Tokens) -> None:
        """Note what a call has taken."""
        self._taken = max(self._taken, self._weigh(call))

    def surely_fit(self, held: Tokens, calls: int, keep: int) -> bool:
        """Whether so many calls fit at their most, and so many more that take what the largest took."""
        needed = self._weigh(held) + calls * self._reserved + keep * self._taken
        return self._taken > 0 and needed <= self.limit

    def calls_left(self, held: Tokens) -> int | None:
        """How many calls fit, one after another, if none is larger than those before; None where that is not known."""
        left = self.limit - self._weigh(held)
        if left <= 0 or left < self._reserved:
            return 0
        # The last of them is admitted only while there is room for the most that one may take.
        return 1 + int((left - self._reserved) / self._taken) if self._taken else None
