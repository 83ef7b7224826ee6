"""URLs, missing libraries, event loops."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import traceback
from pathlib import Path

import pytest

from jazzmine_dspy.memory.messages import SqlMessageStore
from jazzmine_dspy.memory.messages._url import parse, place
from jazzmine_dspy.models.errors import InputError
from jazzmine_dspy.testing.messages.harness import message

pytestmark = pytest.mark.row("M6")


@pytest.mark.parametrize(
    ("url", "driver", "named"),
    [
        ("sqlite://", "sqlite+aiosqlite", "sqlite in memory"),
        ("sqlite:///:memory:", "sqlite+aiosqlite", "sqlite in memory"),
        ("sqlite+aiosqlite:////tmp/a.db", "sqlite+aiosqlite", "sqlite /tmp/a.db"),
        ("sqlite:///a.db", "sqlite+aiosqlite", f"sqlite {Path('a.db').absolute()}"),
        ("postgresql://h/d", "postgresql+psycopg", "postgresql h/d"),
        ("postgres://u:p@h:1/d", "postgresql+psycopg", "postgresql h:1/d"),
        ("postgresql+psycopg://u:p@/d?host=/run", "postgresql+psycopg", "postgresql /run/d"),
    ],
)
def test_urls_are_understood(url: str, driver: str, named: str) -> None:
    parsed = parse(url)
    assert (parsed.drivername, place(parsed)) == (driver, named)


@pytest.mark.parametrize(
    "url",
    [
        "mysql://u:s3cret@h/d",
        "postgresql+asyncpg://u:s3cret@h/d",
        "s3cret",
        "postgresql://u:s3cret@h:port/d",
        "",
    ],
)
def test_other_urls_are_refused_without_being_shown(url: str) -> None:
    with pytest.raises(InputError, match=r"sqlite:///file\.db") as raised:
        SqlMessageStore(url)
    assert "s3cret" not in "".join(traceback.format_exception(raised.value, chain=True)).replace(
        repr(url), ""
    )


@pytest.mark.parametrize(
    "wrong", [{"deadline": 0}, {"deadline": float("inf")}, {"deadline": -1}, {"pool_size": 0}]
)
def test_impossible_settings_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(InputError, match=next(iter(wrong))):
        SqlMessageStore("sqlite://", **wrong)  # type: ignore[arg-type]


def _python(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-P", "-c", code, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def test_nothing_of_sql_is_imported_unless_asked_for() -> None:
    heavy = "{'sqlalchemy', 'aiosqlite', 'psycopg', 'greenlet', 'pytest'}"
    done = _python(f"import jazzmine_dspy.memory.messages, sys; print({heavy} & set(sys.modules))")
    assert done.stdout.strip() == "set()", done.stderr


@pytest.mark.parametrize(
    ("missing", "url"),
    [
        ("sqlalchemy", "sqlite://"),
        ("aiosqlite", "sqlite://"),
        ("psycopg", "postgresql://h/d"),
        ("greenlet", "sqlite://"),
        ("greenlet", "postgresql://h/d"),
    ],
)
def test_a_missing_library_is_named_with_the_remedy(missing: str, url: str) -> None:
    code = f"""
import sys
sys.modules[{missing!r}] = None
try:
    from jazzmine_dspy.memory.messages import SqlMessageStore
    SqlMessageStore({url!r})
except ImportError as error:
    print(type(error).__name__, error)
"""
    done = _python(code)
    assert done.stdout.startswith("MissingExtraError"), done.stderr
    assert missing in done.stdout
    assert "pip install 'jazzmine-dspy[sql]'" in done.stdout


@pytest.mark.parametrize("path", ["no/such/m.db", "", "m.db/m.db"])
def test_a_path_that_cannot_be_opened_prints_no_traceback_of_a_thread(tmp_path: Path, path: str) -> None:
    (tmp_path / "m.db").touch()
    code = """
import asyncio, sys
from jazzmine_dspy.memory.messages import SqlMessageStore
for _ in range(20):  # the thread and the closing of the loop race each other
    try:
        asyncio.run(SqlMessageStore(sys.argv[1]).get_message("x"))
    except Exception as error:
        print(type(error).__name__, error)
"""
    done = _python(code, f"sqlite:///{tmp_path}/{path}")
    assert done.stderr == ""
    assert done.stdout.count("MemoryUnavailableError The message store failed") == 20
    assert done.stdout.count("unable to open database file") == 20


def test_a_store_serves_one_event_loop_after_another(tmp_path: Path) -> None:
    store = SqlMessageStore(f"sqlite:///{tmp_path}/m.db", deadline=60)
    for number in range(3):
        asyncio.run(store.store_message(message(number)))
    assert len(asyncio.run(store.get_messages_by_conversation_id("c1"))) == 3
    asyncio.run(store.close())


def test_a_store_serves_loops_in_several_threads(tmp_path: Path) -> None:
    store = SqlMessageStore(f"sqlite:///{tmp_path}/m.db", deadline=60)
    failures: list[BaseException] = []

    async def write(first: int) -> None:
        await asyncio.gather(*(store.store_message(message(first + number)) for number in range(10)))
        await store.close()

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


async def test_a_database_in_memory_belongs_to_one_loop() -> None:
    store = SqlMessageStore("sqlite://", deadline=60)
    await store.store_message(message(1))
    with pytest.raises(InputError, match="event loop"):
        await asyncio.to_thread(asyncio.run, store.get_message("c1-m1"))
    assert await store.get_message("c1-m1") == message(1)
    await store.close()


def test_a_process_ends_though_nobody_closed_the_store(tmp_path: Path) -> None:
    code = """
import asyncio, sys
from jazzmine_dspy.memory.messages import SqlMessageStore
store = SqlMessageStore(sys.argv[1])
asyncio.run(store.get_message("x"))
print("end")
"""
    done = _python(code, f"sqlite:///{tmp_path}/m.db")
    assert (done.returncode, done.stdout) == (0, "end\n"), done.stderr
