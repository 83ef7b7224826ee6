"""How the embedded model runs, and how long a call may take."""

from __future__ import annotations

import contextlib
import contextvars
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass

from jazzmine_dspy.lm.errors import LMSettingsError

#: Threads of a deterministic engine: the sums of floats, and so the answers, depend on their number.
DETERMINISTIC_THREADS = 2
_deadline: contextvars.ContextVar[float | None] = contextvars.ContextVar("jazzmine_lm_deadline", default=None)


@contextlib.contextmanager
def call_deadline(seconds: float) -> Iterator[None]:
    """Bound every call made inside, waiting for the slot included; the nearest of nested deadlines counts.

    Args:
        seconds: From now.
    """
    at = time.monotonic() + seconds
    outer = _deadline.get()
    token = _deadline.set(at if outer is None else min(at, outer))
    try:
        yield
    finally:
        _deadline.reset(token)


@dataclass(frozen=True)
class LocalSettings:
    """How the embedded model runs.

    Args:
        n_ctx: Tokens of context, prompt and answer together.
        threads: CPU threads; None for 2 when deterministic, else the CPUs up to 4.
        seed: Of the sampler; without effect at temperature 0.
        max_tokens: Longest answer, unless the request says another.
        prompt_cache: Reuse the work on a prompt's beginning: faster, for serving. With it the same request
            may be answered differently; without it, never. So compiling and evaluating leave it off.
        prefix_cache: Keep the work on the constant beginning of prompts (all messages but the last), always cut
            at the same place: as fast for programs, and answers still do not depend on earlier calls.
        deterministic: None for the opposite of `prompt_cache`.
        schema_to_decoder: Hold answers to the schema that is asked for. False is for checking what that is
        worth.
        timeout: Seconds that a call may take, waiting included; None for no limit.

    Raises:
        LMSettingsError: A number is out of range, or `deterministic` and `prompt_cache` are both asked for.
    """

    n_ctx: int = 4096
    threads: int | None = None
    seed: int = 0
    max_tokens: int = 256
    prompt_cache: bool = False
    prefix_cache: bool = True
    deterministic: bool | None = None
    schema_to_decoder: bool = True
    timeout: float | None = 120.0

    def __post_init__(self) -> None:
        if self.deterministic and self.prompt_cache:
            raise LMSettingsError(
                "A prompt cache changes answers, so deterministic and prompt_cache exclude each other",
                where="local",
                remedy="Leave prompt_cache off to compile and evaluate.",
            )
        for name, least in (("n_ctx", 64), ("threads", 1), ("max_tokens", 1)):
            value = getattr(self, name)
            if value is not None and value < least:
                raise LMSettingsError(f"{name} is {value}", where="local", remedy=f"Give at least {least}.")

    @property
    def thread_count(self) -> int:
        """CPU threads that are really used."""
        if self.threads is not None:
            return self.threads
        deterministic = not self.prompt_cache if self.deterministic is None else self.deterministic
        return DETERMINISTIC_THREADS if deterministic else min(4, os.cpu_count() or 1)


def call_limit(timeout: float | None) -> float | None:
    """When a call that begins now has to end, on the monotonic clock: the nearer of deadline and timeout."""
    limits = [] if timeout is None else [time.monotonic() + timeout]
    if (at := _deadline.get()) is not None:
        limits.append(at)
    return min(limits, default=None)
