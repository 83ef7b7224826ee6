"""How long a decision takes without a language model: with nothing cached, and as it is in a conversation."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence

from jazzmine_dspy.artifacts import load
from jazzmine_dspy.eval.evaluation import quantiles
from jazzmine_dspy.eval.suite import Suite, run_suite
from jazzmine_dspy.models.turn import HistoryMessage, Turn
from jazzmine_dspy.program.turn import TurnProgram
from understanding.figures import Figure
from understanding.ground import Ground

SECTION = "latency without a language model"
TARGET = 20.0
WARM = 20


def figures(ground: Ground, program: str) -> Iterator[Figure]:
    """Median and 95th percentile, both ways."""
    flows = ground.dataset.flows
    load_before = os.getloadavg()[0]
    times = worst(load(program, flows=flows), [each.turn for each in ground.dataset.examples("dev_a")])
    note = f"{os.cpu_count()} cores with a load of {load_before:.1f} when it began"
    yield from _told("a decision, nothing cached (all texts new)", times, note)
    times = conversing(program, ground.working)
    yield from _told("a turn of a conversation, with the runtime and its stores in the process", times)


def worst(program: TurnProgram, turns: Sequence[Turn]) -> list[float]:
    """Milliseconds of each decision, where no text was seen before: neither the message nor what was said earlier."""
    times: list[float] = []
    for number in range(WARM + 2 * len(turns)):
        turn = turns[number % len(turns)]
        history = tuple(_new(message, number) for message in turn.history)
        turn = turn.model_copy(update={"text": f"{turn.text} {number}", "history": history})
        began = time.perf_counter()
        program.decide(turn)
        times.append((time.perf_counter() - began) * 1000.0)
    return times[WARM:]


def _new(message: HistoryMessage, number: int) -> HistoryMessage:
    return message.model_copy(update={"text": f"{message.text} {number}", "enhanced": ""})


def conversing(program: str, suite: Suite) -> list[float]:
    """Milliseconds of each turn while a suite's conversations are held; the first are left out, which load models."""
    held = run_suite(suite, lambda flows: load(program, flows=flows))
    times = [turn.latency_ms for each in held.conversations for turn in each.turns]
    return times[WARM:] or times


def _told(what: str, times: Sequence[float], note: str = "") -> Iterator[Figure]:
    found = quantiles(times)
    yield Figure(
        SECTION, f"{what}: p50", found["p50"], n=len(times), target=TARGET, most=True, unit="ms", note=note
    )  # fmt: skip
    yield Figure(SECTION, f"{what}: p95", found["p95"], n=len(times), unit="ms")
