"""Turn the answers of the deciders into one consistent decision, with sentiment, topic and entities by heads."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

from jazzmine_dspy.models import Command, Enhancement, StageRecord, TurnDecision
from jazzmine_dspy.models.base import log
from jazzmine_dspy.models.errors import MAX_SHOWN, format_error
from jazzmine_dspy.program.acts import is_pause
from jazzmine_dspy.program.bindings import Bindings
from jazzmine_dspy.program.decider import Decided
from jazzmine_dspy.program.entities import entities_of
from jazzmine_dspy.program.heads.feeling.head import FeelingHead, shipped_feeling
from jazzmine_dspy.program.heads.feeling.sentiment import is_foreign, limits
from jazzmine_dspy.program.merge import derived_intent, merge
from jazzmine_dspy.program.state import CANDIDATES, TurnState, turn_problems


def finish(state: TurnState, answer: Decided) -> TurnDecision:
    """Build the decision of a turn.

    Enhancement fields that no decider answered are derived from the message and the commands.

    Args:
        state: The turn.
        answer: A complete answer: with a selection, commands, and a record for each stage.
    """
    assert answer.selection is not None, "the answer is whole"
    assert answer.commands is not None, "the answer is whole"
    turn, stages = state.turn, dict(answer.records)
    candidates = answer.selection.candidates or [(one.name, one.score) for one in state.recalled[:CANDIDATES]]
    selection = answer.selection.model_copy(
        update={"candidates": candidates, "confidence": stages["select"].confidence}
    )
    if state.recall_failure and stages["select"].source != "rule":
        stages["select"] = _degraded(stages["select"], [state.recall_failure])
    refused: list[str] = []
    by_lm = stages["understand"].source == "lm"
    enhancement, selection, commands = merge(
        turn, state.registry, answer.enhancement, selection, answer.commands, refused, by_lm=by_lm
    )
    if refused and stages["understand"].source not in ("rule", "local", "fallback"):
        stages["understand"] = _with_refused(stages["understand"], refused)
    if "intent" not in answer.fields:
        enhancement = enhancement.model_copy(update={"intent": derived_intent(turn, commands)})
    if unanswered := [name for name in FIELDS if name not in answer.fields]:
        enhancement, stages["enhance"] = feel(state, enhancement, stages["enhance"], commands, unanswered)
    causes = [f"{stage}: {record.cause}" for stage, record in stages.items() if record.degraded]
    if causes:
        log.warning("the turn is degraded: %s", "; ".join(causes))
    # The neutral default during an outage is not an observed sentiment.
    unread = stages["enhance"].degraded
    scores = [] if unread else [*turn.recent_sentiments, enhancement.sentiment_score]
    problems = tuple(turn_problems(turn, state.registry, state.slots_of([turn.flow or "", *selection.flows])))
    if problems:
        log.warning(
            "the turn lacks something, or contradicts the registry or itself: %s", "; ".join(problems)
        )
    return TurnDecision(
        enhancement=enhancement,
        selection=selection,
        commands=commands,
        stages=stages,
        escalation=state.policy.escalation.judge(scores),
        pause=not commands and is_pause(turn),
        problems=problems,
    )


def unread(answer: Decided, state: TurnState) -> Decided:
    """Replace the enhancement by its defaults: the original message and neutral values."""
    trust = state.policy.trust.get("fallback", 0.5)
    update = {"source": "fallback", "name": "fallback", "confidence": trust}
    enhance = answer.records["enhance"].model_copy(update=update)
    return replace(
        answer,
        enhancement=Enhancement(enhanced_query=state.turn.text),
        fields=frozenset(Enhancement.model_fields),
        records={**answer.records, "enhance": enhance},
    )


def with_causes(answer: Decided, causes: Sequence[str]) -> Decided:
    """Mark all stages of an answer as degraded by causes."""
    records = {stage: _degraded(record, causes) for stage, record in answer.records.items()}
    return replace(answer, records=records)


def _degraded(record: StageRecord, causes: Sequence[str]) -> StageRecord:
    return _with_reasons(record, causes).model_copy(update={"degraded": True})


def _with_refused(record: StageRecord, reasons: Sequence[str]) -> StageRecord:
    """Name refused parts in a record, each once."""
    refused = tuple(dict.fromkeys((*record.refused, *reasons)))
    return _with_reasons(record, reasons).model_copy(update={"refused": refused})


def _with_reasons(record: StageRecord, reasons: Sequence[str]) -> StageRecord:
    """Prepend reasons to the cause of a record."""
    cause = "; ".join(dict.fromkeys([*reasons, *([record.cause] if record.cause else [])]))
    return record.model_copy(update={"cause": cause[:MAX_SHOWN]})


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
            kinds = {command.type for command in commands}
            update["is_continuation"] = not turn.history or not (
                kinds & _LEAVING or (kinds & _OPEN and head.leaves(turn, commands, rows[0], question_row))
            )
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
