"""A language model that is asked by file: requests are written in the batch format, answers read back."""

from __future__ import annotations

import contextlib
import contextvars
import hashlib
import threading
from collections.abc import AsyncIterator, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dspy
from dspy.lm15 import Request, Response, Usage

from jazzmine_dspy.lm.deferred_files import (
    CONVERSATIONS,
    REQUESTS,
    append,
    compact,
    locked,
    read_answers,
    read_conversations,
    read_rows,
    told,
)
from jazzmine_dspy.lm.errors import LMSettingsError
from jazzmine_dspy.lm.requests import chat_messages, response_schema, small_events, text_response
from jazzmine_dspy.models.awaiting import Awaiting, current_conversation
from jazzmine_dspy.models.errors import InputError

PREFIX = "deferred:"


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
        held = {"name": "answer", "schema": schema}
        body["response_format"] = {"type": "json_schema", "json_schema": held}
    told = compact(body) + (compact([rollout, ordinal]) if rollout is not None or ordinal else "")
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
        self._seen = [0, 0]
        self._asked: set[str] = set()
        self._of: dict[str, set[str]] = {}
        with told(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
            self._look()
            self._answers = read_answers(self.folder, self._asked or None)

    def __deepcopy__(self, memo: dict[int, Any]) -> DeferredEngine:
        return self

    def complete(self, request: Request) -> Response:
        """The answer, if it is there.

        Raises:
            Awaiting: It is not; the request is written, or the ``problem`` says why it cannot be.
        """
        samples = _SAMPLES.get() or _Samples(None, 1)
        first = samples.asked
        samples.asked += 1
        # Where one sample of a call is awaited, those after it are asked about with it.
        lines = [
            request_line(request, rollout=samples.rollout, ordinal=ordinal)
            for ordinal in range(first, max(samples.many, first + 1))
        ]
        if (found := self._found(lines[0]["custom_id"])) is None:
            missing = {
                line["custom_id"]: compact(line) for line in lines if line["custom_id"] not in self._answers
            }
            raise self._awaited(missing)
        content, finish, usage = found
        return text_response(request, content, finish=finish, usage=usage)

    def key_of(self, request: Request) -> str:
        """The ``custom_id`` of the call that is made next: what is asked again under it is no other request."""
        samples = _SAMPLES.get() or _Samples(None, 1)
        return str(request_line(request, rollout=samples.rollout, ordinal=samples.asked)["custom_id"])

    def stream(self, request: Request) -> Iterator[Any]:
        """The answer, a word at a time."""
        return small_events(self.complete(request))

    def close(self) -> None:
        """Nothing to close."""

    def _found(self, key: str) -> tuple[str, str, Usage] | None:
        return self._answers.get(key)

    def _awaited(self, missing: dict[str, str]) -> Awaiting:
        try:
            with self._lock, told(self.folder):
                self._write(missing)
        except InputError as problem:
            return Awaiting(str(self.folder), missing, problem)
        return Awaiting(str(self.folder), missing)

    def _write(self, missing: dict[str, str]) -> None:
        of = current_conversation()
        if self._asked.issuperset(missing) and not self._unnoted(missing, of):
            return
        with locked(self.folder):
            self._look()
            if new := [key for key in missing if key not in self._asked]:
                append(self.folder / REQUESTS, *(missing[key] for key in new))
                self._asked.update(new)
            if unnoted := self._unnoted(missing, of):
                notes = [compact({"conversation": of, "custom_id": key}) for key in unnoted]
                append(self.folder / CONVERSATIONS, *notes)
                for key in unnoted:
                    self._of.setdefault(key, set()).add(of)
            self._seen = self._sizes()

    def _unnoted(self, keys: Iterable[str], of: str) -> list[str]:
        return [key for key in keys if of not in self._of.get(key, ())] if of else []

    def _look(self) -> None:
        """Read the files anew where another process has added to them."""
        if (sizes := self._sizes()) != self._seen:
            self._asked = set(read_rows(self.folder / REQUESTS))
            self._of = read_conversations(self.folder)
            self._seen = sizes

    def _sizes(self) -> list[int]:
        paths = (self.folder / REQUESTS, self.folder / CONVERSATIONS)
        return [path.stat().st_size if path.exists() else 0 for path in paths]


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
        async_engine=AsyncDeferredEngine(engine),
        cache=False,
        num_retries=0,
        **({"temperature": 0.0} | settings),
    )
