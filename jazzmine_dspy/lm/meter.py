"""What language models take: calls, tokens and money, and a budget of each."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import dspy

from jazzmine_dspy.lm.dspy_api import Request, Response, Usage, request_to_dict
from jazzmine_dspy.lm.engines import Wrapper
from jazzmine_dspy.lm.errors import BudgetExhausted, LMSettingsError
from jazzmine_dspy.lm.native import wrap
from jazzmine_dspy.lm.prices import Price, Tokens, tokens_of
from jazzmine_dspy.lm.replay import is_replay
from jazzmine_dspy.models.base import Shared


@dataclass(frozen=True)
class Counts:
    """What a meter has counted.

    Args:
        calls: Attempts made, failed and replayed ones included.
        failed: Of these, the ones that raised.
        replayed: Answers that came from a replay store.
        prompt_tokens: Tokens sent, as the engine counts them.
        completion_tokens: Tokens answered, reasoning included.
        uncounted: Answers without a token count of the engine.
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


def _token_limit(request: Request) -> Tokens:
    """What a call may take at most: a token for every byte that is sent, and the longest answer that it allows."""
    sent = json.dumps(request_to_dict(request), ensure_ascii=False)
    return Tokens(len(sent.encode("utf-8", "replace")), request.config.max_tokens or 0)


@dataclass
class _Limit:
    """One limit: its name in messages, how much, and how much of it some tokens are (no less for more tokens)."""

    name: str
    limit: float
    weigh: Callable[[Tokens], float]
    largest: float = 0.0
    """The most that a call has taken so far."""
    reserved: float = 0.0
    """The most that was reserved for a call so far."""

    def fits(self, used: Tokens, call: Tokens) -> bool:
        if self.weigh(used.plus(call)) > self.limit:
            return False
        self.reserved = max(self.reserved, self.weigh(call))
        return True

    def calls_left(self, used: Tokens) -> int | None:
        left = self.limit - self.weigh(used)
        if left <= 0 or left < self.reserved:
            return 0
        # The last of them is admitted only while there is room for the most that one may take.
        return 1 + int((left - self.reserved) / self.largest) if self.largest else None


class Meter(Shared):
    """Counts the calls of any number of language models and refuses the one over budget.

    Thread-safe. These hold at any time:

    - Calls never exceed ``max_calls``: a call is counted before it is made.
    - Tokens never exceed ``max_tokens``, nor money ``max_money``: a call under way reserves the most that it may take
      (`_token_limit`), and what it really took replaces that when it ends. Where the most does not fit next to the
      reservations of others, the call waits for them; where it does not fit alone, it is refused. A provider that
      counts more tokens than it was sent bytes, or answers more than it was allowed, is believed all the same.
    - An answer without a token count is taken for that most, and counted in ``uncounted``.
    - An awaited call counts when it is first made, and not again when it is repeated or answered.
    - Once a call was refused, all later ones are: ``exhausted``.
    - An answer from a replay store counts, with the tokens of the first time: a run takes the same course whether its
      store is warm or not.
    - Only sums and largest values are stored, so nothing depends on the order in which calls end. While none is under
      way, ``calls_left`` is the same for the same calls; that many are not refused, one after another or at once,
      unless one is larger than all before it.

    Args:
        max_calls: Calls that are allowed; None for no limit.
        max_tokens: Tokens that are allowed, sent and answered together; None for no limit.
        price: What tokens cost, for the counts and for ``max_money``.
        max_money: Money that is allowed; None for no limit.

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
    ) -> None:
        self.max_calls, self.max_tokens, self.max_money = max_calls, max_tokens, max_money
        self.price = price
        self.exhausted = False
        self._lock = threading.Condition()
        self._under_way = 0
        self._calls = self._failed = self._replayed = self._uncounted = 0
        self._reported = self._again = self._used = Tokens()
        self._limits: list[_Limit] = []
        if max_tokens is not None:
            self._limits.append(_Limit(f"{max_tokens:,} tokens", max_tokens, lambda tokens: tokens.total))
        if max_money is not None:
            if price is None:
                raise LMSettingsError(
                    "No price is known, so a limit in money cannot be enforced",
                    where=f"max_money={max_money:g}",
                    remedy="Give a price: Price(prompt, completion), in money per million tokens.",
                )
            self._limits.append(_Limit(price.amount(max_money), max_money, price.cost))

    @property
    def counts(self) -> Counts:
        """The counts so far."""
        with self._lock:
            reported, price = self._reported, self.price
            return Counts(
                self._calls,
                self._failed,
                self._replayed,
                reported.prompt,
                reported.completion,
                self._uncounted,
                reported.cached,
                None if price is None else price.cost(reported),
                None if price is None else price.cost(reported.plus(self._again, -1)),
            )

    @property
    def calls_left(self) -> int | None:
        """Calls that the budget still allows, if none is larger than those before.

        None without a limit, and where tokens alone are limited and no call has reported how many it takes.
        """
        with self._lock:
            if self.exhausted:
                return 0
            left = [] if self.max_calls is None else [max(0, self.max_calls - self._calls)]
            by_use = [limit.calls_left(self._used) for limit in self._limits]
            return min((*left, *(each for each in by_use if each is not None)), default=None)

    def can_afford(self, calls: int, *, then: int = 0) -> bool:
        """Whether so many calls fit even if each takes the most that was reserved for one so far.

        Args:
            calls: So many calls.
            then: Calls after them that have to fit too, each with what the largest took so far.
        """
        with self._lock:
            if self.exhausted or (self.max_calls is not None and self.max_calls - self._calls < calls + then):
                return False
            return all(
                each.largest > 0
                and each.weigh(self._used) + calls * each.reserved + then * each.largest <= each.limit
                for each in self._limits
            )

    def reserve(self, request: Request) -> Tokens:
        """Count a call that is about to be made, and reserve what it may take; wait for others if need be.

        Args:
            request: The request.
            key: Of a request that is sent once, however often it is repeated.

        Returns:
            What is reserved for it, for `settle` or `cancel`; None where the call is counted already.

        Raises:
            BudgetExhausted: The call would be one too many, or may be too large.
        """
        most = _token_limit(request) if self._limits else Tokens()
        with self._lock:
            while True:
                if self.max_calls is not None and self._calls >= self.max_calls:
                    self._refuse(f"{self.max_calls} language-model calls")
                if self.exhausted and self._limits:
                    self._refuse(self._limits[0].name)
                full = next((limit.name for limit in self._limits if not limit.fits(self._used, most)), None)
                if full is None:
                    self._calls += 1
                    self._under_way += 1
                    self._used = self._used.plus(most)
                    return most
                if not self._under_way:
                    self._refuse(full)
                self._lock.wait()

    def settle(self, usage: Usage | None, reserved: Tokens, *, replayed: bool = False) -> None:
        """Count what a call took.

        Args:
            usage: What the engine reports.
            reserved: What `reserve` returned.
            replayed: Whether the answer came from a store.
        """
        with self._lock:
            self._replayed += replayed
            reported = tokens_of(usage)
            self._uncounted += reported is None
            self._reported = self._reported.plus(reported or Tokens())
            if replayed:
                self._again = self._again.plus(reported or Tokens())
            took = reserved if reported is None else reported
            self._release(reserved, took)
            for limit in self._limits:
                limit.largest = max(limit.largest, limit.weigh(took))

    def cancel(self, reserved: Tokens) -> None:
        """Count a call that raised: it took nothing that anyone counts."""
        with self._lock:
            self._failed += 1
            self._release(reserved, Tokens())

    def _release(self, reserved: Tokens, took: Tokens) -> None:
        self._under_way -= 1
        self._used = self._used.plus(reserved, -1).plus(took)
        self._lock.notify_all()

    def _refuse(self, budget: str) -> None:
        # Optimizers swallow exceptions of single examples, so it is remembered.
        self.exhausted = True
        raise BudgetExhausted(
            f"The budget of {budget} is used up",
            remedy="Raise it, or take the best program found so far.",
        )


class _CountingEngine(Wrapper):
    """An engine whose calls a meter counts.

    Args:
        inner: The engine within.
        meter: The meter.
    """

    def __init__(self, inner: Any, meter: Meter) -> None:
        super().__init__(inner)
        self.meter = meter

    def complete(self, request: Request) -> Response:
        """As the engine within.

        Raises:
            BudgetExhausted: Before the call that would be one too many, or may be too large.
        """
        reserved = self.meter.reserve(request)
        try:
            response = self.inner.complete(request)
        except BaseException:
            self.meter.cancel(reserved)
            raise
        self.meter.settle(response.usage, reserved, replayed=is_replay(response))
        return cast("Response", response)


def metered(lm: dspy.LM, meter: Meter) -> dspy.LM:
    """A copy of a language model whose calls a meter counts; retries count as calls.

    Raises:
        LMSettingsError: The model is not a `dspy.LM`.
    """
    return wrap(lm, lambda engine: _CountingEngine(engine, meter))
