"""What causes, logs and reports may name of an outside error: known codes, and the name of a refused parameter.

Everything else that a server writes may echo the key, the prompt or the user, and is never shown.
"""

from __future__ import annotations

import re
import traceback
from collections.abc import Iterator, Mapping
from typing import Any

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
    found = None
    if not _REFUSALS.isdisjoint(kind.__name__ for kind in type(error).__mro__):
        found = _IN_MESSAGE.search(str(getattr(error, "message", "")))
    return found[1].lower() if found else ""


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
    for attribute in ("status", "status_code"):
        status = getattr(thing, attribute, None)
        if type(status) is int and 100 <= status <= 599:
            return status
    return None


def _causes(error: BaseException) -> Iterator[BaseException]:
    each: BaseException | None = error
    for _ in range(_CAUSES):
        if each is None:
            return
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
    if isinstance(body, bytes):
        try:
            body = from_json(body)
        except MalformedError:
            return {}
    if not isinstance(body, Mapping):
        return {}
    inner = body.get("error", body)
    return inner if isinstance(inner, Mapping) else {}
