"""Counting calls and tokens, and keeping to a budget of both."""

from __future__ import annotations

import asyncio
import sys
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
from jazzmine_dspy.models.awaiting import Awaiting


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


_AGAIN_S = 0.005
"""Seconds after which an asynchronous call looks again whether it has to wait."""


class Meter:
    """Counts the calls of any number of language models and refuses the one over budget.

    Thread-safe; asynchronous calls may run at once too. What holds at any time, under its lock:

    - Calls never exceed ``max_calls``: a call is counted before it is made.
    - Tokens never exceed ``max_tokens``, nor money ``max_money``: for a call under way, the most that it may take is
      kept (`most_of`); what it really took is counted in its place when it ends. Where that most does not fit beside
      what others under way may take, it waits for them; it is refused where it does not fit alone. A provider that
      counts more tokens than it was sent bytes, or answers more than it was allowed, is believed all the same.
    - An answer without a token count is taken for that most, and counted in ``uncounted``.
    - A call that is awaited counts when it is first made, and not again when it is repeated or answered.
    - Once a call was refused, all later ones are: ``exhausted``.
    - Sums and largest values alone are kept, so that they do not depend on the order in which calls end. While none
      is under way, ``calls_left`` is the same for the same calls; those so many are not refused, one after another or
      at once, unless one is larger than all before it.

    A stream that is neither read to its end nor closed is under way for ever, and others may wait for it.

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
        self._lock = threading.Condition()
        self._under_way = 0
        self._calls = self._failed = self._replayed = self._uncounted = 0
        self._reported = self._again = self._held = Tokens()
        self._sent: dict[str, bool] = {}
        """Requests that go to a batch service once, however often they are asked: whether they are answered."""
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
        """Calls that the budget still allows, if none is larger than those before.

        None without a limit, and where tokens alone are limited and no call has told how many it takes.
        """
        with self._lock:
            if self.exhausted:
                return 0
            found = [] if self.max_calls is None else [max(0, self.max_calls - self._calls)]
            by_use = [limit.calls_left(self._held) for limit in self._limits]
            return min((*found, *(left for left in by_use if left is not None)), default=None)

    def surely_fit(self, calls: int, *, keep: int = 0) -> bool:
        """Whether so many calls fit even if each takes the most that one was kept for so far, and so many after them
        fit that take what the largest took."""
        with self._lock:
            if self.max_calls is not None and self.max_calls - self._calls < calls + keep:
                return False
            return not self.exhausted and all(
                limit.surely_fit(self._held, calls, keep) for limit in self._limits
            )

    def before(self, request: Request, key: str | None = None) -> Tokens | None:
        """Count a call that is about to be made, and keep what it may take; wait for others if need be.

        Args:
            request: What is asked.
            key: Of a request that is sent once, however often it is asked.

        Returns:
            What is kept for it, for `after` or `failed`; None where it is counted already.

        Raises:
            BudgetExhausted: It would be one too many, or may be too large; it is not counted.
        """
        most = most_of(request) if self._limits else Tokens()
        with self._lock:
            while not (sent := key in self._sent) and not self._admitted(most, key):
                self._lock.wait()
        return None if sent else most

    async def abefore(self, request: Request, key: str | None = None) -> Tokens | None:
        """As `before`, for asynchronous calls."""
        most = most_of(request) if self._limits else Tokens()
        while True:
            with self._lock:
                if key in self._sent:
                    return None
                if self._admitted(most, key):
                    return most
            await asyncio.sleep(_AGAIN_S)

    def _admitted(self, most: Tokens, key: str | None = None) -> bool:
        """Admit a call, or refuse it; False where it has to wait for those under way."""
        if self.max_calls is not None and self._calls >= self.max_calls:
            self._refuse(f"{self.max_calls} language-model calls")
        for limit in self._limits:
            if self.exhausted or (not (fits := limit.admits(self._held, most)) and not self._under_way):
                self._refuse(limit.name)
            if not fits:
                return False
        if key is not None:
            self._sent[key] = False
        self._calls += 1
        self._under_way += 1
        self._held = self._held.plus(most)
        return True

    def _ended(self, kept: Tokens | None) -> Tokens:
        if kept is None:
            return Tokens()
        self._under_way -= 1
        self._lock.notify_all()
        return kept

    def _refuse(self, budget: str) -> None:
        # Kept, because optimizers swallow exceptions of single examples.
        self.exhausted = True
        raise BudgetExhausted(
            f"The budget of {budget} is used up",
            remedy="Raise it, or take the best program found so far.",
        )

    def after(
        self, usage: Usage | None, kept: Tokens | None, *, replayed: bool = False, key: str | None = None
    ) -> None:
        """Count what a call has brought; ``kept`` is what `before` has returned, None where it was not asked."""
        with self._lock:
            self._replayed += replayed
            if kept is None and replayed:
                return
            if kept is None and self._sent.get(key or ""):
                return
            if key is not None:
                self._sent[key] = True
            kept = self._ended(kept)
            told = tokens_of(usage)
            self._uncounted += told is None
            self._reported = self._reported.plus(told or Tokens())
            if replayed:
                self._again = self._again.plus(told or Tokens())
            took = kept if told is None else told
            self._held = self._held.plus(kept, -1).plus(took)
            for limit in self._limits:
                limit.taken(took)

    def failed(self, kept: Tokens | None, error: BaseException | None = None) -> None:
        """Count a call that has raised: it took nothing that anyone counts. An awaited one has not failed."""
        with self._lock:
            self._failed += not isinstance(error, Awaiting)
            self._held = self._held.plus(self._ended(kept), -1)


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
        key = _key(self.source, request)
        uncounted = _uncounted(self.meter, self.source, request)
        kept = None if uncounted else self.meter.before(request, key)
        try:
            response = self.inner.complete(request)
        except BaseException as error:
            self.meter.failed(kept, error)
            raise
        self.meter.after(response.usage, kept, replayed=is_replayed(response), key=key)
        return cast("Response", response)

    def stream(self, request: Request) -> Iterator[Any]:
        """As `complete`, event by event."""
        key = _key(self.source, request)
        uncounted = _uncounted(self.meter, self.source, request)
        kept = None if uncounted else self.meter.before(request, key)
        ended = False
        try:
            for event in self._events(request):
                if event.type == "end":
                    ended = True
                    self.meter.after(event.usage, kept, replayed=is_replayed(event), key=key)
                yield event
        finally:
            if not ended:
                self.meter.failed(kept, sys.exc_info()[1])


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
        key = _key(self.source, request)
        uncounted = _uncounted(self.meter, self.source, request)
        kept = None if uncounted else await self.meter.abefore(request, key)
        try:
            response = await self.inner.complete(request)
        except BaseException as error:
            self.meter.failed(kept, error)
            raise
        self.meter.after(response.usage, kept, replayed=is_replayed(response), key=key)
        return cast("Response", response)

    async def stream(self, request: Request) -> AsyncIterator[Any]:
        """As `CountingEngine.stream`."""
        key = _key(self.source, request)
        uncounted = _uncounted(self.meter, self.source, request)
        kept = None if uncounted else await self.meter.abefore(request, key)
        ended = False
        try:
            async for event in self._aevents(request):
                if event.type == "end":
                    ended = True
                    self.meter.after(event.usage, kept, replayed=is_replayed(event), key=key)
                yield event
        finally:
            if not ended:
                self.meter.failed(kept, sys.exc_info()[1])


def metered(lm: dspy.LM, meter: Meter) -> dspy.LM:
    """A copy of a language model whose calls a meter counts; retries count as calls.

    Raises:
        LMSettingsError: The model is not a `dspy.LM`.
    """
    engine, async_engine = engines_of(lm)
    twin = AsyncCountingEngine(async_engine, engine, meter) if async_engine is not None else None
    return with_engines(lm, CountingEngine(engine, meter), twin)


def _uncounted(meter: Meter, source: Any, request: Request) -> bool:
    """Whether a call is answered by a replay store, and the meter leaves such out."""
    will_replay = None if meter.count_replayed else getattr(source, "will_replay", None)
    return will_replay is not None and bool(will_replay(request))


def _key(source: Any, request: Request) -> str | None:
    """The key of a request that is sent once, however often it is asked; None where each call is one."""
    while hasattr(source, "source"):
        source = source.source
    key_of = getattr(source, "key_of", None)
    return None if key_of is None else str(key_of(request))
