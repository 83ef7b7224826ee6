"""Answers that were given before: a store that a run replays, and recordings that are evidence.

Unlike DSPy's cache, the store knows the weights and the engine's settings, marks its answers, counts the same usage as
the first time, and lives in a file of the project's own.
"""

from __future__ import annotations

import datetime as dt
import json
import sqlite3
import threading
import tomllib
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import dspy
from pydantic import Field, ValidationError

from jazzmine_dspy.lm.attempts import outcome_of
from jazzmine_dspy.lm.deferred import (
    RECORDING,
    REQUESTS,
    Answer,
    DeferredEngine,
    folder_errors,
    lm_of,
    read_answers,
    read_rows,
)
from jazzmine_dspy.lm.dspy_api import Request, Response, response_from_dict, response_to_dict
from jazzmine_dspy.lm.engines import Wrapper, request_key, unwrap
from jazzmine_dspy.lm.errors import LMWarning
from jazzmine_dspy.lm.native import wrap
from jazzmine_dspy.models.awaiting import Awaiting, Stale
from jazzmine_dspy.models.base import Shared, Value
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
                f"{self.path} is not a replay store ({format_error(error)}); it is moved aside",
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

        It begins with two hexadecimal digits.

        A request without a temperature counts as sampled, since its default is the model's.
        """
        return request_key(request, identity) if request.config.temperature == 0 else None

    def get(self, key: str) -> Response | None:
        """The stored answer, or None. `key` is that of `key()`."""
        if self._own is not None and key not in self._own:
            return None
        if (row := self._execute("SELECT response FROM answers WHERE key = ?", key)) is None:
            return None
        try:
            return cast("Response", response_from_dict(json.loads(row[0])))
        except Exception as error:
            self._execute("DELETE FROM answers WHERE key = ? AND response = ?", key, row[0])
            warnings.warn(
                f"{self.path}: the entry {key[:12]} is damaged and is requested again ({format_error(error)})",
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


class ReplayEngine(Wrapper):
    """An engine that answers a repeated request from a store.

    A replayed answer carries the usage of the first time, and `is_replay` recognises it. A failed call, or one without
    an answer, leaves nothing.

    Args:
        inner: The engine within.
        store: The store.
    """

    def __init__(self, inner: Any, store: ReplayStore) -> None:
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
                return replace(stored, provider_data={_MARK: True})
            response: Response = self.inner.complete(request)
            # A truncated answer is as repeatable as any other.
            if _is_answer(response):
                self.store.put(key, response)
            return response


def replayed(lm: dspy.LM, store: ReplayStore) -> dspy.LM:
    """A copy of a language model that answers repeated requests from a store.

    Raises:
        LMSettingsError: The model is not a `dspy.LM`.
    """
    return wrap(lm, lambda engine: ReplayEngine(engine, store))


def is_replay(response: Any) -> bool:
    """Whether a response, or the end event of a stream, came from a replay store."""
    return bool((response.provider_data or {}).get(_MARK))


def _is_answer(response: Response) -> bool:
    """Whether a response is one to keep: not an outage, nor what a filter has stopped."""
    outcome = outcome_of(response)
    answered = bool(outcome.text.strip()) or outcome.finish == "tool_call"
    return answered and outcome.finish not in ("content_filter", "error")


# --- recordings -------------------------------------------------------------------------------------------

RECORDED_PREFIX = "recording:"


class Recording(Value):
    """What a recording says of itself.

    A recording is a folder: ``recording.toml`` says what it is, ``requests.jsonl`` holds the key of each request and
    ``answers.jsonl`` the answers. It is never added to. What is asked now is looked up by the same keys as
    `deferred_lm` writes, so a prompt that has changed finds no answer: the recording is stale, and nothing is scored
    by it.

    Args:
        name: Its own.
        measured: What it was made to measure.
        dataset: The dataset or suite, with its fingerprint where it has one.
        part: The part of it, or which turns.
        program: The program that asked, with its fingerprint.
        kind: Of model, in plain words: "a large language model, asked in batches".
        rules: Under which it was answered.
        date: The day on which the last answer was given.
        model: The model as the requests state it, which is a part of their keys.
        prompts: Digests of the instructions that were sent.
    """

    name: str = Field(min_length=1)
    measured: str = Field(min_length=1)
    dataset: str = Field(min_length=1)
    part: str = Field(min_length=1)
    program: str = Field(min_length=1)
    kind: str = Field(min_length=1)
    rules: str = Field(min_length=1)
    date: dt.date
    model: str = Field(min_length=1)
    prompts: tuple[str, ...] = Field(min_length=1)

    @classmethod
    def read(cls, folder: str | Path) -> Recording:
        """The recording in a folder.

        Raises:
            InputError: There is none, or it does not say what it has to.
        """
        path = Path(folder) / RECORDING
        try:
            return cls.model_validate(tomllib.loads(path.read_text("utf-8")))
        except OSError as error:
            raise InputError(
                f"The recording cannot be read: {error.strerror or error}",
                where=str(path),
                remedy="Name the folder of a recording.",
            ) from error
        except (ValueError, ValidationError) as error:
            raise InputError(
                f"The recording is malformed: {first_problem(error)}", where=str(path), remedy="Correct it."
            ) from error


class RecordedEngine(DeferredEngine):
    """An engine that answers from a recording. Thread-safe; it writes nothing.

    ``used`` are the keys of the answers that were given so far.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self.recording = Recording.read(folder)
        with folder_errors(self.folder):
            self.keys = set(read_rows(self.folder / REQUESTS))
            self._answers = read_answers(self.folder, self.keys)
        self.used: set[str] = set()

    def _answer(self, key: str) -> Answer | None:
        if (answer := super()._answer(key)) is not None:
            self.used.add(key)
        return answer

    def _awaited(self, key: str, line: str) -> Awaiting:  # noqa: ARG002
        return Stale(str(self.folder), [key])


def recorded_lm(folder: str | Path, **settings: Any) -> dspy.LM:
    """A language model that answers from a recording, and in its place raises `Stale` where it holds no answer.

    Args:
        folder: Of the recording.
        settings: Those with which it was asked: ``temperature`` (0 unless given) and ``max_tokens``.

    Raises:
        InputError: It is none.
    """
    engine = RecordedEngine(folder)
    return lm_of(engine, engine.recording.model, f"{RECORDED_PREFIX}{folder}", settings)


def recording_summary(lms: Iterable[dspy.LM | None]) -> dict[str, Any] | None:
    """What a report says of the recording that these language models answered from; None where they did not."""
    engines = [engine for lm in lms if lm is not None and isinstance(engine := unwrap(lm)[1], RecordedEngine)]
    if not engines:
        return None
    recording = engines[0].recording
    facts = {name: str(getattr(recording, name)) for name in ("name", "kind", "date", "measured")}
    return {
        **facts,
        "answers": len(engines[0].keys),
        "used": len(set().union(*(engine.used for engine in engines))),
    }


def describe(summary: Mapping[str, Any]) -> str:
    """The result of `recording_summary` as a sentence."""
    return (
        f"{summary['used']} of {summary['answers']} recorded answers of {summary['kind']}, {summary['date']} "
        f"({summary['name']}); they say nothing about latency, or about how well a service follows a schema"
    )


def first_problem(error: Exception) -> str:
    """The first problem that a validation names."""
    first = error.errors()[0] if isinstance(error, ValidationError) else None
    return f"{'.'.join(map(str, first['loc']))}: {first['msg']}" if first else str(error)
