"""A cache of decisions: equal turns are decided once, within a time to live, and once where they come together."""

from __future__ import annotations

import asyncio
import concurrent.futures
import math
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, NamedTuple

from jazzmine_dspy.models.decision import TurnDecision, Usage
from jazzmine_dspy.models.errors import InputError

TTL = 60.0
"""Seconds for which a decision is stored."""

MAX_ENTRIES = 4096
"""Decisions that are stored; each takes about 2 kB."""

SLACK = 0.1
"""Seconds that a turn may wait beyond its deadline for the decision of an equal one."""


class CacheStats(NamedTuple):
    """What a decision cache has done so far.

    Args:
        hits: Turns answered by a stored decision.
        shared: Turns answered by the decision of an equal turn that was under way.
        misses: Turns that were decided.
        degraded: Decisions that were not stored since they are degraded.
        expired: Entries removed for their age.
        evicted: Entries removed since there were too many.
        entries: Decisions stored now.
        hit_age_s: Mean age of the stored decisions that were hit, in seconds; 0.0 without a hit.
        oldest_s: Age of the oldest entry, in seconds; 0.0 without one.
    """

    hits: int = 0
    shared: int = 0
    misses: int = 0
    degraded: int = 0
    expired: int = 0
    evicted: int = 0
    entries: int = 0
    hit_age_s: float = 0.0
    oldest_s: float = 0.0

    @property
    def hit_rate(self) -> float:
        """Share of turns, from 0.0 to 1.0, that were answered without deciding them; 0.0 before the first."""
        answered = self.hits + self.shared
        return answered / (answered + self.misses) if answered else 0.0


class _Decided(NamedTuple):
    """A decision for who asked first, and as JSON for all others, so that nobody changes another one's."""

    decision: TurnDecision
    text: str


class _Thread(NamedTuple):
    """A decision under way in a thread, and when it ends at the latest."""

    ends: float
    decided: concurrent.futures.Future[_Decided]


@dataclass(eq=False)
class _Flight:
    """A decision under way in an event loop, when it ends at the latest, and how many wait for it."""

    ends: float
    task: asyncio.Task[_Decided]
    waiting: int = 0


def _ends(deadline: float | None) -> float:
    return math.inf if deadline is None else time.monotonic() + deadline


class DecisionCache:
    """Stores decisions by all that they depend on. One cache may serve several programs, threads and event loops.

    Bind it with ``program.cached()``, ``program.bind(cache=…)`` or ``Runtime(cache=…)``. Degraded decisions are never
    stored. A decision from the cache is a copy: its stages name the source ``cache`` and, as ``name``, the source that
    answered first; it has no language model calls and no usage. Equal turns that come together are decided once per
    event loop, and once for all threads.

    Args:
        ttl: Seconds for which a decision is stored.
        max_entries: Decisions at most; the oldest are removed first.
        clock: Seconds, from any beginning.

    Raises:
        InputError: ``ttl`` or ``max_entries`` is not positive.

    Example:
        >>> from jazzmine_dspy import FlowRegistry, TurnProgram
        >>> flows = FlowRegistry([{"name": "hours", "description": "Tell when the shop is open."}])
        >>> cache = DecisionCache(ttl=60)
        >>> program = TurnProgram(flows).with_policy("fallback").bind(cache=cache)
        >>> [program.decide(text="hello").commands[0].type for _ in range(4)]
        ['chitchat', 'chitchat', 'chitchat', 'chitchat']
        >>> cache.stats().misses, cache.stats().hit_rate
        (1, 0.75)
    """

    def __init__(
        self,
        *,
        ttl: float = TTL,
        max_entries: int = MAX_ENTRIES,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if not 0 < ttl < math.inf:
            raise InputError(f"A time to live of {ttl!r} s", where="ttl", remedy="Pass seconds above 0.")
        if max_entries < 1:
            raise InputError(
                f"A cache of {max_entries!r} entries", where="max_entries", remedy="Pass 1 or more."
            )
        self.ttl, self.max_entries = ttl, max_entries
        self._clock = clock
        self._entries: OrderedDict[str, tuple[float, str]] = OrderedDict()
        self._stats = CacheStats()
        self._ages = 0.0
        self._lock = threading.Lock()
        self._flights: dict[tuple[str, asyncio.AbstractEventLoop], _Flight] = {}
        self._threads: dict[str, _Thread] = {}

    def stats(self) -> CacheStats:
        """Hits, misses and ages so far."""
        with self._lock:
            now = self._clock()
            self._sweep(now)
            oldest = next(iter(self._entries.values()), None)
            return self._stats._replace(
                entries=len(self._entries),
                hit_age_s=self._ages / self._stats.hits if self._stats.hits else 0.0,
                oldest_s=max(0.0, now - oldest[0]) if oldest else 0.0,
            )

    def clear(self) -> None:
        """Remove all entries. What is under way is still stored."""
        with self._lock:
            self._entries.clear()

    def decide(self, key: str, deadline: float | None, work: Callable[[], TurnDecision]) -> TurnDecision:
        """The decision of a key: stored, of an equal turn under way in another thread, or by ``work``.

        Args:
            key: Of all that the decision depends on.
            deadline: Seconds that the decision may take. No turn waits for one that may end after its own deadline.
            work: Decides the turn.
        """
        ends = _ends(deadline)
        while True:
            with self._lock:
                text = self._lookup(key)
                other = self._threads.get(key)
                if text is None and (other is None or other.ends > ends + SLACK):
                    self._count(misses=1)
                    leading = self._threads[key] = _Thread(ends, concurrent.futures.Future())
                    break
            if text is not None:
                return TurnDecision.model_validate_json(text)
            assert other is not None
            try:
                text = other.decided.result().text
            except concurrent.futures.CancelledError:
                # The thread that decided it was interrupted: this one goes on in its place.
                continue
            with self._lock:
                self._count(shared=1)
            return TurnDecision.model_validate_json(text)
        try:
            decided = self._stored(key, work())
        except BaseException as error:
            self._ended(key, leading)
            if isinstance(error, Exception):
                leading.decided.set_exception(error)
            else:
                leading.decided.cancel()
            raise
        self._ended(key, leading)
        leading.decided.set_result(decided)
        return decided.decision

    async def adecide(
        self, key: str, deadline: float | None, work: Callable[[], Coroutine[Any, Any, TurnDecision]]
    ) -> TurnDecision:
        """The same in an event loop. Cancelling one caller lets the others wait on; the last one cancels the work."""
        with self._lock:
            text = self._lookup(key)
            if text is None:
                flight, leads = self._flight(key, _ends(deadline), work)
                flight.waiting += 1
        if text is not None:
            return TurnDecision.model_validate_json(text)
        try:
            decided = await asyncio.shield(flight.task)
        finally:
            flight.waiting -= 1
            if not flight.waiting and not flight.task.done():
                self._landed(key, flight)
                flight.task.cancel()
        return decided.decision if leads else TurnDecision.model_validate_json(decided.text)

    # --- within ------------------------------------------------------------------------------------------

    def _flight(
        self, key: str, ends: float, work: Callable[[], Coroutine[Any, Any, TurnDecision]]
    ) -> tuple[_Flight, bool]:
        """The decision under way in this loop, begun where there is none in time; and whether it was begun now."""
        loop = asyncio.get_running_loop()
        flight = self._flights.get((key, loop))
        if flight is not None and not flight.task.done() and flight.ends <= ends + SLACK:
            self._count(shared=1)
            return flight, False
        begun = self._flights[key, loop] = _Flight(ends, loop.create_task(self._decided(key, work)))
        begun.task.add_done_callback(lambda _: self._landed(key, begun))
        self._count(misses=1)
        return begun, True

    async def _decided(self, key: str, work: Callable[[], Coroutine[Any, Any, TurnDecision]]) -> _Decided:
        return self._stored(key, await work())

    def _ended(self, key: str, thread: _Thread) -> None:
        with self._lock:
            if self._threads.get(key) is thread:
                del self._threads[key]

    def _landed(self, key: str, flight: _Flight) -> None:
        place = (key, flight.task.get_loop())
        with self._lock:
            if self._flights.get(place) is flight:
                del self._flights[place]
        if flight.task.done() and not flight.task.cancelled():
            # Looked at, so that an error that nobody waits for any longer is not reported as forgotten.
            flight.task.exception()

    def _lookup(self, key: str) -> str | None:
        now = self._clock()
        self._sweep(now)
        entry = self._entries.get(key)
        if entry is None:
            return None
        self._count(hits=1)
        self._ages += max(0.0, now - entry[0])
        return entry[1]

    def _stored(self, key: str, decision: TurnDecision) -> _Decided:
        # Its stages name the cache as their source, and calls that are not made again.
        update = {"source": "cache", "latency_ms": 0.0, "usage": Usage(), "calls": ()}
        stages = {
            stage: record.model_copy(update={**update, "name": record.source})
            for stage, record in decision.stages.items()
        }
        text = decision.model_copy(update={"stages": stages}).model_dump_json()
        with self._lock:
            if decision.degraded:
                self._count(degraded=1)
                return _Decided(decision, text)
            now = self._clock()
            self._sweep(now)
            self._entries[key] = (now, text)
            self._entries.move_to_end(key)
            while len(self._entries) > self.max_entries:
                self._entries.popitem(last=False)
                self._count(evicted=1)
        return _Decided(decision, text)

    def _sweep(self, now: float) -> None:
        """Remove what has expired; all entries live equally long, so that the first ones are the oldest."""
        while self._entries:
            key, (stored, _) = next(iter(self._entries.items()))
            if now - stored < self.ttl:
                return
            del self._entries[key]
            self._count(expired=1)

    def _count(self, **more: int) -> None:
        counted = self._stats._asdict()
        self._stats = self._stats._replace(**{name: counted[name] + count for name, count in more.items()})
