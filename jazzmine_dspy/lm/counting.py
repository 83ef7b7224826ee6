"""Counting calls and tokens, and keeping to a budget of both."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Any, cast

import dspy
from dspy.lm15 import Request, Response, Usage

from jazzmine_dspy.lm.errors import BudgetExhausted, LMSettingsError
from jazzmine_dspy.lm.limits import Limit, Tokens, most_of, tokens_of
from jazzmine_dspy.lm.prices import Price
from jazzmine_dspy.lm.replay import is_replayed
from jazzmine_dspy.lm.wrapping import WrappedEngine, engines_of, with_engines


@dataclass(frozen=True)
class Counts:
    """What a meter has counted.

    Args:
        calls: Attempts made, failed ones and (unless the meter leaves them out) replayed ones included.
        failed: Of these, the ones that raised.
        replayed: Answers that came from a replay store.
        prompt_tokens: Tokens sent, as the engine counts them.
        completion_tokens: Tokens answered, reasoning included.
        uncounted: Answers of which the engine has not told the tokens.
        cached_tokens: Of those sent, the ones that the provider had read before.
        money: What the calls cost, replayed ones as the first time; None where no price is known.
        paid: The same without the replayed ones.
    """

    calls: int
    failed: int
    replayed: int
    prompt_tokens: int
    completion_tokens: int
    uncounted: int = 0
    cached_tokens: int = 0
    money: float | None = None
    paid: float | None = None


class Meter:
    """Counts the calls of any number of language models and refuses the one over budget.

    Thread-safe; asynchronous calls may run at once too. What holds at any time, under its lock:

    - Calls never exceed ``max_calls``: a call is counted before it is made.
    - Tokens never exceed ``max_tokens``, nor money ``max_money``: for a call under way, the most that it may take is
      kept (`most_of`); what it really took is counted in its place when it ends. It is refused where that most does
      not fit. A provider that counts more tokens than it was sent bytes, or answers more than it was allowed, is
      believed all the same.
    - An answer without a token count is taken for that most, and counted in ``uncounted``.
    - Once a call was refused, all later ones are: ``exhausted``.
    - Sums and largest values alone are kept, so that they do not depend on the order in which calls end. While none
      is under way, ``calls_left`` is the same for the same calls; those so many, one after another, are not refused
      unless one is larger than all before it.

    Args:
        max_calls: Calls that are allowed; None for no limit.
        max_tokens: Tokens that are allowed, sent and answered together; None for no limit.
        price: What tokens cost, for the counts and for ``max_money``.
        max_money: Money that is allowed; None for no limit.
        count_replayed: Whether an answer from a replay store counts, with the tokens of the first time. With True a run
            takes the same course whether its store is warm or not.

    Raises:
        LMSettingsError: money is limited and no price is given.
    """

    def __init__(
        self,
        max_calls: int | None = None,
        *,
        max_tokens: int | None = None,
        price: Price | None = None,
        max_money: float | None = None,
        count_replayed: bool = True,
    ) -> None:
        if max_money is not None and price is None:
            raise LMSettingsError(
                "No price is known, so no limit in money can be kept",
                where=f"max_money={max_money:g}",
                remedy="Give a price: Price(prompt, completion), in money per million tokens.",
            )
        self.max_calls = max_calls
        self.max_tokens = max_tokens
        self.price = price
        self.max_money = max_money
        self.count_replayed = count_replayed
        self.exhausted = False
        self._lock = threading.Lock()
        self._calls = self._failed = self._replayed = self._uncounted = 0
        self._reported = self._again = self._held = Tokens()
        self._limits: list[Limit] = []
        if max_tokens is not None:
            self._limits.append(Limit(f"{max_tokens:,} tokens", max_tokens, lambda tokens: tokens.total))
        if max_money is not None and price is not None:
            self._limits.append(Limit(price.amount(max_money), max_money, price.cost))

    def __deepcopy__(self, memo: dict[int, Any]) -> Meter:
        return self

    @property
    def counts(self) -> Counts:
        """The counts so far."""
        with self._lock:
            told, price = self._reported, self.price
            return Counts(
                self._calls,
                self._failed,
                self._replayed,
                told.prompt,
                told.completion,
                self._uncounted,
                told.cached,
                None if price is None else price.cost(told),
                None if price is None else price.cost(told.plus(self._again, -1)),
            )

    @property
    def calls_left(self) -> int | None:
        """Calls that the budget still allows, one after another, if none is larger than those before.

        None without a limit, and where tokens alone are limited and no call has told how many it takes.
        """
        with self._lock:
            if self.exhausted:
                return 0
            found = [] if self.max_calls is None else [max(0, self.max_calls - self._calls)]
            by_use = [limit.calls_left(self._held) for limit in self._limits]
            return min((*found, *(left for left in by_use if left is not None)), default=None)

    def before(self, request: Request) -> Tokens:
        """Count a call that is about to be made, and keep what it may take.

        Returns:
            What is kept for it: for `after` or `failed`.

        Raises:
            BudgetExhausted: It would be one too many, or may be too large; it is not counted.
        """
        most = most_of(request) if self._limits else Tokens()
        with self._lock:
            if self.max_calls is not None and self._calls >= self.max_calls:
                self._refuse(f"{self.max_calls} language-model calls")
            for limit in self._limits:
                if self.exhausted or not limit.admits(self._held, most):
                    self._refuse(limit.name)
            self._calls += 1
            self._held = self._held.plus(most)
        return most

    def _refuse(self, budget: str) -> None:
        # Kept, because optimizers swallow exceptions of single examples.
        self.exhausted = True
        raise BudgetExhausted(
            f"The budget of {budget} is used up",
            remedy="Raise it, or take the best program found so far.",
        )

    def after(self, usage: Usage | None, kept: Tokens | None, *, replayed: bool = False) -> None:
        """Count what a call has brought; ``kept`` is what `before` has returned, None where it was not asked."""
        with self._lock:
            self._replayed += replayed
            if kept is None and replayed:
                return
            kept = kept or Tokens()
            told = tokens_of(usage)
            self._uncounted += told is None
            self._reported = self._reported.plus(told or Tokens())
            if replayed:
                self._again = self._again.plus(told or Tokens())
            took = kept if told is None else told
            self._held = self._held.plus(kept, -1).plus(took)
            for limit in self._limits:
                limit.taken(took)

    def failed(self, kept: Tokens | None) -> None:
        """Count a call that has raised: it took nothing that anyone counts."""
        with self._lock:
            self._failed += 1
            self._held = self._held.plus(kept or Tokens(), -1)


class CountingEngine(WrappedEngine):
    """An engine whose calls a meter counts.

    Args:
        inner: The engine within.
        meter: The meter.
    """

    def __init__(self, inner: Any, meter: Meter) -> None:
        super().__init__(inner, inner)
        self.meter = meter

    def complete(self, request: Request) -> Response:
        """As the engine within.

        Raises:
            BudgetExhausted: Before the call that would be one too many, or may be too large.
        """
        kept = _admit(self.meter, self.source, request)
        try:
            response = self.inner.complete(request)
        except BaseException:
            self.meter.failed(kept)
            raise
        self.meter.after(response.usage, kept, replayed=is_replayed(response))
        return cast("Response", response)

    def stream(self, request: Request) -> Iterator[Any]:
        """As `complete`, event by event."""
        kept = _admit(self.meter, self.source, request)
        ended = False
        try:
            for event in self._events(request):
                if event.type == "end":
                    ended = True
                    self.meter.after(event.usage, kept, replayed=is_replayed(event))
                yield event
        finally:
            if not ended:
                self.meter.failed(kept)


class AsyncCountingEngine(WrappedEngine):
    """The asynchronous twin of a `CountingEngine`.

    Args:
        inner: The asynchronous engine within.
        source: The synchronous one beside it.
        meter: The meter.
    """

    def __init__(self, inner: Any, source: Any, meter: Meter) -> None:
        super().__init__(inner, source)
        self.meter = meter

    async def complete(self, request: Request) -> Response:
        """As `CountingEngine.complete`."""
        kept = _admit(self.meter, self.source, request)
        try:
            response = await self.inner.complete(request)
        except BaseException:
            self.meter.failed(kept)
            raise
        self.meter.after(response.usage, kept, replayed=is_replayed(response))
        return cast("Response", response)

    async def stream(self, request: Request) -> AsyncIterator[Any]:
        """As `CountingEngine.stream`."""
        kept = _admit(self.meter, self.source, request)
        ended = False
        try:
            async for event in self._aevents(request):
                if event.type == "end":
                    ended = True
                    self.meter.after(event.usage, kept, replayed=is_replayed(event))
                yield event
        finally:
            if not ended:
                self.meter.failed(kept)


def metered(lm: dspy.LM, meter: Meter) -> dspy.LM:
    """A copy of a language model whose calls a meter counts; retries count as calls.

    Raises:
        LMSettingsError: The model is not a `dspy.LM`.
    """
    engine, async_engine = engines_of(lm)
    twin = AsyncCountingEngine(async_engine, engine, meter) if async_engine is not None else None
    return with_engines(lm, CountingEngine(engine, meter), twin)


def _admit(meter: Meter, source: Any, request: Request) -> Tokens | None:
    if (
        not meter.count_replayed
        and (will_replay := getattr(source, "will_replay", None))
        and will_replay(request)
    ):
        return None
    return meter.before(request)
