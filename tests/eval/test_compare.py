"""Two programs on the same turns, and the gate between them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from jazzmine_dspy.datasets import Example, Labels
from jazzmine_dspy.eval import Evaluation, Objective, Record, compare, evaluate, gate, read_record
from jazzmine_dspy.eval.compare import Comparison
from jazzmine_dspy.models import Turn
from jazzmine_dspy.models.errors import InputError

FACTS = {"split": "dev_a", "flows": "f"}


@pytest.fixture(scope="module")
def turns(support: list[Example]) -> list[Example]:
    return support[:200]


@pytest.fixture(scope="module")
def run(turns: list[Example], support_flows: list[str], noisy: Any) -> Any:
    def evaluated(quality: float, seed: int = 1, **settings: Any) -> Evaluation:
        return evaluate(noisy(turns, support_flows, quality=quality, seed=seed, **settings), turns)

    return evaluated


@pytest.fixture(scope="module")
def found(run: Any) -> Comparison:
    return compare(run(0.6), run(0.9), objective=Objective("commands_exact", {"flow_set_exact": 0.02}))


@pytest.mark.row("V3")
def test_the_better_one_is_found_and_the_turns_that_changed(
    found: Comparison, run: Any, turns: list[Example]
) -> None:
    assert found.verdict.startswith("B is better: commands_exact")
    assert found.main.low is not None
    assert 0 < found.main.low < found.main.difference < (found.main.high or 0)
    old, new = run(0.6), run(0.9)
    moved = {
        one.example.key: two.scores["commands_exact"].value - one.scores["commands_exact"].value
        for one, two in zip(old.turns, new.turns, strict=True)
        if "commands_exact" in one.scores
    }
    assert [each.key for each in found.gained] == [key for key, move in moved.items() if move > 0]
    assert [each.key for each in found.lost] == [key for key, move in moved.items() if move < 0]
    assert (len(found.gained), len(found.lost)) == (found.main.gained, found.main.lost)
    assert found.main.difference == pytest.approx(sum(moved.values()) / len(moved))
    texts = {each.key: each.turn.text for each in turns}
    assert all(each.message == texts[each.key] and each.before != each.after for each in found.gained)
    assert "flow_set_exact" in {one.metric for one in found.others}


@pytest.mark.row("V3")
def test_slices_add_up_and_only_large_ones_are_tested(found: Comparison) -> None:
    places = [one for one in found.slices if one.kind == "place"]
    assert sum(one.found.n for one in places) == found.main.n
    assert {one.kind for one in found.slices} == {"place", "command", "flow"}
    for one in found.slices:
        assert one.tested == (one.found.conversations >= 10) == (one.found.adjusted is not None)
        assert one.found.adjusted is None or one.found.adjusted >= one.found.p
    tested = [one.found.p for one in found.slices if one.tested]
    first = min((one.found for one in found.slices if one.tested), key=lambda one: one.p)
    assert first.adjusted == pytest.approx(min(1.0, len(tested) * first.p))


@pytest.mark.row("V3")
def test_a_program_is_no_better_than_itself(run: Any) -> None:
    same = compare(run(0.7), run(0.7))
    assert (same.main.p, same.main.difference, same.changed, same.gained, same.lost) == (1.0, 0.0, 0, (), ())
    assert same.verdict.startswith("No difference: A and B answer all 200 turns alike")
    assert not any(one.significant for one in (same.main, *same.others))
    assert gate(run(0.7), run(0.7)).ok


@pytest.mark.row("V3", "V6")
def test_crashes_stand_apart_from_wrong_answers(run: Any) -> None:
    found = compare(run(1.0), run(1.0, crashed=0.2))
    fell = sum(n for (_, after), n in found.outcomes.items() if after == "crashed")
    assert fell == run(1.0, crashed=0.2).crashed > 20
    assert found.outcomes["right", "crashed"] == fell
    assert found.main.lost == len([one for one in found.lost if one.after == "crashed"]) > 0
    assert not gate(run(1.0), run(1.0, crashed=0.2)).ok


@pytest.mark.row("V3")
def test_what_is_not_the_same_is_refused(run: Any, turns: list[Example]) -> None:
    whole = run(0.7)
    with pytest.raises(InputError, match="not of the same turns"):
        compare(whole, Evaluation(whole.turns[:50]))
    other = turns[0].model_copy(update={"labels": Labels(flows=("elsewhere",))})
    changed = evaluate(_Silent(), [other, *turns[1:5]])
    with pytest.raises(InputError, match="different states"):
        compare(evaluate(_Silent(), turns[:5]), changed)
    with pytest.raises(InputError, match="no label"):
        compare(whole, whole, objective="no_such_metric")
    with pytest.raises(InputError, match="margin"):
        gate(whole, whole, margin=2.0)


class _Silent:
    def decide(self, turn: Turn, /, *, exclude: tuple[str, ...] = ()) -> Any:
        raise RuntimeError("silent")


@pytest.mark.row("V3")
def test_nothing_is_told_from_one_conversation(run: Any) -> None:
    old, new = run(0.2), run(1.0)
    talk = old.turns[0].example.conversation_id
    alone = [
        Evaluation(tuple(turn for turn in each.turns if turn.example.conversation_id == talk))
        for each in (old, new)
    ]
    found = compare(*alone)
    assert found.verdict.startswith("One conversation is too few for a conclusion")
    assert (found.main.p, found.main.low) == (1.0, None)
    assert gate(alone[1], alone[0]).ok


@pytest.mark.row("V7")
def test_the_gate_fails_on_a_loss_beyond_the_margin(run: Any) -> None:
    good, bad = run(0.9), run(0.7)
    verdict = gate(good, bad)
    assert not verdict.ok
    assert verdict.why.startswith("failed: commands_exact loses 0.")
    assert gate(bad, good).ok
    assert "no significant loss" in gate(bad, good).why
    assert gate(good, bad, margin=0.4).ok
    assert gate(good, run(0.89)).ok
    held = gate(good, bad, margin=0.4, objective=Objective("commands_exact", {"flow_set_exact": 0.01}))
    assert not held.ok
    assert [one.metric for one in held.losses] == ["commands_exact", "flow_set_exact"]


@pytest.mark.row("V7")
def test_an_earlier_evaluation_stands_for_its_program(
    run: Any, turns: list[Example], tmp_path: Path, found: Comparison
) -> None:
    path = tmp_path / "before.json"
    path.write_text(json.dumps({"n": 200, "record": Record.of(run(0.6), FACTS).to_json()}), "utf-8")
    held = read_record(path, turns, FACTS)
    again = compare(held, run(0.9), objective=Objective("commands_exact", {"flow_set_exact": 0.02}))
    assert again.to_json() | {"facts": 0} == found.to_json() | {"facts": 0}
    with pytest.raises(InputError, match="another flows"):
        read_record(path, turns, {"flows": "g"})
    with pytest.raises(InputError, match="turns or labels differ"):
        read_record(path, [turns[0].model_copy(update={"labels": Labels()}), *turns[1:]], FACTS)
    with pytest.raises(InputError, match="is gone"):
        read_record(path, turns[1:], FACTS)


@pytest.mark.row("V7")
@pytest.mark.parametrize("text", ["", "[]", "{}", '{"record": 3}', '{"record": {"format": 1, "facts": {}}}'])
def test_what_is_no_evaluation_is_refused(text: str, turns: list[Example], tmp_path: Path) -> None:
    path = tmp_path / "before.json"
    path.write_text(text, "utf-8")
    with pytest.raises(InputError) as caught:
        read_record(path, turns)
    assert caught.value.where.startswith(str(path))
    assert caught.value.remedy
