"""The embedded language model: llama.cpp in a child process, behind DSPy's engine interface."""

from __future__ import annotations

import asyncio
import contextlib
import json
import queue
import time
import weakref
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import TimeoutError as FutureTimeoutError
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, cast

from dspy.lm15 import (
    Request,
    Response,
    StreamDeltaEvent,
    StreamEndEvent,
    StreamStartEvent,
    TextDelta,
    TokenLogprob,
    TopLogprob,
    Usage,
)

from jazzmine_dspy.lm import _process
from jazzmine_dspy.lm._settings import LocalSettings, call_deadline, call_limit
from jazzmine_dspy.lm.errors import (
    EngineError,
    LMContextError,
    LMRequestError,
    LMSchemaError,
    LMTimeoutError,
)
from jazzmine_dspy.lm.requests import chat_messages, response_schema, text_response
from jazzmine_dspy.lm.weights import Weights, embedded_weights, file_weights


class LocalEngine:
    """A DSPy engine over one llama.cpp process, which all engines of the same weights and settings share.

    A crash of native code ends no run: the process is started anew and the call repeated once.

    Args:
        weights: The model file; None for the embedded SmolLM2-135M-Instruct.
        settings: How it runs.
        name: What errors and `identity` call it.

    Raises:
        LMNotFoundError: The model is not installed.
    """

    supports_response_schema = True
    supports_function_calling = False
    supports_reasoning = False
    supported_params = frozenset(
        {
            "temperature",
            "max_tokens",
            "top_p",
            "top_k",
            "stop",
            "seed",
            "presence_penalty",
            "frequency_penalty",
            "response_format",
            "logprobs",
            "top_logprobs",
            "stream",
        }
    )

    def __init__(
        self,
        weights: Weights | None = None,
        settings: LocalSettings | None = None,
        *,
        name: str = "smollm2-135m",
    ) -> None:
        self.weights = weights or embedded_weights()
        self.settings = settings or LocalSettings()
        self.name = name
        self._key, self._process = _process.acquire(
            {
                "path": str(self.weights.path),
                "n_ctx": self.settings.n_ctx,
                "threads": self.settings.thread_count,
                "prompt_cache": self.settings.prompt_cache,
                "prefix_cache": self.settings.prefix_cache and not self.settings.prompt_cache,
            }
        )
        self._release = weakref.finalize(self, _process.release, self._key)

    def __deepcopy__(self, memo: dict[int, Any]) -> LocalEngine:
        # Optimizers copy programs by the dozen; a process is not copied with them.
        return self

    def __copy__(self) -> LocalEngine:
        return self

    @property
    def pid(self) -> int | None:
        """Process id of the child, or None before the first call."""
        return self._process.pid

    @property
    def identity(self) -> str:
        """Weights and settings: all that an answer to a given request depends on."""
        shaping = {
            "n_ctx": self.settings.n_ctx,
            "threads": self.settings.thread_count,
            "seed": self.settings.seed,
            "max_tokens": self.settings.max_tokens,
            "prompt_cache": self.settings.prompt_cache,
            "prefix_cache": self.settings.prefix_cache and not self.settings.prompt_cache,
            "schema_to_decoder": self.settings.schema_to_decoder,
        }
        return f"llama.cpp {self.name} sha256={self.weights.sha256} {json.dumps(shaping, sort_keys=True)}"

    def complete(self, request: Request) -> Response:
        """Answer a request.

        Raises:
            LMContextError: The prompt is longer than the context.
            LMSchemaError: The schema has no grammar.
            LMTimeoutError: The deadline has passed; the model gives the call up.
            LMCrashedError: The process died twice.
            LMRequestError: The request holds something other than text.
        """
        job, limit = self._submit(request)
        with _given_up(job):
            try:
                return self._response(request, job.future.result(_left(limit)))
            except FutureTimeoutError:
                raise self._late(job) from None

    def stream(self, request: Request) -> Iterator[Any]:
        """Answer a request in stream events, one for each token; errors are those of `complete`."""
        pieces: queue.Queue[str | None] = queue.Queue()
        job, limit = self._submit(request, pieces.put)
        job.future.add_done_callback(lambda _: pieces.put(None))
        with _given_up(job):
            yield StreamStartEvent(id=None, model=request.model)
            while True:
                try:
                    piece = pieces.get(timeout=_left(limit))
                except queue.Empty:
                    raise self._late(job) from None
                if piece is None:
                    break
                yield StreamDeltaEvent(delta=TextDelta(text=piece))
            yield _end(self._response(request, job.future.result()))

    def close(self) -> None:
        """Give the process back; the last engine that does so ends it."""
        self._release()

    def dump_state(self) -> dict[str, Any]:
        """Settings to make the engine anew; the embedded weights are named, never copied."""
        embedded = self.weights.path.name.startswith("SmolLM2-135M-Instruct.")
        return {
            "path": None if embedded else str(self.weights.path),
            "name": self.name,
            **asdict(self.settings),
        }

    @classmethod
    def load_state(cls, state: dict[str, Any]) -> LocalEngine:
        """The engine that `dump_state` described."""
        state = dict(state)
        path, name = state.pop("path"), state.pop("name")
        return cls(file_weights(Path(path)) if path else None, LocalSettings(**state), name=name)

    def _submit(self, request: Request, on_delta: Any = None) -> tuple[_process.Job, float | None]:
        schema = response_schema(request) if self.settings.schema_to_decoder else None
        message = {"body": self._body(request), "schema": schema, "stream": on_delta is not None}
        return self._process.submit(message, on_delta), call_limit(self.settings.timeout)

    def _body(self, request: Request) -> dict[str, Any]:
        config = request.config
        body = {
            "messages": chat_messages(request),
            "temperature": 0.0 if config.temperature is None else config.temperature,
            "max_tokens": config.max_tokens or self.settings.max_tokens,
            "seed": self.settings.seed if config.seed is None else config.seed,
            "cache_prompt": self.settings.prompt_cache,
        }
        given = {
            "top_p": config.top_p,
            "top_k": config.top_k,
            "stop": list(config.stop) or None,
            "frequency_penalty": config.frequency_penalty,
            "presence_penalty": config.presence_penalty,
        }
        if config.logprobs is not None:
            # Asked for no alternatives, llama.cpp still needs one to report the chosen token's own.
            body |= {"logprobs": True, "top_logprobs": max(1, config.logprobs)}
        return body | {key: value for key, value in given.items() if value is not None}

    def _response(self, request: Request, result: dict[str, Any]) -> Response:
        if result["op"] != "done":
            raise self._failure(result.get("error") or {})
        counted = result["usage"] or {}
        usage = Usage(
            input_tokens=counted.get("prompt_tokens"),
            output_tokens=counted.get("completion_tokens"),
            cache_read_tokens=(counted.get("prompt_tokens_details") or {}).get("cached_tokens"),
        )
        # llama.cpp calls it a stop when the context is full.
        full = (usage.total_tokens or 0) >= self.settings.n_ctx
        finish = "length" if full or result["finish"] == "length" else "stop"
        response = text_response(request, result["text"], finish=finish, usage=usage)
        logprobs = tuple(_logprob(entry) for entry in result["logprobs"]) or None
        return replace(response, logprobs=logprobs, provider_data={"timings": result["timings"]})

    def _failure(self, error: dict[str, Any]) -> EngineError:
        kind, said = error.get("kind", ""), error.get("message", "it was given up")
        if kind == "exceed_context_size_error":
            return LMContextError(
                f"The prompt has {error.get('n_prompt_tokens')} tokens, the context {error.get('n_ctx')}",
                where=self.name,
                remedy="Give fewer demonstrations or candidates, or a larger n_ctx.",
            )
        if kind == "schema" or "grammar" in said:
            return LMSchemaError(
                f"The answer's schema has no grammar: {said}",
                where=self.name,
                remedy="Check its $ref and type entries.",
            )
        return LMRequestError(f"llama.cpp refused the request: {said}", where=self.name)

    def _late(self, job: _process.Job) -> LMTimeoutError:
        waiting = not job.future.running()
        job.abort()
        return LMTimeoutError(
            "The call was still waiting for its turn at its deadline"
            if waiting
            else "The call did not end before its deadline and was given up",
            where=self.name,
            remedy="Allow more time, or send fewer tokens.",
        )


class AsyncLocalEngine:
    """The asynchronous twin of a `LocalEngine`, over the same process.

    A cancelled call is given up in the model too, and the next one is not disturbed by it.

    Args:
        engine: The synchronous engine.
    """

    def __init__(self, engine: LocalEngine) -> None:
        self.engine = engine

    def __deepcopy__(self, memo: dict[int, Any]) -> AsyncLocalEngine:
        return self

    @property
    def identity(self) -> str:
        """As that of the synchronous engine."""
        return self.engine.identity

    async def complete(self, request: Request) -> Response:
        """As `LocalEngine.complete`, with the same errors."""
        job, limit = self.engine._submit(request)
        with _given_up(job):
            try:
                async with asyncio.timeout(_left(limit)):
                    result = await asyncio.wrap_future(job.future)
            except TimeoutError:
                raise self.engine._late(job) from None
            return self.engine._response(request, result)

    async def stream(self, request: Request) -> AsyncIterator[Any]:
        """As `LocalEngine.stream`, with the same errors."""
        loop = asyncio.get_running_loop()
        pieces: asyncio.Queue[str | None] = asyncio.Queue()

        def put(piece: str | None) -> None:
            # The loop may have been closed over an abandoned call.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(pieces.put_nowait, piece)

        job, limit = self.engine._submit(request, put)
        job.future.add_done_callback(lambda _: put(None))
        with _given_up(job):
            yield StreamStartEvent(id=None, model=request.model)
            while True:
                try:
                    piece = await asyncio.wait_for(pieces.get(), _left(limit))
                except TimeoutError:
                    raise self.engine._late(job) from None
                if piece is None:
                    break
                yield StreamDeltaEvent(delta=TextDelta(text=piece))
            yield _end(self.engine._response(request, job.future.result()))

    async def aclose(self) -> None:
        """Give the process back."""
        self.engine.close()

    def dump_state(self) -> dict[str, Any]:
        """As that of the synchronous engine."""
        return self.engine.dump_state()

    @classmethod
    def load_state(cls, state: dict[str, Any]) -> AsyncLocalEngine:
        """The twin of the engine that `dump_state` described."""
        return cls(LocalEngine.load_state(state))


@contextlib.contextmanager
def _given_up(job: _process.Job) -> Iterator[None]:
    """Give the call up when its caller goes away: cancelled, interrupted, or done with a stream early."""
    try:
        yield
    finally:
        if not job.future.done():
            job.abort()


def _left(limit: float | None) -> float | None:
    return None if limit is None else max(0.0, limit - time.monotonic())


def _end(response: Response) -> StreamEndEvent:
    return StreamEndEvent(
        finish_reason=response.finish_reason, usage=response.usage, provider_data=response.provider_data
    )


def _logprob(entry: dict[str, Any]) -> TokenLogprob:
    top = tuple(TopLogprob(token=each["token"], logprob=each["logprob"]) for each in entry["top_logprobs"])
    return cast("TokenLogprob", TokenLogprob(token=entry["token"], logprob=entry["logprob"], top=top))


__all__ = ["AsyncLocalEngine", "LocalEngine", "LocalSettings", "call_deadline"]
