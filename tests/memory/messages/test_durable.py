"""What was acknowledged is there: after a full disk, after a kill."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from jazzmine_dspy.memory.messages import SqlMessageStore

pytestmark = [pytest.mark.row("M6"), pytest.mark.chaos]

# No file of the child grows beyond a limit, set once the tables are there: the disk is full for it.
FULL = """
import asyncio, resource, sys
from jazzmine_dspy.memory.messages import SqlMessageStore
from jazzmine_dspy.models.errors import MemoryUnavailableError
from jazzmine_dspy.models.messages import Message

def message(number, **more):
    said = {"conversation_id": "c1", "user_id": "u1", "role": "user", "original_content": "x"}
    return Message(id=str(number), timestamp=number, **said, **more)

async def main():
    store = SqlMessageStore(sys.argv[1], deadline=60)
    await store.store_message(message(0))
    limit = 1_000_000
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
    done = 1
    try:
        while done < 1000:
            await store.store_message(message(done, reasoning_steps=["x" * 5000]))
            done += 1
    except MemoryUnavailableError as error:
        print(error)
    assert len(await store.get_messages_by_conversation_id("c1", limit=1000)) == done
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    await store.store_message(message(done))
    await store.close()
    print(done)

asyncio.run(main())
"""

ENDLESS = """
import asyncio, sys
from jazzmine_dspy.memory.messages import SqlMessageStore
from jazzmine_dspy.models.messages import Message

def message(number):
    said = {"conversation_id": "c1", "user_id": "u1", "role": "user", "original_content": "x"}
    return Message(id=str(number), timestamp=number, **said)

async def main():
    store = SqlMessageStore(sys.argv[1], deadline=60)
    for number in range(100_000):
        await store.store_message(message(number))
        print(number, flush=True)

asyncio.run(main())
"""


@pytest.mark.skipif(sys.platform == "win32", reason="needs limits on the size of files")
def test_a_full_disk_loses_nothing_kept(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/m.db"
    command = [sys.executable, "-P", "-c", FULL, url]
    child = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert child.returncode == 0, child.stderr
    told, count = child.stdout.splitlines()
    assert "SQLITE_" in told
    assert "xxx" not in told
    store = SqlMessageStore(url, deadline=60)
    kept = asyncio.run(store.get_messages_by_conversation_id("c1", limit=1000))
    assert ([one.timestamp for one in kept], kept.damaged) == (list(range(int(count) + 1)), ())
    assert int(count) > 10
    with sqlite3.connect(tmp_path / "m.db") as file:
        assert file.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    file.close()


def test_a_killed_process_has_stored_what_it_was_told(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/m.db"
    child = subprocess.Popen([sys.executable, "-P", "-c", ENDLESS, url], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    told = [int(child.stdout.readline()) for _ in range(50)]
    os.kill(child.pid, signal.SIGKILL)
    told += [int(line) for line in child.stdout.read().splitlines() if line]
    child.wait()
    child.stdout.close()
    store = SqlMessageStore(url, deadline=60)
    page = asyncio.run(store.get_messages_by_conversation_id("c1", limit=10_000))
    kept = [one.timestamp for one in page]
    assert kept[: len(told)] == told
    assert len(kept) <= len(told) + 1
    assert page.damaged == ()
