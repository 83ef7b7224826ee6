"""One runtime, and event loops in several threads: as a web framework without asyncio calls it."""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from jazzmine_dspy.memory.messages import InMemoryMessageStore
from jazzmine_dspy.memory.working import InMemoryWorkingMemoryStore
from jazzmine_dspy.runtime import Runtime

pytestmark = pytest.mark.row("A7", "W16")

THREADS, TURNS = 4, 8


@pytest.mark.parametrize("conversations", [1, 4])
def test_threads_with_loops_of_their_own_share_a_runtime(floor: Any, conversations: int) -> None:
    memory, messages = InMemoryWorkingMemoryStore(), InMemoryMessageStore()
    runtime = Runtime(floor, working_memory=memory, messages=messages)

    def talk(thread: int) -> list[bool]:
        conversation = f"c{thread % conversations}"
        # A loop for each turn, as `asgiref.sync.async_to_sync` and `asyncio.run` make them.
        return [
            asyncio.run(
                runtime.process(
                    conversation_id=conversation,
                    user_id="ann",
                    text="when do you open",
                    message_id=f"m{thread}-{n}",
                )
            ).stored
            for n in range(TURNS)
        ]

    began = time.monotonic()
    with ThreadPoolExecutor(THREADS) as threads:
        stored = [each for one in threads.map(talk, range(THREADS)) for each in one]
    assert stored == [True] * THREADS * TURNS
    # Nobody waited for a lock that its holder could not hand on.
    assert time.monotonic() - began < 10
    for number in range(conversations):
        state = asyncio.run(memory.get(f"c{number}"))
        assert state is not None
        assert state.turn_number == THREADS * TURNS // conversations
        page = asyncio.run(messages.get_messages_by_conversation_id(f"c{number}"))
        assert len({one.id for one in page}) == THREADS * TURNS // conversations
    assert memory.locks == 0


def test_loops_that_last_in_threads_take_turns(floor: Any) -> None:
    memory = InMemoryWorkingMemoryStore()
    runtime = Runtime(floor, working_memory=memory)

    async def talk(thread: int) -> list[bool]:
        outcomes = await asyncio.gather(
            *(
                runtime.process(conversation_id="c", user_id="ann", text="hello", message_id=f"m{thread}-{n}")
                for n in range(TURNS)
            )
        )
        return [outcome.stored for outcome in outcomes]

    with ThreadPoolExecutor(THREADS) as threads:
        stored = [each for one in threads.map(lambda n: asyncio.run(talk(n)), range(THREADS)) for each in one]
    assert stored == [True] * THREADS * TURNS
    state = asyncio.run(memory.get("c"))
    assert state is not None
    assert state.turn_number == THREADS * TURNS
