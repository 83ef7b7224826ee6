"""The life of the child process, with children that misbehave in the place of llama.cpp."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from jazzmine_dspy.lm._process import ModelProcess, acquire, release
from jazzmine_dspy.lm.errors import LMCrashedError, LMNotFoundError, LMRequestError

READY = "import sys, json, os\nnext(sys.stdin)\nprint(json.dumps({'op': 'ready'}), flush=True)\n"
DIES = READY + "next(sys.stdin)\nos.write(2, b'native fault')\nos._exit(139)\n"
DIES_LOADING = "import os\nos._exit(9)\n"
ANSWERS = READY + (
    "for line in sys.stdin:\n"
    "    call = json.loads(line)\n"
    "    print(json.dumps({'op': 'done', 'id': call['id'], 'echo': call['n']}), flush=True)\n"
)
LOADS_FROM = ANSWERS.replace("next(sys.stdin)\n", "open(json.loads(next(sys.stdin))['path']).read()\n", 1)
DEAF = READY + (
    "for line in sys.stdin:\n"
    "    print(json.dumps({'op': 'delta', 'id': json.loads(line)['id'], 'text': 'x'}), flush=True)\n"
)
OTHERWISE = READY + (
    "call = json.loads(next(sys.stdin))\n"
    "print(json.dumps({'op': 'delta', 'id': call['id'], 'text': str(os.getpid())}), flush=True)\n"
    "os._exit(1)\n"
)
REFUSES = (
    "import sys, json\nnext(sys.stdin)\n"
    "error = {'kind': 'load', 'message': 'bad magic'}\n"
    "print(json.dumps({'op': 'error', 'id': 0, 'error': error}), flush=True)\n"
)


@pytest.fixture
def child() -> Any:
    made = []

    def start(code: str, path: str = "model.gguf") -> ModelProcess:
        process = ModelProcess({"path": path}, [sys.executable, "-c", code])
        made.append(process)
        return process

    yield start
    for process in made:
        process.close()


@pytest.mark.chaos
@pytest.mark.parametrize("code", [DIES, DIES_LOADING])
def test_dying_twice_over_one_call_is_a_typed_error(child: Any, code: str) -> None:
    process = child(code)
    with pytest.raises(LMCrashedError, match="died twice") as caught:
        process.submit({}).future.result(30)
    assert process.restarts == 1
    if code is DIES:
        assert "exit status 139, last words: native fault" in str(caught.value)


@pytest.mark.row("A7")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_forked_process_starts_a_child_of_its_own_and_leaves_the_other_one_alone(child: Any) -> None:
    process = child(ANSWERS)
    assert process.submit({"n": 1}).future.result(30)["echo"] == 1
    pid = process.pid
    forked = os.fork()
    if forked == 0:
        code = 1
        with contextlib.suppress(BaseException):
            answered = process.submit({"n": 2}).future.result(20)["echo"] == 2
            code = 0 if answered and process.pid != pid else 2
            process.close()
        os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(forked, 0)[1]) == 0
    assert process.submit({"n": 3}).future.result(30)["echo"] == 3
    assert process.pid == pid


def test_calls_are_answered_in_turn(child: Any) -> None:
    process = child(ANSWERS)
    jobs = [process.submit({"n": n}) for n in range(20)]
    assert [job.future.result(30)["echo"] for job in jobs] == list(range(20))


def test_calls_given_up_before_they_began_are_dropped(child: Any) -> None:
    process, begun = child(DEAF), threading.Event()
    first = process.submit({}, lambda _: begun.set())
    waiting = process.submit({})
    assert begun.wait(30)
    waiting.abort()
    assert waiting.future.cancelled()
    first.abort()
    assert first.future.result(30) == {"op": "aborted"}


def test_a_call_given_up_while_the_model_loads_leaves_it_loaded(child: Any, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    process = child(LOADS_FROM, str(gate))
    job = process.submit({"n": 1})
    with gate.open("w"):  # opens once the child is reading, that is, loading
        job.abort()
    assert job.future.result(30) == {"op": "aborted"}
    pid = process.pid
    assert process.submit({"n": 2}).future.result(30)["echo"] == 2
    assert process.pid == pid


def test_a_deaf_call_in_progress_is_killed(child: Any) -> None:
    process, begun = child(DEAF), threading.Event()
    job = process.submit({}, lambda _: begun.set())
    assert begun.wait(30)
    job.abort()
    assert job.future.result(30) == {"op": "aborted"}
    assert process.pid is None


def test_a_repeated_stream_that_begins_otherwise_is_not_glued_on(child: Any) -> None:
    process, got = child(OTHERWISE), []
    with pytest.raises(LMCrashedError, match="began otherwise"):
        process.submit({}, got.append).future.result(30)
    assert len(got) == 1


def test_a_model_that_does_not_load_says_why(child: Any) -> None:
    with pytest.raises(LMNotFoundError, match=r"bad magic \(model.gguf\)"):
        child(REFUSES).submit({}).future.result(30)


def test_a_closed_process_refuses_calls(child: Any) -> None:
    process = child(ANSWERS)
    process.submit({"n": 1}).future.result(30)
    process.close()
    assert process.pid is None
    with pytest.raises(LMRequestError, match="closed"):
        process.submit({"n": 1})


def test_a_shared_process_ends_with_its_last_user() -> None:
    key, first = acquire({"path": "shared.gguf"})
    _, second = acquire({"path": "shared.gguf"})
    assert first is second
    release(key)
    assert acquire({"path": "shared.gguf"})[1] is first
    release(key)
    release(key)
    assert acquire({"path": "shared.gguf"})[1] is not first
    release(key)
    release(key)


def test_the_child_ends_with_its_parents_end_of_the_pipe() -> None:
    command = ModelProcess({"path": "model.gguf"}).command
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    assert child.stdin is not None
    child.stdin.close()
    assert child.wait(30) == 0
