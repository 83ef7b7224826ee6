"""A program that was warmed before its process forked, on the real index and embedder."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from jazzmine_dspy import FlowRegistry, TurnProgram, save

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")

FLOWS = [
    {"name": "track_order", "description": "Tell where an order is.", "examples": ["where is my order"]},
    {"name": "pay_bill", "description": "Pay a bill that is due.", "examples": ["pay my bill"]},
]
CODE = """
import os, sys, threading, warnings
warnings.simplefilter("ignore", DeprecationWarning)
from jazzmine_dspy import load
program = load(sys.argv[1])
before = program.decide(text="has my parcel been sent off", deadline=60)
assert not before.degraded, [each.cause for each in before.stages.values()]
index, embedder = program.bindings.recall, program.bindings.embedder
locks = [index._build_lock, embedder._load_lock, embedder._cache_lock]
for lock in locks if sys.argv[2] == "busy" else ():
    lock.acquire()
children = []
for number in range(2):
    child = os.fork()
    if child == 0:
        decision = program.decide(text=f"has parcel {number} been sent off", deadline=20)
        causes = [each.cause for each in decision.stages.values() if each.cause]
        if causes:
            print(causes, file=sys.stderr, flush=True)
        first = index.recall("has my parcel been sent off", k=2)[0]
        # As a server's worker ends: with all that Python does at its exit.
        sys.exit(0 if not decision.degraded and first.name == "track_order" else 3)
    children.append(child)
codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
for lock in locks if sys.argv[2] == "busy" else ():
    lock.release()
assert codes == [0, 0], codes
assert not program.decide(text="where is it", deadline=60).degraded
"""


@pytest.mark.row("A7")
@pytest.mark.parametrize("state", ["idle", "busy"])
def test_a_program_warmed_before_a_fork_works_in_the_children(tmp_path: Path, state: str) -> None:
    folder = save(
        TurnProgram(FlowRegistry(FLOWS, agent_id="shop")).with_policy("fallback"), tmp_path / "orders"
    )
    done = subprocess.run(
        [sys.executable, "-c", CODE, str(folder), state], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
