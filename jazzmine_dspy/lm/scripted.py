"""A language model that answers by a rule, for tests: the request alone decides, not the order of requests."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any, cast

import dspy
from dspy.lm15 import Request, Response, Usage

from jazzmine_dspy.lm.engines import AsyncEngine, Engine, chat_messages, text_response, user_text
from jazzmine_dspy.lm.errors import ScriptMissError

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

    @property
    def identity(self) -> str:
        """The same for all scripts: give models different names to tell them apart."""
        return "scripted"

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
        sent = sum(len(message["content"].split()) for message in chat_messages(request))
        return text_response(
            request, answer, usage=Usage(input_tokens=sent, output_tokens=len(answer.split()))
        )

    async def acomplete(self, request: Request) -> Response:
        """As `complete`, in the event loop's own thread."""
        return self.complete(request)


def scripted_lm(answers: Script, model: str = "scripted/x", *, schema: bool = True) -> dspy.LM:
    """A model over a `ScriptedEngine`, which is its `.engine`; temperature 0, no cache, no retries."""
    engine = ScriptedEngine(answers, schema=schema)
    settings: Any = {"cache": False, "num_retries": 0, "temperature": 0.0}
    return cast("dspy.LM", dspy.LM(model, engine=engine, async_engine=AsyncEngine(engine), **settings))
