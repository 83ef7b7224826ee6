"""The clients of DSPy itself as an engine, so that any language model can be wrapped and told apart."""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, cast
from urllib.parse import urlsplit

import dspy

from jazzmine_dspy.lm.dspy_api import (
    CLIENT_KEYS,
    InvalidRequestError,
    Request,
    Response,
    engine_for,
    get_litellm,
    prepare,
)
from jazzmine_dspy.lm.engines import Engine, chat_messages, engine_identity, unwrap, with_engine
from jazzmine_dspy.lm.errors import LMContextError, LMSettingsError
from jazzmine_dspy.lm.providers import OLLAMA, own_address, provider_of, quirks_of, schema_support


class NativeEngine(Engine):
    """The engine that DSPy itself would choose for a language model.

    It makes one attempt a call, with the model's own key, address and timeout, and its errors are DSPy's. Retries,
    history, usage and callbacks stay with the outer language model.

    Args:
        lm: A language model without an engine of its own.
    """

    def __init__(self, lm: dspy.LM) -> None:
        self.lm = lm
        form = schema_support(lm)
        self.supports_response_schema = form in ("schema", "static")
        self.supports_function_calling = lm.supports_function_calling
        self.supports_reasoning = lm.supports_reasoning
        self.supported_params = {*lm.supported_params, *(("response_format",) if form != "none" else ())}

    @property
    def identity(self) -> str:
        """That of the language model."""
        return lm_identity(self.lm)

    def complete(self, request: Request) -> Response:
        """One attempt."""
        engine, native = self._client(request, asynchronous=False)
        return cast("Response", engine.complete(native))

    async def acomplete(self, request: Request) -> Response:
        """One attempt, by DSPy's asynchronous client."""
        engine, native = self._client(request, asynchronous=True)
        return cast("Response", await engine.complete(native))

    def _client(self, request: Request, *, asynchronous: bool) -> tuple[Any, Request]:
        call = prepare(self.lm, request, None, {"cache": False}, asynchronous=asynchronous)
        engine, native, _ = engine_for(self.lm, call, asynchronous)
        return engine, native


_FREE = {
    "litellm_provider": "ollama_chat",
    "mode": "chat",
    "input_cost_per_token": 0.0,
    "output_cost_per_token": 0.0,
}


class OllamaEngine(NativeEngine):
    """Asks Ollama's own interface through LiteLLM, and keeps Ollama from cutting the prompt.

    Ollama takes a schema and the context's length there, which its OpenAI interface does not. The context is as long
    as the longest prompt so far needs, in powers of two, since Ollama loads the model again whenever it changes.

    Args:
        lm: A language model of Ollama's.
    """

    SETTINGS = ("num_ctx", "keep_alive", "think")
    """Settings of a language model that Ollama alone takes: DSPy's form of a request has no place for them."""
    supports_response_schema = True
    supported_params = frozenset(
        {"temperature", "max_tokens", "top_p", "top_k", "stop", "seed", "response_format"}
    )

    def __init__(self, lm: dspy.LM) -> None:
        address = lm.kwargs.get("api_base") or lm.kwargs.get("base_url")
        settings = (
            {"api_base": re.sub("/(?:v1|api)/?$", "", str(address)), "base_url": None} if address else {}
        )
        # Not that of the base: LiteLLM would ask the server what the model supports.
        self.lm = lm.copy(model=f"ollama_chat/{lm.model.partition('/')[2]}", engine="litellm", **settings)

    def complete(self, request: Request) -> Response:
        """One attempt.

        Raises:
            LMContextError: The prompt did not fit the context.
        """
        with _whole(request := self._sized(request)):
            return _uncut(request, super().complete(request))

    async def acomplete(self, request: Request) -> Response:
        """As `complete`."""
        with _whole(request := self._sized(request)):
            return _uncut(request, await super().acomplete(request))

    def _sized(self, request: Request) -> Request:
        # Of a model that has no price LiteLLM asks the Ollama of this machine at every call, wherever the model is.
        get_litellm(feature="Ollama").model_cost.setdefault(self.lm.model, _FREE)
        needed = int(_size(request) / 2.5) + 16 * len(request.messages) + (request.config.max_tokens or 0)
        quirks = quirks_of(self.lm)
        while quirks.context < needed:
            quirks.context *= 2
        # From 0.12.6 on Ollama refuses what it would have cut; earlier versions do not know the word.
        defaults = {"num_ctx": quirks.context, "think": False, "extra_body": {"truncate": False}}
        given = {name: self.lm.kwargs[name] for name in self.SETTINGS if self.lm.kwargs.get(name) is not None}
        return replace(
            request,
            model=self.lm.model,
            config=replace(
                request.config, extensions={**(request.config.extensions or {}), **defaults, **given}
            ),
        )


@contextlib.contextmanager
def _whole(request: Request) -> Iterator[None]:
    try:
        yield
    except InvalidRequestError as error:
        if "context" not in str(error):
            raise
        raise _too_long(request, "Ollama refuses the prompt") from error


def _uncut(request: Request, response: Response) -> Response:
    size, read = _size(request), response.usage.input_tokens
    # Eight bytes to a token is more than any text has; so is a prompt that fills the context to the brim.
    if read >= _context(request) or size > 8 * read + 400:
        raise _too_long(request, f"Ollama has read {read} tokens of {size} bytes")
    return response


def _too_long(request: Request, what: str) -> LMContextError:
    return LMContextError(
        f"The prompt is longer than the model's context of {_context(request)} tokens, or was cut: {what}",
        where=request.model,
        remedy="Give a larger num_ctx in lm_settings, compile with fewer demonstrations, or take a model whose "
        "context is longer ('ollama show NAME' prints it).",
    )


def _context(request: Request) -> int:
    return int((request.config.extensions or {})["num_ctx"])


def _size(request: Request) -> int:
    return sum(len(message["content"].encode("utf-8", "replace")) for message in chat_messages(request))


def wrap(lm: dspy.LM, make: Callable[[Any], Engine]) -> dspy.LM:
    """A copy of a language model with an engine around its own.

    Args:
        lm: The language model.
        make: Makes the engine around the one that it is given.

    Raises:
        LMSettingsError: It is of the old kind, with a `forward` of its own.
    """
    if not isinstance(lm, dspy.LM):
        raise LMSettingsError(
            f"{type(lm).__name__} has no engine that could be wrapped",
            where=str(getattr(lm, "model", "")),
            remedy="Use dspy.LM, with an engine object if need be.",
        )
    lm = configure_for_provider(lm)
    return with_engine(lm, make(NativeEngine(lm) if isinstance(lm.engine, str) else lm.engine))


def configure_for_provider(lm: dspy.LM) -> dspy.LM:
    """The language model itself, or a copy that reaches its server where the server's own documents say it is.

    Ollama is asked through its own interface, and an address without a path gets ``/v1`` where the protocol is
    OpenAI's. A model with an engine of its own stays as it is. The calls of a copy appear in the original's history.

    Args:
        lm: Any language model, also one that is not DSPy's.
    """
    if not isinstance(lm, dspy.LM) or lm.engine != "auto" or lm.model_type != "chat":
        return lm
    if provider_of(lm) in OLLAMA:
        copied = with_engine(lm.copy(**dict.fromkeys(OllamaEngine.SETTINGS)), OllamaEngine(lm))
    elif changed := own_address(lm):
        copied = cast("dspy.LM", lm.copy(**changed))
    else:
        return lm
    copied.history = lm.history
    return copied


def lm_identity(lm: dspy.LM) -> str:
    """All that an answer of a language model to a given request depends on, as one line; without secrets.

    The model's name, its weights by SHA-256 where they are local, the engine's settings, sampling settings,
    and of an address only a digest.
    """
    lm, engine = unwrap(configure_for_provider(lm))
    kwargs = {key: value for key, value in lm.kwargs.items() if key not in CLIENT_KEYS and value is not None}
    parts = [lm.model, lm.model_type, json.dumps(kwargs, sort_keys=True, default=str)]
    if not isinstance(engine, str):
        parts.append(engine_identity(engine))
    elif address := lm.kwargs.get("api_base") or lm.kwargs.get("base_url"):
        url = urlsplit(str(address))
        without_user = url._replace(netloc=url.netloc.rpartition("@")[2], query="").geturl()
        parts.append("at " + hashlib.sha256(without_user.encode()).hexdigest()[:16])
    return " ".join(parts)
