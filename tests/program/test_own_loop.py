"""Blocking calls inside a running event loop, as notebooks have one."""

from __future__ import annotations

import asyncio
import signal
import threading
import time
from pathlib import Path
from typing import Any

import dspy
import pytest

from jazzmine_dspy.datasets import load_dataset
from jazzmine_dspy.eval.suite import replay_dataset
from jazzmine_dspy.lm.engines import AsyncEngine, ScriptedEngine, scripted_lm
from jazzmine_dspy.program.deadline import check_interrupt, outside_loop
from jazzmine_dspy.program.turn import TurnProgram

LIBRARY = Path(__file__).parents[1] / "optimize" / "library"


@pytest.mark.row("A10")
def test_conversations_are_replayed_inside_a_running_loop() -> None:
    dataset = load_dataset(LIBRARY)
    program = TurnProgram(dataset.flows).with_policy("fallback")

    async def cell() -> Any:
        return replay_dataset(dataset, "dev_a", program)

    inside = asyncio.run(cell())
    assert inside.own.conversations
    assert len(inside.own.conversations) == len(replay_dataset(dataset, "dev_a", program).own.conversations)


def test_the_work_sees_the_callers_context_and_has_no_loop() -> None:
    lm = scripted_lm({})

    def work() -> Any:
        return dspy.settings.lm, threading.current_thread(), asyncio.run(asyncio.sleep(0, "done"))

    async def cell() -> Any:
        with dspy.context(lm=lm):
            return outside_loop(work)

    seen, thread, done = asyncio.run(cell())
    assert (seen, done) == (lm, "done")
    assert thread is not threading.current_thread()
    assert outside_loop(threading.current_thread) is threading.current_thread()


def test_an_error_of_the_work_is_raised() -> None:
    async def cell() -> None:
        outside_loop(lambda: {}["missing"])

    with pytest.raises(KeyError):
        asyncio.run(cell())


@pytest.mark.row("O4")
def test_the_first_ctrl_c_ends_the_work_and_lets_it_store_what_it_has() -> None:
    stored = []

    def work() -> None:
        threading.Timer(0.3, signal.raise_signal, [signal.SIGINT]).start()
        try:
            for _ in range(1000):
                time.sleep(0.01)
                check_interrupt()
        except KeyboardInterrupt:
            stored.append("best so far")
            raise

    async def cell() -> None:
        outside_loop(work)

    with pytest.raises(KeyboardInterrupt):
        asyncio.run(cell())
    assert stored == ["best so far"]


@pytest.mark.row("O4")
def test_ctrl_c_ends_a_replay_that_waits_for_an_answer() -> None:
    dataset = load_dataset(LIBRARY)
    released = asyncio.Event()

    class Stalled(AsyncEngine):
        async def complete(self, request: Any) -> Any:
            threading.Timer(0.3, signal.raise_signal, [signal.SIGINT]).start()
            await asyncio.wait_for(released.wait(), 20)

    engine = ScriptedEngine({})
    lm = dspy.LM("scripted/stalled", engine=engine, async_engine=Stalled(engine), cache=False, num_retries=0)

    async def cell() -> None:
        with dspy.context(lm=lm):
            replay_dataset(dataset, "dev_a", TurnProgram(dataset.flows))

    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        asyncio.run(cell())
    assert time.monotonic() - began < 15
