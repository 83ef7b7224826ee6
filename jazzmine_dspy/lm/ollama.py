"""Ollama's own interface, ``/api/chat``: it takes schemas and the context's length, which its OpenAI one does not."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import ssl
import threading
import time
from collections.abc import Iterator
from typing import Any

import dspy
import httpx

from jazzmine_dspy.lm.dspy_api import (
    InvalidRequestError,
    ProviderError,
    Request,
    Response,
    TimeoutError,
    TransportError,
    Usage,
    map_http_error,
)
from jazzmine_dspy.lm.engines import Engine, call_limit, chat_messages, response_schema, text_response
from jazzmine_dspy.lm.errors import LMContextError

PROVIDERS = frozenset({"ollama", "ollama_chat"})
ADDRESS = "http://localhost:11434"
TIMEOUT = 300.0
"""Seconds that a call may take unless told otherwise: a model that is not in memory is loaded first."""
MAX_BYTES = 4_000_000
"""Of an answer; what is longer is none."""
_LEAST_CONTEXT = 4096
SETTINGS = ("num_ctx", "keep_alive", "think")
"""Settings of an `LM` for Ollama next to those that all have."""


def ollama_engine(lm: dspy.LM) -> OllamaEngine:
    """The engine for a language model of Ollama's, with the model's own settings."""
    kwargs = {key: value for key, value in lm.kwargs.items() if value is not None}
    address = kwargs.get("api_base") or kwargs.get("base_url") or os.environ.get("OLLAMA_API_BASE") or ADDRESS
    return OllamaEngine(
        address=str(address),
        key=str(kwargs.get("api_key") or os.environ.get("OLLAMA_API_KEY") or ""),
        timeout=float(kwargs.get("timeout") or TIMEOUT),
        **{key: kwargs[key] for key in SETTINGS if key in kwargs},
    )


class OllamaEngine(Engine):
    """Asks a server of Ollama's. One attempt a call; thread-safe.

    The context is made as long as the longest prompt so far needs it, in powers of two, since Ollama loads the model
    anew whenever it changes. Ollama cuts a prompt that is longer and says nothing; here that is an error.

    Args:
        address: Of the server; a path ``/v1`` or ``/api`` at its end is left out.
        key: Sent as a bearer token; "" for none.
        timeout: Seconds that a call may take.
        num_ctx: Tokens of context; None for as many as the longest prompt needs.
        keep_alive: How long the model stays in memory, as Ollama takes it; None for the server's own.
        think: Whether a reasoning model thinks first, or how much; thinking counts as part of the answer.
    """

    supports_response_schema = True
    thinking_tokens = 4_096
    """Least limit of an answer where the model thinks first; the context, which takes memory, has to hold it."""
    supported_params = frozenset(
        {"temperature", "max_tokens", "top_p", "top_k", "stop", "seed", "response_format"}
    )

    def __init__(
        self,
        *,
        address: str = ADDRESS,
        key: str = "",
        timeout: float = TIMEOUT,
        num_ctx: int | None = None,
        keep_alive: Any = None,
        think: Any = False,
    ) -> None:
        trimmed = re.sub("/(?:v1|api)$", "", address.rstrip("/"))
        self.address = trimmed if "://" in trimmed else f"http://{trimmed}"
        self.key, self.timeout, self.num_ctx = key, timeout, num_ctx
        self.keep_alive, self.think = keep_alive, think
        self._context = _LEAST_CONTEXT
        self._lock = threading.Lock()
        self.tls: ssl.SSLContext | bool = self.address.startswith("https")

    def __repr__(self) -> str:
        return "OllamaEngine()"

    @property
    def identity(self) -> str:
        """What answers depend on: where they come from, as a digest, and the settings."""
        where = hashlib.sha256(self.address.rpartition("@")[2].encode()).hexdigest()[:16]
        return f"ollama at {where} {json.dumps([self.num_ctx, self.think], default=str)}"

    def complete(self, request: Request) -> Response:
        """One attempt.

        Raises:
            LMContextError: The prompt did not fit the context.
        """
        body = self._body(request)
        limit = call_limit(self.timeout)
        with (
            _transport(),
            httpx.Client(verify=self.tls) as client,
            client.stream("POST", **self._call(body, limit)) as answer,
        ):
            data = bytearray()
            for part in answer.iter_bytes():
                data += part
                _check_size(data, limit)
        return self._read(request, body, answer, bytes(data))

    async def acomplete(self, request: Request) -> Response:
        """As `complete`; cancelling it closes the connection."""
        body, limit = self._body(request), call_limit(self.timeout)
        # A client belongs to the event loop that it was first used in, so each call has its own.
        with _transport():
            async with (
                httpx.AsyncClient(verify=self.tls) as client,
                client.stream("POST", **self._call(body, limit)) as answer,
            ):
                data = bytearray()
                async for part in answer.aiter_bytes():
                    data += part
                    _check_size(data, limit)
        return self._read(request, body, answer, bytes(data))

    def _body(self, request: Request) -> dict[str, Any]:
        config = request.config
        messages = chat_messages(request)
        options = {
            "num_ctx": self.num_ctx or self._needed(messages, config.max_tokens or 0),
            "temperature": config.temperature,
            "num_predict": config.max_tokens,
            "top_p": config.top_p,
            "top_k": config.top_k,
            "seed": config.seed,
            "stop": list(config.stop) or None,
        }
        made: dict[str, Any] = {
            "model": request.model.partition("/")[2],
            "messages": messages,
            "stream": False,
            "think": self.think,
            # From 0.12.6 on Ollama refuses what it would have cut; earlier ones do not know the word.
            "truncate": False,
            "options": {name: value for name, value in options.items() if value is not None},
        }
        if (schema := response_schema(request)) is not None:
            made["format"] = schema if schema.get("properties") else "json"
        if self.keep_alive is not None:
            made["keep_alive"] = self.keep_alive
        return made

    def _call(self, body: dict[str, Any], limit: float | None) -> dict[str, Any]:
        headers = {"authorization": f"Bearer {self.key}"} if self.key else {}
        left = self.timeout if limit is None else max(0.001, limit - time.monotonic())
        return {"url": f"{self.address}/api/chat", "json": body, "headers": headers, "timeout": left}

    def _read(self, request: Request, body: dict[str, Any], answer: httpx.Response, data: bytes) -> Response:
        try:
            found = json.loads(data)
        except ValueError:
            found = None
        found = found if isinstance(found, dict) else {}
        if answer.status_code != 200:
            raise _refused(request, body, answer, str(found.get("error") or f"HTTP {answer.status_code}"))
        if not isinstance(found.get("message"), dict):
            raise ProviderError("the answer is not of Ollama's form", status=answer.status_code)
        prompt, written = found.get("prompt_eval_count"), found.get("eval_count")
        context, size = body["options"]["num_ctx"], _size(body["messages"])
        # Eight bytes to a token is more than any text has; so is a prompt that fills the context to the brim.
        if isinstance(prompt, int) and (prompt >= context or size > 8 * prompt + 400):
            raise _too_long(request, context, f"Ollama has read {prompt} tokens of {size} bytes")
        usage = Usage(
            input_tokens=prompt or 0, output_tokens=written or 0, total_tokens=(prompt or 0) + (written or 0)
        )
        finish = "length" if found.get("done_reason") == "length" else "stop"
        return text_response(request, str(found["message"].get("content") or ""), finish=finish, usage=usage)

    def _needed(self, messages: list[dict[str, str]], answer: int) -> int:
        wanted = int(_size(messages) / 2.5) + 16 * len(messages) + max(answer, 0)
        with self._lock:
            while self._context < wanted:
                self._context *= 2
            return self._context


def _check_size(data: bytearray, limit: float | None) -> None:
    """Stop reading an answer that is too long, or does not end."""
    if len(data) > MAX_BYTES:
        raise ProviderError(f"the answer is longer than {MAX_BYTES} bytes")
    if limit is not None and time.monotonic() > limit:
        raise TimeoutError("the answer did not end in time")


@contextlib.contextmanager
def _transport() -> Iterator[None]:
    try:
        yield
    except httpx.TimeoutException as error:
        raise TimeoutError("no answer in time") from error
    except httpx.HTTPError as error:
        raise TransportError(type(error).__name__) from error
    except httpx.InvalidURL as error:
        raise InvalidRequestError("the address is not valid") from error


def _refused(
    request: Request, body: dict[str, Any], answer: httpx.Response, said: str
) -> ProviderError | LMContextError:
    if answer.status_code == 400 and "context" in said and ("exceed" in said or "too long" in said):
        return _too_long(request, body["options"]["num_ctx"], "Ollama refuses the prompt")
    wait = answer.headers.get("retry-after", "")
    after = float(wait) if wait.replace(".", "", 1).isdigit() else None
    refused: ProviderError = map_http_error(answer.status_code, said, provider="ollama", retry_after=after)
    return refused


def _too_long(request: Request, context: int, what: str) -> LMContextError:
    return LMContextError(
        f"The prompt is longer than the model's context of {context} tokens, or was cut: {what}",
        where=request.model,
        remedy="Give a larger num_ctx in lm_settings, compile with fewer demonstrations, or take a model whose "
        "context is longer ('ollama show NAME' tells it).",
    )


def _size(messages: list[dict[str, str]]) -> int:
    return sum(len(message["content"].encode("utf-8", "replace")) for message in messages)
