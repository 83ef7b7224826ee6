"""Counting calls and tokens, and keeping to a budget of calls."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Any, cast

import dspy
from dspy.lm15 import Request, Response, Usage

from jazzmine_dspy.lm.errors import BudgetExhausted
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
        completion_tokens: Tokens answered.
    """

    calls: int
    failed: int
    replayed: int
    prompt_tokens: int
    completion_tokens: int


class Meter:
    """Counts the calls of any number of language models and refuses the one over budget. Thread-safe.

    Args:
        max_calls: Calls that are allowed; None for no limit.
        count_replayed: Whether an answer from a replay store counts. With True a run takes the same course
            whether its store is warm or not.
    """

    def __init__(self, max_calls: int | None = None, *, count_replayed: bool = True) -> None:
        self.max_calls = max_calls
        self.count_replayed = count_replayed
        self.exhausted = False
        self._lock = threading.Lock()
        self._calls = self._failed = self._replayed = self._prompt = self._completion = 0

    def __deepcopy__(self, memo: dict[int, Any]) -> Meter:
        return self

    @property
    def counts(self) -> Counts:
        """The counts so far."""
        with self._lock:
            return Counts(self._calls, self._failed, self._replayed, self._prompt, self._completion)

    @property
    def calls_left(self) -> int | None:
        """Calls that the budget still allows; None without a limit."""
        with self._lock:
            return None if self.max_calls is None else max(0, self.max_calls - self._calls)

    def before(self) -> None:
        """Count a call that is about to be made.

        Raises:
            BudgetExhausted: It would be one too many; it is not counted.
        """
        with self._lock:
            if self.max_calls is not None and self._calls >= self.max_calls:
                # Kept, because optimizers swallow exceptions of single examples.
                self.exhausted = True
                raise BudgetExhausted(
                    f"The budget of {self.max_calls} language-model calls is used up",
                    remedy="Raise it, or take the best program found so far.",
                )
            self._calls += 1

    def after(self, usage: Usage | None, *, replayed: bool = False) -> None:
        """Count what a call has brought."""
        with self._lock:
            self._replayed += replayed
            if replayed and not self.count_replayed:
                return
            self._prompt += (usage.input_tokens or 0) if usage else 0
            self._completion += (usage.output_tokens or 0) if usage else 0

    def failed(self) -> None:
        """Count a call that has raised."""
        with self._lock:
            self._failed += 1


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
            BudgetExhausted: Before the call that would be one too many.
        """
        _admit(self.meter, self.source, request)
        try:
            response = self.inner.complete(request)
        except BaseException:
            self.meter.failed()
            raise
        self.meter.after(response.usage, replayed=is_replayed(response))
        return cast("Response", response)

    def stream(self, request: Request) -> Iterator[Any]:
        """As `complete`, event by event."""
        _admit(self.meter, self.source, request)
        ended = False
        try:
            for event in self._events(request):
                if event.type == "end":
                    ended = True
                    self.meter.after(event.usage, replayed=is_replayed(event))
                yield event
        finally:
            if not ended:
                self.meter.failed()


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
        _admit(self.meter, self.source, request)
        try:
            response = await self.inner.complete(request)
        except BaseException:
            self.meter.failed()
            raise
        self.meter.after(response.usage, replayed=is_replayed(response))
        return cast("Response", response)

    async def stream(self, request: Request) -> AsyncIterator[Any]:
        """As `CountingEngine.stream`."""
        _admit(self.meter, self.source, request)
        ended = False
        try:
            async for event in self._aevents(request):
                if event.type == "end":
                    ended = True
                    self.meter.after(event.usage, replayed=is_replayed(event))
                yield event
        finally:
            if not ended:
                self.meter.failed()


def metered(lm: dspy.LM, meter: Meter) -> dspy.LM:
    """A copy of a language model whose calls a meter counts; retries count as calls.

    Raises:
        LMSettingsError: The model is not a `dspy.LM`.
    """
    engine, async_engine = engines_of(lm)
    twin = AsyncCountingEngine(async_engine, engine, meter) if async_engine is not None else None
    return with_engines(lm, CountingEngine(engine, meter), twin)


def _admit(meter: Meter, source: Any, request: Request) -> None:
    if (
        not meter.count_replayed
        and (will_replay := getattr(source, "will_replay", None))
        and will_replay(request)
    ):
        return
    meter.before()
