"""A language model that answers by a rule, for tests: by what is asked, never by the order of asking."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from typing import Any, cast

import dspy
from dspy.lm15 import Request, Response, Usage

from jazzmine_dspy.lm.errors import ScriptMissError
from jazzmine_dspy.lm.requests import chat_messages, small_events, text_response, user_text

#: A text, or an exception that the call is to raise.
Answer = str | BaseException
Script = Callable[[Request], Answer] | Mapping[str, Answer]


class ScriptedEngine:
    """Answers from a function of the request, or from a mapping. Thread-safe.

    A mapping's key is looked for in the last user message; of several that occur the longest counts. Usage
    is the number of words, sent and answered.

    Args:
        answers: The function or mapping. An exception in the place of a text is raised.
        schema: Whether the engine says that it holds answers to schemas.
    """

    supports_function_calling = False
    supports_reasoning = False

    def __init__(self, answers: Script, *, schema: bool = True) -> None:
        self.answers = answers
        self.supports_response_schema = schema
        self.supported_params = {"temperature", "max_tokens"} | ({"response_format"} if schema else set())
        self.requests: list[Request] = []
        self._lock = threading.Lock()

    def __deepcopy__(self, memo: dict[int, Any]) -> ScriptedEngine:
        return self

    @property
    def calls(self) -> int:
        """Calls so far, those that raised included."""
        with self._lock:
            return len(self.requests)

    @property
    def identity(self) -> str:
        """The same for all scripts: name the model otherwise where two must be told apart."""
        return "scripted"

    def complete(self, request: Request) -> Response:
        """The scripted answer.

        Raises:
            ScriptMissError: No key of the mapping occurs in the request.
        """
        with self._lock:
            self.requests.append(request)
        answer = self.answers(request) if callable(self.answers) else self._look_up(self.answers, request)
        if isinstance(answer, BaseException):
            raise answer
        sent = sum(len(message["content"].split()) for message in chat_messages(request))
        return text_response(
            request, answer, usage=Usage(input_tokens=sent, output_tokens=len(answer.split()))
        )

    def stream(self, request: Request) -> Iterator[Any]:
        """The scripted answer, a word at a time."""
        return small_events(self.complete(request))

    def close(self) -> None:
        """Nothing to close."""

    @staticmethod
    def _look_up(answers: Mapping[str, Answer], request: Request) -> Answer:
        text = user_text(request)
        if not (found := [key for key in answers if key in text]):
            raise ScriptMissError(
                f"No scripted answer for: {text[:200]}",
                where=request.model,
                remedy="Add a key that occurs in this message.",
            )
        return answers[max(found, key=len)]


class AsyncScriptedEngine:
    """The asynchronous twin of a `ScriptedEngine`.

    Args:
        engine: The synchronous engine.
    """

    def __init__(self, engine: ScriptedEngine) -> None:
        self.engine = engine

    def __deepcopy__(self, memo: dict[int, Any]) -> AsyncScriptedEngine:
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


def scripted_lm(answers: Script, model: str = "scripted/x", *, schema: bool = True) -> dspy.LM:
    """A model over a `ScriptedEngine`, which is its `.engine`; temperature 0, no cache, no retries."""
    engine = ScriptedEngine(answers, schema=schema)
    return cast(
        "dspy.LM",
        dspy.LM(
            model,
            engine=engine,
            async_engine=AsyncScriptedEngine(engine),
            cache=False,
            num_retries=0,
            temperature=0.0,
        ),
    )
