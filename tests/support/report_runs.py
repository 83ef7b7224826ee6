"""Reports of runs in which much is missing, or large."""

from __future__ import annotations

from typing import Any

from jazzmine_dspy.datasets import Example, Labels
from jazzmine_dspy.eval import evaluate
from jazzmine_dspy.eval.report import CandidateRow, Gain, LearningPoint, Report, System
from jazzmine_dspy.models import command

LONG = [f"reschedule_the_delivery_of_an_order_number_{number}" for number in range(30)]


def runs(noisy: Any, turns: list[Example], flows: list[str]) -> dict[str, Report]:
    """Reports by what is special about them: no language model, one turn, a crash on each, 30 flows with long names."""
    return {
        "local": _report(noisy, turns, flows, "local"),
        "one": _report(noisy, turns[:1], flows, "local"),
        "crashed": _report(noisy, turns[:12], flows, "local", crashed=1.0),
        "long": _report(noisy, [_renamed(turn, at) for at, turn in enumerate(turns)], LONG, "lm"),
    }


def _report(noisy: Any, turns: list[Example], flows: list[str], source: Any, **more: float) -> Report:
    base = evaluate(noisy(turns, flows, quality=0.5, source="fallback", seed=1), turns)
    shipped = evaluate(noisy(turns, flows, quality=0.8, source=source, seed=3, **more), turns)
    gain = shipped.shared_difference(base, "flow_set_exact")
    score = shipped.metrics.get("flow_set_exact")
    return Report(
        "runs",
        "The heads carry it.",
        [System("base", base), System("shipped", shipped, shipped=True)],
        candidates=[CandidateRow("base", 0.5, False, "the base", turns=len(turns))],
        learning=[LearningPoint(number, score) for number in range(0, 12, 3) if score],
        gains=[Gain("shipped over base", "flow_set_exact", gain)] if gain else [],
    )


def _renamed(turn: Example, at: int) -> Example:
    name = LONG[at % len(LONG)]
    labels = Labels(flows=(name,), commands=(command({"type": "start_flow", "flow": name}),))
    return turn.model_copy(update={"labels": labels})
