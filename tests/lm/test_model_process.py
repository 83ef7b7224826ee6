"""The life of the child process, with children that misbehave in the place of llama.cpp."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from jazzmine_dspy.lm.errors import (
    LMCrashedError,
    LMNotFoundError,
    LMRequestError,
    LMSchemaError,
    LMTimeoutError,
)
from jazzmine_dspy.lm.local import LocalEngine
from jazzmine_dspy.lm.model_process import Call, DiedError, ModelProcess, RefusedError, acquire, release
from jazzmine_dspy.lm.weights import ModelFile

SERVER = """
import http.server, json, os, sys, threading, time
key = json.loads(sys.stdin.readline())["key"]

class Handler(http.server.BaseHTTPRequestHandler):
    def log_message(self, *_): pass

    def send(self, **chunk):
        self.wfile.write(b"data: " + json.dumps(chunk).encode() + b"\\n\\n")
        self.wfile.flush()

    def piece(self, text, finish=None):
        self.send(choices=[{"delta": {"content": text}, "finish_reason": finish}])

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        assert self.headers["authorization"] == f"Bearer {key}"
        self.send_response(200)
        self.end_headers()
ACT
        self.wfile.write(b"data: [DONE]\\n\\n")

server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(json.dumps({"address": "http://127.0.0.1:%d" % server.server_address[1]}), flush=True)
threading.Thread(target=server.serve_forever, daemon=True).start()
sys.stdin.read()
os._exit(0)
"""
ANSWERS = "self.piece(body['messages'][-1]['content'], 'stop')"
DIES = "os.write(2, b'native fault'); os._exit(139)"
DIES_IN_MID_ANSWER = "self.piece('Once'); os.write(2, b'native fault'); os._exit(139)"
NO_GRAMMAR = "os.write(2, b'llg error: no such type\\n'); self.piece('free text', 'stop')"
ENDLESS = "\n".join(["while True:", "    self.piece('x')", "    time.sleep(0.01)"])


def serving(act: str) -> str:
    return SERVER.replace("ACT", "\n".join(f"        {line}" for line in act.splitlines()))


@pytest.fixture
def child() -> Iterator[Callable[[str], ModelProcess]]:
    processes = []

    def start(code: str) -> ModelProcess:
        process = ModelProcess({"path": "model.gguf"}, [sys.executable, "-c", code])
        processes.append(process)
        return process

    yield start
    for process in processes:
        process.close()


@pytest.fixture
def engine_of(child: Any) -> Callable[[str], LocalEngine]:
    """An engine over such a child."""

    def make(act: str) -> LocalEngine:
        engine = LocalEngine(ModelFile(path=os.devnull, sha256="0"))  # type: ignore[arg-type]
        engine._process = child(serving(act))
        return engine

    return make


def answer(process: ModelProcess, text: str, limit: float | None = 30.0) -> str:
    call = Call(None if limit is None else time.monotonic() + limit)
    with process.slot(call):
        chunks = list(process.chat({"messages": [{"role": "user", "content": text}]}, call))
    return "".join(chunk["choices"][0]["delta"]["content"] for chunk in chunks)


@pytest.mark.chaos
@pytest.mark.parametrize("act", [DIES, DIES_IN_MID_ANSWER])
def test_dying_twice_over_one_call_is_a_typed_error(engine_of: Any, ask: Any, act: str) -> None:
    engine = engine_of(act)
    with pytest.raises(LMCrashedError, match="died twice over one call") as caught:
        engine.complete(ask("hello"))
    assert "exit status 139, last words: native fault" in str(caught.value)


@pytest.mark.chaos
def test_a_stream_that_has_begun_is_not_begun_again(engine_of: Any, ask: Any) -> None:
    events = engine_of(DIES_IN_MID_ANSWER).stream(ask("hello"))
    assert [next(events).type for _ in range(2)] == ["start", "delta"]
    with pytest.raises(LMCrashedError, match="died during one call"):
        next(events)


def test_an_answer_beside_the_schema_is_an_error(engine_of: Any, ask: Any) -> None:
    with pytest.raises(LMSchemaError, match="no such type"):
        engine_of(NO_GRAMMAR).complete(ask("hello", schema={"type": "object", "properties": {}}))


def test_dying_while_loading_is_told_apart(child: Any) -> None:
    with pytest.raises(DiedError, match="while loading, exit status 9"):
        answer(child("import os\nos._exit(9)\n"), "hello")


@pytest.mark.row("A7")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_forked_process_starts_a_child_of_its_own_and_leaves_the_other_one_alone(child: Any) -> None:
    process = child(serving(ANSWERS))
    assert answer(process, "one") == "one"
    pid = process.pid
    forked = os.fork()
    if forked == 0:
        code = 1
        with contextlib.suppress(BaseException):
            answered = answer(process, "two") == "two"
            code = 0 if answered and process.pid != pid else 2
            process.close()
        os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(forked, 0)[1]) == 0
    assert answer(process, "three") == "three"
    assert process.pid == pid


@pytest.mark.row("A7")
def test_calls_from_many_threads_get_each_their_own_answer(child: Any) -> None:
    process, answers = child(serving(ANSWERS)), {}

    def run(text: str) -> None:
        answers[text] = answer(process, text)

    threads = [threading.Thread(target=run, args=(str(n),)) for n in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == {str(n): str(n) for n in range(20)}


@pytest.mark.row("P4", "L3")
def test_a_call_ends_at_its_deadline_and_one_that_waits_too(child: Any) -> None:
    process = child(serving(ENDLESS))
    first, second = Call(None), Call(None)
    with process.slot(first):
        chunks = process.chat({"messages": []}, first)
        next(chunks)
        first.limit = second.limit = time.monotonic() + 0.2
        with pytest.raises(LMTimeoutError, match="still waiting for its turn"), process.slot(second):
            pass
        with pytest.raises(LMTimeoutError, match="did not end"):
            list(chunks)
    assert process.pid is not None


def test_a_cancelled_call_ends_whatever_it_waits_for(child: Any) -> None:
    process = child(serving("time.sleep(60)"))
    assert answer(child(serving(ANSWERS)), "hi") == "hi"
    call = Call(None)
    with process.slot(call):
        canceller = threading.Timer(0.2, call.cancel)
        canceller.start()
        with pytest.raises(LMRequestError, match="cancelled"):
            list(process.chat({"messages": []}, call))
    assert process.pid is not None


def test_a_model_that_does_not_load_says_why(child: Any) -> None:
    refuses = 'import sys\nsys.stdin.readline()\nprint(\'{"error": "ValueError: bad magic"}\', flush=True)\n'
    with pytest.raises(LMNotFoundError, match=r"bad magic \(model.gguf\)"):
        answer(child(refuses), "hello")


def test_a_refusal_is_the_servers_own(child: Any) -> None:
    process = child(serving("self.send(error={'message': 'no', 'type': 'invalid'})"))
    with pytest.raises(RefusedError, match="no"):
        answer(process, "hello")


def test_a_closed_process_refuses_calls(child: Any) -> None:
    process = child(serving(ANSWERS))
    answer(process, "one")
    process.close()
    assert process.pid is None
    with pytest.raises(LMRequestError, match="closed"):
        answer(process, "two")


def test_a_shared_process_ends_with_its_last_user() -> None:
    class User:
        """Somebody who can be referred to weakly."""

    one, two = User(), User()
    first = acquire({"path": "shared.gguf"}, one)
    assert acquire({"path": "shared.gguf"}, two) is first
    release(first, one)
    assert acquire({"path": "shared.gguf"}, one) is first
    release(first, one)
    release(first, two)
    second = acquire({"path": "shared.gguf"}, one)
    assert second is not first
    release(second, one)


def test_the_child_ends_with_its_parents_end_of_the_pipe() -> None:
    command = ModelProcess({"path": "model.gguf"}).command
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    assert child.stdin is not None
    child.stdin.close()
    assert child.wait(30) == 0
