"""The clients of DSPy itself as an engine, so that any language model can be wrapped, told apart, and tried once."""

from __future__ import annotations

import hashlib
import json
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from typing import Any, cast
from urllib.parse import urlsplit

import dspy

from jazzmine_dspy.lm.attempts import JSON, Listener, check_answered
from jazzmine_dspy.lm.dspy_api import (
    CLIENT_KEYS,
    ContextWindowExceededError,
    LMInvalidRequestError,
    LMUnsupportedFeatureError,
    Request,
    Response,
    engine_for,
    prepare,
)
from jazzmine_dspy.lm.engines import Engine, engine_identity, unwrap, with_engine
from jazzmine_dspy.lm.errors import LMSettingsError
from jazzmine_dspy.lm.providers import (
    Support,
    answer_limit,
    configure_for_provider,
    limit_name,
    native_limit_name,
    quirks_of,
    refused_parameter,
    schema_support,
    with_limit_named,
)


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

    def stream(self, request: Request) -> Iterator[Any]:
        """One attempt, event by event as they come."""
        engine, native = self._client(request, asynchronous=False)
        yield from engine.stream(native)

    async def astream(self, request: Request) -> AsyncIterator[Any]:
        """One attempt, event by event as they come."""
        engine, native = self._client(request, asynchronous=True)
        async for event in engine.stream(native):
            yield event

    def _client(self, request: Request, *, asynchronous: bool) -> tuple[Any, Request]:
        request = with_limit_named(self.lm, request)
        call = prepare(self.lm, request, None, {"cache": False}, asynchronous=asynchronous)
        engine, native, _ = engine_for(self.lm, call, asynchronous)
        return engine, native


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


def limit_named(lm: dspy.LM) -> dspy.LM:
    """The language model itself, or a copy whose limit goes out under the user's name, or one that is accepted.

    DSPy's own client names the limit by itself, whatever name it was given.
    """
    if not isinstance(lm, dspy.LM) or not isinstance(lm.engine, str) or lm.model_type != "chat":
        return lm
    name = limit_name(lm)
    if name is None or native_limit_name(lm) in (None, name):
        return lm
    copied = with_engine(lm, NativeEngine(lm))
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


# --- one real call ----------------------------------------------------------------------------------------

_WORD = "zebra-7"
_PROMPT = "Answer with one JSON object whose only key is 'word'; its value is any word."
_SCHEMA = {
    "type": "json_schema",
    "json_schema": {
        "name": "answer",
        "strict": True,
        "schema": {
            "type": "object",
            "properties": {"word": {"type": "string", "enum": [_WORD]}},
            "required": ["word"],
            "additionalProperties": False,
        },
    },
}
_FORMS: dict[Support, dict[str, Any] | None] = {
    "schema": _SCHEMA,
    "static": _SCHEMA,
    "json": JSON,
    "none": None,
}


@dataclass(frozen=True)
class Probe:
    """What came of asking.

    Args:
        taken: The most that the provider takes of what holds an answer: a schema, JSON of any form, or nothing.
        held: Whether the answer had it, and so nothing but the schema's one choice where a schema was taken.
        expected: What a program would have asked for without having tried.
        temperature: The temperature that was sent and taken; None where none was sent.
        prompt_tokens: Tokens that the provider has counted in the request, 0 where it reports none.
        completion_tokens: The same of the answer.
        answer: The answer's first 60 characters.
    """

    taken: Support
    held: bool
    expected: Support
    temperature: float | None
    prompt_tokens: int
    completion_tokens: int
    answer: str


def probe(lm: dspy.LM) -> Probe:
    """Ask a language model for a word: once, and again with less only where the provider refuses a request as such.

    Raises:
        Exception: What the call raised, where nothing could be left out of it.
        LMFilteredError: A content filter stopped the answer, or the model refused.
        LMNoAnswerError: The response holds no answer.
    """
    lm = configure_for_provider(lm)
    expected = schema_support(lm)
    forms: list[Support] = ["schema", "json", "none"]
    forms = forms[forms.index("schema" if expected == "static" else expected) :]
    while forms:
        form = forms[0]
        wanted = {} if _FORMS[form] is None else {"response_format": _FORMS[form]}
        omitted = frozenset(quirks_of(lm).refused)
        settings = {**wanted, **answer_limit(lm, 64)}
        try:
            with dspy.track_usage() as usage, Listener(limit_named(lm)) as listener:
                answered = listener.lm(_PROMPT, **settings)
        except (LMInvalidRequestError, LMUnsupportedFeatureError) as error:
            if refused_parameter(lm, error, settings, omitted):
                continue
            if form == "none" or isinstance(error, ContextWindowExceededError) or error.status in (404, 413):
                raise
            del forms[0]
            continue
        if listener.outcome is not None:
            check_answered(listener.outcome)
        spent = usage.get_total_tokens().get(lm.model, {})
        text = str(answered[0]["text"] if isinstance(answered[0], dict) else answered[0])
        return Probe(
            taken=form,
            held=form == "none" or _holds(form, text),
            expected=expected,
            temperature=settings.get("temperature", lm.kwargs.get("temperature")),
            prompt_tokens=int(spent.get("prompt_tokens") or 0),
            completion_tokens=int(spent.get("completion_tokens") or 0),
            answer=" ".join(text.split())[:60],
        )
    raise AssertionError("the last form is asked for or raises")


def _holds(form: Support, text: str) -> bool:
    try:
        found = json.loads(text)
    except ValueError:
        return False
    return found == {"word": _WORD} if form == "schema" else isinstance(found, dict)
