"""A program that asks stage by stage, of a language model that answers by file, waiting and not."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from jazzmine_dspy.artifacts import bind_recall
from jazzmine_dspy.lm import resolve_lm
from jazzmine_dspy.models import FlowRegistry
from jazzmine_dspy.models.awaiting import Awaiting
from jazzmine_dspy.models.decision import STAGES, TurnDecision
from jazzmine_dspy.models.turn import Turn
from jazzmine_dspy.program.turn import TurnProgram

pytestmark = pytest.mark.row("O12")

STARTER = Path(__file__).resolve().parents[2] / "jazzmine_dspy" / "cli" / "_starter"
TEXTS = ("I need a bike for Saturday", "a helmet too please")


def _said(body: dict[str, Any]) -> str:
    known = {
        "enhanced_query": "The customer needs a road bike", "sentiment_score": 0.3, "intent": "rent_bike",
        "entities": [{"name": "bike"}], "flows": ["A"], "is_cancellation": False, "is_continuation": False,
        "commands": [],
    }  # fmt: skip
    schema = body["response_format"]["json_schema"]["schema"]
    return json.dumps({name: known[name] for name in schema["required"]})


def _answer(folder: Path) -> None:
    rows = [json.loads(line) for line in (folder / "requests.jsonl").read_text("utf-8").splitlines()]
    lines = [json.dumps({"custom_id": row["custom_id"], "content": _said(row["body"])}) for row in rows]
    (folder / "answers.jsonl").write_text("\n".join(lines), "utf-8")


def _decided(program: TurnProgram, folder: Path, asynchronous: bool) -> tuple[list[TurnDecision], list[int]]:
    """The decisions, and how many requests were asked in each round."""
    turns, rounds = [Turn(text=text) for text in TEXTS], []
    for _ in range(5):
        program.bind(lm=resolve_lm(f"deferred:{folder}"))
        try:
            if asynchronous:
                return asyncio.run(program.adecide_many(turns)), rounds
            return program.decide_many(turns), rounds
        except Awaiting as awaiting:
            rounds.append(len(awaiting.keys))
            _answer(folder)
    pytest.fail("it does not come to its end")


@pytest.mark.parametrize(("shape", "rounds"), [("staged", [2, 2, 2]), ("fused", [2])])
def test_stages_are_awaited_one_after_another(tmp_path: Path, shape: str, rounds: list[int]) -> None:
    flows = FlowRegistry.from_yaml(STARTER / "flows.yaml")
    program = TurnProgram(flows).with_policy("lm")
    program.policy = program.policy.model_copy(update={"shape": shape})
    bind_recall(program, "minilm")
    waited, seen = _decided(program, tmp_path / "a", asynchronous=False)
    assert seen == rounds
    for decision in waited:
        assert not decision.degraded
        assert decision.usage.lm_calls == len(rounds)
        assert {decision.stages[stage].source for stage in STAGES} == {"lm"}
    # Without blocking the loop the same is asked, and the same comes of it.
    found, seen = _decided(program, tmp_path / "b", asynchronous=True)
    assert seen == rounds
    assert [each.commands for each in found] == [each.commands for each in waited]
    assert [each.selection for each in found] == [each.selection for each in waited]
    texts = [(tmp_path / folder / "requests.jsonl").read_bytes() for folder in "ab"]
    assert sorted(texts[0].splitlines()) == sorted(texts[1].splitlines())
    # A deadline that is not over keeps nothing from being awaited.
    program.bind(lm=resolve_lm(f"deferred:{tmp_path / 'c'}"))
    for ask in (program.decide, lambda *args, **more: asyncio.run(program.adecide(*args, **more))):
        with pytest.raises(Awaiting):
            ask(Turn(text=TEXTS[0]), deadline=60.0)
