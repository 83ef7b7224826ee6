"""Sentiment, change of topic and entities of enhancements that no language model gave: by heads, after the commands."""

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
"""What is filled in here, by the names of an enhancement's fields."""

FOREIGN = "sentiment_score: the message may be in another language than English"
"""Why the sentiment of a message is not known."""

MIXED = "sentiment_score: the message may be sarcastic, or praise next to a complaint"
"""Why the sentiment of a message is uncertain."""

_UNSURE = 0.5
_LEAVING = frozenset({"resume_flow", "out_of_scope"})
_OPEN = frozenset({"start_flow", "ask", "clarify", "chitchat", "handoff"})
"""Kinds of commands that always, and that may leave the topic; all others go on."""


def feel(
    state: TurnState,
    enhancement: Enhancement,
    record: StageRecord,
    commands: Sequence[Command],
    fields: Collection[str] = FIELDS,
) -> tuple[Enhancement, StageRecord]:
    """The enhancement with these fields filled in, and its record, which says where the sentiment is not known."""
    turn, update = state.turn, dict[str, Any]()
    head = feeling_head(state.bindings)
    if "entities" in fields:
        update["entities"] = entities_of(turn, state.registry, commands)
    if head is not None and {"sentiment_score", "is_continuation"} & {*fields}:
        texts = head.texts_of(turn)
        try:
            seen = state.features(texts)
        except Exception as error:
            causes = (record.cause, f"feeling: {format_error(error)}")
            record = record.model_copy(update={"cause": "; ".join(filter(None, causes)), "degraded": True})
            return enhancement.model_copy(update=update), record
        if "is_continuation" in fields:
            asked = seen[1] if len(texts) > 1 else None
            update["is_continuation"] = not _leaves(head, turn, commands, seen[0], asked)
        if "sentiment_score" in fields:
            foreign, span = is_foreign(turn.text), limits(turn.text)
            if foreign or span is not None:
                cause = "; ".join(filter(None, (record.cause, FOREIGN if foreign else MIXED)))
                confidence = min(record.confidence, _UNSURE)
                record = record.model_copy(update={"cause": cause, "confidence": confidence})
            if not foreign:
                low, high = span or (-1.0, 1.0)
                update["sentiment_score"] = min(high, max(low, head.feels(turn, seen[0])))
    return enhancement.model_copy(update=update), record


def feeling_head(bindings: Bindings) -> FeelingHead | None:
    """The head that is bound, else the shipped one, where its embedding model is bound."""
    own = bindings.heads.get("enhance")
    return own if isinstance(own, FeelingHead) else shipped_feeling(bindings.embedder)


def _leaves(head: FeelingHead, turn: Turn, commands: Sequence[Command], message: Any, asked: Any) -> bool:
    kinds = {command.type for command in commands}
    if not turn.history:
        return False
    if kinds & _LEAVING:
        return True
    return bool(kinds & _OPEN) and head.leaves(turn, commands, message, asked)
