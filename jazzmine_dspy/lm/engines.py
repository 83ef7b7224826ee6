"""What all engines share: one asynchronous form, events of a stream, a way around and into them.

Also how each reads the canonical request of DSPy and builds a response; for tests, an engine that answers by a rule.
"""

from __future__ import annotations

import re
import threading
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping
from typing import Any, cast

import dspy

from jazzmine_dspy.lm.dspy_api import (
    CLIENT_KEYS,
    Message,
    Request,
    Response,
    StreamDeltaEvent,
    StreamEndEvent,
    StreamStartEvent,
    TextDelta,
    TextPart,
    Usage,
    request_to_dict,
)
from jazzmine_dspy.lm.errors import LMRequestError, ScriptMissError
from jazzmine_dspy.models.base import Shared, canonical_json, in_thread, sha256


class Engine(Shared):
    """Base of engines: whoever writes one writes `complete`; the rest follows from it.

    An engine that can wait without a thread overrides `acomplete`, one whose tokens come one by one `stream` and
    `astream`. Copies of a program share it.
    """

    supports_response_schema = False
    supports_function_calling = False
    supports_reasoning = False
    supported_params: Collection[str] = frozenset()

    def complete(self, request: Request) -> Response:
        """Answer a request."""
        raise NotImplementedError

    async def acomplete(self, request: Request) -> Response:
        """As `complete`, without blocking the event loop."""
        return await in_thread(self.complete, request)

    def stream(self, request: Request) -> Iterator[Any]:
        """As `complete`, in events."""
        yield from _small_events(self.complete(request))

    async def astream(self, request: Request) -> AsyncIterator[Any]:
        """As `acomplete`, in events."""
        for event in _small_events(await self.acomplete(request)):
            yield event

    def close(self) -> None:
        """Close what the engine opened."""


class AsyncEngine(Shared):
    """The asynchronous form of an engine, as DSPy calls it.

    Args:
        engine: The engine.
    """

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    async def complete(self, request: Request) -> Response:
        """As that of the engine."""
        return await self.engine.acomplete(request)

    async def stream(self, request: Request) -> AsyncIterator[Any]:
        """As that of the engine."""
        async for event in self.engine.astream(request):
            yield event

    async def aclose(self) -> None:
        """Close the engine."""
        self.engine.close()


class Wrapper(Engine):
    """Base of engines around an engine: it has the capabilities and the identity of that one.

    Args:
        inner: The engine within. It is borrowed: closing the wrapper does not close it.
    """

    def __init__(self, inner: Any) -> None:
        self.inner = inner
        self.supports_response_schema = bool(getattr(inner, "supports_response_schema", False))
        self.supports_function_calling = bool(getattr(inner, "supports_function_calling", False))
        self.supports_reasoning = bool(getattr(inner, "supports_reasoning", False))
        self.supported_params = set(getattr(inner, "supported_params", ()) or ())

    @property
    def identity(self) -> str:
        """Of the engine within: wrapping changes no answer."""
        return engine_identity(self.inner)


def with_engine(lm: dspy.LM, engine: Engine) -> dspy.LM:
    """A copy of a language model that answers through another engine."""
    # An engine object owns its connection; DSPy refuses connection settings next to it.
    dropped = {key: None for key in lm.kwargs if key in CLIENT_KEYS}
    return cast("dspy.LM", lm.copy(engine=engine, async_engine=AsyncEngine(engine), **dropped))


def unwrap(lm: dspy.LM) -> tuple[dspy.LM, Any]:
    """The language model that answers in the end, inside all wrappers, and its engine."""
    engine = getattr(lm, "engine", "auto")
    while isinstance(engine, Wrapper):
        engine = engine.inner
    if isinstance(native := getattr(engine, "lm", None), dspy.LM):
        # The engine only calls another language model, whose settings are not on the outer one.
        return native, "auto"
    return lm, engine


def stated_timeout(lm: dspy.BaseLM) -> float:
    """The ``timeout`` setting of a language model, in seconds; 0 if it has none."""
    timeout = getattr(unwrap(lm)[0], "kwargs", {}).get("timeout")
    return float(timeout) if isinstance(timeout, int | float) else 0.0


def engine_identity(engine: Any) -> str:
    """The identity that an engine reports, else the name of its class."""
    return str(getattr(engine, "identity", f"{type(engine).__module__}.{type(engine).__qualname__}"))


def system_text(request: Request) -> str:
    """The system message, "" if there is none."""
    system = request.system or ""
    if isinstance(system, str):
        return system
    return "".join(part.text for part in system if part.type == "text")


def user_text(request: Request) -> str:
    """The last user message, "" if there is none: with DSPy's adapters, the inputs of the call itself."""
    return next((_text(message) for message in reversed(request.messages) if message.role == "user"), "")


def chat_messages(request: Request) -> list[dict[str, str]]:
    """The request as `role` and `content` pairs, for a text-only model.

    Raises:
        LMRequestError: The request holds tools, images or anything else but text.
    """
    if request.tools:
        raise LMRequestError(
            "The model takes no tools", where=request.model, remedy="Ask for the answer as an output field."
        )
    messages = [{"role": "system", "content": text}] if (text := system_text(request)) else []
    for message in request.messages:
        for part in message.parts:
            if part.type not in ("text", "thinking"):
                raise LMRequestError(
                    f"The model takes text only, not {part.type}",
                    where=request.model,
                    remedy="Describe it in text, or choose another language model.",
                )
        role = "system" if message.role == "developer" else message.role
        messages.append({"role": role, "content": _text(message)})
    return messages


def response_schema(request: Request) -> dict[str, Any] | None:
    """The JSON schema that the answer is to have (in plain JSON mode any object's), or None for free text."""
    form = request.config.response_format
    if not form or form.get("type") == "text":
        return None
    if form["type"] == "json_object":
        return {"type": "object"}
    schema = form.get("schema") or (form.get("json_schema") or {}).get("schema")
    return cast("dict[str, Any]", schema or {"type": "object"})


def text_response(
    request: Request, text: str, *, finish: str = "stop", usage: Usage | None = None
) -> Response:
    """A response of one text."""
    return Response(
        id=None,
        model=request.model,
        message=Message.assistant([TextPart(text)]),
        finish_reason=finish,
        usage=usage or Usage(),
    )


def request_key(request: Request, identity: str = "") -> str:
    """SHA-256 over the canonical JSON of a request and the identity of the model that it goes to."""
    return sha256(f"{identity}\n{canonical_json(request_to_dict(request))}")


def _small_events(response: Response) -> Iterator[Any]:
    """A finished text response as events of a word each: DSPy's listeners miss a field in one big delta."""
    yield StreamStartEvent(id=response.id, model=response.model)
    for piece in re.findall(r" [^ ]*|[^ ]+", _text(response.message)):
        yield StreamDeltaEvent(delta=TextDelta(text=piece))
    yield StreamEndEvent(
        finish_reason=response.finish_reason, usage=response.usage, provider_data=response.provider_data
    )


def _text(message: Message) -> str:
    return "".join(part.text for part in message.parts if part.type == "text")


# --- answers by a rule ------------------------------------------------------------------------------------

#: A text, or an exception that the call is to raise.
Answer = str | BaseException
Script = Callable[[Request], Answer] | Mapping[str, Answer]


class ScriptedEngine(Engine):
    """Answers from a function of the request, or from a mapping. Thread-safe.

    A mapping's key is looked for in the last user message; of several that occur the longest counts. Usage
    is the number of words, sent and answered.

    Args:
        answers: The function or mapping. An exception in the place of a text is raised.
        schema: Whether the engine says that it holds answers to schemas.
    """

    identity = "scripted"
    """The same for all scripts: give models different names to tell them apart."""

    def __init__(self, answers: Script, *, schema: bool = True) -> None:
        self.answers = answers
        self.supports_response_schema = schema
        self.supported_params = {"temperature", "max_tokens"} | ({"response_format"} if schema else set())
        self.requests: list[Request] = []
        self._lock = threading.Lock()

    @property
    def calls(self) -> int:
        """Calls so far, those that raised included."""
        with self._lock:
            return len(self.requests)

    def complete(self, request: Request) -> Response:
        """The scripted answer.

        Raises:
            ScriptMissError: No key of the mapping occurs in the request.
        """
        with self._lock:
            self.requests.append(request)
        if callable(self.answers):
            answer = self.answers(request)
        else:
            text, answers = user_text(request), self.answers
            if not (matches := [key for key in answers if key in text]):
                raise ScriptMissError(
                    f"No scripted answer for: {text[:200]}",
                    where=request.model,
                    remedy="Add a key that occurs in this message.",
                )
            answer = answers[max(matches, key=len)]
        if isinstance(answer, BaseException):
            raise answer
        return text_response(
            request,
            answer,
            usage=Usage(
                input_tokens=sum(len(message["content"].split()) for message in chat_messages(request)),
                output_tokens=len(answer.split()),
            ),
        )

    async def acomplete(self, request: Request) -> Response:
        """As `complete`, in the event loop's own thread."""
        return self.complete(request)


def scripted_lm(answers: Script, model: str = "scripted/x", *, schema: bool = True) -> dspy.LM:
    """A model over a `ScriptedEngine`, which is its `.engine`; temperature 0, no cache, no retries."""
    engine = ScriptedEngine(answers, schema=schema)
    settings: Any = {"cache": False, "num_retries": 0, "temperature": 0.0}
    return cast("dspy.LM", dspy.LM(model, engine=engine, async_engine=AsyncEngine(engine), **settings))
