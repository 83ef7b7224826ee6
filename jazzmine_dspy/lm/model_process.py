"""One llama.cpp server in a child process, which answers one call at a time and is replaced when it dies."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import secrets
import select
import socket
import subprocess
import sys
import tempfile
import threading
import time
import weakref
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from jazzmine_dspy.lm.errors import LMNotFoundError, LMRequestError, LMTimeoutError
from jazzmine_dspy.models.base import leave_to_parent, renew_in_children

LOAD_LIMIT_S = 120.0
"""Seconds that a model may take to load."""
_SERVER = Path(__file__).with_name("llama_server.py")


class DiedError(Exception):
    """The child ended during a call."""


class RefusedError(Exception):
    """The server refused a request; `error` is its answer."""

    def __init__(self, error: dict[str, Any]) -> None:
        super().__init__(error.get("message", ""))
        self.error = error


class Call:
    """One call of a model process: its limit in time, and a way to cancel it from another thread.

    Args:
        limit: When the call must end, on the monotonic clock; None for no limit.
    """

    def __init__(self, limit: float | None) -> None:
        self.limit = limit
        self.cancelled = False
        self.socket: socket.socket | None = None

    def cancel(self) -> None:
        """End the call, if it has not ended; the server stops generating when its connection closes."""
        self.cancelled = True
        if (connected := self.socket) is not None:
            with contextlib.suppress(OSError):
                connected.shutdown(socket.SHUT_RDWR)

    def left(self) -> float | None:
        """Seconds until the limit; None for no limit.

        Raises:
            LMTimeoutError: The limit has passed.
            LMRequestError: The call was cancelled.
        """
        if self.cancelled:
            raise LMRequestError("The call was cancelled")
        if self.limit is None:
            return None
        if (left := self.limit - time.monotonic()) <= 0:
            raise _late("The call did not end before its deadline and was given up")
        return left


class ModelProcess:
    """A child process that serves one model in one slot: calls wait for each other, from whatever thread they come.

    Args:
        settings: What the child loads: path, n_ctx, threads, prompt_cache.
        command: The child's command line; tests start another child here.
    """

    def __init__(self, settings: dict[str, Any], command: Sequence[str] | None = None) -> None:
        self.settings = settings
        self.command = list(command) if command else [sys.executable, "-P", str(_SERVER)]
        self.users: weakref.WeakSet[Any] = weakref.WeakSet()
        self.prefix: list[Any] = []
        """The messages up to which the server's cache is computed."""
        self._key = secrets.token_hex(32)
        self._address: tuple[str | None, int | None] = (None, None)
        self._slot = threading.Lock()
        self._child: Any = None
        """A `subprocess.Popen` with pipes, once it runs."""
        self._log: Any = None
        self._closed = False
        renew_in_children(self)

    def renew_after_fork(self) -> None:
        """Start a model of its own in a forked child: the parent's serves the parent alone."""
        if self._child is not None:
            leave_to_parent(self._child, self._log)
            self._finalizer.detach()
        self._slot, self._child = threading.Lock(), None

    @property
    def pid(self) -> int | None:
        """The child's process id, or None while there is none."""
        child = self._child
        return int(child.pid) if child is not None and child.poll() is None else None

    @contextlib.contextmanager
    def slot(self, call: Call) -> Iterator[None]:
        """Within it the model is loaded and answers this call alone.

        A deadline does not end the loading: with deadlines shorter than it, no model would ever be loaded.

        Raises:
            LMTimeoutError: The call was still waiting at its limit.
            LMNotFoundError: The model cannot be loaded.
            LMRequestError: The process has been closed.
            DiedError: The child died while loading.
        """
        left = call.left()
        if not self._slot.acquire(timeout=-1 if left is None else left):
            raise _late("The call was still waiting for its turn at its deadline")
        try:
            self._start()
            yield
        finally:
            self._slot.release()

    def chat(self, body: dict[str, Any], call: Call) -> Iterator[dict[str, Any]]:
        """The chunks of one answer, as they come; within `slot`.

        Args:
            body: The request, as OpenAI's protocol has it.
            call: The call that it belongs to.

        Raises:
            RefusedError: The server refused the request.
            LMTimeoutError: The call did not end before its limit.
            LMRequestError: The call was cancelled.
            DiedError: The child died.
        """
        headers = {"authorization": f"Bearer {self._key}", "content-type": "application/json"}
        connection = http.client.HTTPConnection(*self._address, timeout=call.left())  # type: ignore[arg-type]
        try:
            connection.connect()
            call.socket = connected = connection.sock
            data = json.dumps({**body, "stream": True, "stream_options": {"include_usage": True}})
            connection.request("POST", "/v1/chat/completions", data, headers)
            answer = connection.getresponse()
            if answer.status != http.HTTPStatus.OK:
                raise RefusedError(json.loads(answer.read())["error"])
            for line in answer:
                connected.settimeout(call.left())
                if line.startswith(b"data: [DONE]"):
                    return
                if line.startswith((b"data: {", b"error: {")):
                    chunk = json.loads(line.partition(b": ")[2])
                    if "error" in chunk or "message" in chunk:
                        raise RefusedError(chunk.get("error") or chunk)
                    yield chunk
            raise EOFError
        except TimeoutError:
            raise _late("The call did not end before its deadline and was given up") from None
        except (OSError, EOFError, http.client.HTTPException, ValueError):
            # A cancelled call looks like one whose server has died.
            call.left()
            raise DiedError(self._last_words("during the call")) from None
        finally:
            call.socket = None
            connection.close()

    def clear_log(self) -> None:
        """Forget what the child has written to its log."""
        self._log.truncate(0)

    def log(self) -> str:
        """The child's log since it was cleared, at most 64 KB."""
        return os.pread(self._log.fileno(), 65536, 0).decode("utf-8", "replace")

    def close(self) -> None:
        """End the child and refuse further calls."""
        self._closed = True
        self._kill()

    def _start(self) -> None:
        if self._closed:
            raise LMRequestError("The engine has been closed", remedy="Resolve the language model again.")
        if self.pid is not None:
            return
        self._kill()
        self.prefix = []
        # Appended to, so that the child goes on at the beginning after the file was cleared.
        handle, name = tempfile.mkstemp(prefix="jazzmine-lm-", suffix=".log")
        os.close(handle)
        self._log = Path(name).open("ab+", buffering=0)  # noqa: SIM115
        Path(name).unlink()
        # llama.cpp's threads wait for each other at every layer, and spin there by default: on a machine where
        # others work too a call then takes 15 times as long. So few turns lose nothing on an idle one (measured).
        environment = {"GOMP_SPINCOUNT": "2000", **os.environ}
        try:
            child: Any = subprocess.Popen(
                self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log, env=environment
            )
        except OSError as error:
            raise LMNotFoundError(f"The model's process cannot be started: {error}") from error
        self._child, self._finalizer = child, weakref.finalize(self, child.kill)
        try:
            child.stdin.write(json.dumps({**self.settings, "key": self._key}).encode() + b"\n")
            child.stdin.flush()
            loaded = select.select([child.stdout], [], [], LOAD_LIMIT_S)[0] and child.stdout.readline()
        except OSError:
            loaded = b""
        if not loaded:
            raise DiedError(self._last_words("while loading"))
        line = json.loads(loaded)
        if "error" in line:
            self._kill()
            missing = line["error"].startswith(("ImportError", "ModuleNotFoundError"))
            raise LMNotFoundError(
                f"The model cannot be loaded: {line['error']}",
                where=self.settings["path"],
                remedy="Run: pip install xllamacpp." if missing else "Check that it is a whole GGUF file.",
            )
        place = urlsplit(line["address"])
        self._address = (place.hostname, place.port)

    def _last_words(self, when: str) -> str:
        """What happened to the child, and the end of its log; the child is ended."""
        child = self._child
        if child is None:
            return when
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(1.0)
        child.kill()
        words = self.log()[-400:].strip()
        return f"{when}, exit status {child.wait()}" + (f", last words: {words}" if words else "")

    def _kill(self) -> None:
        child, self._child = self._child, None
        if child is not None:
            child.kill()
            child.wait()
            for pipe in (child.stdin, child.stdout):
                with contextlib.suppress(OSError):
                    pipe.close()
            self._log.close()


def _late(message: str) -> LMTimeoutError:
    return LMTimeoutError(message, remedy="Allow more time, or send fewer tokens.")


_shared: weakref.WeakValueDictionary[str, ModelProcess] = weakref.WeakValueDictionary()
_shared_lock = threading.Lock()


def acquire(settings: dict[str, Any], user: Any) -> ModelProcess:
    """The process for these settings, which all users share.

    Args:
        settings: As those of `ModelProcess`.
        user: Who uses it, until `release`.
    """
    key = json.dumps(settings, sort_keys=True)
    with _shared_lock:
        process = _shared.get(key)
        if process is None:
            process = _shared[key] = ModelProcess(settings)
        process.users.add(user)
        return process


def release(process: ModelProcess, user: Any) -> None:
    """Give a process back; the last user ends it.

    Args:
        process: From `acquire`.
        user: As there.
    """
    with _shared_lock:
        process.users.discard(user)
        if process.users:
            return
        _shared.pop(json.dumps(process.settings, sort_keys=True), None)
    process.close()
