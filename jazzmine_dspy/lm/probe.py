"""One real call to a language model, to see what its provider holds."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import dspy
from dspy.utils.exceptions import ContextWindowExceededError, LMInvalidRequestError, LMUnsupportedFeatureError

from jazzmine_dspy.lm.attempts import Listener, check_answered
from jazzmine_dspy.lm.native import limit_named
from jazzmine_dspy.lm.providers import (
    Support,
    answer_limit,
    configure_for_provider,
    quirks_of,
    refused_parameter,
    schema_support,
)

_WORD = "zebra-7"
_PROMPT = "Answer with one JSON object whose only key is 'word'; its value is any word."
_SCHEMA = {
    "type": "json_schema",
    "json_schema": {
        "name": "answer",
        "strict": True,
        "schema": {
            "type": "object",
            "properties": {"word": {"type": "string", "enum": [_WORD]}},
            "required": ["word"],
            "additionalProperties": False,
        },
    },
}
_FORMS: dict[Support, dict[str, Any] | None] = {
    "schema": _SCHEMA,
    "static": _SCHEMA,
    "json": {"type": "json_object"},
    "none": None,
}


@dataclass(frozen=True)
class Probe:
    """What came of asking.

    Args:
        taken: The most that the provider takes of what holds an answer: a schema, JSON of any form, or nothing.
        held: Whether the answer had it, and so nothing but the schema's one choice where a schema was taken.
        expected: What a program would have asked for without having tried.
        temperature: The temperature that was sent and taken; None where none was sent.
        prompt_tokens: Tokens that the provider has counted in the request, 0 where it reports none.
        completion_tokens: The same of the answer.
        answer: The answer's first 60 characters.
    """

    taken: Support
    held: bool
    expected: Support
    temperature: float | None
    prompt_tokens: int
    completion_tokens: int
    answer: str


def probe(lm: dspy.LM) -> Probe:
    """Ask a language model for a word: once, and again with less only where the provider refuses a request as such.

    Raises:
        Exception: What the call raised, where nothing could be left out of it.
        LMFilteredError: A content filter stopped the answer, or the model refused.
        LMNoAnswerError: The response holds no answer.
    """
    lm = configure_for_provider(lm)
    expected = schema_support(lm)
    forms: list[Support] = ["schema", "json", "none"]
    forms = forms[forms.index("schema" if expected == "static" else expected) :]
    while forms:
        form = forms[0]
        wanted = {} if _FORMS[form] is None else {"response_format": _FORMS[form]}
        omitted = frozenset(quirks_of(lm).refused)
        settings = {**wanted, **answer_limit(lm, 64)}
        try:
            with dspy.track_usage() as usage, Listener(limit_named(lm)) as listener:
                answered = listener.lm(_PROMPT, **settings)
        except (LMInvalidRequestError, LMUnsupportedFeatureError) as error:
            if refused_parameter(lm, error, settings, omitted):
                continue
            if form == "none" or isinstance(error, ContextWindowExceededError) or error.status in (404, 413):
                raise
            del forms[0]
            continue
        if listener.outcome is not None:
            check_answered(listener.outcome)
        spent = usage.get_total_tokens().get(lm.model, {})
        text = str(answered[0]["text"] if isinstance(answered[0], dict) else answered[0])
        return Probe(
            taken=form,
            held=form == "none" or _holds(form, text),
            expected=expected,
            temperature=settings.get("temperature", lm.kwargs.get("temperature")),
            prompt_tokens=int(spent.get("prompt_tokens") or 0),
            completion_tokens=int(spent.get("completion_tokens") or 0),
            answer=" ".join(text.split())[:60],
        )
    raise AssertionError("the last form is asked for or raises")


def _holds(form: Support, text: str) -> bool:
    try:
        found = json.loads(text)
    except ValueError:
        return False
    return found == {"word": _WORD} if form == "schema" else isinstance(found, dict)
