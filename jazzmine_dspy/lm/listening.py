"""What a provider sends back besides the text of an answer, which is all that DSPy hands to adapters."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any, NamedTuple, Self

import dspy
from dspy.clients.legacy_outputs import value
from dspy.lm15 import Response


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
        thought, refused = "thinking" in kinds or response.usage.reasoning_tokens, "refusal" in kinds
        finish = "error" if _ended_in_error(response.provider_data) else str(response.finish_reason or "")
    else:
        choice = next(iter(value(response, "choices", None) or ()), None)
        message = value(choice, "message", None)
        text = str(value(message, "content", None) or value(choice, "text", None) or "")
        thought, refused = (value(message, name, None) for name in ("reasoning_content", "refusal"))
        finish = str(value(choice, "finish_reason", None) or "").replace("tool_calls", "tool_call")
    # Where the server does not part thoughts from answers, they stand at its beginning.
    unended = text.lstrip().startswith("<think") and "</think" not in text
    return Outcome(text, bool(thought) or unended, finish, bool(refused))


def _ended_in_error(raw: Any) -> bool:
    """Whether a gateway says that the model broke down in the middle of its answer."""
    choices = raw.get("choices") if isinstance(raw, Mapping) else None
    first = choices[0] if isinstance(choices, list) and choices else None
    return isinstance(first, Mapping) and first.get("finish_reason") == "error"
