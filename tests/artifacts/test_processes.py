"""A process that was forked after a program was loaded: each first call says so, and the parent goes on."""

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
import asyncio, os, sys, traceback, warnings
warnings.simplefilter("ignore", DeprecationWarning)
from jazzmine_dspy import Runtime, Turn, load
from jazzmine_dspy.models.errors import InputError
program = load(sys.argv[1])
runtime = Runtime(program)
if sys.argv[2] == "used":
    assert not program.decide(text="has my parcel been sent off", deadline=60).degraded
calls = [
    lambda: program.decide(text="where is it"),
    lambda: asyncio.run(program.adecide(text="where is it")),
    lambda: list(program.decide_many([Turn(text="where is it")])),
    lambda: asyncio.run(runtime.process_message("where is it", "u")),
    lambda: program.with_policy("local").decide(text="where is it"),
]
child = os.fork()
if child == 0:
    try:
        for call in calls:
            try:
                call()
            except InputError as error:
                assert error.message.startswith("This process was forked after the "), error
                assert error.remedy.startswith("Load after the fork"), error
            else:
                raise AssertionError("it was not refused")
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    # The exit handlers of onnxruntime would wait for threads that only the parent has.
    os._exit(0)
code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
assert code == 0, code
assert not program.decide(text="where is it", deadline=60).degraded
"""


@pytest.mark.parametrize("state", ["loaded", "used"])
def test_a_fork_after_loading_is_refused_at_the_first_call(tmp_path: Path, state: str) -> None:
    folder = save(
        TurnProgram(FlowRegistry(FLOWS, agent_id="shop")).with_policy("fallback"), tmp_path / "orders"
    )
    done = subprocess.run(
        [sys.executable, "-c", CODE, str(folder), state], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
