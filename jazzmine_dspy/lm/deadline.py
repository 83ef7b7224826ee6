"""How long a call of a language model may take: one deadline for all calls made inside it."""

from __future__ import annotations

import contextlib
import contextvars
import time
from collections.abc import Iterator

_deadline: contextvars.ContextVar[float | None] = contextvars.ContextVar("jazzmine_lm_deadline", default=None)


@contextlib.contextmanager
def call_deadline(seconds: float | None) -> Iterator[None]:
    """Bound every call made inside, waiting for the slot included; the nearest of nested deadlines counts.

    Args:
        seconds: From now; None for no further limit.
    """
    token = _deadline.set(call_limit(seconds))
    try:
        yield
    finally:
        _deadline.reset(token)


def call_limit(timeout: float | None) -> float | None:
    """When a call that begins now must end, on the monotonic clock: the nearer of deadline and timeout."""
    limits = [] if timeout is None else [time.monotonic() + timeout]
    if (at := _deadline.get()) is not None:
        limits.append(at)
    return min(limits, default=None)
