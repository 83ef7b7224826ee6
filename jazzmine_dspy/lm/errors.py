"""Errors of the language models: each is a `JazzmineError` and, where DSPy may carry it, a DSPy `LMError`
too."""

from __future__ import annotations

from typing import Any

from jazzmine_dspy.lm.dspy_api import ContextWindowExceededError, LMError, LMServerError
from jazzmine_dspy.models.errors import InputError, JazzmineError


class LMNotFoundError(InputError):
    """A language model's name does not resolve, or what it needs is not installed."""


class LMSettingsError(InputError):
    """Settings of a language model contradict each other or are unknown."""


class LMWarning(UserWarning):
    """Something about a language model works, but not as well as it could."""


class EngineError(JazzmineError, LMError):
    """A call failed for good.

    DSPy turns foreign exceptions of an engine into `LMUnexpectedError` and hands on its own unchanged; being
    one of its own keeps the type that callers catch. It is none of DSPy's retryable kinds: the engine has
    already repeated what is worth repeating.
    """


class _PositionalContextError(ContextWindowExceededError):
    """DSPy's error with the constructor of its siblings, so that it can stand in line with them."""

    def __init__(self, message: str = "", **details: Any) -> None:
        super().__init__(message=message, **details)


class LMContextError(EngineError, _PositionalContextError):
    """A prompt is longer than the model's context."""


class LMNoAnswerError(EngineError, LMServerError):
    """The provider answered with nothing: an outage, which says nothing of the model."""


class LMFilteredError(EngineError):
    """The provider's filter, or the model itself, refused to answer: asked again it would do so again."""


class LMRequestError(EngineError):
    """The engine cannot do what the request asks, or refused it."""

    explanation = "the engine cannot do what the request asks, or refused it"


class BudgetExhausted(EngineError):  # noqa: N818 - not a fault: the budget was kept
    """The next call would exceed the budget of language-model calls."""


class ScriptMissError(EngineError):
    """A scripted model has no answer for a request."""

    explanation = "there is no scripted answer for this request"
