"""Derive sentiment, topic change and entities by heads, from the message and its commands."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from jazzmine_dspy.models.commands import Command
from jazzmine_dspy.models.decision import Enhancement, StageRecord
from jazzmine_dspy.models.errors import format_error
from jazzmine_dspy.models.turn import Turn
from jazzmine_dspy.program.bindings import Bindings
from jazzmine_dspy.program.entities import entities_of
from jazzmine_dspy.program.heads.feeling import FeelingHead, shipped_feeling
from jazzmine_dspy.program.heads.feeling.sentiment import is_foreign, limits
from jazzmine_dspy.program.state import TurnState

FIELDS = ("sentiment_score", "entities", "is_continuation")
"""The enhancement fields that this module fills."""

FOREIGN = "sentiment_score: the message may be in another language than English"
"""The cause if the sentiment of a message is unknown."""

MIXED = "sentiment_score: the message may be sarcastic, or praise next to a complaint"
"""The cause if the sentiment of a message is uncertain."""

_UNSURE = 0.5
_LEAVING = frozenset({"resume_flow", "out_of_scope"})
_OPEN = frozenset({"start_flow", "ask", "clarify", "chitchat", "handoff"})
"""Types of commands that always leave the topic, and types that may; all others stay in it."""


def feel(
    state: TurnState,
    enhancement: Enhancement,
    record: StageRecord,
    commands: Sequence[Command],
    fields: Collection[str] = FIELDS,
) -> tuple[Enhancement, StageRecord]:
    """Fill fields of the enhancement; the record says if the sentiment is unknown or uncertain."""
    turn, update = state.turn, dict[str, Any]()
    head = feeling_head(state.bindings)
    if "entities" in fields:
        update["entities"] = entities_of(turn, state.registry, commands)
    if head is not None and {"sentiment_score", "is_continuation"} & {*fields}:
        texts = head.texts_of(turn)
        try:
            rows = state.features(texts)
        except Exception as error:
            causes = (record.cause, f"feeling: {format_error(error)}")
            record = record.model_copy(update={"cause": "; ".join(filter(None, causes)), "degraded": True})
            return enhancement.model_copy(update=update), record
        if "is_continuation" in fields:
            question_row = rows[1] if len(texts) > 1 else None
            update["is_continuation"] = not _leaves(head, turn, commands, rows[0], question_row)
        if "sentiment_score" in fields:
            foreign, span = is_foreign(turn.text), limits(turn.text)
            if foreign or span is not None:
                cause = "; ".join(filter(None, (record.cause, FOREIGN if foreign else MIXED)))
                confidence = min(record.confidence, _UNSURE)
                record = record.model_copy(update={"cause": cause, "confidence": confidence})
            if not foreign:
                low, high = span or (-1.0, 1.0)
                update["sentiment_score"] = min(high, max(low, head.feels(turn, rows[0])))
    return enhancement.model_copy(update=update), record


def feeling_head(bindings: Bindings) -> FeelingHead | None:
    """Return the bound head, or the shipped one if its embedding model is bound."""
    own = bindings.heads.get("enhance")
    return own if isinstance(own, FeelingHead) else shipped_feeling(bindings.embedder)


def _leaves(
    head: FeelingHead, turn: Turn, commands: Sequence[Command], message: Any, question_row: Any
) -> bool:
    kinds = {command.type for command in commands}
    if not turn.history:
        return False
    if kinds & _LEAVING:
        return True
    return bool(kinds & _OPEN) and head.leaves(turn, commands, message, question_row)
