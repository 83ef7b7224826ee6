"""S4: a run fits the margin of flows that must not be missed, and a miss costs more than a false alarm."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from jazzmine_dspy import load
from jazzmine_dspy.datasets.schema import Example
from jazzmine_dspy.models import FlowRegistry, Turn
from jazzmine_dspy.models.labels import Labels
from jazzmine_dspy.optimize.confidence import never_miss_margin
from jazzmine_dspy.program.local.starting import never_miss_shares
from jazzmine_dspy.program.policy import NEVER_MISS
from jazzmine_dspy.program.turn import TurnProgram

FLOWS = FlowRegistry(
    [
        {
            "name": "report_trapped", "description": "Someone is stuck or hurt in a lift and needs help now.",
            "examples": ["somebody is stuck in the lift", "we are trapped between two floors"], "never_miss": True,
        },
        {"name": "get_quote", "description": "Get an offer.", "examples": ["what would a new lift cost"]},
    ]
)  # fmt: skip
FAINT = "lights went out and we're not moving, 3 of us"
CALM = ("how much is it to replace the doors", "what would a lift for 5 floors cost", "hello", "thanks, bye")


@pytest.fixture(scope="module")
def program() -> TurnProgram:
    return load("base", flows=FLOWS, lm=None)


def examples(urgent: Sequence[str], calm: Sequence[str]) -> list[Example]:
    labelled = [(text, ["report_trapped"]) for text in urgent] + [(text, []) for text in calm]
    return [
        Example(
            conversation_id=f"c{at}",
            turn_id="1",
            turn=Turn(text=text),
            labels=Labels(flows=flows),
            role="dev_a",
            line=at + 1,
        )
        for at, (text, flows) in enumerate(labelled)
    ]


def share(program: TurnProgram, text: str) -> float:
    return never_miss_shares(program.read(Turn(text=text)))["report_trapped"]


@pytest.mark.row("S4")
def test_the_margin_reaches_down_to_a_message_that_would_be_missed(program: TurnProgram) -> None:
    missed = min((FAINT, "we have been in here since 8"), key=lambda text: share(program, text))
    assert share(program, missed) < NEVER_MISS
    margin = never_miss_margin(program, examples([missed], CALM))
    assert margin == pytest.approx(share(program, missed), abs=1e-5)


@pytest.mark.row("S4")
def test_many_false_alarms_cost_more_than_a_miss(program: TurnProgram) -> None:
    dull = min(CALM, key=lambda text: share(program, text))
    alarms = [FAINT, *(f"{text} {n}" for text in CALM for n in range(6))]
    assert never_miss_margin(program, examples([dull], alarms)) == NEVER_MISS


@pytest.mark.row("S4")
def test_without_a_turn_of_such_a_flow_there_is_no_margin(program: TurnProgram) -> None:
    assert never_miss_margin(program, examples([], CALM)) is None


@pytest.mark.row("S4")
@pytest.mark.parametrize("marked", ["borrow_book", "lost_card"])
def test_a_run_fits_the_margin_or_says_why_it_stays(
    run_recipe: Any, tiny: Any, library: Path, tmp_path: Path, marked: str
) -> None:
    folder = shutil.copytree(library, tmp_path / "data")
    text = (folder / "flows.yaml").read_text("utf-8")
    if marked == "lost_card":
        text += "  - {name: lost_card, description: Report a stolen card., examples: [my card was stolen]}\n"
    text = text.replace(f"name: {marked}", f"name: {marked}, never_miss: true", 1) if marked == "lost_card" else (
        text.replace(f"name: {marked}\n", f"name: {marked}\n    never_miss: true\n", 1)
    )  # fmt: skip
    (folder / "flows.yaml").write_text(text, "utf-8")
    ran = run_recipe(tiny(dataset=str(folder), lm="none", acts=False))
    noted = any("flow that must not be missed" in note for note in ran.progress.notes)
    assert noted is (marked == "lost_card")
    policy = load(ran.result.folder, lm=None).policy
    assert noted is (policy.never_miss == NEVER_MISS)
