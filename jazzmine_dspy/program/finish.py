"""Turn the answers of the deciders into one consistent decision."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace

from jazzmine_dspy.models.decision import Enhancement, Stage, StageRecord, TurnDecision
from jazzmine_dspy.models.errors import MAX_SHOWN
from jazzmine_dspy.program.acts import is_pause
from jazzmine_dspy.program.decider import Decided
from jazzmine_dspy.program.feeling import FIELDS, feel
from jazzmine_dspy.program.merge import derived_intent, merge
from jazzmine_dspy.program.state import CANDIDATES, TurnState
from jazzmine_dspy.program.turn_problems import turn_problems

log = logging.getLogger("jazzmine_dspy")


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
    enhancement, selection, commands = merge(
        turn, state.registry, answer.enhancement, selection, answer.commands, refused
    )
    if refused and stages["understand"].source not in ("rule", "local", "fallback"):
        stages["understand"] = _with_reasons(stages["understand"], refused)
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
    problems = tuple(turn_problems(turn, state.registry))
    if problems:
        log.warning("the turn contradicts the registry or itself: %s", "; ".join(problems))
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


def with_causes(answer: Decided, causes: dict[Stage, list[str]]) -> Decided:
    """Mark stages of an answer as degraded by their causes."""
    records = {
        stage: _degraded(record, causes[stage]) if causes.get(stage) else record
        for stage, record in answer.records.items()
    }
    return replace(answer, records=records)


def _degraded(record: StageRecord, causes: Sequence[str]) -> StageRecord:
    return _with_reasons(record, causes).model_copy(update={"degraded": True})


def _with_reasons(record: StageRecord, reasons: Sequence[str]) -> StageRecord:
    """Prepend reasons to the cause of a record."""
    cause = "; ".join(dict.fromkeys([*reasons, *([record.cause] if record.cause else [])]))
    return record.model_copy(update={"cause": cause[:MAX_SHOWN]})
