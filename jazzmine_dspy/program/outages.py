"""Outages of a language model: which failures may pass, how long they are borne, and when a model is left alone.

A server that is busy or down has not answered, so a call is made again after a pause. In service all attempts of a
turn share its deadline, and a breaker spares a model that fails again and again. Where answers are measured and not
served, there is no deadline: a call is made again for minutes, and one that is never answered is
an error, since a fallback's answer in its place would be scored as the model's.
"""

from __future__ import annotations

import math
import random
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from time import monotonic
from typing import Any

import dspy
from circuitbreaker import STATE_HALF_OPEN, CircuitBreaker
from tenacity import RetryCallState, retry_if_exception

from jazzmine_dspy.lm.dspy_api import LMRateLimitError, LMUnexpectedError, is_retryable_lm_error
from jazzmine_dspy.lm.engines import stated_timeout
from jazzmine_dspy.models.decision import LMCall
from jazzmine_dspy.models.errors import (
    CODES,
    CONTENT_FILTER,
    DeadlineError,
    JazzmineError,
    LMPausedError,
    LMUnansweredError,
    error_code,
    format_error,
)
from jazzmine_dspy.program.deadline import SERVING, Bearing, bearing_here, deadline_error
from jazzmine_dspy.program.lm.requests import CallLog, PredictFailed

FAILURES = 5
"""Failures in a row after which a model is not asked for :data:`REST_S`."""

REST_S = 30
"""Seconds for which a model that failed so often is left alone; then one call tries it."""


_UNREADABLE = ("AnswerError", "EnhancementError", "SelectionError", "UnderstandingError", "AdapterParseError")


def is_outage(error: BaseException) -> bool:
    """Whether a call failed for a reason that may pass: a rate limit, a failing server, a connection, a timeout.

    A content filter refuses again, whatever status its error has.

    Example:
        >>> is_outage(dspy.LMRateLimitError("slow down")), is_outage(dspy.LMAuthError("no"))
        (True, False)
    """
    if isinstance(error, PredictFailed):
        return is_outage(error.error)
    if isinstance(error, LMUnexpectedError) and error.__cause__ is not None:
        # What an engine of one's own raises.
        return isinstance(error.__cause__, (ConnectionError, TimeoutError)) or is_outage(error.__cause__)
    if CODES.get(error_code(error)) == CONTENT_FILTER:
        return False
    return is_retryable_lm_error(error) or isinstance(error, AttemptLateError)


def has_answer(calls: Iterable[LMCall]) -> bool:
    """Whether the language model answered one of some calls, be its answer of use or not; a refusal is no answer."""
    return any(call.success or (call.error or "").startswith(_UNREADABLE) for call in calls)


class AttemptLateError(JazzmineError, TimeoutError):
    """One attempt took longer than an attempt may."""


class Asking:
    """The attempts at one call to a language model.

    Args:
        lm: The model.
        clock: Seconds of a monotonic clock.
        ends: When the turn's deadline passes, by that clock; None is never.

    Attributes:
        lm: The model to ask: without retries of its own, which would multiply with these.
        patience: How long outages are waited out.
    """

    def __init__(self, lm: dspy.BaseLM, clock: Callable[[], float], ends: float | None) -> None:
        self._known = _known(lm)
        self.lm = self._known.asked(lm)
        self._bearing = bearing_here()
        self._serving = self._bearing is None
        self._group = self._bearing or Bearing(SERVING)
        self.patience = self._group.patience
        self._clock = clock
        self._ends = ends
        self._failing_since: float | None = None
        self._cut_short = False
        self._timeout = stated_timeout(lm)
        # Nobody wants to be asked twice who says so.
        self._once = not getattr(lm, "num_retries", 1)

    def seconds(self) -> float | None:
        """What the attempt that begins now may take; None is no limit.

        Raises:
            LMPausedError: the model has failed so often that it is left alone.
        """
        if self._serving:
            self._known.admit()
        left = math.inf if self._ends is None else self._ends - self._clock()
        # A model that is known to be slow gets its time.
        limit = self.patience.attempt_s
        most = math.inf if limit is None else max(limit, self._timeout)
        self._cut_short = most < left
        least = min(left, most)
        return None if least == math.inf else least

    @contextmanager
    def judged(self) -> Iterator[None]:
        """One attempt: what came of it counts for those who ask next."""
        failure: PredictFailed | None = None
        try:
            yield
        except PredictFailed as error:
            failure = error
        failed = failure is not None and (is_outage(failure) or isinstance(failure.error, DeadlineError))
        if failed:
            now = self._clock()
            self._failing_since = now if self._failing_since is None else self._failing_since
            self._group.failing_since = (
                now if self._group.failing_since is None else self._group.failing_since
            )
        else:
            self._group.answered()
        if self._serving:
            self._known.count(failed=failed)
        if failure is not None:
            raise failure

    def late(self, log: CallLog) -> PredictFailed:
        """The error of an attempt that was cut off; a call was made all the same."""
        error: Exception = deadline_error()
        if self._cut_short:
            error = AttemptLateError(f"no answer in {self.patience.attempt_s:g} s")
        return PredictFailed(error, log.cut(error))

    @contextmanager
    def ended(self) -> Iterator[None]:
        """All attempts: an outage that outlasts them is an error of its own where outages are borne."""
        try:
            yield
        except PredictFailed as failure:
            if self._serving or not is_outage(failure):
                raise
            error = LMUnansweredError(
                f"The language model did not answer: {format_error(failure.error)}",
                remedy="Try again when it does.",
            )
            raise PredictFailed(error, failure.calls) from failure.error

    @property
    def rules(self) -> dict[str, Any]:
        """When a call is made again, for tenacity."""
        return {
            "retry": retry_if_exception(is_outage),
            "wait": self._pause,
            "stop": self._gives_up,
            "reraise": True,
        }

    def _pause(self, state: RetryCallState) -> float:
        error = _error_of(state)
        hint = getattr(error, "retry_after", None)
        if isinstance(hint, int | float) and hint > 0:
            # A little later by chance, so that not all who were told the same come back at once.
            return float(hint) + random.uniform(0.0, 0.1 * min(float(hint), 10.0) + 0.05)
        whole = min(self.patience.longest_s, self.patience.first_s * 2.0 ** (state.attempt_number - 1))
        return random.uniform(whole / 2, whole)

    def _gives_up(self, state: RetryCallState) -> bool:
        if self._once or self.patience.ended() or (self._serving and self._known.breaker.opened):
            return True
        then = self._clock() + state.upcoming_sleep
        if self._ends is not None and then >= self._ends:
            return True
        group, own, limit = self._group, self._failing_since, self.patience.limit_s
        if group.failing_since is not None and then - group.failing_since > limit:
            group.gave_up = True
        if group.gave_up or isinstance(_error_of(state), LMRateLimitError):
            return group.gave_up
        return own is not None and then - own > limit


def _error_of(state: RetryCallState) -> BaseException | None:
    error = state.outcome.exception() if state.outcome is not None else None
    return error.error if isinstance(error, PredictFailed) else error


class _Failed(Exception):  # noqa: N818 - a mark for the breaker
    """What the breaker is told in the place of the error, which holds the prompt by its frames."""


class _Known:
    """What is remembered of a language model: its breaker, and a copy of it without retries."""

    def __init__(self, lm: dspy.BaseLM) -> None:
        self.breaker = CircuitBreaker(failure_threshold=FAILURES, recovery_timeout=REST_S)
        self._tried_at = -math.inf
        self._without_retries = lm.copy(num_retries=0) if getattr(lm, "num_retries", 0) else None

    def asked(self, lm: dspy.BaseLM) -> dspy.BaseLM:
        """The model without retries of its own, in all else as it is now."""
        if self._without_retries is None or not getattr(lm, "num_retries", 0):
            return lm
        # A key, an address or a temperature may have been set since; who looks at the history finds the calls.
        vars(self._without_retries).update({**vars(lm), "num_retries": 0})
        return self._without_retries

    def admit(self) -> None:
        now = monotonic()
        half_open = self.breaker.state == STATE_HALF_OPEN
        if self.breaker.opened or (half_open and now < self._tried_at + REST_S):
            raise LMPausedError(
                f"The language model failed {FAILURES} times in a row and is not called for {REST_S} s"
            )
        if half_open:
            self._tried_at = now

    def count(self, *, failed: bool) -> None:
        self._tried_at = -math.inf
        with suppress(_Failed), self.breaker:
            if failed:
                raise _Failed


_KNOWN: weakref.WeakKeyDictionary[dspy.BaseLM, _Known] = weakref.WeakKeyDictionary()


def _known(lm: dspy.BaseLM) -> _Known:
    return _KNOWN.get(lm) or _KNOWN.setdefault(lm, _Known(lm))
