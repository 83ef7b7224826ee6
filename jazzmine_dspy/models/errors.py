"""The one root of every error that this package raises."""

from __future__ import annotations

import os
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, ClassVar

from jazzmine_dspy.models.error_codes import CODES, error_code, error_parameter, http_status


class JazzmineError(Exception):
    """Root of all errors of the package (Pydantic's ``ValidationError`` alone stands outside).

    Args:
        message: What happened.
        where: File, line, field or id that it happened at.
        remedy: What to do next, as a full sentence.

    Example:
        >>> str(JazzmineError("Unknown flow 'x'", where="conversations.jsonl:3", remedy="Add it to flows.yaml."))
        "Unknown flow 'x' (conversations.jsonl:3). Add it to flows.yaml."
    """

    explanation: ClassVar[str] = ""
    """What records say in the place of the message, for errors that quote an answer, a prompt or an engine."""

    def __init__(self, message: str, *, where: str = "", remedy: str = "") -> None:
        self.message = message
        self.where = where
        self.remedy = remedy
        text = message.rstrip(".")
        if where:
            text += f" ({where})"
        super().__init__(f"{text}. {remedy}" if remedy else f"{text}.")

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild, (type(self), self.message, self.where, self.remedy))


def _rebuild(kind: type[JazzmineError], message: str, where: str, remedy: str) -> JazzmineError:
    """Copy an error without its subclass's constructor, so that it crosses threads and processes whole."""
    error = kind.__new__(kind)
    JazzmineError.__init__(error, message, where=where, remedy=remedy)
    return error


_EXPLANATIONS = {
    "AdapterParseError": "the answer cannot be read",
    "ValidationError": "a value does not fit its model",
    "LMAuthError": "the provider refuses the key; check the key and what it may do",
    "LMBillingError": "the provider refuses because of billing or a quota; check the account",
    "LMRateLimitError": "the provider gets too many requests; ask less often, or raise the limit",
    "ContextWindowExceededError": "the prompt is longer than the model's context",
    "LMUnsupportedModelError": "the provider does not have this model; check its name",
    "LMInvalidRequestError": "the provider refuses this request; check the model's settings",
    "LMUnsupportedFeatureError": "the model cannot do what the request asks",
    "LMTimeoutError": "the provider did not answer in time",
    "LMServerError": "the provider failed; try again later",
    "LMTransportError": "the provider cannot be reached; check the address and the network",
    "LMNotConfiguredError": "a key or an address is not set",
    "LMConfigurationError": "the model's settings cannot be used",
    "LMProviderError": "the provider answered with an error",
    "LMError": "the call failed",
    "TimeoutError": "no answer in time",
    "ConnectionError": "the connection failed",
    "MemoryError": "out of memory",
    "RecursionError": "nested too deeply",
}
"""Fixed words for errors of others, by the name of their class or of one that it stems from."""

MAX_SHOWN = 500
"""Characters of an error in records and logs."""


def format_error(error: BaseException) -> str:
    """What records, traces, logs and causes say of an error: its class, and words that are ours.

    The text of a foreign error is never shown: a provider's answer may echo the key, a header, the prompt or the user.
    Of a provider and of MLflow, the HTTP status, a known code and the name of a refused parameter are shown
    (:mod:`.error_codes`). An error of ours keeps its message, unless it is of a class that quotes others
    (:attr:`JazzmineError.explanation`).

    Example:
        >>> format_error(InputError("The text is empty", where="text"))
        'InputError: The text is empty (text).'
        >>> format_error(ConnectionResetError("while sending sk-0123 to ann@example.org"))
        'ConnectionResetError: the connection failed'
    """
    name = type(error).__name__
    if isinstance(error, JazzmineError):
        said = error.explanation or str(error)
    elif name == "AdapterParseError" and isinstance(error.__cause__, JazzmineError):
        return format_error(error.__cause__)
    elif (inner := _wrapped(error)) is not None:
        return f"{name}, from {format_error(inner)}"[:MAX_SHOWN]
    else:
        known = (each.__name__ for each in type(error).__mro__ if each.__name__ in _EXPLANATIONS)
        said = _EXPLANATIONS.get(next(known, ""), "")
        code = error_code(error)
        said = CODES.get(code) or said
        if not said and isinstance(error, OSError) and isinstance(error.errno, int):
            said = os.strerror(error.errno)
        if status := http_status(error):
            name = f"{name}, HTTP {status}"
        parameter = "" if CODES.get(code) else error_parameter(error)
        if details := ", ".join(filter(None, (code, parameter and f"parameter {parameter}"))):
            said = f"{said} ({details})" if said else details
    text = f"{name}: {said}" if said else name
    return text[:MAX_SHOWN].encode("utf-8", "replace").decode()


def _wrapped(error: BaseException) -> BaseException | None:
    """The error within one that says nothing itself: DSPy's around an engine, MLflow's around a connection."""
    name = type(error).__name__
    if name == "LMUnexpectedError":
        return error.__cause__
    if name == "MlflowException" and not error_code(error):
        return error.__cause__ or error.__context__
    return None


class InputError(JazzmineError):
    """What the caller handed in cannot be used: empty text, text over the limit, an unknown name."""


class FlowError(JazzmineError):
    """A flow definition cannot be used: bad YAML, a slot with no type, a name taken twice."""


class DatasetError(JazzmineError):
    """A dataset cannot be used as it is: a broken line, an unknown flow, an empty split."""


class AnswerError(JazzmineError):
    """A language model's answer could not be read: truncated, a key missing, another type.

    Attributes:
        readable: The fields that could be read, where the answer is whole and single fields are of another type.
        refused: Why each of the other fields could not be read, without the answer's own words.
    """

    readable: Mapping[str, Any] = MappingProxyType({})
    refused: Mapping[str, str] = MappingProxyType({})


class EnhancementError(AnswerError):
    """The answer to the enhancement could not be read."""


class SelectionError(AnswerError):
    """The answer to the flow selection could not be read."""


class UnderstandingError(AnswerError):
    """The answer to the understanding could not be read."""


class RecipeError(JazzmineError):
    """A recipe holds a key or a value that no optimization run understands."""


class ExtensionError(JazzmineError):
    """What a package adds cannot be used: a name taken twice, a method missing, a module that does not import."""


class ArtifactError(JazzmineError):
    """A compiled program cannot be loaded: damaged, of a newer format, or of other signatures."""


class EmbeddingError(JazzmineError):
    """The embedding model is missing, damaged or failed."""


class MemoryUnavailableError(JazzmineError):
    """A store did not answer, or not in time."""


class DeadlineError(JazzmineError, TimeoutError):
    """The time that a caller gave for a turn has passed."""


class LMUnansweredError(JazzmineError):
    """A language model did not answer for as long as it was asked: an outage, which says nothing of the model."""


class LMPausedError(JazzmineError):
    """A language model failed so often that it is left alone for a while."""
