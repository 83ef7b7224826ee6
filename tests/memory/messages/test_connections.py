"""URLs, missing libraries, event loops, threads and forks."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import traceback
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from jazzmine_dspy.memory.messages import InMemoryMessageStore, SqlMessageStore
from jazzmine_dspy.models.errors import InputError
from jazzmine_dspy_conformance.messages.harness import message

pytestmark = pytest.mark.row("M6")


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("sqlite://", "sqlite in memory"),
        ("sqlite:////tmp/a.db", "sqlite /tmp/a.db"),
        ("postgresql://h/d", "postgresql h/d"),
        ("postgres://u:p@h:1/d", "postgresql h:1/d"),
        ("postgresql+psycopg://u:p@/d?host=/run", "postgresql /run/d"),
    ],
)
def test_urls_are_understood(url: str, address: str) -> None:
    assert repr(SqlMessageStore(url)) == f"<SqlMessageStore {address}>"


@pytest.mark.row("G4", "M6")
@pytest.mark.parametrize(
    "url",
    [
        "mysql://u:s3cret@h/d",
        "mongodb://u:s3cret@h/d",
        "postgresql+asyncpg://u:s3cret@h/d",
        "postgresql://u:s3cret@h:port/d",
        "",
    ],
)
def test_other_urls_are_refused_without_the_password(url: str) -> None:
    with pytest.raises(InputError, match=r"sqlite:///file\.db") as raised:
        SqlMessageStore(url)
    shown = "".join(traceback.format_exception(raised.value, chain=True))
    assert "s3cret" not in shown.replace(repr(url), "")


async def test_closing_lets_the_calls_under_way_end(tmp_path: Path) -> None:
    store = SqlMessageStore(f"sqlite:///{tmp_path}/m.db", pool_size=1)
    await store.store_message(message(0))
    calls = [asyncio.create_task(store.store_message(message(n))) for n in range(1, 20)]
    await asyncio.sleep(0)
    await asyncio.gather(store.close(), store.close())
    assert [await call for call in calls] == [None] * 19
    assert len(await store.get_messages_by_conversation_id("c1")) == 20
    await store.close()
    assert not [each for each in threading.enumerate() if each.name.startswith("jazzmine")]


@pytest.mark.row("A7")
def test_threads_may_use_and_close_a_store_at_once(tmp_path: Path) -> None:
    store = SqlMessageStore(f"sqlite:///{tmp_path}/m.db", deadline=60)

    async def use(worker: int) -> None:
        for n in range(20):
            await store.store_message(message(20 * worker + n))
            if n % 5 == worker:
                await store.close()

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda worker: asyncio.run(use(worker)), range(4)))
    assert len(asyncio.run(store.get_messages_by_conversation_id("c1"))) == 80
    asyncio.run(store.close())


@pytest.mark.parametrize(
    "wrong", [{"deadline": 0}, {"deadline": float("inf")}, {"deadline": -1}, {"pool_size": 0}]
)
def test_impossible_settings_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(InputError, match=next(iter(wrong))):
        SqlMessageStore("sqlite://", **wrong)  # type: ignore[arg-type]


def _python(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-P", "-c", code, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


@pytest.mark.row("A5")
def test_the_protocol_imports_no_sqlalchemy() -> None:
    heavy = "{'sqlalchemy', 'psycopg', 'pytest'}"
    done = _python(f"import jazzmine_dspy.memory.messages, sys; print({heavy} & set(sys.modules))")
    assert done.stdout.strip() == "set()", done.stderr


def test_a_missing_driver_is_named_with_the_remedy() -> None:
    code = """
import sys
sys.modules["psycopg"] = None
from jazzmine_dspy.memory.messages import SqlMessageStore
SqlMessageStore("sqlite://")
try:
    SqlMessageStore("postgresql://h/d")
except ImportError as error:
    print(type(error).__name__, error)
"""
    done = _python(code)
    assert done.stdout.startswith("MissingExtraError"), done.stderr
    assert "psycopg" in done.stdout
    assert "pip install 'jazzmine-dspy[sql]'" in done.stdout


@pytest.mark.parametrize("memory", [True, False], ids=["in memory", "file"])
def test_a_store_serves_event_loops_in_several_threads(tmp_path: Path, memory: bool) -> None:
    store = InMemoryMessageStore() if memory else SqlMessageStore(f"sqlite:///{tmp_path}/m.db", deadline=60)
    failures: list[BaseException] = []

    async def write(first: int) -> None:
        await asyncio.gather(*(store.store_message(message(first + number)) for number in range(10)))

    def run(first: int) -> None:
        try:
            asyncio.run(write(first))
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(first,)) for first in (0, 10, 20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert len(asyncio.run(store.get_messages_by_conversation_id("c1"))) == 30
    asyncio.run(store.close())


async def test_a_closed_store_opens_again(tmp_path: Path) -> None:
    for store in (InMemoryMessageStore(), SqlMessageStore(f"sqlite:///{tmp_path}/m.db", deadline=60)):
        await store.store_message(message(1))
        await store.close()
        assert await store.get_message("c1-m1") == message(1)
        await store.close()


@pytest.mark.skipif(sys.platform == "win32", reason="needs fork")
def test_a_store_that_was_made_before_a_fork_is_refused_in_the_child(tmp_path: Path) -> None:
    code = """
import asyncio, os, sys
from jazzmine_dspy.memory.messages import SqlMessageStore
from jazzmine_dspy.models.errors import InputError

store = SqlMessageStore(sys.argv[1], deadline=60)
asyncio.run(store.get_message("x"))
child = os.fork()
if not child:
    try:
        asyncio.run(store.get_message("x"))
    except InputError as error:
        print(error.message, error.remedy.partition(":")[0], sep=". ", flush=True)
        asyncio.run(SqlMessageStore(sys.argv[1], deadline=60).get_message("x"))
        sys.exit(0)
    os._exit(1)
assert os.waitpid(child, 0)[1] == 0
asyncio.run(store.get_message("x"))
"""
    done = _python(code, f"sqlite:///{tmp_path}/m.db")
    refusal = "This process was forked after the message store was loaded. Load after the fork\n"
    assert (done.returncode, done.stdout) == (0, refusal), done.stderr


def test_a_process_ends_though_the_store_is_open(tmp_path: Path) -> None:
    code = """
import asyncio, sys
from jazzmine_dspy.memory.messages import InMemoryMessageStore, SqlMessageStore
for store in (SqlMessageStore(sys.argv[1]), InMemoryMessageStore()):
    asyncio.run(store.get_message("x"))
print("end")
"""
    done = _python(code, f"sqlite:///{tmp_path}/m.db")
    assert (done.returncode, done.stdout, done.stderr) == (0, "end\n", "")
