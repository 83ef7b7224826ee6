"""A store of answers, so that a run can be repeated without asking the model again.

Unlike DSPy's cache it knows the weights and the engine's settings, is told apart from a fresh answer, counts
the same usage as the first time, and lives in a file of the project's own.
"""

from __future__ import annotations

import contextlib
import json
import sqlite3
import threading
import warnings
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import dspy
from dspy._vendor.lm15.result import StreamAccumulator
from dspy._vendor.lm15.serde import response_from_dict, response_to_dict
from dspy.lm15 import Request, Response

from jazzmine_dspy.lm.asked import engine_identity
from jazzmine_dspy.lm.errors import LMWarning
from jazzmine_dspy.lm.listening import outcome_of
from jazzmine_dspy.lm.requests import request_key, small_events
from jazzmine_dspy.lm.wrapping import WrappedEngine, engines_of, with_engines
from jazzmine_dspy.models.errors import InputError, format_error

_MARK = "jazzmine_replayed"
#: Seconds to wait for another process that is writing.
_BUSY_S = 30.0


class ReplayStore:
    """Answers by request, in an SQLite file. Threads and processes may share it.

    A damaged entry is skipped with an `LMWarning` and asked anew; a damaged file is put aside as
    NAME.damaged.

    Args:
        path: The file, made when it is missing; ":memory:" for none.
        fresh: Whether to ignore what the file holds; what is asked now takes its place.
    """

    def __init__(self, path: str | Path, *, fresh: bool = False) -> None:
        self.path = str(path)
        self._asked: set[str] | None = set() if fresh else None
        """Keys of the answers that this object has stored, where no others count."""
        self._lock = threading.Lock()
        if self.path != ":memory:":
            Path(self.path).parent.mkdir(parents=True, exist_ok=True)
        try:
            self._connection = self._open()
        except sqlite3.DatabaseError as error:
            if isinstance(error, sqlite3.OperationalError):
                raise InputError(
                    f"The replay store cannot be opened: {error}",
                    where=self.path,
                    remedy="Make the folder writable, or end the process that holds the file.",
                ) from error
            warnings.warn(
                f"{self.path} is no replay store ({format_error(error)}); it is put aside",
                LMWarning,
                stacklevel=2,
            )
            Path(self.path).replace(self.path + ".damaged")
            self._connection = self._open()

    def __deepcopy__(self, memo: dict[int, Any]) -> ReplayStore:
        return self

    def _open(self) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self.path, timeout=_BUSY_S, isolation_level=None, check_same_thread=False, cached_statements=8
        )
        try:
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute("PRAGMA synchronous=NORMAL")
            connection.execute(
                "CREATE TABLE IF NOT EXISTS answers (key TEXT PRIMARY KEY, response TEXT NOT NULL)"
            )
        except BaseException:
            connection.close()
            raise
        return connection

    def get(self, key: str) -> Response | None:
        """The stored answer, or None. `key` is that of `request_key`."""
        with self._lock:
            if self._asked is not None and key not in self._asked:
                return None
            row = self._connection.execute("SELECT response FROM answers WHERE key = ?", (key,)).fetchone()
        if row is None:
            return None
        try:
            return cast("Response", response_from_dict(json.loads(row[0])))
        except Exception as error:
            warnings.warn(
                f"{self.path}: the entry {key[:12]} is damaged and is asked anew ({format_error(error)})",
                LMWarning,
                stacklevel=2,
            )
            return None

    def put(self, key: str, response: Response) -> None:
        """Store an answer. What another process has stored meanwhile stays, so that all see the same."""
        text = json.dumps(response_to_dict(response), sort_keys=True)
        with self._lock, contextlib.closing(self._connection.cursor()) as cursor:
            cursor.execute("BEGIN IMMEDIATE")
            row = cursor.execute("SELECT response FROM answers WHERE key = ?", (key,)).fetchone()
            replaces = self._asked is not None and key not in self._asked
            if row is None or replaces or not _readable(row[0]):
                cursor.execute("INSERT OR REPLACE INTO answers VALUES (?, ?)", (key, text))
            cursor.execute("COMMIT")
            if self._asked is not None:
                self._asked.add(key)

    def __len__(self) -> int:
        with self._lock:
            return int(self._connection.execute("SELECT count(*) FROM answers").fetchone()[0])

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._connection.close()


class ReplayEngine(WrappedEngine):
    """An engine that answers a repeated request from a store.

    Only requests at temperature 0 are stored; one without a temperature is not, since its default is the
    model's. A replayed answer carries the usage of the first time, and `is_replayed` tells it.

    Args:
        inner: The engine within.
        store: The store.
    """

    def __init__(self, inner: Any, store: ReplayStore) -> None:
        super().__init__(inner, inner)
        self.store = store
        self._identity = engine_identity(inner)
        self._turns = _Turns()

    def key(self, request: Request) -> str | None:
        """The request's key in the store; None if it is not to be stored."""
        return request_key(request, self._identity) if request.config.temperature == 0 else None

    def will_replay(self, request: Request) -> bool:
        """Whether the answer is there already."""
        return self._stored(self.key(request)) is not None

    def complete(self, request: Request) -> Response:
        """The stored answer, else that of the engine within; threads with one question ask it once."""
        key = self.key(request)
        with self._turns.of(key):
            if (stored := self._stored(key)) is not None:
                return stored
            return self._keep(key, self.inner.complete(request))

    def stream(self, request: Request) -> Iterator[Any]:
        """As `complete`, event by event."""
        key = self.key(request)
        if (stored := self._stored(key)) is not None:
            yield from small_events(stored)
            return
        whole = StreamAccumulator(request)
        for event in self._events(request):
            whole.push(event)
            if event.type == "end":
                self._keep(key, whole.response())
            yield event

    def _stored(self, key: str | None) -> Response | None:
        found = self.store.get(key) if key is not None else None
        return as_replayed(found) if found is not None and is_answer(found) else None

    def _keep(self, key: str | None, response: Response) -> Response:
        # A truncated answer is as repeatable as any other; a failed call, or one without an answer, leaves nothing.
        if key is not None and is_answer(response):
            self.store.put(key, response)
        return response


class _Turns:
    """Lets the threads with one key wait for another, so that a run counts the same calls however many ask at once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: dict[str, list[Any]] = {}

    @contextlib.contextmanager
    def of(self, key: str | None) -> Iterator[None]:
        if key is None:
            yield
            return
        with self._lock:
            held = self._held.setdefault(key, [threading.Lock(), 0])
            held[1] += 1
        try:
            with held[0]:
                yield
        finally:
            with self._lock:
                held[1] -= 1
                if not held[1]:
                    del self._held[key]


class AsyncReplayEngine(WrappedEngine):
    """The asynchronous twin of a `ReplayEngine`, over the same store and under the same keys.

    Args:
        inner: The asynchronous engine within.
        twin: The synchronous replay engine.
    """

    def __init__(self, inner: Any, twin: ReplayEngine) -> None:
        super().__init__(inner, twin)
        self.twin = twin

    async def complete(self, request: Request) -> Response:
        """As `ReplayEngine.complete`."""
        key = self.twin.key(request)
        if (stored := self.twin._stored(key)) is not None:
            return stored
        return self.twin._keep(key, await self.inner.complete(request))

    async def stream(self, request: Request) -> AsyncIterator[Any]:
        """As `ReplayEngine.stream`."""
        key = self.twin.key(request)
        if (stored := self.twin._stored(key)) is not None:
            for event in small_events(stored):
                yield event
            return
        whole = StreamAccumulator(request)
        async for event in self._aevents(request):
            whole.push(event)
            if event.type == "end":
                self.twin._keep(key, whole.response())
            yield event


def replayed(lm: dspy.LM, store: ReplayStore) -> dspy.LM:
    """A copy of a language model that answers repeated requests from a store.

    Raises:
        LMSettingsError: The model is not a `dspy.LM`.
    """
    engine, async_engine = engines_of(lm)
    around = ReplayEngine(engine, store)
    return with_engines(
        lm, around, AsyncReplayEngine(async_engine, around) if async_engine is not None else None
    )


def as_replayed(response: Response) -> Response:
    """The response, marked as one that came from a store."""
    return replace(response, provider_data={_MARK: True})


def is_replayed(response: Any) -> bool:
    """Whether a response, or the end event of a stream, came from a replay store."""
    return bool((response.provider_data or {}).get(_MARK))


def is_answer(response: Response) -> bool:
    """Whether a response is one to keep: not an outage, nor what a filter has stopped."""
    outcome = outcome_of(response)
    answered = bool(outcome.text.strip()) or outcome.finish == "tool_call"
    return answered and outcome.finish not in ("content_filter", "error")


def _readable(text: str) -> bool:
    try:
        return is_answer(response_from_dict(json.loads(text)))
    except Exception:
        return False
