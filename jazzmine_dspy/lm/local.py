"""The embedded language model: llama.cpp's own server in a child process, behind DSPy's engine interface."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import AsyncIterator, Generator, Iterator
from dataclasses import dataclass
from typing import Any, cast

from jazzmine_dspy.lm.dspy_api import (
    Request,
    Response,
    StreamDeltaEvent,
    StreamEndEvent,
    StreamStartEvent,
    TextDelta,
    Usage,
)
from jazzmine_dspy.lm.engines import (
    Engine,
    call_limit,
    chat_messages,
    events_in_thread,
    response_schema,
    text_response,
)
from jazzmine_dspy.lm.errors import (
    EngineError,
    LMContextError,
    LMCrashedError,
    LMRequestError,
    LMSchemaError,
    LMSettingsError,
)
from jazzmine_dspy.lm.model_process import Call, DiedError, RefusedError, acquire, release
from jazzmine_dspy.lm.weights import ModelFile, embedded_weights
from jazzmine_dspy.models.base import in_thread

#: Threads without a prompt cache: the sums of floats, and so the answers, depend on their number.
DETERMINISTIC_THREADS = 2

# Compact JSON: in a small model's answers about a third of the tokens is white space. `lenient` passes over
# keywords without a grammar (uniqueItems, not, if): whoever reads the answer validates it anyway.
_GUIDANCE = {
    "whitespace_flexible": False,
    "item_separator": ",",
    "key_separator": ":",
    "lenient": True,
    "coerce_one_of": True,
}


@dataclass(frozen=True)
class LocalSettings:
    """How the embedded model runs.

    Args:
        n_ctx: Tokens of context, prompt and answer together.
        threads: CPU threads; None for 2 without a prompt cache, else the CPUs up to 4.
        seed: Of the sampler; without effect at temperature 0.
        max_tokens: Longest answer, unless the request says another.
        prompt_cache: Reuse the work on any prompt's beginning: faster, for serving. With it the same request may be
            answered differently. Without it, never: then the work is reused on the constant beginning of prompts (all
            messages but the last), always cut at the same place. So compiling and evaluating leave it off.
        schema_to_decoder: Hold answers to the schema of the request. False is for checking what that is worth.
        timeout: Seconds that a call may take, waiting included; None for no limit.

    Raises:
        LMSettingsError: A number is out of range.
    """

    n_ctx: int = 4096
    threads: int | None = None
    seed: int = 0
    max_tokens: int = 256
    prompt_cache: bool = False
    schema_to_decoder: bool = True
    timeout: float | None = 120.0

    def __post_init__(self) -> None:
        for name, least in (("n_ctx", 64), ("threads", 1), ("max_tokens", 1)):
            value = getattr(self, name)
            if value is not None and value < least:
                raise LMSettingsError(f"{name} is {value}", where="local", remedy=f"Give at least {least}.")

    @property
    def thread_count(self) -> int:
        """CPU threads that are really used."""
        return self.threads or (min(4, os.cpu_count() or 1) if self.prompt_cache else DETERMINISTIC_THREADS)


class LocalEngine(Engine):
    """A DSPy engine over one llama.cpp process, which all engines of the same weights and settings share.

    A crash of native code ends no run: the process is started again and the call repeated once. A cancelled or
    late call is cancelled in the model too, and the next one is not disturbed by it.

    Args:
        weights: The model file; None for the embedded SmolLM2-135M-Instruct.
        settings: How it runs.
        name: The model's name in errors and in `identity`.

    Raises:
        LMNotFoundError: The model is not installed.
    """

    supports_response_schema = True
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
            "stream",
        }
    )

    def __init__(
        self,
        weights: ModelFile | None = None,
        settings: LocalSettings | None = None,
        *,
        name: str = "smollm2-135m",
    ) -> None:
        self.weights = weights or embedded_weights()
        self.settings = settings or LocalSettings()
        self.name = name
        loaded = {
            "path": str(self.weights.path),
            "n_ctx": self.settings.n_ctx,
            "threads": self.settings.thread_count,
            "prompt_cache": self.settings.prompt_cache,
        }
        self._process = acquire(loaded, self)

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
            "prefix_cache": not self.settings.prompt_cache,
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
        return self._whole(request, Call(call_limit(self.settings.timeout)))

    async def acomplete(self, request: Request) -> Response:
        """As `complete`."""
        call = Call(call_limit(self.settings.timeout))
        try:
            return await in_thread(self._whole, request, call)
        finally:
            call.cancel()

    def stream(self, request: Request) -> Iterator[Any]:
        """Answer a request in stream events, one for each token; errors are those of `complete`."""
        return self._events(request, Call(call_limit(self.settings.timeout)))

    async def astream(self, request: Request) -> AsyncIterator[Any]:
        """As `stream`."""
        call = Call(call_limit(self.settings.timeout))
        events = self._events(request, call)
        try:
            async for event in events_in_thread(events):
                yield event
        finally:
            call.cancel()
            # While a thread waits for the next event, it closes them as it ends.
            with contextlib.suppress(ValueError):
                events.close()

    def close(self) -> None:
        """Give the process back; the last engine that does so ends it."""
        release(self._process, self)

    def _whole(self, request: Request, call: Call) -> Response:
        *_, response = self._pieces(request, call, again=True)
        return cast("Response", response)

    def _events(self, request: Request, call: Call) -> Generator[Any, None, None]:
        yield StreamStartEvent(id=None, model=request.model)
        for piece in self._pieces(request, call, again=False):
            if isinstance(piece, Response):
                piece = StreamEndEvent(finish_reason=piece.finish_reason, usage=piece.usage)
            yield piece

    def _pieces(self, request: Request, call: Call, *, again: bool) -> Iterator[Any]:
        """The answer in pieces, and at the end whole.

        Args:
            request: The request.
            call: The call of it.
            again: Whether pieces may come again from the beginning, after the process died.
        """
        attempts = 0
        while True:
            attempts += 1
            text: list[str] = []
            try:
                with self._process.slot(call):
                    yield from self._answer(request, call, text)
                return
            except RefusedError as refused:
                raise self._refusal(refused.error) from None
            except DiedError as death:
                if attempts > 1 or (text and not again):
                    raise LMCrashedError(
                        f"The model's process died {'twice over' if attempts > 1 else 'during'} one call ({death})",
                        where=self.name,
                        remedy="Check the free memory; a smaller n_ctx needs less of it.",
                    ) from None

    def _answer(self, request: Request, call: Call, text: list[str]) -> Iterator[Any]:
        process, body = self._process, self._body(request)
        schema = response_schema(request) if self.settings.schema_to_decoder else None
        if schema is not None:
            rules = json.dumps({**schema, "x-guidance": _GUIDANCE}, separators=(",", ":"))
            body["grammar"] = f"%llguidance {{}}\nstart: %json {rules}"
        body["cache_prompt"] = self.settings.prompt_cache or self._begin(body["messages"][:-1], call)
        process.clear_log()
        finish, counted, checked = None, None, schema is None
        for chunk in process.chat(body, call):
            for choice in chunk.get("choices") or ():
                finish = choice.get("finish_reason") or finish
                if piece := (choice.get("delta") or {}).get("content"):
                    if not checked:
                        self._check_grammar()
                        checked = True
                    text.append(piece)
                    yield StreamDeltaEvent(delta=TextDelta(text=piece))
            counted = chunk.get("usage") or counted
        if schema is not None:
            self._check_grammar()
        counted = counted or {}
        usage = Usage(
            input_tokens=counted.get("prompt_tokens"),
            output_tokens=counted.get("completion_tokens"),
            cache_read_tokens=(counted.get("prompt_tokens_details") or {}).get("cached_tokens"),
        )
        # llama.cpp calls it a stop when the context is full.
        full = (usage.total_tokens or 0) >= self.settings.n_ctx
        finish = "length" if full or finish == "length" else "stop"
        yield text_response(request, "".join(text), finish=finish, usage=usage)

    def _begin(self, prefix: list[Any], call: Call) -> bool:
        """Bring the cache to the end of the constant part of the prompt; whether it is there.

        llama.cpp reuses whatever a prompt shares with the one before, so batches, and with them the last digits of
        its numbers, depend on earlier requests. Here the cache is always cut at the same place: a new beginning is
        computed whole, a known one is returned to, and only what follows is new.
        """
        process = self._process
        known = prefix == process.prefix
        process.prefix = []
        if not prefix:
            return False
        for cached in (True,) if known else (False, True):
            body = {"messages": prefix, "max_tokens": 1, "temperature": 0.0, "cache_prompt": cached}
            try:
                for _ in process.chat(body, call):
                    pass
            except RefusedError:
                return False
        process.prefix = prefix
        return True

    def _body(self, request: Request) -> dict[str, Any]:
        config = request.config
        body = {
            "messages": chat_messages(request),
            "temperature": 0.0 if config.temperature is None else config.temperature,
            "max_tokens": config.max_tokens or self.settings.max_tokens,
            "seed": self.settings.seed if config.seed is None else config.seed,
            "top_p": config.top_p,
            "top_k": config.top_k,
            "stop": list(config.stop) or None,
            "frequency_penalty": config.frequency_penalty,
            "presence_penalty": config.presence_penalty,
        }
        return {key: value for key, value in body.items() if value is not None}

    def _check_grammar(self) -> None:
        """A schema that failed leaves the decoder free: what it then wrote must not pass for an answer."""
        for line in self._process.log().splitlines():
            if "llg error" in line:
                raise self._refusal({"message": f"grammar{line.partition('llg error')[2]}"})

    def _refusal(self, error: dict[str, Any]) -> EngineError:
        message = str(error.get("message"))
        if error.get("type") == "exceed_context_size_error":
            return LMContextError(
                f"The prompt has {error.get('n_prompt_tokens')} tokens, the context {error.get('n_ctx')}",
                where=self.name,
                remedy="Give fewer demonstrations or candidates, or a larger n_ctx.",
            )
        if "grammar" in message:
            return LMSchemaError(
                f"The answer's schema has no grammar: {message}",
                where=self.name,
                remedy="Check its $ref and type entries.",
            )
        return LMRequestError(f"llama.cpp refused the request: {message}", where=self.name)
