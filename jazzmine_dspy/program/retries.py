"""Second calls of a language model for parts of an answer that were refused, and how many there may be."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import dspy

from jazzmine_dspy.lm.engines import unwrap
from jazzmine_dspy.models.decision import LMCall, StageRecord, Usage
from jazzmine_dspy.program.lm_requests import PredictorCall
from jazzmine_dspy.program.render import CUT

SHARE = 0.04
"""Retries that each turn earns, next to the first one, so that the mean stays at 1.05 calls a turn."""

_MOST = 5.0
_lock = threading.Lock()
_earned: weakref.WeakKeyDictionary[dspy.BaseLM, float] = weakref.WeakKeyDictionary()


class Retries:
    """What one turn may ask a language model for again. Each turn counts when this is made.

    Args:
        lm: The language model. Recorded and deferred answers are never asked for twice.
    """

    def __init__(self, lm: dspy.BaseLM | None) -> None:
        self._lm = lm if lm is not None and getattr(unwrap(lm)[1], "asks_again", True) else None
        if self._lm is not None:
            with _lock:
                _earned[self._lm] = min(_earned.get(self._lm, 1.0 - SHARE) + SHARE, _MOST)

    def allow(self) -> bool:
        """Whether one more call may be made; it is counted."""
        if self._lm is None:
            return False
        with _lock:
            allowed = _earned[self._lm] >= 1.0
            _earned[self._lm] -= allowed
        return allowed


def asked_again(call: PredictorCall, reasons: Sequence[str]) -> PredictorCall:
    """A call once more, with the reasons why parts of its answer were refused."""
    told = "; ".join(dict.fromkeys(reasons))
    note = f"Your first answer to this message was refused in part: {told}. Answer again and correct these parts."
    return replace(call, inputs={**call.inputs, "message": f"{call.inputs['message']}\n\n{note}"})


def retried(
    stands: StageRecord, first: StageRecord, why: tuple[str, ...], elapsed: float, calls: tuple[LMCall, ...]
) -> StageRecord:
    """The record of a stage that was asked for once more, with what both calls cost.

    Args:
        stands: The record of the answer that stands.
        first: The record of the first answer.
        why: Why parts of the first answer were refused.
        elapsed: Milliseconds of the second call.
        calls: The second call.
    """
    every = (*first.calls, *calls)
    update = {"retried": why, "calls": every, "usage": Usage.of(every)}
    return stands.model_copy(update={**update, "latency_ms": first.latency_ms + max(0.0, elapsed)})


def is_cut(rewrite: Any, text: str) -> bool:
    """Whether a rewrite leaves out a part of the message."""
    return isinstance(rewrite, str) and len(rewrite) < len(text) and CUT in rewrite and CUT not in text
