"""The race on dev-B: nothing ships that does not surely beat what stands there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from jazzmine_dspy.datasets.schema import Example, Labels
from jazzmine_dspy.eval.evaluation import Evaluation, TurnResult
from jazzmine_dspy.eval.metrics import score_turn
from jazzmine_dspy.eval.objective import Objective
from jazzmine_dspy.eval.score_terms import TurnScores, mean
from jazzmine_dspy.models.decision import Enhancement, Selection, SourceKind, StageRecord, TurnDecision
from jazzmine_dspy.models.turn import Turn
from jazzmine_dspy.optimize.pipeline.heats import HIDDEN, MARGIN, Entry, Heat, failures_as_wrong, run_heat

FLOWS = Objective("flow_set_exact")


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
    return Entry(name, Evaluation(tuple(turns)))


FLOOR = _entry("floor", [True, False] * 20, "floor")


def _heat(challenger: Entry, incumbent: Entry = FLOOR, objective: Objective = FLOWS) -> Heat:
    heat = run_heat("select", challenger, incumbent, objective)
    assert heat is not None
    return heat


@pytest.mark.row("O5", "C5")
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
    heat = _heat(_entry("LM", right))
    assert heat.won is won
    assert heat.won == (heat.difference.lower_bound_one_sided > 0)


@pytest.mark.row("O5", "C5")
@pytest.mark.parametrize(
    ("right", "won"),
    [
        ([True, False] * 19 + [True, True], True),  # better once, worse nowhere
        ([True, False] * 20, False),  # the same
        (
            [False, False] + [True, True] * 2 + [True, False] * 17,
            False,
        ),  # better by estimate, and perhaps worse
    ],
)
def test_what_costs_no_call_ships_where_a_loss_is_ruled_out(right: list[bool], won: bool) -> None:
    heat = run_heat("select", _entry("head", right, "head"), FLOOR, FLOWS, least=-MARGIN)
    assert heat is not None
    assert heat.difference.lower_bound_one_sided <= 0
    assert heat.won is won
    assert not won or "a loss of 0.02 is ruled out" in heat.verdict


@pytest.mark.row("O5", "C5")
def test_who_loses_is_told_what_could_have_been_seen() -> None:
    heat = _heat(_entry("LM", [True, False] * 19 + [True, True]))
    assert heat.difference.value > 0
    assert heat.verdict.startswith("floor stays: +0.0")
    assert "on 40 turns only a difference of 0.0" in heat.verdict


@pytest.mark.row("C5")
def test_turns_of_one_conversation_count_as_one_witness() -> None:
    """Eight turns better, all in one conversation, against eight in eight conversations."""
    alone = [_result(f"same.t{index}", False, "floor") for index in range(8)]
    better = [_result(f"same.t{index}", True) for index in range(8)]
    floor = Entry("floor", Evaluation(tuple(alone)))
    assert not _heat(Entry("LM", Evaluation(tuple(better))), floor).won
    assert _heat(_entry("LM", [True] * 16), _entry("floor", [False] * 16, "floor")).won


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
    heat = _heat(Entry("LM", judged), floor)
    assert (heat.won, heat.score, heat.incumbent_score, heat.difference.n) == (False, 0.5, 1.0, 40)
    assert [turn.error for turn in judged.turns if turn.decision is None] == [
        "lm: RateLimitError: slow down"
    ] * 20


def _unseen(right: Sequence[bool]) -> dict[str, TurnScores]:
    return {f"t{index // 2}/t{index % 2}": {"flow_set_exact": mean(hit)} for index, hit in enumerate(right)}


@pytest.mark.row("O5")
def test_what_was_judged_out_of_fold_counts_too() -> None:
    """Two turns better on dev-B are chance; with twenty more on training turns that it had not seen they are not."""
    better = [True, False] * 18 + [True] * 4
    floor = replace(FLOOR, unseen=_unseen([True, False] * 40))
    head = replace(_entry("head", better, "head"), unseen=_unseen([True, True] * 20 + [True, False] * 20))
    alone, heat = _heat(_entry("head", better, "head")), _heat(head, floor)
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
    heat = _heat(head, floor)
    assert heat.difference.lower_bound_one_sided > 0
    assert not heat.won
    assert heat.verdict.startswith("floor stays: on dev-B alone the difference is -0.025")


def test_turns_out_of_fold_count_only_where_both_were_judged() -> None:
    floor = replace(FLOOR, unseen=_unseen([False] * 80))
    heat = _heat(_entry("LM", [True, True] * 20), floor)
    assert (heat.out_of_fold, heat.difference.n) == (0, 40)


def test_programs_are_compared_on_the_turns_that_both_answered() -> None:
    heat = _heat(_entry("a", [True] * 40), _entry("b", [False] * 20))
    assert (heat.won, heat.difference.n) == (True, 20)
    other = Entry("c", Evaluation((_result("x.t", True),)))
    assert run_heat("select", _entry("a", [True] * 40), other, FLOWS) is None


@pytest.mark.row("O5")
def test_the_objective_decides_and_nothing_else() -> None:
    """Every rewrite got better, and no flow did: that wins where rewrites are raised, and there alone."""
    labels = Labels(flows=("a",), enhanced="say it", commands=())

    def entry(name: str, rewrite: str) -> Entry:
        turns = []
        for turn in _entry(name, [True, False] * 20).evaluation.turns:
            assert turn.decision is not None
            decision = turn.decision.model_copy(update={"enhancement": Enhancement(enhanced_query=rewrite)})
            example = turn.example.model_copy(update={"labels": labels})
            scores = score_turn(decision, labels, example.turn)
            turns.append(replace(turn, example=example, decision=decision, scores=scores))
        return Entry(name, Evaluation(tuple(turns)))

    better, plain = entry("LM", "say it"), entry("floor", "nothing of the kind")
    for metric in ("flow_set_exact", "commands_exact"):
        heat = _heat(better, plain, Objective(metric))
        assert (heat.won, heat.difference.value) == (False, 0.0)
    assert _heat(better, plain, Objective("rewrite_token_f1")).won


@pytest.mark.row("O5")
@pytest.mark.parametrize(("allowed", "won"), [(0.5, True), (0.2, False), (None, True)])
def test_a_challenger_that_breaks_a_constraint_does_not_win(allowed: float | None, won: bool) -> None:
    """It raises the objective everywhere, and loses half of another metric."""

    def entry(name: str, flows: float, kept: float) -> Entry:
        turns = []
        for number, turn in enumerate(_entry(name, [True] * 40).evaluation.turns):
            scores = {"flow_set_exact": mean(flows), "unchanged_kept": mean(kept if number % 2 else 1.0)}
            turns.append(replace(turn, scores=scores))
        return Entry(name, Evaluation(tuple(turns)))

    limits = {} if allowed is None else {"unchanged_kept": allowed}
    heat = _heat(entry("LM", 1.0, 0.0), entry("floor", 0.0, 1.0), Objective("flow_set_exact", limits))
    assert heat.difference.lower_bound_one_sided > 0
    assert heat.won is won
    if not won:
        assert heat.broken == ("unchanged_kept loses 0.500, 0.2 is allowed",)
        assert heat.verdict == f"floor stays, though LM is better: {heat.broken[0]}"


def test_less_error_is_no_loss() -> None:
    """Of an error, more is a loss."""

    def entry(error: float) -> Entry:
        turns = [
            replace(turn, scores={"sentiment_mae": mean(error)})
            for turn in _entry("x", [True] * 4).evaluation.turns
        ]
        return Entry("x", Evaluation(tuple(turns)))

    held = Objective("flow_set_exact", {"sentiment_mae": 0.1})
    assert held.broken_constraints(entry(0.2).evaluation, entry(0.5).evaluation) == ()
    assert held.broken_constraints(entry(0.5).evaluation, entry(0.2).evaluation) == (
        "sentiment_mae loses 0.300, 0.1 is allowed",
    )


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
    assert "compiling it gained +" in taught.result.first_line


@pytest.mark.row("O5", "C5")
def test_the_uncompiled_program_is_always_in_the_race(taught: Any, wrong: Any, taught_staged: Any) -> None:
    for ran in (taught, wrong, taught_staged):
        first = ran.result.manifest["candidates"][0]
        assert (first["name"], set(first["demonstrations"].values())) == ("uncompiled", {0})
        raced = {heat["challenger"] for heat in ran.result.manifest["race"]}
        raced |= {heat["incumbent"] for heat in ran.result.manifest["race"]}
        assert "LM uncompiled" in raced
        assert "LM uncompiled" in ran.result.manifest["scores"]


@pytest.mark.row("O5", "C5")
def test_where_nothing_wins_the_run_says_so_and_ships_the_base(wrong: Any) -> None:
    result = wrong.result
    assert set(result.shipped.values()) == {"base"}
    assert "nothing beat the base on dev-B, so the base ships" in result.first_line
    assert "turns only a difference of 0." in result.first_line
    assert all(not heat["won"] and heat["detectable"] > 0 for heat in result.manifest["race"])
    page = result.report_paths.markdown if result.report_paths.markdown.is_absolute() else None
    text = (page or wrong.cwd / result.report_paths.markdown).read_text("utf-8")
    assert "turns only a difference of" in text
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


REFUSED = {f"c{number}/t0{HIDDEN}": float(number % 2) for number in range(20)}


def _refusals(right: Mapping[str, float]) -> dict[str, TurnScores]:
    return {key: FLOWS.refusal(value) for key, value in right.items()}


@pytest.mark.row("C4")
def test_refusing_what_is_out_of_scope_counts_where_the_labels_have_none() -> None:
    """The challenger refuses a turn that it should have answered, and twenty for which no flow is there."""
    right = [True, False] * 19 + [False, False]
    refusing = replace(_entry("head", right, "head"), synthetic=_refusals(dict.fromkeys(REFUSED, 1.0)))
    heat = _heat(refusing, replace(FLOOR, synthetic=_refusals(REFUSED)))
    assert (heat.won, heat.synthetic, heat.difference.n) == (True, 20, 60)
    assert heat.difference.value == pytest.approx((10 - 1) / 60)
    alone = _heat(refusing)
    assert (alone.won, alone.synthetic) == (False, 0)
