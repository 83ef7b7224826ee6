"""Turns that a content filter, or the model itself, refused: counted apart from outages, and not asked again."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from fake_openai import FakeOpenAI
from jazzmine_dspy.datasets import load_dataset
from jazzmine_dspy.eval import evaluate
from jazzmine_dspy.eval.report import Report, System, terminal_table, write_report
from jazzmine_dspy.lm import resolve_lm
from jazzmine_dspy.program.policy import Policy
from jazzmine_dspy.program.ports import Recalled
from jazzmine_dspy.program.turn import TurnProgram
from provider_server import Asked, Reply, fitting_answer
from saying_server import answering

LIBRARY = Path(__file__).parents[1] / "optimize" / "library"
FILTERED = {
    "null content": (200, answering(None, "content_filter")),
    "empty content": (200, answering("", "content_filter")),
    "cut content": (200, answering('{"enhanced_query": "wh', "content_filter")),
    "whole content": (200, answering(fitting_answer(None, []), "content_filter")),
    "a refusal": (200, answering(None, refusal="I won't.")),
    "status 400": (400, {"error": {"message": "x", "code": "content_filter"}}),
    "an error inside": (200, {"error": {"message": "x", "code": "content_filter"}}),
}


class Filtering(FakeOpenAI):
    """Refuses every third message."""

    def __init__(self, status: int, body: dict[str, Any]) -> None:
        super().__init__(flavour="vllm")
        self.reply = Reply(status, body)
        self.places: dict[str, int] = {}

    def respond(self, asked: Asked) -> Reply:
        text = str(asked.body["messages"][-1]["content"])
        place = self.places.setdefault(text, len(self.places))
        return self.reply if place % 3 == 0 else super().respond(asked)


class First:
    """Recall of the first flows."""

    fingerprint = "first"

    def __init__(self, names: Iterable[str]) -> None:
        self.names = list(names)

    def __deepcopy__(self, memo: dict[int, Any]) -> First:
        return self

    def recall(self, query: str, *, k: int, **_: Any) -> list[Recalled]:
        return [Recalled(name, 0.5) for name in self.names[:k]]


@pytest.mark.row("L3", "V1")
@pytest.mark.parametrize("kind", FILTERED)
def test_refused_turns_are_counted_apart_and_asked_once(kind: str, tmp_path: Path) -> None:
    dataset = load_dataset(LIBRARY)
    examples = dataset.examples("train")[:9]
    with Filtering(*FILTERED[kind]) as server:
        lm = resolve_lm("openai/x", api_base=server.address, api_key="k")
        program = TurnProgram(dataset.flows, policy=Policy(shape="fused")).with_policy("lm")
        program.bind(lm=lm, recall=First(dataset.flows))
        found = evaluate(program, examples)
    assert len(server.calls) == len(server.places) == 9
    assert (found.refused, found.degraded, found.unanswered, found.crashed) == (3, 3, 0, 0)
    assert found.inconclusive_reason == ""
    assert found.to_json()["refused"] == 3
    report = Report("t", "f", [System("filtered", found)])
    paths = write_report(report, tmp_path)
    assert "3 refused" in paths.html.read_text("utf-8")
    assert json.loads(paths.json.read_text("utf-8"))["systems"][0]["refused"] == 3
    with (console := Console(width=80)).capture() as shown:
        console.print(terminal_table(report))
    assert "3 refused" in shown.get()
