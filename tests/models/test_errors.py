"""What is named of an outside error: known codes and parameters, and nothing else that a server wrote."""

from __future__ import annotations

from typing import Any

import dspy.utils.exceptions as theirs
import pytest

from jazzmine_dspy.models.errors import CODES, error_code, error_parameter, format_error, http_status

SECRET = "sk-live-0123"


def carrying(**attributes: Any) -> ValueError:
    error = ValueError(f"{SECRET} of ann@example.org")
    vars(error).update(attributes)
    return error


@pytest.mark.row("G4")
@pytest.mark.parametrize(
    "param",
    [
        "temperature",
        "messages[1].content",
        "response_format.json_schema",
        "guided-json",
        "tools[0].function.x[]",
    ],
)
def test_a_parameter_is_named_by_its_path(param: str) -> None:
    assert error_parameter(carrying(param=param)) == param
    assert error_parameter(carrying(body={"error": {"param": param}})) == param
    wrapped = carrying()
    wrapped.__cause__ = carrying(param=param)
    assert error_parameter(wrapped) == param


@pytest.mark.row("G4")
@pytest.mark.parametrize(
    "param",
    ["", "a b", SECRET, "ann@example.org", "x" * 65, "0800", "straße", "a\nb", "x[1", 7, None, ["top_p"]],
)
def test_what_is_no_path_of_a_field_is_not_named(param: Any) -> None:
    error = carrying(param=param, body={"param": param, "error": {"param": param}})
    assert error_parameter(error) == ""
    assert format_error(error) == "ValueError"


@pytest.mark.row("G4")
@pytest.mark.parametrize("attribute", ["provider_code", "error_code", "code", "status_code"])
def test_known_codes_are_named_and_no_others(attribute: str) -> None:
    for code in CODES:
        assert error_code(carrying(**{attribute: code})) == code
    for code in (SECRET, "unsupported_parameter of ann", "", 400, None):
        assert error_code(carrying(**{attribute: code})) == ""


@pytest.mark.row("L2")
@pytest.mark.parametrize(
    ("message", "parameter"),
    [
        ("Unsupported parameter: 'max_tokens' is not supported. Use 'max_completion_tokens'.", "max_tokens"),
        ("Unrecognized request argument supplied: top_k", "top_k"),
        ("Unsupported value: 'ann' wrote 'temperature'", ""),
        (f"Unsupported parameter: '{SECRET}'", ""),
        ("The user asks for temperature", ""),
    ],
)
def test_a_parameter_that_the_message_alone_names(message: str, parameter: str) -> None:
    assert error_parameter(theirs.LMInvalidRequestError(message)) == parameter
    assert error_parameter(theirs.LMAuthError(message)) == ""


@pytest.mark.row("G4")
def test_a_status_is_that_of_the_error_or_of_its_response() -> None:
    assert http_status(carrying(status_code=503)) == 503
    assert http_status(carrying(response=carrying(status_code=404))) == 404
    assert http_status(carrying(status="404", response=carrying(status=7))) is None
    assert format_error(carrying(response=carrying(status_code=404))) == "ValueError, HTTP 404"
