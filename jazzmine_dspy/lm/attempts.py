"""The requests by which one answer is asked for: as wanted, and then as the provider takes it.

What is refused is left out, an answer that breaks off gets more room once, and no answer is an outage. `Outcome` is
what a provider sends back besides the text, which is all that DSPy hands to adapters.
"""

from __future__ import annotations

import copy
import re
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
from jazzmine_dspy.lm.errors import LMFilteredError, LMNoAnswerError
from jazzmine_dspy.lm.providers import (
    LIMITS,
    MORE,
    answer_limit,
    disable_schema,
    quirks_of,
    refused_parameter,
    refused_size,
    thinking_room,
)
from jazzmine_dspy.models.errors import AnswerError

WITHOUT = object()
"""In the place of a schema: nothing is to hold the answer."""
JSON = {"type": "json_object"}
"""In the place of a schema: JSON of any form."""
_OF_SCHEMA = re.compile(
    r"response.?format|schema|structured.?output|json.?(?:mode|object)|grammar|guided", re.I
)
_OF_LENGTH = re.compile(r"context.?(length|window|size)|too long", re.I)


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

    Every reason to ask again is met once, so the requests are few. What a provider refused is remembered for the model
    as soon as it answers without it.

    Args:
        lm: The language model.
        given: The settings with which the call was made.
    """

    def __init__(self, lm: Any, given: dict[str, Any]) -> None:
        self._lm, self._given = lm, given
        limit = given.get("max_tokens")
        self._wanted = limit if isinstance(limit, int) else None
        self._sent: dict[str, Any] = {}
        self._omitted: frozenset[str] = frozenset()
        self._dropped: set[str] = set()
        self._form: Any = None
        self._least = 0
        self._most: int | None = None
        self._thinks = self._fresh = False
        self._broke_off: Exception | None = None
        _, self._engine = unwrap(lm)

    def settings(self) -> dict[str, Any]:
        """Those of the next request."""
        self._omitted = frozenset(quirks_of(self._lm).refused)
        made = dict(self._given) if self._form is None else {**self._given, "response_format": self._form}
        if self._wanted is not None:
            made.pop("max_tokens")
        wanted = self._wanted if self._wanted is not None else self._limit_of(self._lm.kwargs)
        made |= answer_limit(self._lm, wanted, self._least, self._most)
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
            return self._unread(error, outcome)
        if refused_size(error) and self._shrink():
            return True
        if self._broke_off is not None and isinstance(error, LMInvalidRequestError):
            raise self._broke_off
        refused = quirks_of(self._lm).refused
        known = set(refused)
        if refused_parameter(self._lm, error, self._sent, self._omitted) or self._without_schema(error):
            self._dropped |= refused - known
            return True
        # A gateway that repeats the request in its errors names all of it.
        refused -= self._dropped
        return False

    def _unread(self, error: Exception, outcome: Outcome | None) -> bool:
        """After an answer that cannot be read."""
        if outcome is None:
            outcome = Outcome("" if _is_empty(error) else "x")
        if outcome.finish == "content_filter" or (outcome.refused and not outcome.text.strip()):
            raise _filtered() from error
        if outcome.finish == "length":
            return self._more_room(error, outcome)
        if outcome.finish == "tool_call":
            raise AnswerError(
                "The model calls a tool instead of answering",
                remedy="Turn the tools of its server off, or choose another language model.",
            ) from error
        empty = outcome.finish == "error" or not outcome.text.strip()
        return empty and self._past_cache(error, thought=outcome.thought)

    def _more_room(self, error: Exception, outcome: Outcome) -> bool:
        """Once, and not for an answer kept as evidence."""
        empty = outcome.thought or not outcome.text.strip()
        if empty:
            said = "The answer breaks off in the model's thoughts, before it begins"
            error = AnswerError(
                said, remedy="Raise max_tokens in lm_settings, or ask the model to think less."
            )
        if self._broke_off is not None or hasattr(self._engine, "recording"):
            if isinstance(error, AnswerError):
                raise error
            return False
        self._broke_off, self._thinks = error, empty
        self._least = MORE * self._limit_of(self._sent)
        if empty:
            self._least = max(self._least, thinking_room(self._engine))
        return True

    def _past_cache(self, error: Exception, *, thought: bool) -> bool:
        """Whether to ask past DSPy's cache, which may hold what was no answer."""
        if self._fresh or not getattr(self._lm, "cache", False):
            raise _no_answer(thought=thought) from error
        self._fresh = True
        return True

    def _shrink(self) -> bool:
        """Whether a smaller limit than was sent may be taken: one that still holds the answer."""
        sent, least = self._limit_of(self._sent), self._wanted or 1
        if sent <= least:
            return False
        self._most = max(least, sent // MORE)
        return True

    def _without_schema(self, error: Exception) -> bool:
        form = self._sent.get("response_format")
        refused = form is not None and form is not WITHOUT and _refuses_schema(error)
        if refused:
            self._form = WITHOUT if form == JSON else JSON
        return refused

    def _settle(self, outcome: Outcome | None) -> None:
        """The provider has answered, so what was left out is what it refused."""
        quirks = quirks_of(self._lm)
        if self._most is not None:
            quirks.most = self._most
        if self._form is not None:
            disable_schema(self._lm, "json" if self._form == JSON else "none")
        if self._thinks and outcome is not None and outcome.text.strip():
            quirks.thinks = True

    @staticmethod
    def _limit_of(settings: dict[str, Any]) -> int:
        return max((settings.get(name) or 0 for name in LIMITS), default=0)


def _value(of: Any, name: str) -> Any:
    return of.get(name) if isinstance(of, dict) else getattr(of, name, None)


def _refuses_schema(error: Exception) -> bool:
    """Whether a provider refuses just what is to hold the answer."""
    invalid = isinstance(error, LMInvalidRequestError) and error.status in (None, 400, 422)
    refused = invalid or isinstance(error, LMUnsupportedFeatureError)
    said = "" if isinstance(error, ContextWindowExceededError) else str(getattr(error, "message", ""))
    return refused and bool(_OF_SCHEMA.search(said)) and not _OF_LENGTH.search(said)


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


def _is_empty(error: Exception) -> bool:
    said = getattr(error, "lm_response", "x")
    return not str(said or "").strip() or said == "None"


def _no_answer(*, thought: bool = False) -> LMNoAnswerError:
    only = ": the model only produced thoughts" if thought else ""
    return LMNoAnswerError(
        f"The answer is empty{only}", remedy="Try again; if it happens again, look at the provider."
    )


def _filtered() -> LMFilteredError:
    return LMFilteredError(
        "The provider's filter or the model refused to answer", remedy="It would refuse another request too."
    )
