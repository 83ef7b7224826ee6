"""One real call of a language model, which shows what its provider takes and holds."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import dspy

from jazzmine_dspy.lm.attempts import WITHOUT, Attempts, Listener, check_answered
from jazzmine_dspy.lm.native import configure_for_provider
from jazzmine_dspy.lm.providers import Support, schema_support

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
_JSON = {"type": "json_object"}
_FORMS: dict[Support, Any] = {"schema": _SCHEMA, "static": _SCHEMA, "json": _JSON, "none": WITHOUT}


@dataclass(frozen=True)
class Probe:
    """The result of a probe.

    Args:
        taken: The most that the provider takes of what holds an answer: a schema, JSON of any form, or nothing.
        held: Whether the answer had it, and so nothing but the schema's one choice where a schema was taken.
        temperature: The temperature that was sent and taken; None where none was sent.
        prompt_tokens: Tokens that the provider has counted in the request, 0 where it reports none.
        completion_tokens: The same of the answer.
        answer: The answer's first 60 characters.
    """

    taken: Support
    held: bool
    temperature: float | None
    prompt_tokens: int
    completion_tokens: int
    answer: str


def probe(lm: dspy.LM) -> Probe:
    """Ask a language model for a word: once, and again only without what the provider refuses.

    Raises:
        Exception: What the call raised, where nothing could be left out of it.
        LMFilteredError: A content filter stopped the answer, or the model refused.
        LMNoAnswerError: The response holds no answer.
    """
    lm = configure_for_provider(lm)
    attempts = Attempts(lm, {"max_tokens": 64, "response_format": _FORMS[schema_support(lm)]})
    while True:
        settings = attempts.settings()
        if (form := settings["response_format"]) is WITHOUT:
            del settings["response_format"]
        with dspy.track_usage() as usage, Listener(lm) as listener:
            try:
                answered = listener.lm(_PROMPT, **settings)
                break
            except Exception as error:
                if not attempts.again(error, listener.outcome):
                    raise
    if listener.outcome is not None:
        check_answered(listener.outcome)
    attempts.accept(answered, listener.outcome)
    spent = usage.get_total_tokens().get(lm.model, {})
    text = str(answered[0]["text"] if isinstance(answered[0], dict) else answered[0])
    return Probe(
        taken="schema" if form is _SCHEMA else "json" if form is _JSON else "none",
        held=form is WITHOUT or _holds(text, strictly=form is _SCHEMA),
        temperature=settings.get("temperature", lm.kwargs.get("temperature")),
        prompt_tokens=int(spent.get("prompt_tokens") or 0),
        completion_tokens=int(spent.get("completion_tokens") or 0),
        answer=" ".join(text.split())[:60],
    )


def _holds(text: str, *, strictly: bool) -> bool:
    try:
        found = json.loads(text)
    except ValueError:
        return False
    return found == {"word": _WORD} if strictly else isinstance(found, dict)
