"""Gold scores 1, and whatever is wrong loses (the check "Metric")."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from jazzmine_dspy.datasets import Example, Labels
from jazzmine_dspy.eval import commands_f1, score_turn, stage_score, summarise
from jazzmine_dspy.eval.equality import command_keys, held_after
from jazzmine_dspy.eval.feedback import feedback
from jazzmine_dspy.eval.objective import Objective
from jazzmine_dspy.models import COMMAND_KINDS, STAGES, Selection, Turn, TurnDecision, command

Gold = Callable[..., TurnDecision]

DESIGN_NAMES = {
    "flow_set_exact", "in_scope_accuracy", "out_of_scope_recall", "recall_at_1", "recall_at_3", "recall_at_5",
    "rewrite_exact", "rewrite_token_f1", "unchanged_kept", "sentiment_macro_f1", "sentiment_mae",
    "intent_accuracy", "entity_f1", "cancellation_f1", "topic_shift_f1", "commands_exact", "slot_name_f1",
    "slot_value_f1", "joint_goal", *(f"command_f1/{kind}" for kind in COMMAND_KINDS),
}  # fmt: skip
EXTRA_NAMES = {"flow_order_exact", "rewrite_needed_exact", "entity_recall_in_rewrite"}


def _turn(text: str = "hello", **state: Any) -> Turn:
    return Turn(text=text, **state)


def _labels(**labels: Any) -> Labels:
    return Labels.model_validate(labels)


def _value(scores: Any, name: str) -> float | None:
    return scores[name].value


@pytest.mark.row("V1")
def test_gold_as_prediction_scores_one_on_every_metric(support: list[Example], gold: Gold) -> None:
    scores = [score_turn(gold(e.labels, e.turn), e.labels, e.turn) for e in support]
    metrics = summarise(scores, [e.conversation_id for e in support])
    assert set(metrics) == DESIGN_NAMES | EXTRA_NAMES
    assert metrics.pop("sentiment_mae").value == 0.0
    assert {name: metric.value for name, metric in metrics.items()} == dict.fromkeys(metrics, 1.0)
    for example in support:
        decision = gold(example.labels, example.turn)
        assert commands_f1(decision, example.labels, example.turn) == 1.0, example.key
        scores = [stage_score(stage, decision, example.labels, example.turn) for stage in STAGES]
        assert scores == pytest.approx([1.0] * 3), example.key


@pytest.mark.row("V1")
def test_a_crash_is_as_wrong_as_can_be(support: list[Example]) -> None:
    scores = [score_turn(None, e.labels, e.turn) for e in support]
    metrics = summarise(scores, [e.conversation_id for e in support])
    assert set(metrics) == DESIGN_NAMES | EXTRA_NAMES
    assert metrics.pop("sentiment_mae").value >= 1.0
    assert {name: metric.value for name, metric in metrics.items()} == dict.fromkeys(metrics, 0.0)
    assert {commands_f1(None, e.labels, e.turn) for e in support} == {0.0}
    assert {stage_score(stage, None, e.labels, e.turn) for e in support for stage in STAGES} == {0.0}


def _mutations(decision: TurnDecision, labels: Labels) -> dict[str, TurnDecision | None]:
    """Wrong decisions, by the metric that must fall; None where a turn offers nothing to spoil."""
    commands, flows = list(decision.commands), decision.selection.flows
    slots = [index for index, one in enumerate(commands) if one.type in ("set_slot", "correct_slot")]
    spoilt: dict[str, TurnDecision | None] = {}
    turned = commands[::-1]
    # The order of a flow's values says nothing.
    same = turned == commands or len(slots) == len(commands)
    spoilt["reversed"] = None if same else decision.model_copy(update={"commands": turned})
    if slots:
        at = slots[-1]
        other = commands[at].model_copy(update={"value": "something else entirely"})
        renamed = commands[at].model_copy(update={"name": "another_slot"})
        spoilt["value"] = decision.model_copy(
            update={"commands": [*commands[:at], other, *commands[at + 1 :]]}
        )
        spoilt["name"] = decision.model_copy(
            update={"commands": [*commands[:at], renamed, *commands[at + 1 :]]}
        )
    wrong = Selection(flows=["no_such_flow", *flows[1:]], candidates=[("no_such_flow", 0.9)])
    spoilt["flow"] = decision.model_copy(update={"selection": wrong})
    spoilt["dropped"] = decision.model_copy(update={"commands": commands[:-1]}) if commands else None
    doubled = [*commands, *commands[-1:]] if commands else [command({"type": "handoff"})]
    spoilt["added"] = decision.model_copy(update={"commands": doubled})
    return spoilt


@pytest.mark.row("V1")
def test_whatever_is_wrong_loses(support: list[Example], gold: Gold) -> None:
    seen = dict.fromkeys(("reversed", "value", "name", "flow", "dropped", "added"), 0)
    for example in support:
        decision = gold(example.labels, example.turn)
        for name, wrong in _mutations(decision, example.labels).items():
            if wrong is None:
                continue
            scores = score_turn(wrong, example.labels, example.turn)
            seen[name] += 1
            if name == "flow":
                assert stage_score("select", wrong, example.labels, example.turn) == 0.0
            else:
                found = commands_f1(wrong, example.labels, example.turn)
                assert found is not None
                assert found < 1.0, (name, example.key)
            assert _value(scores, "flow_set_exact" if name == "flow" else "commands_exact") == 0.0
            if name in ("value", "name"):
                assert _value(scores, f"slot_{name}_f1") < 1.0
                assert _value(scores, "joint_goal") == 0.0
            if name == "value":
                assert _value(scores, "slot_name_f1") == 1.0
            if name == "flow" and example.labels.flows:
                assert _value(scores, "recall_at_5") == _value(scores, "in_scope_accuracy") == 0.0
    assert min(seen.values()) >= 100, seen


@pytest.mark.row("V1")
@pytest.mark.parametrize(
    ("stage", "field", "value"),
    [
        ("enhance", "enhanced_query", "entirely other words"),
        ("enhance", "sentiment_score", 1.0),
        ("enhance", "is_cancellation", True),
        ("enhance", "is_continuation", False),
    ],
)
def test_each_part_of_the_enhancement_loses(gold: Gold, stage: str, field: str, value: Any) -> None:
    turn = _turn("where is order 4471")
    labels = _labels(enhanced=turn.text, sentiment=-0.3, is_cancellation=False, is_continuation=True)
    right = gold(labels, turn)
    wrong = right.model_copy(update={"enhancement": right.enhancement.model_copy(update={field: value})})
    assert stage_score("enhance", right, labels, turn) == 1.0
    assert stage_score("enhance", wrong, labels, turn) < 1.0
    assert stage_score("select", wrong, labels, turn) is None


@pytest.mark.row("V1")
def test_what_is_not_labelled_is_not_scored(gold: Gold) -> None:
    turn, labels = _turn(), Labels()
    assert score_turn(gold(labels, turn), labels, turn) == {}
    assert commands_f1(gold(labels, turn), labels, turn) is None
    assert all(stage_score(stage, None, labels, turn) is None for stage in STAGES)


@pytest.mark.row("V1")
def test_rewrites(gold: Gold) -> None:
    turn = _turn("and the other one?")
    needed = _labels(enhanced="Where is order 4471?", entities=[{"name": "Order 4471"}, {"name": "lamp"}])
    copied = gold(_labels(enhanced=turn.text), turn)
    scores = score_turn(copied, needed, turn)
    assert _value(scores, "rewrite_exact") == _value(scores, "rewrite_needed_exact") == 0.0
    assert "unchanged_kept" not in scores
    assert _value(scores, "entity_recall_in_rewrite") == 0.0  # the lamp is not in the right rewrite either
    spaced = gold(_labels(enhanced="  Where is  order 4471? "), turn)
    scores = score_turn(spaced, needed, turn)
    assert _value(scores, "rewrite_exact") == _value(scores, "entity_recall_in_rewrite") == 1.0
    assert (
        _value(
            score_turn(gold(_labels(enhanced="where is order 4471?"), turn), needed, turn), "rewrite_exact"
        )
        == 0
    )
    complete = _labels(enhanced=turn.text)
    assert "rewrite_needed_exact" not in score_turn(copied, complete, turn)
    touched = gold(_labels(enhanced="And the other one?"), turn)
    assert _value(score_turn(touched, complete, turn), "unchanged_kept") == 0.0
    assert _value(score_turn(touched, complete, turn), "rewrite_token_f1") == 1.0


@pytest.mark.row("V1")
def test_flows_as_sets_and_in_order(gold: Gold) -> None:
    turn, labels = _turn(), _labels(flows=["a", "b"])
    swapped = gold(_labels(flows=["b", "a"]), turn)
    scores = score_turn(swapped, labels, turn)
    assert (_value(scores, "flow_set_exact"), _value(scores, "flow_order_exact")) == (1.0, 0.0)
    far = Selection(flows=["a", "b"], candidates=[(name, 0.5) for name in "xyabz"])
    scores = score_turn(swapped.model_copy(update={"selection": far}), labels, turn)
    assert [_value(scores, f"recall_at_{k}") for k in (1, 3, 5)] == [0.0, 0.0, 1.0]
    outside = _labels(flows=[], intent="out_of_scope")
    assert _value(score_turn(swapped, outside, turn), "out_of_scope_recall") == 0.0
    assert "in_scope_accuracy" not in score_turn(swapped, outside, turn)
    assert "out_of_scope_recall" not in score_turn(swapped, _labels(flows=[], intent="chitchat"), turn)


def _same(first: dict[str, Any], second: dict[str, Any], **state: Any) -> bool:
    turn = _turn(**state)
    return command_keys([command(first)], turn) == command_keys([command(second)], turn)


@pytest.mark.row("V1")
@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        ("Blue  Kettle.", "“blue kettle”", True),
        ("blue kettle", "red kettle", False),
        (3, 3.0, True),
        (3, 4, False),
        (1, True, False),
        (3, "3", False),
        (["cup", "plate"], ["Cup", "plate."], True),
        (["cup", "plate"], ["plate", "cup"], False),
        ("-5", "5", False),
        ("!", "?", False),
        ("P2Y", "P3Y", False),
    ],
)
def test_slot_values(first: Any, second: Any, same: bool) -> None:
    slot = {"type": "set_slot", "name": "item"}
    assert _same({**slot, "value": first}, {**slot, "value": second}) is same


@pytest.mark.row("V1")
def test_command_arguments() -> None:
    assert _same({"type": "ask", "topic": "opening hours"}, {"type": "ask", "topic": "hours"})
    assert _same({"type": "clarify", "flows": ["a", "b"]}, {"type": "clarify", "flows": ["b", "a"]})
    assert not _same({"type": "clarify", "flows": ["a", "b"]}, {"type": "clarify", "flows": ["a", "c"]})
    assert _same({"type": "resume_flow"}, {"type": "resume_flow", "flow": "new"}, paused=("old", "new"))
    assert not _same({"type": "resume_flow"}, {"type": "resume_flow", "flow": "old"}, paused=("old", "new"))
    assert _same({"type": "cancel_flow"}, {"type": "cancel_flow", "flow": "a"}, flow="a")
    assert not _same({"type": "deny"}, {"type": "deny", "slot": "city"})
    assert not _same({"type": "affirm"}, {"type": "deny"})
    assert not _same(
        {"type": "set_slot", "name": "a", "value": 1}, {"type": "correct_slot", "name": "a", "value": 1}
    )


def _keys(turn: Turn, *said: str) -> list[Any]:
    """The keys of commands as in "set a 1", "start b", "deny"."""
    commands = []
    for type_, name, value in ((*one.split(), "", "")[:3] for one in said):
        key = "flow" if type_ == "start_flow" else "slot" if type_ == "deny" else "name"
        commands.append(
            command({"type": type_, **({key: name} if name else {}), **({"value": value} if value else {})})
        )
    return command_keys(commands, turn)


@pytest.mark.row("V1")
def test_values_of_one_flow_compare_as_a_set_and_all_else_in_order() -> None:
    turn = _turn(flow="move", slots={"city": "Leeds"})
    first, second, third = "set_slot a 1", "set_slot b 2", "correct_slot city York"
    assert _keys(turn, first, second, third) == _keys(turn, third, second, first)
    assert _keys(turn, first, second) != _keys(turn, first)
    assert _keys(turn, first, "set_slot a 2") != _keys(turn, "set_slot a 2", first)
    assert _keys(turn, first, "affirm") != _keys(turn, "affirm", first)
    assert _keys(turn, first, "clear_slot city", second) != _keys(turn, second, "clear_slot city", first)
    start = "start_flow call"
    assert _keys(turn, start, first, second) == _keys(turn, start, second, first)
    assert _keys(turn, first, start, second) != _keys(turn, second, start, first)
    assert _keys(turn, start, first) != _keys(turn, first, start)
    named = [
        command({"type": "set_slot", "name": name, "value": "1", "flow": flow}) for name, flow in ("am", "bn")
    ]
    assert command_keys(named, turn) != command_keys(named[::-1], turn)
    own = [named[0].model_copy(update={"flow": flow}) for flow in (None, "move")]
    other = command({"type": "set_slot", "name": "z", "value": "1"})
    assert command_keys([own[0], other], turn) == command_keys([other, own[1]], turn)


@pytest.mark.row("V1")
def test_the_order_of_values_costs_no_score_and_draws_no_feedback(gold: Gold) -> None:
    turn = _turn(flow="move")
    values = [{"type": "set_slot", "name": name, "value": "1"} for name in "abc"]
    labels = _labels(commands=[*values, {"type": "affirm"}])
    answer = gold(_labels(commands=[*values[::-1], {"type": "affirm"}]), turn)
    scores = score_turn(answer, labels, turn)
    assert _value(scores, "commands_exact") == commands_f1(answer, labels, turn) == 1.0
    assert stage_score("understand", answer, labels, turn) == Objective().smooth(answer, labels, turn) == 1.0
    assert feedback(answer, "", labels, turn) == []
    late = gold(_labels(commands=[{"type": "affirm"}, *values]), turn)
    assert feedback(late, "", labels, turn)[0].startswith("wrong order: expected set_slot a=1")


@pytest.mark.row("V1")
def test_slots_held_after_a_turn() -> None:
    turn = _turn(flow="move", slots={"order_id": "4471", "city": "Leeds"}, paused=("call",))

    def after(*commands: dict[str, Any]) -> dict[tuple[str, str], Any]:
        return held_after(turn, [command(one) for one in commands])

    kept = {("move", "order_id"), ("move", "city")}
    assert set(after({"type": "clear_slot", "name": "city"})) == {("move", "order_id")}
    setting = {"type": "set_slot", "name": "order_id", "value": "1"}
    assert set(after({"type": "start_flow", "flow": "track"}, setting)) == kept | {("track", "order_id")}
    assert set(after({"type": "resume_flow"}, setting)) == kept | {("call", "order_id")}
    assert after(setting)["move", "order_id"] != after()["move", "order_id"]
    assert after({"type": "cancel_flow"}) == after({"type": "restart"}) == {}


@pytest.mark.row("V1")
def test_micro_and_macro_averages(gold: Gold) -> None:
    turn = _turn()
    entities = [[{"name": "a"}, {"name": "b"}, {"name": "c"}], [{"name": "d"}]]
    rows = [
        score_turn(gold(_labels(entities=[{"name": "A"}]), turn), _labels(entities=entities[0]), turn),
        score_turn(gold(_labels(entities=[{"name": "x"}]), turn), _labels(entities=entities[1]), turn),
    ]
    assert summarise(rows, ["c1", "c2"])["entity_f1"].value == pytest.approx(2 * 1 / (2 * 1 + 1 + 3))
    pairs = [(-0.6, -0.3), (0.0, 0.0), (0.0, -0.3), (0.3, 0.0)]
    rows = [
        score_turn(gold(_labels(sentiment=said), turn), _labels(sentiment=true), turn) for said, true in pairs
    ]
    found = summarise(rows, ["c1", "c1", "c2", "c2"])
    assert found["sentiment_macro_f1"].value == pytest.approx((2 / 3 + 1 / 2 + 0.0) / 3)
    assert found["sentiment_mae"].value == pytest.approx(0.9 / 4)
    flags = [(True, True), (True, False), (False, True), (False, False)]
    rows = [
        score_turn(
            gold(_labels(is_cancellation=said, is_continuation=not said), turn),
            _labels(is_cancellation=true, is_continuation=not true),
            turn,
        )
        for said, true in flags
    ]
    found = summarise(rows, ["c1", "c1", "c2", "c2"])
    assert found["cancellation_f1"].value == found["topic_shift_f1"].value == 0.5
    assert found["cancellation_f1"].n == 4
