"""Running a program over turns: crashes, degraded answers, cost, and the JSON document."""

from __future__ import annotations

import asyncio
import contextvars
import json
import math
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from jazzmine_dspy.datasets import Example, Labels
from jazzmine_dspy.eval import confusions, evaluate, reliability
from jazzmine_dspy.eval.reliability import CRASHED, NONE, reliability_of
from jazzmine_dspy.models import JazzmineError, Selection, StageRecord, Turn, TurnDecision, Usage

Gold = Callable[..., TurnDecision]


class Scripted:
    """Answers by text; an exception is raised."""

    def __init__(self, answers: dict[str, TurnDecision | BaseException]) -> None:
        self.answers = answers
        self.excluded: list[tuple[str, ...]] = []

    def decide(self, turn: Turn, /, *, exclude: tuple[str, ...] = ()) -> TurnDecision:
        self.excluded.append(exclude)
        answer = self.answers[turn.text]
        if isinstance(answer, BaseException):
            raise answer
        return answer

    async def adecide(self, turn: Turn, /, *, exclude: tuple[str, ...] = ()) -> TurnDecision:
        await asyncio.sleep(0)
        return self.decide(turn, exclude=exclude)


def _example(text: str, number: int = 0, tags: tuple[str, ...] = (), **labels: Any) -> Example:
    return Example(
        conversation_id=f"c{number}", turn_id=f"t{text}", turn=Turn(text=text),
        labels=Labels.model_validate(labels), tags=tags, role="dev_a", line=1,
    )  # fmt: skip


@pytest.fixture
def mixed(gold: Gold) -> tuple[Scripted, list[Example]]:
    """Four turns: right, wrong, degraded (and wrong), crashed."""
    names = ["right", "wrong", "degraded", "crashed"]
    examples = [_example(name, i, tags=(name, "all"), flows=["a"]) for i, name in enumerate(names)]
    right = gold(examples[0].labels, examples[0].turn)
    wrong = right.model_copy(update={"selection": Selection(flows=["b"])})
    floor = StageRecord(source="fallback", degraded=True, cause="the store is down", latency_ms=1.0)
    degraded = wrong.model_copy(update={"stages": {**right.stages, "select": floor}})
    program = Scripted(
        {"right": right, "wrong": wrong, "degraded": degraded, "crashed": ValueError("no such thing")}
    )
    return program, examples


@pytest.mark.row("V6")
def test_crashed_and_degraded_are_counted_apart(mixed: tuple[Scripted, list[Example]]) -> None:
    found = evaluate(*mixed)
    assert (found.n, found.crashed, found.degraded) == (4, 1, 1)
    assert found.outcomes == {"right": 1, "wrong": 1, "degraded": 1, "crashed": 1}
    assert found.turns[3].error == "ValueError"
    assert found.turns[3].decision is None
    metric = found.metrics["flow_set_exact"]
    assert (metric.value, metric.n) == (0.25, 4)
    slices = found.to_json()["slices"]
    assert slices["answered"]["n"] == 2
    assert slices["answered"]["metrics"]["flow_set_exact"]["value"] == 0.5
    assert slices["degraded"]["metrics"]["flow_set_exact"]["value"] == 0.0


@pytest.mark.row("V6")
def test_a_metric_that_raises_is_a_crash(gold: Gold) -> None:
    example = _example("x", flows=["a"], commands=[])
    right = gold(example.labels, example.turn)
    broken = right.model_copy(update={"commands": None})
    found = evaluate(Scripted({"x": broken}), [example])
    assert (found.crashed, found.degraded) == (1, 0)
    assert found.turns[0].error is not None
    assert found.turns[0].error.startswith("scoring failed: TypeError")
    assert found.metrics["flow_set_exact"].value == 0.0


@pytest.mark.row("V6")
def test_what_ends_the_process_is_not_swallowed() -> None:
    with pytest.raises(KeyboardInterrupt):
        evaluate(Scripted({"x": KeyboardInterrupt()}), [_example("x", flows=[])])


@pytest.mark.row("V5", "P5")
def test_cost_latency_and_sources(mixed: tuple[Scripted, list[Example]]) -> None:
    found = evaluate(*mixed, price=(1.0, 10.0)).to_json()
    usage = found["usage"]
    assert usage["lm_calls_per_turn"] == pytest.approx(8 / 3)
    assert usage["prompt_tokens_per_turn"] == pytest.approx(800 / 3)
    assert usage["completion_tokens_per_turn"] == pytest.approx(80 / 3)
    assert usage["cost_per_turn"] == pytest.approx((800 + 80 * 10) / 3 / 1e6)
    assert usage["latency_ms"]["p95"] >= usage["latency_ms"]["p50"] > 0
    select = usage["by_stage"]["select"]
    assert select["lm_calls_per_turn"] == pytest.approx(2 / 3)
    assert select["latency_ms"] == {"p50": 5.0, "p95": 5.0}
    assert select["degraded"] == 1
    assert found["sources"]["select"] == {"lm": pytest.approx(2 / 3), "fallback": pytest.approx(1 / 3)}
    assert found["sources"]["enhance"] == {"lm": 1.0}


@pytest.mark.row("V5")
def test_cost_that_is_told_wins_over_a_price_and_unknown_is_null(gold: Gold) -> None:
    example = _example("x", flows=[])
    told = gold(example.labels, example.turn)
    record = told.stages["select"].model_copy(update={"usage": Usage(lm_calls=1, cost=0.25)})
    paid = told.model_copy(update={"stages": {"select": record}})
    assert evaluate(Scripted({"x": paid}), [example], price=(9, 9)).usage["cost_per_turn"] == 0.25
    assert evaluate(Scripted({"x": told}), [example]).to_json()["usage"]["cost_per_turn"] is None


@pytest.mark.row("V5")
def test_latency_by_source(mixed: tuple[Scripted, list[Example]]) -> None:
    found = evaluate(*mixed).latency_by_source()["select"]
    assert found == {"lm": {"n": 2, "p50": 5.0, "p95": 5.0}, "fallback": {"n": 1, "p50": 1.0, "p95": 1.0}}


def _numbers(data: Any) -> Iterator[float]:
    if isinstance(data, dict):
        for value in data.values():
            yield from _numbers(value)
    elif isinstance(data, float):
        yield data


@pytest.mark.row("V1", "V2", "V5", "V6")
def test_the_json_document(support: list[Example], support_flows: list[str], noisy: Any) -> None:
    program = noisy(support, support_flows, quality=0.8, degraded=0.05, crashed=0.02)
    found = evaluate(program, support).to_json()
    assert list(found) == [
        "n", "crashed", "degraded", "refused", "unanswered", "metrics", "usage", "sources", "slices",
    ]  # fmt: skip
    assert found == json.loads(json.dumps(found, allow_nan=False))
    assert not [number for number in _numbers(found) if math.isnan(number)]
    for metric in found["metrics"].values():
        assert set(metric) == {"value", "low", "high", "n"}
        assert metric["n"] > 0
        if metric["low"] is None:
            assert metric["high"] is None
        else:
            assert 0.0 <= metric["low"] <= metric["value"] <= metric["high"]
    assert found["metrics"]["commands_exact"]["low"] is not None
    assert set(found["usage"]) == {
        "lm_calls_per_turn", "prompt_tokens_per_turn", "completion_tokens_per_turn", "cost_per_turn",
        "latency_ms", "by_stage",
    }  # fmt: skip
    assert {"coreference", "answered", "degraded"} <= set(found["slices"])
    assert all(set(one) == {"n", "metrics"} and one["n"] > 0 for one in found["slices"].values())
    for shares in found["sources"].values():
        assert sum(shares.values()) == pytest.approx(1.0)


@pytest.mark.row("V2", "V6")
def test_threads_find_the_same(support: list[Example], support_flows: list[str], noisy: Any) -> None:
    program = noisy(support, support_flows, quality=0.7, crashed=0.05)
    seen: list[tuple[int, int]] = []
    one = evaluate(program, support[:80], seed=5)
    many = evaluate(program, support[:80], concurrency=8, seed=5, progress=lambda *at: seen.append(at))
    assert [turn.example.key for turn in many.turns] == [turn.example.key for turn in one.turns]
    assert many.metrics == one.metrics
    assert [turn.error for turn in many.turns] == [turn.error for turn in one.turns]
    assert seen == [(i, 80) for i in range(1, 81)]


@pytest.mark.row("V6")
def test_threads_see_the_settings_of_their_caller(gold: Gold) -> None:
    setting: contextvars.ContextVar[str] = contextvars.ContextVar("setting")
    setting.set("mine")

    class Asks:
        def decide(self, turn: Turn, /, *, exclude: tuple[str, ...] = ()) -> TurnDecision:
            assert setting.get() == "mine"
            return gold(Labels(), turn)

    assert evaluate(Asks(), [_example(str(i)) for i in range(4)], concurrency=2).crashed == 0


def test_conversations_can_be_hidden_from_recall(gold: Gold) -> None:
    example = _example("x", number=7, flows=[])
    program = Scripted({"x": gold(example.labels, example.turn)})
    evaluate(program, [example], exclude=lambda held: [held.conversation_id])
    assert program.excluded == [("c7",)]


@pytest.mark.parametrize(("count", "concurrency", "match"), [(0, 1, "no turns"), (1, 0, "concurrency=0")])
def test_nothing_to_do_is_an_error(count: int, concurrency: int, match: str) -> None:
    examples = [_example("x")] * count
    with pytest.raises(JazzmineError, match=match):
        evaluate(Scripted({}), examples, concurrency=concurrency)


@pytest.mark.row("V2")
def test_differences_are_of_the_turns_that_both_answered(
    support: list[Example], support_flows: list[str], noisy: Any
) -> None:
    good = evaluate(noisy(support, support_flows, quality=0.95), support[:200])
    bad = evaluate(noisy(support, support_flows, quality=0.5), support[:200])
    found = good.shared_difference(bad, "commands_exact")
    assert found.value == good.metrics["commands_exact"].value - bad.metrics["commands_exact"].value
    assert found.lower_bound_one_sided > 0.1
    half = evaluate(noisy(support, support_flows, quality=0.5), support[:100])
    assert good.shared_difference(half, "commands_exact").n < found.n


@pytest.mark.row("V4")
def test_confusions(mixed: tuple[Scripted, list[Example]], gold: Gold) -> None:
    assert confusions(evaluate(*mixed).turns) == {("a", "a"): 1, ("a", "b"): 2, ("a", CRASHED): 1}
    example = _example("y", flows=[])
    some = gold(example.labels, example.turn).model_copy(update={"selection": Selection(flows=["b"])})
    assert confusions(evaluate(Scripted({"y": some}), [example]).turns) == {(NONE, "b"): 1}


@pytest.mark.row("V4")
def test_reliability(gold: Gold) -> None:
    examples = [_example(str(i), i, flows=["a"]) for i in range(20)]
    answers: dict[str, TurnDecision | BaseException] = {}
    for i, example in enumerate(examples):
        right = gold(example.labels, example.turn)
        sure = {"select": right.stages["select"].model_copy(update={"confidence": 0.95 if i < 10 else 0.55})}
        chosen = right.selection if i not in (0, 10, 11, 12, 13) else Selection(flows=["b"])
        answers[str(i)] = right.model_copy(update={"selection": chosen, "stages": sure})
    found = reliability(evaluate(Scripted(answers), examples).turns)
    assert found is not None
    assert [(one.n, one.accuracy) for one in found.bins] == [(10, 0.6), (10, 0.9)]
    assert found.ece == pytest.approx(0.5 * 0.05 + 0.5 * 0.05)
    assert reliability([]) is None


@pytest.mark.row("C3")
def test_the_calibration_error_is_that_of_its_definition() -> None:
    """Ten equal bins; of each the distance between mean confidence and accuracy, weighed by its turns."""
    pairs = [(0.95, 1.0)] * 8 + [(0.95, 0.0)] * 2 + [(0.55, 1.0)] * 5 + [(0.55, 0.0)] * 5 + [(1.0, 1.0)] * 5
    found = reliability_of(pairs)
    assert found is not None
    assert [one.n for one in found.bins] == [10, 15]
    upper = abs((10 * 0.95 + 5) / 15 - 13 / 15)
    assert found.ece == pytest.approx((10 * 0.05 + 15 * upper) / 25)
    assert reliability_of([]) is None


def test_importing_evaluation_is_light() -> None:
    code = (
        "import sys, jazzmine_dspy.eval, jazzmine_dspy.eval.report\n"
        "print([m for m in ('dspy', 'numpy', 'scipy', 'sklearn', 'rich', 'mlflow') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
