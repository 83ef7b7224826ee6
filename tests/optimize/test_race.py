"""The race on dev-B: nothing ships that does not surely beat what stands there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from jazzmine_dspy.datasets.schema import Example, Labels
from jazzmine_dspy.eval.evaluation import Evaluation, TurnResult
from jazzmine_dspy.eval.metrics import score_turn
from jazzmine_dspy.models.decision import Enhancement, Selection, SourceKind, StageRecord, TurnDecision
from jazzmine_dspy.models.turn import Turn
from jazzmine_dspy.optimize.race import (
    STAND_IN,
    Entry,
    composed,
    failures_as_wrong,
    race_stage,
    race_whole,
)

ORDER: tuple[SourceKind, ...] = ("rule", "lm", "floor")


def _result(name: str, right: bool, source: SourceKind = "lm") -> TurnResult:
    turn, labels = Turn(text=f"say {name}"), Labels(flows=("a",))
    chosen = Selection(flows=["a"] if right else [])
    decision = TurnDecision(
        enhancement=Enhancement(enhanced_query=turn.text),
        selection=chosen,
        stages={"select": StageRecord(source=source)},
    )
    conversation, turn_id = name.split(".")
    example = Example(
        conversation_id=conversation, turn_id=turn_id, turn=turn, labels=labels, role="dev_b", line=1
    )
    return TurnResult(
        example=example, decision=decision, error=None, scores=score_turn(decision, labels, turn)
    )


def _entry(name: str, right: Sequence[bool], source: SourceKind = "lm") -> Entry:
    turns = [_result(f"c{index // 2}.t{index % 2}", hit, source) for index, hit in enumerate(right)]
    return Entry(name, ORDER, Evaluation(tuple(turns)))


FLOOR = _entry("floor", [True, False] * 20, "floor")


@pytest.mark.row("O5")
@pytest.mark.parametrize(
    ("right", "won"),
    [
        ([True, True] * 20, True),  # better everywhere
        ([True, False] * 20, False),  # the same
        ([True, False] * 19 + [True, True], False),  # better once: not surely
        ([False, False] * 20, False),  # worse
        (([True, True, False, False]) * 10, False),  # as often better as worse
    ],
)
def test_the_bound_decides_and_not_the_mean(right: list[bool], won: bool) -> None:
    winner, (heat,) = race_stage("select", FLOOR, [_entry("LM", right)])
    assert heat.won is won
    assert heat.won == (heat.difference.lower_bound_one_sided > 0)
    assert winner.name == ("LM" if won else "floor")


@pytest.mark.row("O5")
def test_who_loses_is_told_what_could_have_been_seen() -> None:
    _, (heat,) = race_stage("select", FLOOR, [_entry("LM", [True, False] * 19 + [True, True])])
    assert heat.difference.value > 0
    assert heat.verdict.startswith("floor stays: +0.0")
    assert "40 turns could have shown a difference of 0.0" in heat.verdict


def test_a_winner_is_what_the_next_has_to_beat() -> None:
    head, lm = _entry("head", [True, True] * 20, "head"), _entry("LM", [True, True] * 20)
    winner, heats = race_stage("select", FLOOR, [head, lm])
    assert [(heat.challenger, heat.incumbent, heat.won) for heat in heats] == [
        ("head", "floor", True),
        ("LM", "head", False),
    ]
    assert winner is head


@pytest.mark.row("O5", "V6")
def test_what_the_floor_says_for_a_model_that_fails_is_not_the_models() -> None:
    """The floor is right everywhere; the model answers every second turn, rightly, and fails on the others."""
    floor = _entry("floor", [True] * 40, "floor")
    failed = {"select": StageRecord(source="floor", degraded=True, cause="lm: RateLimitError: slow down")}
    answers = Evaluation(
        tuple(
            replace(turn, decision=turn.decision.model_copy(update={"stages": failed})) if index % 2 else turn
            for index, turn in enumerate(_entry("LM", [True] * 40).evaluation.turns)
            if turn.decision is not None
        )
    )
    judged = failures_as_wrong(answers)
    winner, (heat,) = race_stage("select", floor, [Entry("LM", ORDER, judged)])
    assert (winner.name, heat.score, heat.incumbent_score, heat.difference.n) == ("floor", 0.5, 1.0, 40)
    assert [turn.error for turn in judged.turns if turn.decision is None] == [
        "lm: RateLimitError: slow down"
    ] * 20


def test_turns_of_one_conversation_count_as_one_witness() -> None:
    """Eight turns better, all in one conversation, against eight in eight conversations."""
    alone = [_result(f"same.t{index}", False, "floor") for index in range(8)]
    better = [_result(f"same.t{index}", True) for index in range(8)]
    floor = Entry("floor", ORDER, Evaluation(tuple(alone)))
    _, (heat,) = race_stage("select", floor, [Entry("LM", ORDER, Evaluation(tuple(better)))])
    assert not heat.won
    _, (heat,) = race_stage("select", _entry("floor", [False] * 16, "floor"), [_entry("LM", [True] * 16)])
    assert heat.won


def test_where_a_rule_answers_first_its_score_counts_for_both() -> None:
    """A model that would be wrong where a rule is right is not blamed: it is never asked there."""
    ruled = Entry("floor", ORDER, Evaluation(tuple(_result(f"c{i}.t", True, "rule") for i in range(8))))
    worse = Entry("LM", ORDER, Evaluation(tuple(_result(f"c{i}.t", False) for i in range(8))))
    _, (heat,) = race_stage("select", ruled, [worse])
    assert heat.difference.value == 0.0
    _, (heat,) = race_stage("select", ruled, [replace(worse, order=("lm", "floor"))])
    assert heat.difference.value == -1.0


def _unseen(right: Sequence[bool]) -> dict[str, float]:
    return {f"t{index // 2}/t{index % 2}": float(hit) for index, hit in enumerate(right)}


@pytest.mark.row("O5")
def test_what_was_judged_out_of_fold_counts_too() -> None:
    """Two turns better on dev-B are chance; with twenty more on training turns that it had not seen they are not."""
    better = [True, False] * 18 + [True] * 4
    floor = replace(FLOOR, unseen=_unseen([True, False] * 40))
    head = replace(_entry("head", better, "head"), unseen=_unseen([True, True] * 20 + [True, False] * 20))
    _, (alone,) = race_stage("select", FLOOR, [_entry("head", better, "head")])
    _, (heat,) = race_stage("select", floor, [head])
    assert not alone.won
    assert alone.alone is None
    assert heat.won
    assert heat.difference.n == 120
    assert heat.out_of_fold == 80
    assert heat.alone is not None
    assert heat.alone.value == alone.difference.value == pytest.approx(2 / 40)
    assert "40 turns of dev-B, +0.050, and 80 out of fold" in heat.verdict


@pytest.mark.row("O5")
def test_what_is_worse_on_dev_b_does_not_ship() -> None:
    """However good it looks out of fold: nothing was fitted on dev-B."""
    floor = replace(FLOOR, unseen=_unseen([False] * 80))
    head = replace(_entry("head", [True, False] * 19 + [False] * 2, "head"), unseen=_unseen([True] * 80))
    winner, (heat,) = race_stage("select", floor, [head])
    assert heat.difference.lower_bound_one_sided > 0
    assert not heat.won
    assert winner is floor
    assert heat.verdict.startswith("floor stays: on dev-B alone the difference is -0.025")


def test_turns_out_of_fold_count_only_where_both_were_judged() -> None:
    floor = replace(FLOOR, unseen=_unseen([False] * 80))
    _, (heat,) = race_stage("select", floor, [_entry("LM", [True, True] * 20)])
    assert (heat.out_of_fold, heat.difference.n) == (0, 40)


@pytest.mark.row("C1")
def test_a_gate_puts_two_evaluations_together() -> None:
    sure = [0.9, 0.3, 0.5, 0.1]
    head = _entry("head", [True, True, False, True], "head").evaluation
    turns = tuple(
        replace(turn, decision=turn.decision.model_copy(update={"stages": {
            "select": StageRecord(source="head" if index else "rule", confidence=sure[index])}}))
        for index, turn in enumerate(head.turns) if turn.decision is not None
    )  # fmt: skip
    lm = _entry("LM", [False, False, True], "lm").evaluation
    found = composed(replace(head, turns=turns), lm, 0.5)
    sources = [turn.decision.stages["select"].source for turn in found.turns if turn.decision is not None]
    assert sources == ["rule", "lm", "head"]  # the fourth was not asked of both
    ungated = composed(replace(head, turns=turns), lm, 0.0)
    assert [t.decision.stages["select"].source for t in ungated.turns if t.decision] == [
        "rule",
        "head",
        "head",
    ]


def test_whole_programs_race_on_the_turns_that_both_answered() -> None:
    compiled, plain = _entry("a", [True] * 40).evaluation, _entry("b", [False] * 20).evaluation
    heat = race_whole("compiled", "uncompiled", compiled, plain)
    assert heat is not None
    assert (heat.won, heat.difference.n) == (True, 20)
    other = Evaluation((_result("x.t", True),))
    assert race_whole("compiled", "uncompiled", compiled, other) is None


# --- in runs -----------------------------------------------------------------------------------------------


@pytest.mark.row("O5")
def test_compiling_gains_and_the_compiled_prompts_ship(taught: Any) -> None:
    race = taught.result.manifest["race"]
    assert race[0]["stage"] == "all"
    assert (race[0]["challenger"], race[0]["incumbent"]) == ("LM compiled", "LM uncompiled")
    assert race[0]["won"]
    assert race[0]["lower_bound"] > 0
    assert "LM compiled" in taught.result.shipped.values()
    assert taught.result.manifest["demonstrations"]["fused"] == 2
    assert "compiling it gained +0." in taught.result.first_line


@pytest.mark.row("O5")
def test_the_uncompiled_program_is_always_in_the_race(taught: Any, wrong: Any, taught_staged: Any) -> None:
    for ran in (taught, wrong, taught_staged):
        first = ran.result.manifest["candidates"][0]
        assert (first["name"], set(first["demonstrations"].values())) == ("uncompiled", {0})
        raced = {heat["challenger"] for heat in ran.result.manifest["race"]}
        raced |= {heat["incumbent"] for heat in ran.result.manifest["race"]}
        assert "LM uncompiled" in raced
        assert "LM uncompiled" in ran.result.manifest["scores"]


@pytest.mark.row("O5")
def test_where_nothing_wins_the_run_says_so_and_keeps_the_floor(wrong: Any) -> None:
    result = wrong.result
    assert set(result.shipped.values()) == {"floor"}
    assert "nothing beat the floor on dev-B, so the floor ships" in result.first_line
    assert "turns could have shown a difference of 0." in result.first_line
    assert all(not heat["won"] and heat["detectable"] > 0 for heat in result.manifest["race"])
    page = result.report_paths.markdown if result.report_paths.markdown.is_absolute() else None
    text = (page or wrong.cwd / result.report_paths.markdown).read_text("utf-8")
    assert "could have shown a difference of" in text
    assert not result.program.active_predictors()
    assert result.program.decide(text="I want to borrow a book").usage.lm_calls == 0


@pytest.mark.row("O5")
def test_the_race_is_run_on_turns_that_compiling_has_not_seen(taught: Any) -> None:
    """Dev-B decides, and its messages are in no prompt of the compile: neither asked nor shown."""
    from jazzmine_dspy.datasets import load_dataset
    from jazzmine_dspy.lm.requests import chat_messages, user_text

    dev_b = {example.turn.text for example in load_dataset(taught.recipe.dataset).examples("dev_b")}
    asked = [any(text in user_text(request) for text in dev_b) for request in taught.requests]
    first = asked.index(True)
    seen = [m["content"] for request in taught.requests[:first] for m in chat_messages(request)]
    assert first > 6
    assert not [text for text in dev_b if any(text in content for content in seen)]


HIDDEN = {f"c{number}/t0{STAND_IN}": float(number % 2) for number in range(20)}


@pytest.mark.row("C4")
def test_refusing_what_is_out_of_scope_counts_where_the_labels_have_none() -> None:
    """The challenger refuses a turn that it should have answered, and twenty for which no flow is there."""
    right = [True, False] * 19 + [False, False]
    refusing = replace(_entry("head", right, "head"), hidden=dict.fromkeys(HIDDEN, 1.0))
    winner, (heat,) = race_stage("select", replace(FLOOR, hidden=HIDDEN), [refusing])
    assert (winner.name, heat.stand_ins, heat.difference.n) == ("head", 20, 60)
    assert heat.difference.value == pytest.approx((10 - 1) / 60)
    _, (alone,) = race_stage("select", FLOOR, [refusing])
    assert (alone.won, alone.stand_ins) == (False, 0)


@pytest.mark.row("C4")
def test_they_weigh_as_much_as_choosing_flows_among_the_scores_of_a_turn() -> None:
    ours, theirs = _entry("head", [True] * 20).evaluation, FLOOR.evaluation
    hidden = (dict.fromkeys(HIDDEN, 1.0), HIDDEN)
    alone = race_whole("head", "floor", ours, theirs, hidden=hidden)
    rewritten = [
        replace(
            turn, example=turn.example.model_copy(update={"labels": Labels(flows=("a",), enhanced="say so")})
        )
        for turn in ours.turns
    ]
    with_rewrites = race_whole("head", "floor", Evaluation(tuple(rewritten)), theirs, hidden=hidden)
    assert alone is not None
    assert with_rewrites is not None
    assert (alone.stand_ins, alone.difference.value) == (20, pytest.approx((10 + 10) / 40))
    without = race_whole("head", "floor", Evaluation(tuple(rewritten)), theirs)
    assert without is not None
    assert 40 * with_rewrites.difference.value - 20 * without.difference.value == pytest.approx(5.0)
