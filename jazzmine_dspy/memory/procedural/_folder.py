"""A folder that one engine of one process has at a time, and temporary ones that go with it."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

from jazzmine_dspy.models.errors import MemoryUnavailableError

_TEMPORARY = "jazzmine-flows-"
_ABANDONED = 60.0
"""Seconds after which an unlocked temporary folder is one that nobody will come back to."""


def hold(folder: Path) -> Any:
    """Lock the folder; to be given back by :func:`release`. Qdrant's local mode locks the same file.

    Raises:
        MemoryUnavailableError: another engine has it; its process is named.
    """
    import portalocker  # it looks for folders that it can write when it is imported

    path = folder / ".lock"
    file = path.open("r+" if path.exists() else "w+", encoding="utf-8")
    try:
        portalocker.lock(file, portalocker.LockFlags.EXCLUSIVE | portalocker.LockFlags.NON_BLOCKING)
    except portalocker.exceptions.LockException as error:
        try:
            holder = path.read_text(encoding="utf-8", errors="replace").strip()
        except OSError:  # where a locked file can't be read
            holder = ""
        file.close()
        who = f"process {holder}" if holder.isdigit() else "another process or client"
        if holder == str(os.getpid()):
            who = "this process"
        raise MemoryUnavailableError(
            f"The folder of the flow index is already open in {who}",
            where=f"qdrant-edge, {folder}",
            remedy=f"Close the one in {who}, or use another folder, or ':memory:'.",
        ) from error
    file.truncate(0)
    file.write(f"{os.getpid()}\n")
    file.flush()
    return file


def release(file: Any) -> None:
    """Give a folder back. Closing alone would leave it to a forked child, which has the same lock."""
    import portalocker

    with contextlib.suppress(portalocker.exceptions.LockException, OSError):
        portalocker.unlock(file)
    file.close()


def temporary() -> Path:
    """A new folder, to be removed by who has it; those of killed processes are removed first."""
    _sweep()
    return Path(tempfile.mkdtemp(prefix=_TEMPORARY))


def _sweep() -> None:
    """Remove the temporary folders of killed processes: those whose lock nobody holds any more."""
    for lock in Path(tempfile.gettempdir()).glob(f"{_TEMPORARY}*/.lock"):
        with contextlib.suppress(OSError, MemoryUnavailableError):
            # A new one is between its making and its locking for a moment.
            if time.time() - lock.stat().st_mtime > _ABANDONED:
                held = hold(lock.parent)
                release(held)
                shutil.rmtree(lock.parent, ignore_errors=True)
