"""Language models of others as DSPy's: jazzmine's ``BaseLLM``, or any asynchronous method that gives text."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, cast

import dspy
from dspy.lm15 import Request, Response, Usage

from jazzmine_dspy.lm.engines import Engine, with_engine
from jazzmine_dspy.lm.errors import LMRequestError
from jazzmine_dspy.lm.requests import chat_messages, text_response
from jazzmine_dspy.lm.resolve import resolve_lm
from jazzmine_dspy.models.errors import InputError

_OF_MESSAGES = "agenerate"
_OF_A_PROMPT = ("ainvoke", "acomplete", "apredict")
_TEXTS = ("text", "content")


@dataclass(frozen=True)
class MessagePart:
    """One message of a request, as jazzmine's language models take it."""

    role: str
    content: str


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
    methods = [each for each in (*named, llm, getattr(llm, "__call__", None)) if _is_async(each)]  # noqa: B004
    if methods and not inspect.isclass(llm):
        return _wrapped(llm, methods[0])
    raise InputError(
        f"{type(llm).__name__} is no language model",
        where="llm",
        remedy="Pass a dspy.LM, the name of one, a TurnProgram, an object with `async agenerate(messages)`, or an "
        "asynchronous function from a prompt to a text.",
    )


_Method = Callable[[Any], Awaitable[Any]]


def _is_async(method: Any) -> bool:
    return inspect.iscoroutinefunction(method)


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
        prompt: Any = [MessagePart(**each) for each in messages] if self._parts else _prompt(messages)
        reply = await self._method(prompt)
        text = reply if isinstance(reply, str) else _text_of(reply)
        if text is None:
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


def _text_of(reply: Any) -> str | None:
    texts = (getattr(reply, name, None) for name in _TEXTS)
    return next((text for text in texts if isinstance(text, str)), None)


def _usage(reply: Any) -> Usage:
    """The tokens that a reply tells, as jazzmine's do; 0 where it tells none."""
    usage = getattr(reply, "usage", None)
    sent, answered = (getattr(usage, name, 0) for name in ("prompt_tokens", "completion_tokens"))
    counted = [value if type(value) is int and value > 0 else 0 for value in (sent, answered)]
    return Usage(input_tokens=counted[0], output_tokens=counted[1], total_tokens=sum(counted))
