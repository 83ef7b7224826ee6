"""From a name, or a language model of others, to one of DSPy's: jazzmine's ``BaseLLM``, any method that gives text."""

from __future__ import annotations

import inspect
import os
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any, cast

import dspy

from jazzmine_dspy.lm.deferred import PREFIX, deferred_lm
from jazzmine_dspy.lm.dspy_api import (
    LITELLM_PROVIDER_PREFIXES,
    LMConfigurationError,
    Request,
    Response,
    Usage,
    is_reasoning_model,
    lookup,
    registered_providers,
)
from jazzmine_dspy.lm.engines import Engine, chat_messages, text_response, with_engine
from jazzmine_dspy.lm.errors import LMNotFoundError, LMRequestError, LMSettingsError
from jazzmine_dspy.lm.native import configure_for_provider
from jazzmine_dspy.lm.providers import GATEWAYS, SERVERS, NamedLM, provider_of
from jazzmine_dspy.lm.replay import RECORDED_PREFIX, recorded_lm
from jazzmine_dspy.models.errors import InputError

NUM_RETRIES = 2
_EXAMPLES = 'Give "openai/NAME", "ollama_chat/NAME", "anthropic/NAME" or another name that DSPy takes.'


def resolve_lm(name: str | dspy.LM, **settings: Any) -> dspy.LM:
    """The language model of a name, with temperature 0, DSPy's cache off and few retries unless told
    otherwise.

    Args:
        name: Any name that DSPy takes, "deferred:FOLDER" or "deferred:FOLDER?model=NAME" (see `deferred_lm`),
            "recording:FOLDER" (see `recorded_lm`), or a language model, which is returned as it is (copied with
            the settings, if there are any).
        settings: Those of `dspy.LM` (`api_base`, `api_key`, `timeout` in seconds, `temperature`, `max_tokens`,
            ...), for Ollama also `num_ctx`, `keep_alive` and `think`, and `schema_support`: True or False where
            what is known of answers held to a schema is wrong, "static" for a provider that takes long over each
            new schema: all calls then have the same one. An address without a path gets `/v1` where the server
            speaks OpenAI's protocol.

    Returns:
        The language model.

    Raises:
        LMNotFoundError: The name does not resolve.
        LMSettingsError: DSPy refuses a setting.
        InputError: The name is that of a model that once ran inside this package.
    """
    if isinstance(name, dspy.LM):
        return _with_settings(name, settings) if settings else name
    if not isinstance(name, str) or not name.strip():
        raise LMNotFoundError("The name of the language model is empty", remedy=_EXAMPLES)
    if name.startswith(PREFIX):
        return _deferred(name, settings)
    if name.startswith(RECORDED_PREFIX):
        return recorded_lm(name.removeprefix(RECORDED_PREFIX), **settings)
    provider, slash, model = name.partition("/")
    if not slash or not provider or not model:
        raise LMNotFoundError(f"The language model {name!r} names no provider", where=name, remedy=_EXAMPLES)
    return _remote(name, provider, settings)


def _deferred(name: str, settings: dict[str, Any]) -> dspy.LM:
    folder, _, model = name.removeprefix(PREFIX).partition("?model=")
    if not folder:
        raise LMNotFoundError(
            "No folder for the deferred answers is named", where=name, remedy="Give deferred:FOLDER."
        )
    return deferred_lm(folder, **({"model": model} if model else {}), **settings)


def _remote(name: str, provider: str, settings: dict[str, Any]) -> dspy.LM:
    if not _known(provider):
        raise LMNotFoundError(f"No provider is called {provider!r}", where=name, remedy=_EXAMPLES)
    schema = _schema_support(name, settings)
    address = next((settings[key] for key in ("api_base", "base_url") if settings.get(key)), None)
    # Reasoning models refuse any temperature but their own.
    temperature = None if is_reasoning_model(name) else 0.0
    made = {"temperature": temperature, "cache": False, "num_retries": NUM_RETRIES, **settings}
    if address and provider == "openai" and not (settings.get("api_key") or os.environ.get("OPENAI_API_KEY")):
        # Servers of one's own mostly want no key, but DSPy does.
        made["api_key"] = "none"
    named = schema is not None or address or provider in SERVERS | GATEWAYS
    try:
        lm = (NamedLM if named else dspy.LM)(name, **made)
        lm.schema_support = schema
        return configure_for_provider(lm)
    except (ValueError, TypeError, LMConfigurationError) as error:
        raise LMSettingsError(f"DSPy refuses these settings: {error}", where=name) from error


def _with_settings(lm: dspy.LM, settings: dict[str, Any]) -> dspy.LM:
    given = "schema_support" in settings
    schema = _schema_support(str(lm.model), settings)
    made = lm.copy(**settings)
    if given:
        made.schema_support = schema
    return cast("dspy.LM", made)


def _schema_support(name: str, settings: dict[str, Any]) -> bool | str | None:
    """The setting, taken out of the others."""
    schema = settings.pop("schema_support", None)
    if schema is None or isinstance(schema, bool) or schema == "static":
        return cast("bool | str | None", schema)
    raise LMSettingsError(
        f"schema_support is {schema!r}", where=name, remedy='Give true, false or "static", or leave it out.'
    )


def _known(provider: str) -> bool:
    spelled = {spelling for each in registered_providers() for spelling in each.definition.spellings}
    if provider in LITELLM_PROVIDER_PREFIXES or provider in spelled or lookup(provider) is not None:
        return True
    try:
        from litellm.types.utils import LlmProviders
    except ImportError:
        return False

    return provider in {each.value for each in LlmProviders}


def missing_key(lm: dspy.BaseLM) -> str:
    """The variable that a hosted model's key is read from, where neither it nor a key is set; "" otherwise."""
    provider = provider_of(lm)
    found = lookup(provider) if getattr(lm, "engine", None) == "auto" else None
    names = (*found.access.env_keys, f"{provider.upper()}_API_KEY") if found is not None else ()
    # "none" stands for no key where an address is given.
    keyed = lm.kwargs.get("api_key") not in (None, "none") or any(os.environ.get(name) for name in names)
    return "" if keyed or not names else names[0]


_OF_MESSAGES = "agenerate"
_OF_A_PROMPT = ("ainvoke", "acomplete", "apredict")
_TEXTS = ("text", "content")


def as_lm(llm: Any) -> dspy.BaseLM:
    """A language model as DSPy asks it.

    Args:
        llm: A model of DSPy's; a name for :func:`resolve_lm`; an object with ``async agenerate(messages)`` that takes
            parts with ``role`` and ``content`` (jazzmine's ``BaseLLM``), or with ``async ainvoke``, ``acomplete`` or
            ``apredict`` that takes the prompt as one text; or an asynchronous function of one text. The answer is a
            text, or has one as ``text`` or ``content``. No schema holds such an answer; it is checked as any other.

    Raises:
        InputError: it is none of these, or no model has that name.

    Example:
        >>> async def answer(prompt: str) -> str:
        ...     return "{}"
        >>> as_lm(answer).model
        'text/answer'
    """
    if isinstance(llm, dspy.BaseLM):
        return llm
    if isinstance(llm, str):
        return resolve_lm(llm)
    method = getattr(llm, _OF_MESSAGES, None)
    if callable(method) and not inspect.isclass(llm):
        return _wrapped(llm, cast("_Method", method), parts=True)
    named = [getattr(llm, name, None) for name in _OF_A_PROMPT]
    candidates = (*named, llm, getattr(llm, "__call__", None))  # noqa: B004
    methods = [each for each in candidates if inspect.iscoroutinefunction(each)]
    if methods and not inspect.isclass(llm):
        return _wrapped(llm, methods[0])
    raise InputError(
        f"{type(llm).__name__} is not a language model",
        where="llm",
        remedy="Pass a dspy.LM, the name of one, a TurnProgram, an object with `async agenerate(messages)`, or an "
        "asynchronous function from a prompt to a text.",
    )


_Method = Callable[[Any], Awaitable[Any]]


def _wrapped(llm: Any, method: _Method, *, parts: bool = False) -> dspy.LM:
    model = getattr(llm, "model", None)
    name = model if isinstance(model, str) and model else getattr(llm, "__name__", type(llm).__name__)
    # The prefix keeps DSPy from taking the model for one of a provider that it knows.
    name = f"text/{name.rpartition('/')[2] or type(llm).__name__}"
    return with_engine(dspy.LM(name, cache=False, num_retries=0), _TextEngine(method, parts=parts))


class _TextEngine(Engine):
    def __init__(self, method: _Method, *, parts: bool) -> None:
        self._method = method
        self._parts = parts

    @property
    def identity(self) -> str:
        return f"text method {getattr(self._method, '__qualname__', type(self._method).__name__)}"

    def complete(self, request: Request) -> Response:
        raise LMRequestError(
            "The language model answers asynchronously only",
            where=request.model,
            remedy="Await the call, or pass a dspy.LM.",
        )

    async def acomplete(self, request: Request) -> Response:
        messages = chat_messages(request)
        prompt: Any = [SimpleNamespace(**each) for each in messages] if self._parts else _prompt(messages)
        reply = await self._method(prompt)
        texts = (reply, *(getattr(reply, name, None) for name in _TEXTS))
        if (text := next((each for each in texts if isinstance(each, str)), None)) is None:
            raise LMRequestError(
                f"The language model answered with {type(reply).__name__}, which has no text",
                where=request.model,
                remedy="Return a text, or an object with the attribute `text` or `content`.",
            )
        return text_response(request, text, usage=_usage(reply))


def _prompt(messages: list[dict[str, str]]) -> str:
    """The messages as one text; who speaks is named where there are demonstrations."""
    several = len([each for each in messages if each["role"] != "system"]) > 1
    return "\n\n".join(
        f"{each['role']}: {each['content']}" if several and each["role"] != "system" else each["content"]
        for each in messages
    )


def _usage(reply: Any) -> Usage:
    """The tokens that a reply tells, as jazzmine's do; 0 where it tells none."""
    usage = getattr(reply, "usage", None)
    sent, answered = (getattr(usage, name, 0) for name in ("prompt_tokens", "completion_tokens"))
    counted = [value if type(value) is int and value > 0 else 0 for value in (sent, answered)]
    return Usage(input_tokens=counted[0], output_tokens=counted[1], total_tokens=sum(counted))
