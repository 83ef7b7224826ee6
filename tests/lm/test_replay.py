"""The replay store."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import jazzmine_dspy
from jazzmine_dspy.lm.engines import ScriptedEngine, request_key, scripted_lm, user_text
from jazzmine_dspy.lm.errors import LMWarning
from jazzmine_dspy.lm.replay import ReplayEngine, ReplayStore, is_replay, replayed


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "deep" / "answers.db"


def test_a_repeated_request_is_answered_from_the_store_even_later(path: Path, ask: Any) -> None:
    engine = ScriptedEngine(user_text)
    first = ReplayEngine(engine, ReplayStore(path)).complete(ask("hello"))
    later = ReplayEngine(engine, ReplayStore(path)).complete(ask("hello"))
    assert engine.calls == 1
    assert (later.message, later.usage, later.finish_reason) == (
        first.message,
        first.usage,
        first.finish_reason,
    )
    assert is_replay(later)
    assert not is_replay(first)


def test_another_request_or_model_is_asked(path: Path, ask: Any) -> None:
    class Other(ScriptedEngine):
        identity = "another"

    store = ReplayStore(path)
    engine, other = ScriptedEngine(user_text), Other(user_text)
    for each in (engine, other):
        around = ReplayEngine(each, store)
        for request in (ask("hello"), ask("hello", system="s"), ask("hello", max_tokens=3), ask("Hello")):
            around.complete(request)
        assert each.calls == 4
    assert len(store) == 8


def test_only_what_repeats_itself_is_stored(path: Path, ask: Any) -> None:
    store, engine = ReplayStore(path), ScriptedEngine(user_text)
    around = ReplayEngine(engine, store)
    for temperature in (0.7, None):
        for _ in range(2):
            around.complete(ask("hello", temperature=temperature))
    assert engine.calls == 4
    assert len(store) == 0


def test_a_failed_call_leaves_nothing(path: Path, ask: Any) -> None:
    store = ReplayStore(path)
    around = ReplayEngine(ScriptedEngine({"hello": RuntimeError("no")}), store)
    with pytest.raises(RuntimeError):
        around.complete(ask("hello"))
    assert len(store) == 0


async def test_streams_and_awaited_calls_use_the_same_entries(path: Path, ask: Any) -> None:
    lm = replayed(scripted_lm({"x": "one two three"}), ReplayStore(path))
    events = list(lm.engine.stream(ask("x")))
    again = [event async for event in lm._async_engine_spec.stream(ask("x"))]
    assert [e.delta.text for e in again if e.type == "delta"] == [
        e.delta.text for e in events if e.type == "delta"
    ]
    assert is_replay(again[-1])
    assert is_replay(await lm._async_engine_spec.complete(ask("x")))
    assert lm.engine.inner.calls == 1


@pytest.mark.chaos
def test_a_damaged_entry_is_asked_anew_with_a_warning(path: Path, ask: Any) -> None:
    engine = ScriptedEngine(user_text)
    ReplayEngine(engine, ReplayStore(path)).complete(ask("hello"))
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE answers SET response = substr(response, 1, 20)")
    connection.close()
    around = ReplayEngine(engine, ReplayStore(path))
    with pytest.warns(LMWarning, match="damaged"):
        around.complete(ask("hello"))
    assert is_replay(around.complete(ask("hello")))
    assert engine.calls == 2


@pytest.mark.chaos
def test_a_file_that_is_no_store_is_put_aside(path: Path, ask: Any) -> None:
    path.parent.mkdir()
    path.write_bytes(b"not a database, but long enough to be read as the header of one" * 20)
    with pytest.warns(LMWarning, match="moved aside"):
        store = ReplayStore(path)
    assert len(store) == 0
    assert path.with_name("answers.db.damaged").exists()


def test_threads_share_a_store(path: Path, ask: Any) -> None:
    around = ReplayEngine(ScriptedEngine(user_text), ReplayStore(path))
    requests = [ask(f"message {n % 25}") for n in range(200)]
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(around.complete, requests))
    assert [answer.message.text for answer in answers] == [user_text(request) for request in requests]
    assert len(around.store) == 25


WRITER = """
import sys
sys.path.insert(0, sys.argv[2])
from dspy.lm15 import Config, Message, Request
from jazzmine_dspy.lm.replay import ReplayEngine, ReplayStore
from jazzmine_dspy.lm.engines import ScriptedEngine
store = ReplayStore(sys.argv[1])
around = ReplayEngine(ScriptedEngine(lambda _: sys.argv[3]), store)
requests = [
    Request(model="m/x", messages=(Message.user(str(n)),), config=Config(temperature=0.0)) for n in range(200)
]
seen = []
print("ready", flush=True)
sys.stdin.readline()
for request in requests:
    around.complete(request)
    seen.append(store.get(around.key(request)).message.text)
print("".join(seen))
"""


@pytest.mark.row("A7")
def test_threads_with_one_question_ask_it_once(path: Path, ask: Any) -> None:
    others: list[threading.Thread] = []
    answers: list[Any] = []

    def script(request: Any) -> str:
        if not others:
            # While the first is under way: the other either waits for it, or ends before it.
            others.append(threading.Thread(target=lambda: answers.append(engine.complete(request))))
            others[0].start()
            others[0].join(timeout=0.3)
        return "hello"

    inner = ScriptedEngine(script)
    engine = ReplayEngine(inner, ReplayStore(path))
    answers.append(engine.complete(ask("hello")))
    others[0].join()
    assert inner.calls == 1
    assert sorted(is_replay(answer) for answer in answers) == [False, True]


def test_two_processes_share_a_store(path: Path, ask: Any) -> None:
    """Both see the same answer to each request, from the moment when they have one."""
    root = str(Path(str(jazzmine_dspy.__file__)).parents[1])
    pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, str(path), root, name], **pipes) for name in "ab"
    ]
    for writer in writers:
        assert writer.stdout.readline() == "ready\n"  # type: ignore[union-attr]
    for writer in writers:
        writer.stdin.write("go\n")  # type: ignore[union-attr]
        writer.stdin.flush()  # type: ignore[union-attr]
    seen = [writer.communicate(timeout=60)[0].strip() for writer in writers]
    assert [writer.returncode for writer in writers] == [0, 0]
    assert len(ReplayStore(path)) == len(seen[0]) == 200
    assert seen[0] == seen[1]


def test_the_first_answer_stays(path: Path, ask: Any) -> None:
    """Two that asked at once: the later one does not change what the other has gone on with."""
    first, later = (ReplayEngine(ScriptedEngine(lambda _, n=n: n), ReplayStore(path)) for n in ("one", "two"))
    key = first.key(ask("hello"))
    assert key is not None
    first.store.put(key, first.inner.complete(ask("hello")))
    later.store.put(key, later.inner.complete(ask("hello")))
    for store in (first.store, later.store, ReplayStore(path)):
        found = store.get(key)
        assert found is not None
        assert found.message.text == "one"
    assert later.complete(ask("hello")).message.text == "one"


def test_the_key_is_stable(ask: Any) -> None:
    assert (
        request_key(ask("hello"), "i") == "5c5a3ab8189c43841e09f30f958f13dbcd3ab019768dee9f7239dd68e04a7e17"
    )


@pytest.mark.row("O7")
def test_an_empty_answer_is_asked_again_and_not_kept(ask: Any) -> None:
    answers = iter(["", "yes"])
    engine = ReplayEngine(ScriptedEngine(lambda _: next(answers)), ReplayStore(":memory:"))
    texts = [engine.complete(ask("hello")).message.parts[0].text for _ in range(3)]
    assert texts == ["", "yes", "yes"]
