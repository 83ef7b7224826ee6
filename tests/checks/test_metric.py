"""Metric: gold as prediction scores 1, and what is not gold does not. Single metrics: tests/eval."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from jazzmine_dspy.datasets import load_dataset
from jazzmine_dspy.eval.metrics import commands_f1, score_turn
from jazzmine_dspy.models.commands import SetSlot, SlotValue, StartFlow
from jazzmine_dspy.models.decision import Enhancement, Selection, TurnDecision


def _gold(example: Any) -> TurnDecision:
    labels = example.labels
    return TurnDecision(
        enhancement=Enhancement(
            enhanced_query=labels.enhanced,
            sentiment_score=labels.sentiment,
            is_cancellation=labels.is_cancellation,
            is_continuation=labels.is_continuation,
        ),
        selection=Selection(flows=list(labels.flows)),
        commands=list(labels.commands),
    )


def _reversed(decision: TurnDecision) -> Any:
    same = decision.commands == decision.commands[::-1]
    # The order of a flow's values says nothing.
    if same or all(isinstance(command, SlotValue) for command in decision.commands):
        return None
    return decision.model_copy(update={"commands": decision.commands[::-1]})


def _wrong_values(decision: TurnDecision) -> Any:
    changed = [
        c.model_copy(update={"value": "something else"}) if isinstance(c, SetSlot) else c
        for c in decision.commands
    ]
    return None if changed == list(decision.commands) else decision.model_copy(update={"commands": changed})


def _wrong_flows(decision: TurnDecision) -> Any:
    if not decision.selection.flows:
        return None
    commands = [
        c.model_copy(update={"flow": "another"}) if isinstance(c, StartFlow) else c for c in decision.commands
    ]
    selection = decision.selection.model_copy(update={"flows": ["another"]})
    return decision.model_copy(update={"commands": commands, "selection": selection})


@pytest.mark.parametrize("spoil", [_reversed, _wrong_values, _wrong_flows], ids=lambda f: f.__name__)
def test_gold_scores_one_and_spoilt_gold_less(spoil: Any, support: Path) -> None:
    """Guards against a score that could be raised by answers that are wrong: the reported and the optimized."""
    spoilt = 0
    for example in load_dataset(support).examples("train", "dev_a", "dev_b"):
        gold, facts = _gold(example), (example.labels, example.turn)
        assert commands_f1(gold, *facts) == 1.0, example.key
        assert score_turn(gold, *facts)["commands_exact"].value == 1.0, example.key
        worse = spoil(gold)
        if worse is not None:
            spoilt += 1
            assert score_turn(worse, *facts)["commands_exact"].value == 0.0, example.key
            found = commands_f1(worse, *facts)
            assert found is not None
            assert found < 1.0, example.key
    assert spoilt > 40
