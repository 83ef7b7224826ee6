"""The list of wrong turns: what is in it, and what it says of each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from jazzmine_dspy.datasets import Example, Labels
from jazzmine_dspy.eval import Evaluation, TurnResult, evaluate, score_turn, wrong_turns
from jazzmine_dspy.eval.report import Report, System, write_report
from jazzmine_dspy.models import Flow, FlowRegistry, Slot, Turn
from jazzmine_dspy.models.decision import Enhancement, Selection, StageRecord, TurnDecision
from tests.support.report_page import Page

FLOWS = FlowRegistry(
    [
        Flow(
            name="track_order",
            description="Tell where an order is.",
            slots=[Slot(name="order_id", type="text", description="Its number.")],
        )
    ]
)


def example(text: str, turn_id: str, commands: list[dict[str, Any]], **state: Any) -> Example:
    labels = Labels.model_validate({"commands": commands})
    turn = Turn.model_validate({"text": text, **state})
    return Example(conversation_id="c", turn_id=turn_id, turn=turn, labels=labels, role="test", line=1)


class Handoff:
    """Answers every turn by a handoff, as a language model does of whose answer a part was refused."""

    def decide(self, turn: Turn, /, *, exclude: tuple[str, ...] = ()) -> TurnDecision:
        if turn.text == "crash":
            raise RuntimeError("no memory")
        reason = "affirm: the message does not agree"
        return TurnDecision(
            enhancement=Enhancement(enhanced_query=turn.text),
            selection=Selection(),
            commands=[{"type": "handoff"}],
            stages={
                "select": StageRecord(source="local"),
                "understand": StageRecord(source="lm", confidence=0.5, refused=(reason,)),
            },
        )


@pytest.fixture
def evaluation() -> Evaluation:
    running = {"flow": "track_order", "awaiting": "order_id"}
    turns = [
        example("a person please", "t1", [{"type": "handoff"}]),
        example("4471", "t2", [{"type": "set_slot", "name": "order_id", "value": "4471"}], **running),
        example("crash", "t3", [{"type": "handoff"}]),
    ]
    return evaluate(Handoff(), turns)


@pytest.mark.row("V3")
def test_a_wrong_turn_names_state_labels_answer_source_and_what_was_refused(evaluation: Evaluation) -> None:
    wrong, crashed = wrong_turns(evaluation)
    assert (wrong.key, wrong.message) == ("c/t2", "4471")
    assert wrong.state == "track_order, asked for order_id"
    assert wrong.expected == "set_slot(order_id, 4471)"
    assert wrong.answered.endswith("handoff")
    assert wrong.source == "select local, understand lm"
    assert wrong.confidence == 0.5
    assert wrong.refused == "affirm: the message does not agree"
    assert (crashed.key, crashed.confidence, crashed.source) == ("c/t3", None, "")
    assert crashed.answered == "crashed: RuntimeError"


@pytest.mark.row("V3")
def test_a_turn_that_was_not_answered_is_not_wrong(evaluation: Evaluation) -> None:
    first = evaluation.turns[1].example
    scores = score_turn(None, first.labels, first.turn)
    silent = TurnResult(first, None, "paused", scores, unanswered=True)
    assert wrong_turns(Evaluation((silent,))) == []


@pytest.mark.row("V3", "V4")
def test_the_report_lists_them(evaluation: Evaluation, tmp_path: Path) -> None:
    paths = write_report(Report("t", "f", [System("shop", evaluation)]), tmp_path)
    rows = Page(paths.html.read_text("utf-8")).tables["table-wrong"][1:]
    assert [row[0] for row in rows] == ["4471", "crash"]
    assert rows[0][5:] == ["affirm: the message does not agree", "50.0"]
    assert "Wrong turns: shop" in paths.markdown.read_text("utf-8")
