"""One llama.cpp process, the queue of calls before it, and its restart when it dies."""

from __future__ import annotations

import atexit
import contextlib
import itertools
import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any, cast

from jazzmine_dspy.lm.errors import LMCrashedError, LMNotFoundError, LMRequestError
from jazzmine_dspy.models.forking import leave_to_parent, renew_in_children

#: Seconds that a cancelled call may take to end by itself before its process is killed.
CANCEL_GRACE_S = 0.5
#: Seconds that a model may take to load.
LOAD_LIMIT_S = 120.0
_CHILD = Path(__file__).with_name("_child.py")
_live: weakref.WeakSet[ModelProcess] = weakref.WeakSet()


class Job:
    """One call on its way.

    Args:
        process: The process that it is for.
        message: What the child is to do.
        on_delta: Called in the process's thread with each piece of text.
    """

    def __init__(
        self, process: ModelProcess, message: dict[str, Any], on_delta: Callable[[str], None] | None
    ):
        self.process = process
        self.message = message
        self.on_delta = on_delta
        self.future: Future[dict[str, Any]] = Future()
        self.emitted = ""
        self.given_up = False

    def abort(self) -> None:
        """Give the call up; the process is left ready for the next one."""
        self.given_up = True
        if not self.future.cancel():
            self.process._events.put(("abort", self, None))


class ModelProcess:
    """A child process with one model in one slot: calls wait for each other, from whatever thread they come.

    A thread of this object alone speaks with the child, so the two are never out of step; a call that is
    given up is cancelled in the child or, if that takes longer than `CANCEL_GRACE_S`, dies with it.

    Args:
        settings: What the child loads: path, n_ctx, threads, prompt_cache.
        command: The child's command line; tests put another child here.
    """

    def __init__(self, settings: dict[str, Any], command: Sequence[str] | None = None) -> None:
        self.settings = settings
        self.command = list(command) if command else [sys.executable, "-P", str(_CHILD)]
        self.restarts = 0
        self._jobs: queue.Queue[Job | None] = queue.Queue()
        self._events: queue.Queue[tuple[str, Any, Any]] = queue.Queue()
        self._ids = itertools.count(1)
        self._child: subprocess.Popen[bytes] | None = None
        self._log = -1
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self._closed = False
        _live.add(self)
        renew_in_children(self)

    def renew_after_fork(self) -> None:
        """Start a model of its own in a forked child: the parent's speaks with the parent alone."""
        if self._child is not None:
            leave_to_parent(self._child)
        self._jobs, self._events, self._lock = queue.Queue(), queue.Queue(), threading.Lock()
        self._child, self._thread, self._log = None, None, -1

    @property
    def pid(self) -> int | None:
        """The child's process id, or None while there is none."""
        child = self._child
        return child.pid if child is not None and child.poll() is None else None

    def submit(self, message: dict[str, Any], on_delta: Callable[[str], None] | None = None) -> Job:
        """Queue a call.

        Raises:
            LMRequestError: The process has been closed.
        """
        job = Job(self, message, on_delta)
        with self._lock:
            if self._closed:
                raise LMRequestError("The engine has been closed", remedy="Resolve the language model anew.")
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="jazzmine-lm", daemon=True)
                self._thread.start()
        self._jobs.put(job)
        return job

    def close(self) -> None:
        """End the child and refuse further calls."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
        self._jobs.put(None)
        self._kill()

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            if not job.future.set_running_or_notify_cancel():
                continue
            try:
                result = self._run(job)
            except BaseException as error:
                job.future.set_exception(error)
            else:
                job.future.set_result(result)
            # The frame would hold the last answer, and with it the caller's, until the next call.
            del job

    def _run(self, job: Job) -> dict[str, Any]:
        for attempt in (1, 2):
            try:
                self._start()
                return self._attempt(job)
            except _DiedError as death:
                self._kill()
                if self._closed:
                    raise LMRequestError("The engine was closed during a call") from None
                if attempt == 2:
                    raise LMCrashedError(
                        f"The model's process died twice over one call ({death})",
                        where=self.settings["path"],
                        remedy="Check the free memory; a smaller n_ctx needs less of it.",
                    ) from None
                self.restarts += 1
        raise AssertionError("unreachable")

    def _start(self) -> None:
        if self._child is not None and self._child.poll() is None:
            return
        self._kill()
        if self._closed:
            raise LMRequestError("The engine was closed during a call")
        handle, name = tempfile.mkstemp(prefix="jazzmine-lm-", suffix=".log")
        os.close(handle)
        self._log = os.open(name, os.O_RDWR | os.O_APPEND)
        Path(name).unlink()
        try:
            child = subprocess.Popen(
                self.command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._log,
                env=_environment(),
            )
        except OSError as error:
            raise LMNotFoundError(f"The model's process cannot be started: {error}") from error
        self._child = child
        threading.Thread(target=_read, args=(child, self._events), daemon=True).start()
        self._send({"op": "load", **self.settings})
        # A call that is given up meanwhile does not end the loading: with deadlines shorter than it, no model
        # would ever be loaded.
        by = time.monotonic() + LOAD_LIMIT_S
        while True:
            try:
                kind, origin, value = self._events.get(timeout=max(0.0, by - time.monotonic()))
            except queue.Empty:
                raise _DiedError(self._last_words(f"after {LOAD_LIMIT_S} s of loading")) from None
            if origin is not child:
                continue
            if kind == "eof":
                raise _DiedError(self._last_words("while loading"))
            if value["op"] == "ready":
                return
            if value["op"] == "error":
                self._kill()
                raise LMNotFoundError(
                    f"The model cannot be loaded: {value['error']['message']}",
                    where=self.settings["path"],
                    remedy="Run: pip install xllamacpp."
                    if value["error"]["kind"] == "missing"
                    else "Check that it is a whole GGUF file.",
                )

    def _attempt(self, job: Job) -> dict[str, Any]:
        child, call = self._child, next(self._ids)
        if job.given_up:
            return {"op": "aborted"}
        self._send({**job.message, "op": "complete", "id": call})
        seen, kill_at = "", None
        while True:
            try:
                kind, origin, value = self._events.get(
                    timeout=None if kill_at is None else max(0.0, kill_at - time.monotonic())
                )
            except queue.Empty:
                self._kill()
                return {"op": "aborted"}
            if kind == "abort" and origin is job:
                kill_at = time.monotonic() + CANCEL_GRACE_S
                self._send({"op": "cancel", "id": call})
            elif origin is not child:
                continue
            elif kind == "eof":
                if kill_at is not None:
                    return {"op": "aborted"}
                raise _DiedError(self._last_words("during the call"))
            elif value["id"] != call:
                continue
            elif value["op"] == "delta":
                seen += value["text"]
                self._hand_on(job, seen)
            else:
                return cast("dict[str, Any]", value)

    def _hand_on(self, job: Job, seen: str) -> None:
        """Pass on what is new; after a restart the same text comes again from its beginning."""
        if job.on_delta is None or job.emitted.startswith(seen):
            return
        if not seen.startswith(job.emitted):
            raise LMCrashedError(
                "The model's process died, and the repeated call began otherwise than what had been streamed",
                where=self.settings["path"],
                remedy="Call again without streaming.",
            )
        piece, job.emitted = seen[len(job.emitted) :], seen
        job.on_delta(piece)

    def _send(self, message: dict[str, Any]) -> None:
        child = self._child
        if child is None or child.stdin is None:
            raise _DiedError("before the call")
        try:
            child.stdin.write(json.dumps(message).encode() + b"\n")
            child.stdin.flush()
        except (OSError, ValueError):
            raise _DiedError(self._last_words("before the call")) from None

    def _last_words(self, when: str) -> str:
        words = ""
        with contextlib.suppress(OSError):
            size = os.fstat(self._log).st_size
            words = os.pread(self._log, 400, max(0, size - 400)).decode("utf-8", "replace").strip()
        child = self._child
        code = None
        if child is not None:
            child.kill()
            code = child.wait()
        return f"{when}, exit status {code}" + (f", last words: {words}" if words else "")

    def _kill(self) -> None:
        with self._lock:
            child, self._child = self._child, None
            log, self._log = self._log, -1
        if child is not None:
            child.kill()
            child.wait()
            with contextlib.suppress(OSError):
                if child.stdin is not None:
                    child.stdin.close()
        if log >= 0:
            os.close(log)


class _DiedError(Exception):
    """The child's output ended."""


def _environment() -> dict[str, str]:
    # llama.cpp's threads wait for each other at every layer, and spin there by default: on a machine where
    # others work too a call then takes 15 times as long. So few turns lose nothing on an idle one (measured).
    return {"GOMP_SPINCOUNT": "2000", **os.environ}


def _read(child: subprocess.Popen[bytes], events: queue.Queue[tuple[str, Any, Any]]) -> None:
    with contextlib.suppress(ValueError, OSError):
        stdout = child.stdout
        if stdout is not None:
            with stdout:
                for line in stdout:
                    events.put(("line", child, json.loads(line)))
    events.put(("eof", child, None))


# --- one process for all engines of the same settings ---

_shared: dict[str, tuple[ModelProcess, int]] = {}
_shared_lock = threading.Lock()


def acquire(settings: dict[str, Any]) -> tuple[str, ModelProcess]:
    """The process for these settings, made on first demand; pair each call with `release`."""
    key = json.dumps(settings, sort_keys=True)
    with _shared_lock:
        process, count = _shared.get(key) or (ModelProcess(settings), 0)
        _shared[key] = (process, count + 1)
    return key, process


def release(key: str) -> None:
    """Give a process back; the last one to do so ends it."""
    with _shared_lock:
        if key not in _shared:
            return
        process, count = _shared[key]
        if count > 1:
            _shared[key] = (process, count - 1)
            return
        del _shared[key]
    process.close()


@atexit.register
def _end_all() -> None:
    for process in list(_live):
        process.close()


__all__ = ["CANCEL_GRACE_S", "Job", "ModelProcess", "acquire", "release"]
