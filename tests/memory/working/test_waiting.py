"""How a turn is waited for that another one has."""

from __future__ import annotations

from itertools import pairwise

import pytest

from jazzmine_dspy.memory.errors import LockTimeoutError
from jazzmine_dspy.memory.working import InMemoryWorkingMemoryStore
from jazzmine_dspy.memory.working.turn_lock import Turn
from skipping_time import SkippingLoop


def tries(wait: float | None = None) -> list[float]:
    """When a turn is tried for that another one has, from the first time on, and when it is given up."""
    loop, times = SkippingLoop(), []

    class Busy(InMemoryWorkingMemoryStore):
        async def _begin(self, conversation_id: str, token: str) -> Turn | None:
            times.append(loop.time())
            return None

    async def ask() -> None:
        store = Busy() if wait is None else Busy(wait=wait)
        with pytest.raises(LockTimeoutError):
            async with store.turn("c1"):
                pytest.fail("two turns at once")
        await store.close()

    loop.run_until_complete(ask())
    times.append(loop.time())
    loop.close()
    return times


@pytest.mark.row("W16", "W17")
def test_waiting_backs_off_with_jitter_and_ends_in_its_time() -> None:
    runs = [tries(2.0) for _ in range(20)]
    pauses = [[later - earlier for earlier, later in pairwise(times)] for times in runs]
    assert all(0 <= pause <= 0.081 for run in pauses for pause in run)
    # The first pause is short, later ones are longer, and no two waiters are in step.
    assert max(run[0] for run in pauses) <= 0.011
    assert max(pause for run in pauses for pause in run[8:]) > 0.05
    assert len({run[6] for run in pauses}) == 20
    assert all(2.0 <= times[-1] <= 2.081 for times in runs)


@pytest.mark.row("W17")
def test_a_turn_is_waited_for_15_seconds_unless_told_otherwise() -> None:
    assert 15.0 <= tries()[-1] <= 15.081
