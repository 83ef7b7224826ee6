"""A store of answers, so that a run can be repeated without calling the model again.

Unlike DSPy's cache it knows the weights and the engine's settings, marks its answers, counts the same usage as the
first time, and lives in a file of the project's own.
"""

from __future__ import annotations

import json
import sqlite3
import threading
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol, cast

import dspy
from dspy._vendor.lm15.serde import response_from_dict, response_to_dict
from dspy.lm15 import Request, Response

from jazzmine_dspy.lm.attempts import outcome_of
from jazzmine_dspy.lm.engines import Wrapper, request_key
from jazzmine_dspy.lm.errors import LMWarning
from jazzmine_dspy.lm.native import wrap
from jazzmine_dspy.models.base import Shared
from jazzmine_dspy.models.errors import InputError, format_error

_MARK = "jazzmine_replayed"
#: Seconds to wait for another process that is writing.
_BUSY_S = 30.0


class ReplayStore(Shared):
    """Answers by request, in an SQLite file. Threads and processes may share it.

    A damaged entry is skipped with an `LMWarning` and asked anew; a damaged file is put aside as
    NAME.damaged.

    Args:
        path: The file, made when it is missing; ":memory:" for none.
        fresh: Whether to ignore what the file holds; what is asked now takes its place.
    """

    def __init__(self, path: str | Path, *, fresh: bool = False) -> None:
        self.path = str(path)
        self._own: set[str] | None = set() if fresh else None
        """Keys of the answers that this object has stored, where no others count."""
        self._lock = threading.Lock()
        if self.path != ":memory:":
            Path(self.path).parent.mkdir(parents=True, exist_ok=True)
        try:
            self._connection = self._open()
        except sqlite3.OperationalError as error:
            raise InputError(
                f"The replay store cannot be opened: {error}",
                where=self.path,
                remedy="Make the folder writable, or end the process that holds the file.",
            ) from error
        except sqlite3.DatabaseError as error:
            warnings.warn(
                f"{self.path} is no replay store ({format_error(error)}); it is put aside",
                LMWarning,
                stacklevel=2,
            )
            Path(self.path).replace(self.path + ".damaged")
            self._connection = self._open()

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
        except sqlite3.Error:
            connection.close()
            raise
        return connection

    def key(self, request: Request, identity: str) -> str | None:
        """The key of a request at temperature 0; None for the others, whose answers are not stored.

        A request without a temperature counts as sampled, since its default is the model's.
        """
        return request_key(request, identity) if request.config.temperature == 0 else None

    def get(self, key: str) -> Response | None:
        """The stored answer, or None. `key` is that of `key()`."""
        if self._own is not None and key not in self._own:
            return None
        row = self._execute("SELECT response FROM answers WHERE key = ?", key)
        if row is None:
            return None
        try:
            return cast("Response", response_from_dict(json.loads(row[0])))
        except Exception as error:
            self._execute("DELETE FROM answers WHERE key = ? AND response = ?", key, row[0])
            warnings.warn(
                f"{self.path}: the entry {key[:12]} is damaged and is asked anew ({format_error(error)})",
                LMWarning,
                stacklevel=2,
            )
            return None

    def put(self, key: str, response: Response) -> None:
        """Store an answer. What another process has stored meanwhile stays, so that all see the same."""
        text = json.dumps(response_to_dict(response), sort_keys=True)
        kept = "IGNORE" if self._own is None or key in self._own else "REPLACE"
        self._execute(f"INSERT OR {kept} INTO answers VALUES (?, ?)", key, text)
        if self._own is not None:
            self._own.add(key)

    def __len__(self) -> int:
        return int(self._execute("SELECT count(*) FROM answers")[0])

    def _execute(self, statement: str, *values: str) -> Any:
        """Run a statement; the first row of its result."""
        with self._lock:
            return self._connection.execute(statement, values).fetchone()

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._connection.close()


class AnswerStore(Protocol):
    """Where answers are looked up before a model is called."""

    def key(self, request: Request, identity: str) -> str | None:
        """The key of a request to a model with this identity; None if its answer is not stored.

        It begins with two hexadecimal digits.
        """

    def get(self, key: str) -> Response | None:
        """The stored answer; None where the model is to be called."""

    def put(self, key: str, response: Response) -> None:
        """Store an answer."""


class ReplayEngine(Wrapper):
    """An engine that answers a repeated request from a store.

    A replayed answer carries the usage of the first time, and `is_replay` recognises it. A failed call, or one without
    an answer, leaves nothing.

    Args:
        inner: The engine within.
        store: The store.
    """

    def __init__(self, inner: Any, store: AnswerStore) -> None:
        super().__init__(inner)
        self.store = store
        self._identity = self.identity
        self._locks = [threading.Lock() for _ in range(256)]

    def key(self, request: Request) -> str | None:
        """The request's key in the store; None if it is not to be stored."""
        return self.store.key(request, self._identity)

    def complete(self, request: Request) -> Response:
        """The stored answer, else that of the engine within; threads with the same request call it once."""
        if (key := self.key(request)) is None:
            return cast("Response", self.inner.complete(request))
        # By the digest's first byte: the number of calls then does not depend on how many threads ask at once.
        with self._locks[int(key[:2], 16)]:
            if (stored := self.store.get(key)) is not None:
                return mark_replay(stored)
            response: Response = self.inner.complete(request)
            # A truncated answer is as repeatable as any other.
            if is_answer(response):
                self.store.put(key, response)
            return response


def replayed(lm: dspy.LM, store: AnswerStore) -> dspy.LM:
    """A copy of a language model that answers repeated requests from a store.

    Raises:
        LMSettingsError: The model is not a `dspy.LM`.
    """
    return wrap(lm, lambda engine: ReplayEngine(engine, store))


def mark_replay(response: Response) -> Response:
    """The response, marked as one that came from a store."""
    return replace(response, provider_data={_MARK: True})


def is_replay(response: Any) -> bool:
    """Whether a response, or the end event of a stream, came from a replay store."""
    return bool((response.provider_data or {}).get(_MARK))


def is_answer(response: Response) -> bool:
    """Whether a response is one to keep: not an outage, nor what a filter has stopped."""
    outcome = outcome_of(response)
    answered = bool(outcome.text.strip()) or outcome.finish == "tool_call"
    return answered and outcome.finish not in ("content_filter", "error")
