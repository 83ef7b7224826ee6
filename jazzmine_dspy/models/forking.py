"""What a forked child renews: locks, threads and native handles that belong to its parent."""

from __future__ import annotations

import contextlib
import ctypes
import os
import weakref
from typing import Any, Protocol

_live: weakref.WeakSet[Any] = weakref.WeakSet()


class Renewed(Protocol):
    """An object that a forked child cannot use as it is."""

    def renew_after_fork(self) -> None:
        """Take new locks, and let go of what the parent goes on using. Called in the child, which has one thread."""


def renew_in_children(each: Renewed) -> None:
    """Call ``renew_after_fork`` of this object in every forked child, for as long as the object lives."""
    _live.add(each)


def leave_to_parent(*handles: Any) -> None:
    """Keep handles of the parent from ever being closed in this child, which would wait for threads that it has not.

    At the exit of the interpreter too: that is what the reference is for which nobody gives back.
    """
    for handle in handles:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(handle))


def skip_native_exit() -> None:
    """Let this child end without the C library's exit handlers: those of onnxruntime wait for the parent's threads.

    Python's own exit is as ever. Only glibc has ``on_exit``; elsewhere a child ends by ``os._exit``, as those of
    multiprocessing do.
    """
    with contextlib.suppress(AttributeError, OSError, TypeError):
        libc = ctypes.CDLL(None)
        libc.on_exit(libc._exit, None)


def _renew() -> None:
    for each in list(_live):
        each.renew_after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew)
