"""From a language model's answer to an enhancement: read, put into normal form, and checked field by field."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from jazzmine_dspy.models import Enhancement, EnhancementError, Entity, FlowRegistry, Turn
from jazzmine_dspy.program.lm.faithfulness import says_the_same, unfaithful
from jazzmine_dspy.signatures.answers import EnhancementAnswer, read_answer
from jazzmine_dspy.signatures.schema import OTHER_INTENTS

UNKNOWN = "unknown"
_LONGEST_REWRITE = (400, 4)
"""A rewrite may have so many characters, and so many more for each of the message; a longer one is an essay."""


def parse_enhancement(text: str) -> Enhancement:
    """Read a language model's text as an enhancement.

    Takes code fences, prose around the JSON, dictionaries written as in Python and trailing commas. Holds a finite
    sentiment in [-1, 1], and writes the intent in snake case.

    Args:
        text: What the language model answered.

    Raises:
        EnhancementError: no JSON object, a truncated one, one of the six fields missing, or a value of another type.

    Example:
        >>> answer = '''```json
        ... {"enhanced_query": "Where is order 4471?", "sentiment_score": -3, "intent": "Track order",
        ...  "entities": [], "is_cancellation": false, "is_continuation": true}
        ... ```'''
        >>> found = parse_enhancement(answer)
        >>> found.intent, found.sentiment_score
        ('track_order', -1.0)
    """
    if not isinstance(text, str):
        raise EnhancementError(
            f"The answer must be a string, not {type(text).__name__}",
            remedy="Pass what the language model answered.",
        )
    answer = read_answer(EnhancementAnswer, text, EnhancementError)
    return _enhancement({name: getattr(answer, name) for name in EnhancementAnswer.model_fields}, "")


def enhancement_of(
    outputs: Mapping[str, Any], turn: Turn, flows: FlowRegistry
) -> tuple[Enhancement, tuple[str, ...]]:
    """An enhancement from the fields of an answer; a field that is missing or refused is as the fallback has it.

    A rewrite that says the same as the message is replaced by the message, letter for letter.

    Args:
        outputs: The fields that were asked for.
        turn: The message with what the rewrite may draw on.
        flows: Their names are the closed set of intents. If there are none, any intent is taken.

    Returns:
        The enhancement, and for each refused field the reason, without the answer's own words.
    """
    text = turn.text
    found, refused = _enhancement(outputs, text), []
    most = _LONGEST_REWRITE[0] + _LONGEST_REWRITE[1] * len(text)
    if len(found.enhanced_query) > most:
        refused.append(f"enhanced_query: {len(found.enhanced_query):,} characters are not a rewrite")
        found = found.model_copy(update={"enhanced_query": text})
    elif found.enhanced_query != text:
        same = says_the_same(found.enhanced_query, text)
        reason = "" if same else unfaithful(found.enhanced_query, turn, flows)
        if reason:
            refused.append(f"enhanced_query: {reason}")
        if same or reason:
            found = found.model_copy(update={"enhanced_query": text})
    known = {_snake_case(name): name for name in flows}
    if known and "intent" in outputs:
        known |= {name: name for name in (*OTHER_INTENTS, UNKNOWN) if name not in known}
        if found.intent not in known:
            refused.append("intent: it is not one of the flows")
        found = found.model_copy(update={"intent": known.get(found.intent, UNKNOWN)})
    return found, tuple(refused)


def _enhancement(outputs: Mapping[str, Any], text: str) -> Enhancement:
    fields = {name: outputs[name] for name in Enhancement.model_fields if name in outputs}
    fields["enhanced_query"] = fields.get("enhanced_query", text).strip()
    fields["intent"] = _snake_case(fields.get("intent", "")) or UNKNOWN
    fields["entities"] = [Entity(name=e.name, attributes=e.attributes) for e in fields.get("entities", ())]
    return Enhancement(**fields)


def _snake_case(name: str) -> str:
    return re.sub(r"\W+", "_", name.strip().lower()).strip("_")
