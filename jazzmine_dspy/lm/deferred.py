"""A language model that is asked by file: requests are written in the batch format, answers read back."""

from __future__ import annotations

import contextlib
import contextvars
import hashlib
import itertools
import json
import os
import threading
import warnings
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import dspy
from dspy.lm15 import Request, Response, Usage

from jazzmine_dspy.lm.errors import LMSettingsError, LMWarning
from jazzmine_dspy.lm.requests import chat_messages, response_schema, small_events, text_response
from jazzmine_dspy.models.awaiting import Awaiting
from jazzmine_dspy.models.errors import InputError

PREFIX = "deferred:"
_SHOWN = 20


@dataclass
class _Samples:
    """What tells apart the samples of one call; an engine is not handed these."""

    rollout: Any
    many: int
    ordinals: Iterator[int] = field(default_factory=itertools.count)


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
        held = {"name": "answer", "schema": schema}
        body["response_format"] = {"type": "json_schema", "json_schema": held}
    told = _text(body) + (_text([rollout, ordinal]) if rollout is not None or ordinal else "")
    key = "jazzmine-" + hashlib.sha256(told.encode()).hexdigest()[:40]
    return {"custom_id": key, "method": "POST", "url": "/v1/chat/completions", "body": body}


class DeferredEngine:
    """An engine that answers from ``FOLDER/answers.jsonl``, and else writes to ``FOLDER/requests.jsonl``. Thread-safe;
    processes may share the folder.

    Args:
        folder: Made when it is missing.
    """

    supports_response_schema = True
    supports_function_calling = False
    supports_reasoning = False
    supported_params = frozenset({"temperature", "top_p", "max_tokens", "stop", "response_format"})
    identity = "deferred"

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self._lock = threading.Lock()
        with self._told():
            self.folder.mkdir(parents=True, exist_ok=True)
            self._asked = _keys(self.folder / "requests.jsonl")
            self._answers = read_answers(self.folder, self._asked or None)

    def __deepcopy__(self, memo: dict[int, Any]) -> DeferredEngine:
        return self

    def complete(self, request: Request) -> Response:
        """The answer, if it is there.

        Raises:
            Awaiting: It is not; the request is written.
            InputError: The request cannot be written.
        """
        samples = _SAMPLES.get() or _Samples(None, 1)
        first = next(samples.ordinals)
        # Where one sample of a call is awaited, those after it are asked about with it.
        lines = [
            request_line(request, rollout=samples.rollout, ordinal=ordinal)
            for ordinal in range(first, max(samples.many, first + 1))
        ]
        if (found := self._answers.get(lines[0]["custom_id"])) is None:
            missing = {
                line["custom_id"]: _text(line) for line in lines if line["custom_id"] not in self._answers
            }
            with self._lock, self._told():
                for key, line in missing.items():
                    self._write(key, line)
            raise Awaiting(str(self.folder), missing)
        content, finish, usage = found
        return text_response(request, content, finish=finish, usage=usage)

    def stream(self, request: Request) -> Iterator[Any]:
        """The answer, a word at a time."""
        return small_events(self.complete(request))

    def close(self) -> None:
        """Nothing to close."""

    def _write(self, key: str, line: str) -> None:
        if key in self._asked:
            return
        path = self.folder / "requests.jsonl"
        with _locked(self.folder):
            self._asked |= _keys(path)
            if key not in self._asked:
                _append(path, line)
        self._asked.add(key)

    @contextlib.contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise InputError(
                f"The folder of deferred answers cannot be used: {error.strerror or error}",
                where=str(error.filename or self.folder),
                remedy="Make room, or make the folder writable; then call the command again.",
            ) from error


class AsyncDeferredEngine:
    """The asynchronous twin of a `DeferredEngine`."""

    def __init__(self, engine: DeferredEngine) -> None:
        self.engine = engine

    def __deepcopy__(self, memo: dict[int, Any]) -> AsyncDeferredEngine:
        return self

    async def complete(self, request: Request) -> Response:
        """As that of the synchronous engine."""
        return self.engine.complete(request)

    async def stream(self, request: Request) -> AsyncIterator[Any]:
        """As that of the synchronous engine."""
        for event in self.engine.stream(request):
            yield event

    async def aclose(self) -> None:
        """Nothing to close."""


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
        asked = self.kwargs | given
        token = _SAMPLES.set(_Samples(asked.get("rollout_id"), asked.get("n") or 1))
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
    if unknown := sorted(set(settings) - {"temperature", "max_tokens"}):
        raise LMSettingsError(
            f"A deferred model has no setting {', '.join(unknown)}",
            where=f"{PREFIX}{folder}",
            remedy="Settings are max_tokens, model, temperature.",
        )
    engine = DeferredEngine(folder)
    return DeferredLM(
        f"deferred/{model}",
        engine=engine,
        async_engine=AsyncDeferredEngine(engine),
        cache=False,
        num_retries=0,
        **({"temperature": 0.0} | settings),
    )


def arrange(folder: str | Path) -> None:
    """Sort the requests of a folder by ``custom_id``, so that the same run writes the same file, however many turns it
    asked about at once."""
    path = Path(folder) / "requests.jsonl"
    with _locked(Path(folder)):
        text = path.read_bytes()
        lines = {str(row["custom_id"]): line for line in text.splitlines() if (row := _object(line))}
        made = b"".join(lines[key] + b"\n" for key in sorted(lines))
        if made != text:
            beside = path.with_suffix(f".{os.getpid()}.tmp")
            beside.write_bytes(made)
            beside.replace(path)


def read_answers(folder: Path, known: set[str] | None) -> dict[str, tuple[str, str, Usage]]:
    """Text, reason of the end and usage by ``custom_id``; the first of a key counts.

    Warns:
        LMWarning: Lines that cannot be used, with their numbers. The rest is.
    """
    path = folder / "answers.jsonl"
    found: dict[str, tuple[str, str, Usage]] = {}
    wrong: dict[str, list[int]] = {}
    if not path.exists():
        return found
    for number, line in enumerate(path.read_bytes().splitlines(), 1):
        if not line.strip():
            continue
        row = _object(line)
        answer = _answer(row) if row else None
        key = str(row["custom_id"]) if row else ""
        if row is None:
            wrong.setdefault("are no JSON object with a custom_id", []).append(number)
        elif answer is None:
            wrong.setdefault("hold no answer", []).append(number)
        elif known is not None and key not in known:
            wrong.setdefault("answer no request that was written", []).append(number)
        elif key in found:
            wrong.setdefault("answer a request again; the first answer counts", []).append(number)
        else:
            found[key] = answer
    for what, numbers in wrong.items():
        shown = ", ".join(map(str, numbers[:_SHOWN])) + (", …" if len(numbers) > _SHOWN else "")
        warnings.warn(f"{path}: {len(numbers)} lines {what}: {shown}", LMWarning, stacklevel=2)
    return found


def _answer(row: dict[str, Any]) -> tuple[str, str, Usage] | None:
    if "content" in row:
        content = row["content"]
        text = content if isinstance(content, str) else _text(content) if isinstance(content, dict) else None
        return None if text is None else (text, "stop", Usage())
    try:
        response = row["response"]
        if row.get("error") or response["status_code"] != 200:
            return None
        choice = response["body"]["choices"][0]
        usage = response["body"].get("usage") or {}
        finish = choice.get("finish_reason") or "stop"
        text = choice["message"]["content"]
        sent, answered = usage.get("prompt_tokens"), usage.get("completion_tokens")
    except (KeyError, IndexError, TypeError, AttributeError):
        return None
    if not isinstance(text, str):
        return None
    counts = type(sent) is int and type(answered) is int
    told = Usage(input_tokens=sent, output_tokens=answered) if counts else Usage()
    return text, "length" if finish == "length" else "stop", told


def _append(path: Path, line: str) -> None:
    """Add a line; after a line that a killed process left half written, on a new one."""
    with path.open("ab+") as file:
        end = file.seek(0, os.SEEK_END)
        torn = False
        if end:
            file.seek(end - 1)
            torn = file.read(1) != b"\n"
        try:
            file.write(b"\n" * torn + line.encode() + b"\n")
            file.flush()
        except OSError:
            file.truncate(end)
            raise


def _keys(path: Path) -> set[str]:
    if not path.exists():
        return set()
    return {str(row["custom_id"]) for line in path.read_bytes().splitlines() if (row := _object(line))}


def _object(line: bytes) -> dict[str, Any] | None:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return row if isinstance(row, dict) and isinstance(row.get("custom_id"), str) else None


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    import portalocker  # it looks for folders that it can write when it is imported

    with (folder / ".lock").open("ab") as file:
        portalocker.lock(file, portalocker.LockFlags.EXCLUSIVE)
        try:
            yield
        finally:
            portalocker.unlock(file)
