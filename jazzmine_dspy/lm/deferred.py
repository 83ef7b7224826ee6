"""A language model that is called by file: requests are written in the batch format, answers are read back.

The files are JSON lines, appended to by processes that may be killed at any time.
"""

from __future__ import annotations

import contextlib
import contextvars
import json
import os
import threading
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dspy

from jazzmine_dspy.lm.dspy_api import Request, Response, Usage
from jazzmine_dspy.lm.engines import AsyncEngine, Engine, chat_messages, response_schema, text_response
from jazzmine_dspy.lm.errors import LMSettingsError, LMWarning
from jazzmine_dspy.models.awaiting import Awaiting, current_conversation
from jazzmine_dspy.models.base import canonical_json, sha256
from jazzmine_dspy.models.errors import InputError

PREFIX = "deferred:"
REQUESTS = "requests.jsonl"
ANSWERS = "answers.jsonl"
RECORDING = "recording.toml"
CONVERSATIONS = "conversations.jsonl"
"""Which conversation a request belongs to, by digest: services refuse request lines with fields of their own."""

_SHOWN = 20
Answer = tuple[str, str, Usage]
"""Text, reason of the end and usage."""


@dataclass
class _Samples:
    """What tells apart the samples of one call; an engine is not handed these."""

    rollout: Any
    many: int
    asked: int = 0


_SAMPLES: contextvars.ContextVar[_Samples | None] = contextvars.ContextVar("jazzmine_samples", default=None)


def request_line(request: Request, *, rollout: Any = None, ordinal: int = 0) -> dict[str, Any]:
    """A request as one object of the batch format: ``custom_id``, ``method``, ``url``, ``body``.

    The ``custom_id`` is a digest of the body (messages, schema, settings and the stated model), the rollout and the
    ordinal.

    Args:
        request: What is asked.
        rollout: DSPy's ``rollout_id``.
        ordinal: Which of the ``n`` samples of one call, from 0.
    """
    config = request.config
    body: dict[str, Any] = {
        "model": request.model.partition("/")[2] or request.model,
        "messages": chat_messages(request),
    }
    for name in ("temperature", "top_p", "max_tokens", "stop"):
        if (value := getattr(config, name, None)) not in (None, (), []):
            body[name] = value
    if (schema := response_schema(request)) is not None:
        named = {"name": "answer", "schema": schema}
        body["response_format"] = {"type": "json_schema", "json_schema": named}
    text = canonical_json(body) + (
        canonical_json([rollout, ordinal]) if rollout is not None or ordinal else ""
    )
    key = f"jazzmine-{sha256(text)[:40]}"
    return {"custom_id": key, "method": "POST", "url": "/v1/chat/completions", "body": body}


class DeferredEngine(Engine):
    """An engine that answers from ``FOLDER/answers.jsonl``, and else writes to ``FOLDER/requests.jsonl``. Thread-safe;
    processes may share the folder.

    Args:
        folder: Made when it is missing.
    """

    supports_response_schema = True
    supported_params = frozenset({"temperature", "top_p", "max_tokens", "stop", "response_format"})
    identity = "deferred"
    asks_again = False
    """Whether a refused part of an answer is asked for once more."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self._lock = threading.Lock()
        self._size = 0
        self._written: set[str] = set()
        self._notes: set[str] = set()
        with folder_errors(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
            self._look()
            self._answers = read_answers(self.folder, self._written or None)

    def complete(self, request: Request) -> Response:
        """The answer, if it is there.

        Raises:
            Awaiting: It is not; the request is written, or the ``problem`` says why it cannot be.
        """
        samples = _SAMPLES.get() or _Samples(None, 1)
        first = samples.asked
        samples.asked += 1
        # Where one sample of a call is awaited, those after it are requested with it.
        lines = [
            request_line(request, rollout=samples.rollout, ordinal=ordinal)
            for ordinal in range(first, max(samples.many, first + 1))
        ]
        if (answer := self._answer(lines[0]["custom_id"])) is None:
            wanted = {line["custom_id"]: canonical_json(line) for line in lines}
            raise self._awaited({key: line for key, line in wanted.items() if key not in self._answers})
        text, finish, usage = answer
        return text_response(request, text, finish=finish, usage=usage)

    async def acomplete(self, request: Request) -> Response:
        """As `complete`: nothing waits."""
        return self.complete(request)

    def key_of(self, request: Request) -> str:
        """The ``custom_id`` of the next call: a repetition under the same key is no other request."""
        samples = _SAMPLES.get() or _Samples(None, 1)
        return str(request_line(request, rollout=samples.rollout, ordinal=samples.asked)["custom_id"])

    def _answer(self, key: str) -> Answer | None:
        return self._answers.get(key)

    def _awaited(self, missing: dict[str, str]) -> Awaiting:
        try:
            with self._lock, folder_errors(self.folder):
                self._write(missing)
        except InputError as problem:
            return Awaiting(str(self.folder), missing, problem)
        return Awaiting(str(self.folder), missing)

    def _write(self, missing: dict[str, str]) -> None:
        of = current_conversation()
        notes = {canonical_json({"conversation": of, "custom_id": key}) for key in missing} if of else set()
        notes -= self._notes
        if not notes and self._written.issuperset(missing):
            return
        with locked(self.folder):
            self._look()
            append(self.folder / REQUESTS, *(missing[key] for key in missing if key not in self._written))
            append(self.folder / CONVERSATIONS, *sorted(notes))
            self._written.update(missing)
            self._notes |= notes
            self._size = _size(self.folder / REQUESTS)

    def _look(self) -> None:
        """Read the requests again where another process has added some."""
        path = self.folder / REQUESTS
        if (size := _size(path)) != self._size:
            self._size, self._written = size, set(read_rows(path))


class DeferredLM(dspy.LM):
    """A language model that tells a `DeferredEngine` which rollout, and which of several samples, is asked for."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """As that of `dspy.LM`."""
        with self._samples(kwargs):
            return super().__call__(*args, **kwargs)

    async def acall(self, *args: Any, **kwargs: Any) -> Any:
        """As that of `dspy.LM`."""
        with self._samples(kwargs):
            return await super().acall(*args, **kwargs)

    @contextlib.contextmanager
    def _samples(self, given: dict[str, Any]) -> Iterator[None]:
        settings = self.kwargs | given
        token = _SAMPLES.set(_Samples(settings.get("rollout_id"), settings.get("n") or 1))
        try:
            yield
        finally:
            _SAMPLES.reset(token)


def deferred_lm(folder: str | Path, model: str = "unnamed", **settings: Any) -> DeferredLM:
    """A language model that writes its requests to a folder and reads its answers there.

    Args:
        folder: Has ``requests.jsonl``, and ``answers.jsonl`` once there are any.
        model: The name of the model that is to answer, as the requests state it.
        settings: ``temperature`` (0 unless given) and ``max_tokens``.
    """
    return lm_of(DeferredEngine(folder), model, f"{PREFIX}{folder}", settings)


def lm_of(engine: DeferredEngine, model: str, where: str, settings: dict[str, Any]) -> DeferredLM:
    """The language model around an engine; its name and all that makes a key are the same for each of them."""
    if unknown := sorted(set(settings) - {"temperature", "max_tokens"}):
        raise LMSettingsError(
            f"A deferred model has no setting {', '.join(unknown)}",
            where=where,
            remedy="Settings are max_tokens, model, temperature.",
        )
    return DeferredLM(
        f"deferred/{model}",
        engine=engine,
        async_engine=AsyncEngine(engine),
        cache=False,
        num_retries=0,
        **({"temperature": 0.0} | settings),
    )


@contextlib.contextmanager
def folder_errors(folder: Path) -> Iterator[None]:
    """Within it, a file that cannot be read or written is an `InputError`."""
    try:
        yield
    except OSError as error:
        raise InputError(
            f"The folder of deferred answers cannot be used: {error.strerror or error}",
            where=str(error.filename or folder),
            remedy="Make room, or make the folder writable; then call the command again.",
        ) from error


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Within it, no other process writes to the folder."""
    import portalocker  # it looks for folders that it can write when it is imported

    with (folder / ".lock").open("ab") as file:
        portalocker.lock(file, portalocker.LockFlags.EXCLUSIVE)
        try:
            yield
        finally:
            portalocker.unlock(file)


def append(path: Path, *lines: str) -> None:
    """Add lines, all or none; after a line that a killed process left half written, on a new one."""
    if not lines:
        return
    # With a buffer, what did not fit would be tried again when the file is closed.
    with path.open("ab+", buffering=0) as file:
        end = file.seek(0, os.SEEK_END)
        file.seek(max(0, end - 1))
        torn = file.read(1) not in (b"", b"\n")
        rest = memoryview(b"\n" * torn + b"".join(line.encode() + b"\n" for line in lines))
        try:
            while rest:
                rest = rest[file.write(rest) or 0 :]
        except OSError as error:
            file.truncate(end)
            error.filename = str(path)
            raise


def sort_requests(folder: str | Path) -> None:
    """Sort the requests of a folder by ``custom_id``, each line once.

    The same run then writes the same file, however many turns it decided at once. A recording stays as it is, and so
    does a file for whose sorted copy there is no room.

    Args:
        folder: Of deferred answers.
    """
    folder = Path(folder)
    if (folder / RECORDING).exists():
        return
    # All requests are there, in any order.
    with contextlib.suppress(OSError), locked(folder):
        for path in (folder / REQUESTS, folder / CONVERSATIONS):
            text = path.read_bytes() if path.exists() else b""
            lines = {(str(row["custom_id"]), line) for line in text.splitlines() if (row := row_of(line))}
            ordered = b"".join(line + b"\n" for _, line in sorted(lines))
            if ordered == text:
                continue
            copy = path.with_suffix(f".{os.getpid()}.tmp")
            try:
                copy.write_bytes(ordered)
                copy.replace(path)
            finally:
                copy.unlink(missing_ok=True)


def read_rows(path: Path) -> dict[str, dict[str, Any]]:
    """The objects of a file by ``custom_id``, in their order; the first of each, and none where there is no file."""
    rows: dict[str, dict[str, Any]] = {}
    for _, row in _numbered(path):
        if row is not None:
            rows.setdefault(str(row["custom_id"]), row)
    return rows


def read_conversations(folder: Path) -> dict[str, set[str]]:
    """The conversations of each request by ``custom_id``, as far as evaluations noted them."""
    conversations: dict[str, set[str]] = {}
    for _, row in _numbered(folder / CONVERSATIONS):
        if row is not None and isinstance(row.get("conversation"), str):
            conversations.setdefault(str(row["custom_id"]), set()).add(row["conversation"])
    return conversations


def read_answers(folder: Path, known: set[str] | None) -> dict[str, Answer]:
    """The answers of a folder by ``custom_id``; the first of a key counts.

    Args:
        folder: With ``answers.jsonl``, or without it.
        known: Keys of the requests; None where they are not known.

    Warns:
        LMWarning: Lines that cannot be used, with their numbers. The rest is.
    """
    path = folder / ANSWERS
    answers: dict[str, Answer] = {}
    wrong: dict[str, list[int]] = {}
    for number, row in _numbered(path):
        key = str(row["custom_id"]) if row else ""
        answer = _parsed_answer(row) if row else None
        problems = {
            "are not a JSON object with a custom_id": row is None,
            "hold no answer": answer is None,
            "answer no request that was written": known is not None and key not in known,
            "answer a request again; the first answer counts": key in answers,
        }
        if (problem := next((what for what, holds in problems.items() if holds), None)) is not None:
            wrong.setdefault(problem, []).append(number)
        elif answer is not None:
            answers[key] = answer
    for what, numbers in wrong.items():
        places = ", ".join(map(str, numbers[:_SHOWN])) + (", …" if len(numbers) > _SHOWN else "")
        warnings.warn(f"{path}: {len(numbers)} lines {what}: {places}", LMWarning, stacklevel=2)
    return answers


def _numbered(path: Path) -> Iterator[tuple[int, dict[str, Any] | None]]:
    """Number and object of each line that is not empty; None for one without a ``custom_id``."""
    for number, line in enumerate(path.read_bytes().splitlines() if path.exists() else (), 1):
        if line.strip():
            yield number, row_of(line)


def _parsed_answer(row: dict[str, Any]) -> Answer | None:
    if "content" in row:
        content = canonical_json(row["content"]) if isinstance(row["content"], dict) else row["content"]
        return (content, "stop", Usage()) if isinstance(content, str) else None
    try:
        body = {} if row.get("error") or row["response"]["status_code"] != 200 else row["response"]["body"]
        choice, usage = body["choices"][0], body.get("usage") or {}
        finish, text = choice.get("finish_reason") or "stop", choice["message"]["content"]
        if finish == "content_filter":
            return text or "", finish, Usage()
        sent, answered = usage.get("prompt_tokens"), usage.get("completion_tokens")
    except (KeyError, IndexError, TypeError, AttributeError):
        return None
    if not isinstance(text, str) or not text.strip():
        return None
    counts = type(sent) is int and type(answered) is int
    reported = Usage(input_tokens=sent, output_tokens=answered) if counts else Usage()
    return text, "length" if finish == "length" else "stop", reported


def row_of(line: bytes) -> dict[str, Any] | None:
    """The object of a line, if it is one with a ``custom_id``."""
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return row if isinstance(row, dict) and isinstance(row.get("custom_id"), str) else None


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0
