"""The requests by which one answer is asked for: as wanted, and then as the provider takes it.

What is refused is left out, an answer that breaks off gets more room once, and no answer is an outage. `Outcome` is
what a provider sends back besides the text, which is all that DSPy hands to adapters.
"""

from __future__ import annotations

import copy
import re
import warnings
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any, NamedTuple, Self

import dspy

from jazzmine_dspy.lm.dspy_api import (
    AdapterParseError,
    ContextWindowExceededError,
    LMInvalidRequestError,
    LMUnsupportedFeatureError,
    Response,
)
from jazzmine_dspy.lm.engines import unwrap
from jazzmine_dspy.lm.errors import LMFilteredError, LMNoAnswerError, LMWarning
from jazzmine_dspy.lm.providers import CONTEXT, LIMIT, limit_of, quirks_of, sampling, thinking_room
from jazzmine_dspy.models.errors import AnswerError, format_error

WITHOUT = object()
"""In the place of a schema: nothing is to hold the answer."""
MORE = 4
"""How many times the limit the one retry gets whose answer broke off."""
_WORDS = {
    "response_format": r"response.?format|schema|structured.?output|json.?(?:mode|object)|grammar|guided",
    "temperature": "temperature",
    LIMIT: r"max.?(?:completion.?)?tokens",
}
"""What refusals call a setting that can be left out, in the order in which each is."""


class Outcome(NamedTuple):
    """What came back of a call.

    Args:
        text: The answer.
        thought: Whether the model has thought before it, or instead of it.
        finish: Why it ended: ``stop``, ``length``, ``content_filter``, ``tool_call``, ``error`` or "".
        refused: Whether the model said that it refuses.
    """

    text: str = ""
    thought: bool = False
    finish: str = ""
    refused: bool = False


class Listener:
    """A copy of a language model that keeps what its provider sends back; for one call, with ``with``.

    Args:
        lm: The language model; one that is not DSPy's is asked as it is, and nothing is heard.

    Attributes:
        lm: The language model to ask.
        outcome: What came back; None where nothing did.
    """

    def __init__(self, lm: Any) -> None:
        self.lm = lm
        self.outcome: Outcome | None = None
        self._owner = lm
        self._kept = not dspy.settings.disable_history
        self._context = ExitStack()

    def __enter__(self) -> Self:
        if isinstance(self.lm, dspy.LM):
            self.lm = copy.copy(self.lm)
            vars(self.lm)["update_history"] = self._hear
            if not self._kept:
                # DSPy tells of a call only where a history is kept; here it still is not.
                self._context.enter_context(dspy.context(disable_history=False))
        return self

    def __exit__(self, *_: object) -> None:
        self._context.close()

    def _hear(self, entry: dict[str, Any]) -> None:
        self.outcome = outcome_of(entry["response"])
        if self._kept:
            self._owner.update_history(entry)


def outcome_of(response: Any) -> Outcome:
    """What a response says, be it DSPy's own or one of OpenAI's form.

    Example:
        >>> outcome_of({"choices": [{"finish_reason": "length", "message": {"content": None}}]})
        Outcome(text='', thought=False, finish='length', refused=False)
    """
    if isinstance(response, tuple):
        response = response[0] if response else None
    if isinstance(response, Response):
        kinds = {part.type for part in response.message.parts}
        texts = (part for part in response.message.parts if part.type in ("text", "data"))
        text = "".join(part.text if part.type == "text" else "x" for part in texts)
        thoughts = "".join(part.text for part in response.message.parts if part.type == "thinking")
        thought, refused = "thinking" in kinds or response.usage.reasoning_tokens, "refusal" in kinds
        finish = "error" if _ended_in_error(response.provider_data) else str(response.finish_reason or "")
    else:
        choice = next(iter(_value(response, "choices") or ()), None)
        message = _value(choice, "message")
        text = str(_value(message, "content") or _value(choice, "text") or "")
        thought, refused = (_value(message, name) for name in ("reasoning_content", "refusal"))
        thoughts = str(thought or "")
        finish = str(_value(choice, "finish_reason") or "").replace("tool_calls", "tool_call")
    if not text.strip() and thoughts.rstrip().endswith("}"):
        # Some servers take the answer for thoughts.
        text = thoughts
    # Where the server does not part thoughts from answers, they stand at its beginning.
    unended = text.lstrip().startswith("<think") and "</think" not in text
    return Outcome(text, bool(thought) or unended, finish, bool(refused))


def with_text(output: Any) -> Any:
    """An output of a language model, with the answer for its text wherever the server has put it.

    Some servers take an answer for the arguments of a tool, or for thoughts, which it then ends.

    Example:
        >>> with_text({"text": None, "reasoning_content": '{"flows": []}'})["text"]
        '<think>{"flows": []}'
    """
    if not isinstance(output, dict) or str(output.get("text") or "").strip():
        return output
    for call in output.get("tool_calls") or ():
        return {**output, "text": _value(_value(call, "function"), "arguments")}
    thoughts = output.get("reasoning_content")
    return {**output, "text": f"<think>{thoughts}"} if thoughts else output


def _ended_in_error(raw: Any) -> bool:
    """Whether a gateway says that the model broke down in the middle of its answer."""
    choices = raw.get("choices") if isinstance(raw, Mapping) else None
    first = choices[0] if isinstance(choices, list) and choices else None
    return isinstance(first, Mapping) and first.get("finish_reason") == "error"


class Attempts:
    """One call of an adapter: the settings of its next request, and what to do after it.

    A request is made again without the schema or parameter that its refusal names, once with more room for an answer
    that broke off, and once past DSPy's cache. What a provider refused is remembered for the model as soon as it
    answers without it. Every other failure is the provider's own.

    Args:
        lm: The language model.
        given: The settings with which the call was made.
    """

    def __init__(self, lm: Any, given: dict[str, Any]) -> None:
        self._lm, self._given = lm, dict(given)
        self._wanted = self._given.pop("max_tokens", None) or 0
        self._sent: dict[str, Any] = {}
        self._refused: set[str] = set()
        self._reason = ""
        self._least = 0
        self._thought = self._fresh = False

    def settings(self) -> dict[str, Any]:
        """Those of the next request."""
        self._refused |= quirks_of(self._lm).refused
        made = {**self._given, **sampling(self._lm, max(self._wanted, self._least), self._refused)}
        if "response_format" in self._refused:
            made["response_format"] = WITHOUT
        if self._fresh:
            made["cache"] = False
        self._sent = made
        return made

    def accept(self, answers: Any, outcome: Outcome | None) -> list[dict[str, Any]]:
        """The answers of a request, where they are some.

        Raises:
            LMFilteredError: A filter stopped them.
            LMNoAnswerError: There are none.
        """
        self._settle(outcome)
        if outcome is not None and outcome.finish == "content_filter":
            raise _filtered()
        if not (found := list(answers)):
            raise _no_answer()
        return found

    def again(self, error: Exception, outcome: Outcome | None) -> bool:
        """Whether another request may be answered, now that one has failed.

        Raises:
            LMFilteredError: The answer was refused.
            LMNoAnswerError: There was none.
            AnswerError: The limit left no room for one, or for all of it.
        """
        if outcome is not None or isinstance(error, AdapterParseError):
            self._settle(outcome)
            answer = str(getattr(error, "lm_response", "x") or "").strip()
            return self._unread(error, outcome or Outcome("" if answer in ("", "None") else "x"))
        refused = next((name for name in self._named(error) if name not in self._refused), None)
        if refused is None:
            return False
        self._refused.add(refused)
        self._reason = format_error(error)
        return True

    def _named(self, error: Exception) -> list[str]:
        """What a refusal names of that which was sent."""
        if not isinstance(error, LMInvalidRequestError | LMUnsupportedFeatureError):
            return []
        said, limit = str(error.message).lower(), limit_of(self._sent)
        if isinstance(error, ContextWindowExceededError) or re.search(
            "context.?(length|window|size)|too long", said
        ):
            # What a model that thinks is given beyond its answer may be all that does not fit.
            return [CONTEXT] if limit > self._wanted else []
        sent = {**unwrap(self._lm)[0].kwargs, **self._sent, LIMIT: limit or None}
        return [
            name for name, words in _WORDS.items() if sent.get(name) is not None and re.search(words, said)
        ]

    def _unread(self, error: Exception, outcome: Outcome) -> bool:
        """After an answer that cannot be read."""
        if outcome.finish == "length":
            return self._more_room(error, empty=outcome.thought or not outcome.text.strip())
        if outcome.finish == "tool_call":
            raise AnswerError(
                "The model calls a tool instead of answering",
                remedy="Turn the tools of its server off, or choose another language model.",
            ) from error
        try:
            check_answered(outcome)
        except LMNoAnswerError as none:
            if self._fresh or not getattr(self._lm, "cache", False):
                raise none from error
            # DSPy's cache may hold what was no answer.
            self._fresh = True
            return True
        return False

    def _more_room(self, error: Exception, *, empty: bool) -> bool:
        """Once, and not for an answer kept as evidence."""
        if self._least or hasattr(unwrap(self._lm)[1], "recording"):
            if not empty:
                return False
            raise AnswerError(
                "The answer breaks off in the model's thoughts, before it begins",
                remedy="Raise max_tokens in lm_settings, or ask the model to think less.",
            ) from error
        self._thought = empty
        self._least = max(MORE * limit_of(self._sent), thinking_room(self._lm) if empty else 1)
        return True

    def _settle(self, outcome: Outcome | None) -> None:
        """The provider has answered, so what was left out is what it refused."""
        quirks = quirks_of(self._lm)
        if "response_format" in self._refused - quirks.refused:
            warnings.warn(
                f"{unwrap(self._lm)[0].model} refuses the schema of an answer and is sent none from now on; every "
                f"answer is checked all the same ({self._reason}). Set schema_support = false in "
                "lm_settings if it takes JSON without a schema.",
                LMWarning,
                stacklevel=4,
            )
        quirks.refused |= self._refused - {CONTEXT}
        if self._thought and outcome is not None and outcome.text.strip():
            quirks.thinks = True


def _value(of: Any, name: str) -> Any:
    return of.get(name) if isinstance(of, dict) else getattr(of, name, None)


def check_answered(outcome: Outcome) -> None:
    """Check that a response holds an answer, or its beginning.

    Raises:
        LMFilteredError: A content filter stopped it, or the model refused.
        LMNoAnswerError: It holds no answer.
    """
    empty = not outcome.text.strip()
    if outcome.finish == "content_filter" or (outcome.refused and empty):
        raise _filtered()
    if outcome.finish == "error" or (empty and outcome.finish not in ("length", "tool_call")):
        raise _no_answer(thought=outcome.thought)


def _no_answer(*, thought: bool = False) -> LMNoAnswerError:
    only = ": the model only produced thoughts" if thought else ""
    return LMNoAnswerError(
        f"The answer is empty{only}", remedy="Try again; if it happens again, look at the provider."
    )


def _filtered() -> LMFilteredError:
    return LMFilteredError(
        "The provider's filter or the model refused to answer", remedy="It would refuse another request too."
    )
