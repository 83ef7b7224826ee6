"""The one root of every error that this package raises, and fixed words for the errors of others."""

from __future__ import annotations

import contextlib
import os
import re
import traceback
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar

from jazzmine_dspy.models.parsing import MalformedError, from_json

CONTENT_FILTER = "the provider's content filter refuses the request"
CODES = {
    "content_filter": CONTENT_FILTER,
    "content_policy_violation": CONTENT_FILTER,
    "ResponsibleAIPolicyViolation": CONTENT_FILTER,
    "unsupported_parameter": "",
    "unsupported_value": "",
    "unknown_parameter": "",
    "missing_required_parameter": "",
    "invalid_value": "",
    "invalid_type": "",
    "invalid_json": "",
    "invalid_function_parameters": "",
    "integer_above_max_value": "",
    "integer_below_min_value": "",
    "decimal_above_max_value": "",
    "decimal_below_min_value": "",
    "string_above_max_length": "",
    "array_above_max_length": "",
    "array_below_min_length": "",
    "context_length_exceeded": "",
    "model_not_found": "",
    "unsupported_model": "",
    "unsupported_country_region_territory": "",
    "DeploymentNotFound": "",
    "OperationNotSupported": "",
    "invalid_api_key": "",
    "insufficient_quota": "",
    "billing_hard_limit_reached": "",
    "rate_limit_exceeded": "",
    # MLflow's, as its protocol names them.
    "ABORTED": "",
    "ALREADY_EXISTS": "",
    "BAD_REQUEST": "",
    "CANCELLED": "",
    "CUSTOMER_UNAUTHORIZED": "",
    "DATA_LOSS": "",
    "DEADLINE_EXCEEDED": "",
    "ENDPOINT_NOT_FOUND": "",
    "FEATURE_DISABLED": "",
    "INVALID_PARAMETER_VALUE": "",
    "INVALID_STATE": "",
    "MAX_LIST_SIZE_EXCEEDED": "",
    "NOT_FOUND": "",
    "NOT_IMPLEMENTED": "",
    "PERMISSION_DENIED": "",
    "REQUEST_LIMIT_EXCEEDED": "",
    "RESOURCE_ALREADY_EXISTS": "",
    "RESOURCE_CONFLICT": "",
    "RESOURCE_DOES_NOT_EXIST": "",
    "RESOURCE_EXHAUSTED": "",
    "RESOURCE_LIMIT_EXCEEDED": "",
    "TEMPORARILY_UNAVAILABLE": "",
    "UNAUTHENTICATED": "",
}
"""The codes that are shown, with words for those that the class of the error does not explain."""

_PARAMETER = re.compile(r"(?=.{1,64}\Z)[A-Za-z_][A-Za-z_.-]*(?:\[\d*\][A-Za-z_.-]*)*", re.ASCII)
"""The path of a field. A digit outside brackets is refused: keys and numbers of users have them."""

_REQUEST = (
    "model", "messages", "temperature", "top_p", "top_k", "n", "stream", "stop", "max_tokens", "max_completion_tokens",
    "presence_penalty", "frequency_penalty", "logit_bias", "logprobs", "top_logprobs", "seed", "response_format",
    "tools", "tool_choice", "parallel_tool_calls", "reasoning_effort", "service_tier", "verbosity", "min_p",
)  # fmt: skip
_IN_MESSAGE = re.compile(
    r"(?:unsupported|unrecognized|unknown|not supported)[^'\"`]{0,60}(?:['\"`]|supplied: )"
    rf"({'|'.join(sorted(_REQUEST, key=len, reverse=True))})\b",
    re.IGNORECASE,
)
"""A parameter that only the message of a refusal names, as OpenAI does for some."""
_REFUSALS = {"LMInvalidRequestError", "LMUnsupportedFeatureError"}
"""The errors whose messages are searched for it, by their classes."""

_MLFLOW_STATUS = re.compile(r"^API request to endpoint \S{1,200} failed with error code ([1-5]\d\d) != 200")

_CAUSES = 8
"""Errors that are looked at, one as the cause of another."""
_LONGEST_BODY = 65_536


def error_code(error: BaseException) -> str:
    """The known code that an error or one of its causes carries; empty where there is none.

    Example:
        >>> refused = ValueError("what the user wrote")
        >>> refused.code = "content_filter"
        >>> error_code(refused)
        'content_filter'
    """
    for each in _causes(error):
        details = [_details(body) for body in _bodies(each)]
        # LiteLLM puts the code of an error that comes with status 200 in the place of the status.
        named = [getattr(each, name, None) for name in ("provider_code", "error_code", "code", "status_code")]
        for code in (*named, *(part.get("code") for part in details)):
            if isinstance(code, str) and code in CODES:
                return code
        if type(each).__name__ == "ContentPolicyViolationError":
            return "content_policy_violation"
    return ""


def error_parameter(error: BaseException) -> str:
    """The parameter that a server refuses, by the path of its field; empty where none is named.

    Args:
        error: Of the call, or of a library around it.

    Example:
        >>> refused = ValueError("what the user wrote")
        >>> refused.param = "messages[1].content"
        >>> error_parameter(refused)
        'messages[1].content'
    """
    for each in _causes(error):
        for param in (getattr(each, "param", None), *(_details(body).get("param") for body in _bodies(each))):
            if isinstance(param, str) and (param in _REQUEST or _PARAMETER.fullmatch(param)):
                return param
    refused = not _REFUSALS.isdisjoint(kind.__name__ for kind in type(error).__mro__)
    match = _IN_MESSAGE.search(str(getattr(error, "message", ""))) if refused else None
    return match[1].lower() if match else ""


def http_status(error: BaseException) -> int | None:
    """The HTTP status that an error or its response carries, or MLflow's client names.

    Example:
        >>> gone = ValueError("what the user wrote")
        >>> gone.status = 404
        >>> http_status(gone)
        404
    """
    if (status := _status(error) or _status(getattr(error, "response", None))) is not None:
        return status
    named = _MLFLOW_STATUS.search(str(error)) if type(error).__name__ == "MlflowException" else None
    return int(named[1]) if named else None


def _status(thing: Any) -> int | None:
    named = (getattr(thing, attribute, None) for attribute in ("status", "status_code"))
    return next((status for status in named if type(status) is int and 100 <= status <= 599), None)


def _causes(error: BaseException) -> Iterator[BaseException]:
    each: BaseException | None = error
    for _ in range(_CAUSES):
        if each is not None:
            yield each
            each = each.__cause__


def _bodies(error: BaseException) -> Iterator[Any]:
    """What the server answered: an attribute of the error, or a variable of the client that raised it.

    DSPy's client keeps the message and the code of an answer, not the parameter.
    """
    yield getattr(error, "body", None)
    if _status(error) is None:
        return
    for frame, _ in traceback.walk_tb(error.__traceback__):
        response = frame.f_locals.get("resp")
        if response is not None and (_status(response) or 0) >= 400:
            body = getattr(response, "body", None)
            if isinstance(body, bytes) and len(body) <= _LONGEST_BODY:
                yield body


def _details(body: Any) -> Mapping[str, Any]:
    """The part of an answer that describes the error, in the form of OpenAI or of MLflow."""
    with contextlib.suppress(MalformedError):
        body = from_json(body) if isinstance(body, bytes) else body
    inner = body.get("error", body) if isinstance(body, Mapping) else None
    return inner if isinstance(inner, Mapping) else {}


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
        text = message.rstrip(".") + (f" ({where})" if where else "")
        super().__init__(f"{text}. {remedy}" if remedy else f"{text}.")
        # A base of another package may have put the whole text here.
        self.message, self.where, self.remedy = message, where, remedy

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
    (``CODES``). An error of ours keeps its message, unless it is of a class that quotes others
    (:attr:`JazzmineError.explanation`).

    Example:
        >>> format_error(InputError("The text is empty", where="text"))
        'InputError: The text is empty (text).'
        >>> format_error(ConnectionResetError("while sending sk-0123 to ann@example.org"))
        'ConnectionResetError: the connection failed'
    """
    name = type(error).__name__
    if isinstance(error, JazzmineError):
        explanation = error.explanation or str(error)
    elif name == "AdapterParseError" and isinstance(error.__cause__, JazzmineError):
        return format_error(error.__cause__)
    elif (inner := _wrapped(error)) is not None:
        return f"{name}, from {format_error(inner)}"[:MAX_SHOWN]
    else:
        known = (each.__name__ for each in type(error).__mro__ if each.__name__ in _EXPLANATIONS)
        explanation = _EXPLANATIONS.get(next(known, ""), "")
        code = error_code(error)
        explanation = CODES.get(code) or explanation
        if not explanation and isinstance(error, OSError) and isinstance(error.errno, int):
            explanation = os.strerror(error.errno)
        if status := http_status(error):
            name = f"{name}, HTTP {status}"
        parameter = "" if CODES.get(code) else error_parameter(error)
        if details := ", ".join(filter(None, (code, parameter and f"parameter {parameter}"))):
            explanation = f"{explanation} ({details})" if explanation else details
    text = f"{name}: {explanation}" if explanation else name
    return text[:MAX_SHOWN].encode("utf-8", "replace").decode()


def _wrapped(error: BaseException) -> BaseException | None:
    """The error within one that says nothing itself: DSPy's around an engine, MLflow's around a connection."""
    name = type(error).__name__
    if name == "MlflowException" and not error_code(error):
        return error.__cause__ or error.__context__
    return error.__cause__ if name == "LMUnexpectedError" else None


class InputError(JazzmineError):
    """What the caller handed in cannot be used: empty text, text over the limit, an unknown name."""


class FlowError(JazzmineError):
    """A flow definition cannot be used: bad YAML, a slot with no type, a name taken twice.

    Attributes:
        others: The other errors of the same flows.
    """

    others: tuple[FlowError, ...] = ()


def combined(errors: Sequence[FlowError]) -> FlowError:
    """The first of some errors, with the others; a traceback shows them as notes."""
    first, *others = errors
    first.others, first.__notes__ = tuple(others), [str(each) for each in others]
    return first


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


@contextlib.contextmanager
def reading(path: str | Path, problem: str, remedy: str, kind: type[JazzmineError]) -> Iterator[None]:
    """Context in which a file that cannot be read, or a text in it, raises one error of ours.

    Args:
        path: The file.
        problem: What cannot be done, without the cause.
        remedy: What to do about it.
        kind: Class of the error.

    Raises:
        JazzmineError: of that class, with the line where it is known.
    """
    try:
        yield
    except OSError as error:
        raise kind(f"{problem}: {error.strerror}", where=str(path), remedy=remedy) from error
    except MalformedError as error:
        raise kind(f"{problem}: {error.problem}", where=error.at(path), remedy=remedy) from error
