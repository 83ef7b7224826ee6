"""A language model that is called by file: requests are written in the batch format, answers are read back.

The files are JSON lines, appended to by processes that may be killed at any time.
"""

from __future__ import annotations

import contextlib
import json
import os
import threading
import warnings
from collections.abc import Iterator
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


def request_line(request: Request) -> dict[str, Any]:
    """A request as one object of the batch format: ``custom_id``, ``method``, ``url``, ``body``.

    The ``custom_id`` is a digest of the body: messages, schema, settings and the stated model.
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
    return batch_line(body)


def batch_line(body: dict[str, Any]) -> dict[str, Any]:
    """A body, as `request_line` writes it, as one object of the batch format."""
    key = f"jazzmine-{sha256(canonical_json(body))[:40]}"
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
        line = request_line(request)
        key = str(line["custom_id"])
        if (answer := self._answer(key)) is None:
            raise self._awaited(key, canonical_json(line))
        text, finish, usage = answer
        return text_response(request, text, finish=finish, usage=usage)

    async def acomplete(self, request: Request) -> Response:
        """As `complete`: nothing waits."""
        return self.complete(request)

    def _answer(self, key: str) -> Answer | None:
        return self._answers.get(key)

    def _awaited(self, key: str, line: str) -> Awaiting:
        try:
            with self._lock, folder_errors(self.folder):
                self._write(key, line)
        except InputError as problem:
            return Awaiting(str(self.folder), [key], problem)
        return Awaiting(str(self.folder), [key])

    def _write(self, key: str, line: str) -> None:
        of = current_conversation()
        note = canonical_json({"conversation": of, "custom_id": key}) if of else ""
        noted = not note or note in self._notes
        if noted and key in self._written:
            return
        with locked(self.folder):
            self._look()
            append(self.folder / REQUESTS, *(() if key in self._written else (line,)))
            append(self.folder / CONVERSATIONS, *(() if noted else (note,)))
            self._written.add(key)
            self._notes.add(note)
            self._size = _size(self.folder / REQUESTS)

    def _look(self) -> None:
        """Read the requests again where another process has added some."""
        path = self.folder / REQUESTS
        if (size := _size(path)) != self._size:
            self._size, self._written = size, set(read_rows(path))


def deferred_lm(folder: str | Path, model: str = "unnamed", **settings: Any) -> dspy.LM:
    """A language model that writes its requests to a folder and reads its answers there.

    Args:
        folder: Has ``requests.jsonl``, and ``answers.jsonl`` once there are any.
        model: The name of the model that is to answer, as the requests state it.
        settings: ``temperature`` (0 unless given) and ``max_tokens``.
    """
    return lm_of(DeferredEngine(folder), model, f"{PREFIX}{folder}", settings)


def lm_of(engine: DeferredEngine, model: str, where: str, settings: dict[str, Any]) -> dspy.LM:
    """The language model around an engine; its name and all that makes a key are the same for each of them."""
    if unknown := sorted(set(settings) - {"temperature", "max_tokens"}):
        raise LMSettingsError(
            f"A deferred model has no setting {', '.join(unknown)}",
            where=where,
            remedy="Settings are max_tokens, model, temperature.",
        )
    return dspy.LM(
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

    with portalocker.Lock(folder / ".lock", "ab", flags=portalocker.LockFlags.EXCLUSIVE):
        yield


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
