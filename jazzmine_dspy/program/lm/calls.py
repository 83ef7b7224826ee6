"""Calls of a language model through the program's predictors, under the deadline of the turn, and second calls for
parts of an answer that were refused."""

from __future__ import annotations

import functools
import threading
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import dspy
from tenacity import AsyncRetrying, Retrying

from jazzmine_dspy.lm.engines import unwrap
from jazzmine_dspy.models.decision import LMCall, StageRecord, Usage
from jazzmine_dspy.models.errors import MemoryUnavailableError
from jazzmine_dspy.program.bindings import READY, Bindings, make_ready
from jazzmine_dspy.program.deadline import Deadline, awithin, in_thread, within
from jazzmine_dspy.program.demonstrations import demonstrations
from jazzmine_dspy.program.lm.render import CUT
from jazzmine_dspy.program.lm.requests import CallLog, Predicted, PredictFailed, PredictorCall
from jazzmine_dspy.program.module import ProgramModule
from jazzmine_dspy.program.outages import Asking
from jazzmine_dspy.signatures.adapter import adapter_in_force


class LMMissingError(MemoryUnavailableError):
    """No language model is bound or configured."""


def ask(call: PredictorCall, owner: ProgramModule, bindings: Bindings, deadline: Deadline) -> Predicted:
    """Call a predictor, and retry during outages of the language model.

    Args:
        call: The call to make.
        owner: Provides the predictors.
        bindings: The language model.
        deadline: The deadline of all attempts together.

    Raises:
        DeadlineError: the deadline has passed.
        LMMissingError: there is no language model.
        PredictFailed: every attempt failed.
    """
    deadline.left()
    predictor, log = owner.predictor(call.predictor), CallLog(call.predictor, deadline.milliseconds)
    lm = _language_model(bindings, predictor)
    if lm not in READY:
        with deadline.paused():
            make_ready(lm)
    asking = Asking(lm, deadline.clock, deadline.ends)
    demos = _demos(call, predictor, owner)

    def once() -> Any:
        with _logged(log, asking.lm):
            return predictor(**call.inputs, **demos, config=dict(call.config))

    def attempt() -> Any:
        seconds = asking.seconds()
        with asking.judged():
            return within(seconds, once, lambda: asking.late(log))

    with asking.ended():
        retrying = Retrying(sleep=asking.patience.sleep, **asking.rules)
        return _predicted(retrying(attempt), predictor, log)


async def aask(
    call: PredictorCall, owner: ProgramModule, bindings: Bindings, deadline: Deadline
) -> Predicted:
    """The same without blocking the loop; cancelling it cancels the call."""
    deadline.left()
    predictor, log = owner.predictor(call.predictor), CallLog(call.predictor, deadline.milliseconds)
    lm = _language_model(bindings, predictor)
    if lm not in READY:
        with deadline.paused():
            await in_thread(functools.partial(make_ready, lm))
    asking = Asking(lm, deadline.clock, deadline.ends)
    find = functools.partial(_demos, call, predictor, owner)
    demos = await in_thread(find) if predictor.demos else {}

    async def once() -> Any:
        with _logged(log, asking.lm):
            return await predictor.acall(**call.inputs, **demos, config=dict(call.config))

    async def attempt() -> Any:
        seconds = asking.seconds()
        with asking.judged():
            return await awithin(seconds, once(), lambda: asking.late(log))

    with asking.ended():
        retrying = AsyncRetrying(sleep=asking.patience.asleep, **asking.rules)
        return _predicted(await retrying(attempt), predictor, log)


def _demos(call: PredictorCall, predictor: dspy.Predict, owner: ProgramModule) -> dict[str, Any]:
    """The demonstrations that a call is given beside its inputs; empty where the predictor holds none."""
    held = predictor.demos
    return {"demos": demonstrations(call.predictor, held, owner.program)} if held else {}


def _language_model(bindings: Bindings, predictor: dspy.Predict) -> dspy.LM:
    lm = bindings.lm_for(predictor)
    if lm is None:
        raise LMMissingError("No language model", remedy="Pass lm=… to load(), or call dspy.configure(lm=…).")
    return lm


def _predicted(prediction: Any, predictor: dspy.Predict, log: CallLog) -> Predicted:
    return Predicted({name: prediction[name] for name in predictor.signature.output_fields}, log.calls())


@contextmanager
def _logged(log: CallLog, lm: dspy.LM) -> Iterator[None]:
    """Configure a call of the language model and log it. Its tokens are not streamed: an answer counts as a whole."""
    log.model = str(lm.model)
    settings = {
        "adapter": adapter_in_force(),
        "callbacks": [*dspy.settings.callbacks, log],
        "send_stream": None,
    }
    with dspy.context(lm=lm, **settings), dspy.track_usage() as tracker:
        log.track(tracker)
        try:
            yield
        except Exception as error:
            log.came_to_nothing(error)
            raise PredictFailed(error, log.calls(error)) from error


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
