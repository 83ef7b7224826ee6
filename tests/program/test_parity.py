"""Decision 10: two drivers of the same steps. What one decides the other decides."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import dspy
import pytest

from jazzmine_dspy.datasets import load_dataset
from jazzmine_dspy.datasets.schema import Example
from jazzmine_dspy.lm.engines import chat_messages, scripted_lm
from jazzmine_dspy.models import FlowRegistry
from jazzmine_dspy.program.policy import Policy
from jazzmine_dspy.program.turn import TurnProgram

Make = Callable[..., Any]
SUPPORT = Path(__file__).resolve().parents[2] / "datasets" / "support"
TURNS = 20
SHAPES = pytest.mark.parametrize("shape", ["staged", "fused"])
POLICIES = pytest.mark.parametrize("policy", ["lm", "shipped", "local", "fallback"])


@pytest.fixture(scope="module")
def flows() -> FlowRegistry:
    return load_dataset(SUPPORT).flows


@pytest.fixture(scope="module")
def examples() -> list[Example]:
    """Turns of the training part, from all over it."""
    train = load_dataset(SUPPORT).examples("train")
    return train[:: len(train) // TURNS][:TURNS]


def program(
    shape: Any, policy: Any, flows: FlowRegistry, overlap: Make, answer: Make
) -> tuple[TurnProgram, dspy.LM]:
    lm = scripted_lm(answer)
    # A second call for a refused part is allowed in few turns, so that it would not be the same twice.
    lm.engine.asks_again = False
    made = TurnProgram(flows, policy=Policy(shape=shape)).with_policy(policy)
    return made.bind(lm=lm, recall=overlap(flows)), lm


def sent(lm: dspy.LM) -> list[str]:
    """What was asked, in any order: at once is no order."""
    return sorted(str(chat_messages(request)) for request in lm.engine.requests)


@SHAPES
@POLICIES
def test_sync_and_async_decide_alike(
    examples: list[Example], flows: FlowRegistry, overlap: Make, any_answer: Make, shape: str, policy: str
) -> None:
    sync, asked = program(shape, policy, flows, overlap, any_answer)
    other, asked_too = program(shape, policy, flows, overlap, any_answer)
    assert len(examples) == TURNS

    async def every() -> list[Any]:
        return list(await asyncio.gather(*(other.adecide(example.turn) for example in examples)))

    first = [sync.decide(example.turn).content() for example in examples]
    second = [decision.content() for decision in asyncio.run(every())]
    assert first == second
    assert sent(asked) == sent(asked_too)
    assert (len(sent(asked)) == 0) == (policy in ("local", "fallback"))
    # With a deadline each effect is waited for in another way.
    late = [sync.decide(example.turn, deadline=60.0).content() for example in examples]
    assert late == first
    if policy == "lm":
        assert len({str(each["commands"]) for each in first}) > 5, "the script decides all turns alike"
        if shape == "fused":
            assert len(sent(asked_too)) == TURNS


@SHAPES
def test_threads_do_not_talk_across(
    examples: list[Example], flows: FlowRegistry, overlap: Make, any_answer: Make, shape: str
) -> None:
    made, _ = program(shape, "lm", flows, overlap, any_answer)
    alone = [made.decide(example.turn).content() for example in examples]
    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(lambda example: made.decide(example.turn).content(), examples * 3))
    assert together == alone * 3


@SHAPES
def test_the_same_turn_is_decided_the_same_twice(
    examples: list[Example], flows: FlowRegistry, overlap: Make, any_answer: Make, shape: str
) -> None:
    made, _ = program(shape, "lm", flows, overlap, any_answer)
    for example in examples[:5]:
        first = made.decide(example.turn)
        assert made.decide(example.turn).content() == first.content()
        assert not any(record.source != "lm" and not record.degraded for record in first.stages.values())


def test_what_to_leave_out_reaches_recall(
    examples: list[Example], flows: FlowRegistry, overlap: Make, any_answer: Make
) -> None:
    """Decision 6: nothing is fitted on its own answer."""
    made, _ = program("staged", "lm", flows, overlap, any_answer)
    made.decide(examples[0].turn, exclude=["support-0001", "support-0002"])
    made(turn=examples[0].turn, exclude=("support-0003",))
    recall: Any = made.bindings.recall
    assert [asked["exclude"] for asked in recall.asked] == [
        frozenset({"support-0001", "support-0002"}), frozenset({"support-0003"}),
    ]  # fmt: skip
