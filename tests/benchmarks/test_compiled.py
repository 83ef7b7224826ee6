"""What compiling gains, and what DSPy's adapters get right: from recorded answers, which the prompts still fit."""

from __future__ import annotations

import importlib
import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from jazzmine_dspy.eval import evaluate
from jazzmine_dspy.lm import scripted_lm
from jazzmine_dspy.lm.deferred import read_answers

ROOT = Path(__file__).resolve().parents[2]
for folder in ("eval/benchmarks", "tools"):
    sys.path.append(str(ROOT / folder))
adapters = importlib.import_module("understanding.adapters")
ground = importlib.import_module("understanding.ground")
compiled = importlib.import_module("bench_compiled")
WRONG = json.dumps(
    {
        "enhanced_query": "x",
        "sentiment_score": 0,
        "entities": [],
        "is_continuation": True,
        "commands": ["repeat"],
    }
)
RECORDINGS = ROOT / "eval" / "recordings"


@pytest.fixture(scope="module")
def support() -> Any:
    return ground.Ground(ROOT / "eval" / "suites" / "repair", ROOT / "datasets" / "support", ROOT)


def folder_of(adapter: str) -> Path:
    return RECORDINGS / f"adapter-{adapter.removesuffix('Adapter').lower()}"


@pytest.mark.parametrize(
    ("adapter", "turns", "found"),
    [
        ("DecisionAdapter", 40, (38, 0)), ("XMLAdapter", 40, (26, 12)), ("JSONAdapter", 8, (8, 0)),
        ("ChatAdapter", 8, (8, 0)),
    ],
)  # fmt: skip
def test_recorded_answers_fit_what_an_adapter_sends(
    support: Any, adapter: str, turns: int, found: tuple[int, int]
) -> None:
    examples = support.test_turns(120)[:turns]
    judged = adapters.judged(support.dataset.flows, adapter, examples, folder_of(adapter))
    assert judged is not None, "stale: the prompt has changed since"
    assert judged == found


def test_a_turn_without_a_recorded_answer_judges_no_adapter(support: Any) -> None:
    examples = support.test_turns(120)[:41]
    assert adapters.judged(support.dataset.flows, "ChatAdapter", examples, folder_of("ChatAdapter")) is None


def test_the_lines_of_a_run_tell_the_programs_apart(support: Any) -> None:
    examples = support.test_turns(120)[:12]
    flows = support.dataset.flows
    answers = read_answers(folder_of("DecisionAdapter"), None)
    texts = iter(
        [
            answers[json.loads(each.request("large", "DecisionAdapter"))["custom_id"]][0]
            for each in adapters.sent(
                adapters.asking(flows), "DecisionAdapter", [(each.key, each.turn) for each in examples]
            )
        ]
    )
    systems = {}
    for name, said in (
        ("LM as written", lambda _: WRONG),
        ("LM compiled", lambda _: next(texts)),
    ):
        program = adapters.asking(flows)
        program.set_lm(scripted_lm(said))
        systems[name] = evaluate(program, examples, concurrency=1)
    first, *groups = compiled.rows("x", systems, {"some": {examples[0].key, examples[3].key}, "none": {"y"}})
    assert re.fullmatch(r"\| x \| 12 \| 0\.0, [\d,]+ \| 100\.0, [\d,]+ \| \+100\.0 \[.*\] \|", first)
    assert groups == ["| · any convention | 2 | 0.0 | 100.0 |  |", "| · some | 2 | 0.0 | 100.0 |  |"]


def test_a_recipe_that_is_none_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        compiled.main(["nosuch"])
    assert "conventions, marina, sgd" in capsys.readouterr().err


def test_turns_that_a_convention_touches_are_told_apart() -> None:
    found = compiled.touched()
    assert set(found) == {each.__name__ for each in compiled.conventions.CONVENTIONS}
    assert min(map(len, found.values())) > 40


@pytest.mark.long
@pytest.mark.row("O1", "O12")
def test_a_compiled_prompt_is_ahead_where_labels_follow_a_guide_of_their_own(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert compiled.main(["marina"]) == 0
    *_, line = capsys.readouterr().out.strip().splitlines()
    gain, _, interval = line.split("|")[-2].strip().partition(" ")
    assert float(gain) > 10
    assert float(interval.strip("[]").split(",")[0]) > 0
