"""E16: when sentiment escalates, and which kind of talk a message is."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from jazzmine_dspy.models import EscalationRule
from jazzmine_dspy.models.talk import kind_of_talk

USUAL = EscalationRule()


@pytest.mark.row("E16")
@pytest.mark.parametrize(
    ("scores", "escalates"),
    [
        ([-0.6], True),
        ([-0.59], False),
        ([0.9, -1.0], True),
        ([-0.9, -0.5], False),
        ([0.1, -0.1, -0.3], True),
        ([0.9, 0.0, -0.1, -0.2], True),
        ([0.0, -0.1], False),
        ([0.8, 0.5, 0.2], False),
        ([-0.3, -0.3, -0.3], False),
        ([0.0, -0.01, -0.02], False),
        ([-0.1, -0.3, -0.2], False),
        ([], False),
    ],
)
def test_low_or_falling_sentiment_escalates(scores: list[float], escalates: bool) -> None:
    found = USUAL.judge(scores)
    assert (bool(found), bool(found.reason)) == (escalates, escalates)


@pytest.mark.row("E16")
def test_both_thresholds_are_configurable() -> None:
    assert not EscalationRule(low=-0.9).judge([-0.8])
    assert not EscalationRule(low=None, falling_turns=None).judge([-0.8, -0.9, -1.0])
    assert not EscalationRule(falling_turns=4).judge([0.2, 0.0, -0.2])
    assert EscalationRule(falling_turns=4).judge([0.4, 0.2, 0.0, -0.2])
    assert EscalationRule(low=None, falling_turns=2).judge([-0.3, -0.4]).reason == (
        "sentiment fell over 2 messages: -0.30, -0.40"
    )


@pytest.mark.row("E16")
@pytest.mark.parametrize("wrong", [{"low": -2}, {"falling_turns": 1}, {"falls": 3}])
def test_a_rule_that_cannot_be_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValidationError):
        EscalationRule.model_validate(wrong)


@pytest.mark.parametrize(
    ("text", "sentiment", "kind"),
    [
        ("you are useless!!!", -0.9, "complaint"),
        ("hi, you are useless", -0.6, "complaint"),
        ("thanks for nothing", 0.0, "complaint"),
        ("Thanks a lot!", 0.6, "thanks"),
        ("thank you, bye", 0.3, "thanks"),
        ("no thanks", 0.0, "noted"),
        ("that's not right", 0.0, "complaint"),
        ("no good", 0.0, "complaint"),
        ("hello", 0.0, "greeting"),
        ("Good morning!", 0.0, "greeting"),
        ("how are you?", 0.0, "greeting"),
        ("good", 0.0, "noted"),
        ("bye", 0.0, "farewell"),
        ("ok cool", 0.0, "noted"),
        ("never mind", 0.0, "noted"),
        ("no that's all", 0.0, "noted"),
        ("it rains again", 0.0, "chitchat"),
        ("", 0.0, "chitchat"),
        ("hi my neighbour has got the same parcel again", 0.0, "chitchat"),
    ],
)
def test_talk_is_told_apart(text: str, sentiment: float, kind: str) -> None:
    assert kind_of_talk(text, sentiment) == kind
