"""Two drivers of the same steps: one waits, one awaits. Deadline and clock belong to them, never to a turn."""

from __future__ import annotations

import asyncio
import contextvars
import queue
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol, TypeVar

import dspy

from jazzmine_dspy.models.errors import DeadlineError, EmbeddingError, MemoryUnavailableError
from jazzmine_dspy.program._calls import CallLog
from jazzmine_dspy.program.bindings import Bindings
from jazzmine_dspy.program.ports import EmbedderPort, RecallPort
from jazzmine_dspy.program.stage import (
    Clock,
    Effect,
    Features,
    Parallel,
    Predict,
    Predicted,
    PredictFailed,
    Recall,
    Steps,
)
from jazzmine_dspy.signatures.adapter import DecisionAdapter

T = TypeVar("T")


class _Predictors(Protocol):
    def predictor(self, name: str) -> dspy.Predict: ...


class LMMissingError(MemoryUnavailableError):
    """No language model is bound or configured."""


_ADAPTER = DecisionAdapter()


def _adapter() -> dspy.Adapter:
    configured = dspy.settings.adapter
    return configured if isinstance(configured, DecisionAdapter) else _ADAPTER


def _language_model(bindings: Bindings) -> dspy.LM:
    lm = bindings.lm or dspy.settings.lm
    if lm is None:
        raise LMMissingError("No language model", remedy="Pass lm=… to load(), or call dspy.configure(lm=…).")
    return lm


def _predicted(prediction: Any, predictor: dspy.Predict, log: CallLog) -> Predicted:
    return Predicted({name: prediction[name] for name in predictor.signature.output_fields}, log.calls())


def _log_for(effect: Effect, bindings: Bindings, began: float) -> CallLog | None:
    if not isinstance(effect, Predict):
        return None
    return CallLog(effect.predictor, lambda: (bindings.clock() - began) * 1000.0)


@contextmanager
def _logged(log: CallLog, lm: dspy.LM) -> Iterator[None]:
    """Ask this language model, and note what is asked of it."""
    log.model = str(lm.model)
    callbacks = [*dspy.settings.callbacks, log]
    with dspy.context(lm=lm, adapter=_adapter(), callbacks=callbacks), dspy.track_usage() as log.tracker:
        try:
            yield
        except Exception as error:
            raise PredictFailed(error, log.calls(error)) from error


def _recall_port(bindings: Bindings) -> RecallPort:
    if bindings.recall is None:
        raise MemoryUnavailableError("No recall index is bound", remedy="Call program.bind(recall=…).")
    return bindings.recall


def _embedder(bindings: Bindings) -> EmbedderPort:
    if bindings.embedder is None:
        raise EmbeddingError(
            "No embedding model is bound", remedy="Install the extra 'local', or bind an embedder."
        )
    return bindings.embedder


def drive(steps: Steps[T], owner: _Predictors, bindings: Bindings, deadline: float | None = None) -> T:
    """Take the steps in this thread.

    Args:
        steps: Generator of effects.
        owner: Has the predictors.
        bindings: What effects are asked of.
        deadline: Seconds until every further effect fails with ``DeadlineError``, within :class:`PredictFailed` where a
            predictor is waited for; None for no limit.
    """
    began = bindings.clock()
    ends = None if deadline is None else began + deadline

    def perform(effect: Effect) -> Any:
        if isinstance(effect, Clock):
            return bindings.clock() * 1000.0
        if isinstance(effect, Parallel):
            return [_drive(part, perform) for part in effect.parts]
        log = _log_for(effect, bindings, began)
        if ends is None:
            return _perform(effect, owner, bindings, log)
        left = ends - bindings.clock()
        if left <= 0:
            raise DeadlineError("the deadline of the turn has passed")
        return _within(left, log, lambda: _perform(effect, owner, bindings, log))

    return _drive(steps, perform)


def _within(seconds: float, log: CallLog | None, ask: Callable[[], Any]) -> Any:
    """Wait at most ``seconds`` for an effect.

    A thread is the only way to stop waiting for a call that cannot be interrupted. It is a daemon, and one of its own
    for each effect: what hangs keeps neither other turns nor the process from ending.
    """
    answer: queue.SimpleQueue[tuple[Any, Exception | None]] = queue.SimpleQueue()

    def work() -> None:
        try:
            answer.put((ask(), None))
        except Exception as error:
            answer.put((None, error))

    context = contextvars.copy_context()
    threading.Thread(target=context.run, args=(work,), daemon=True, name="jazzmine-deadline").start()
    try:
        value, error = answer.get(timeout=seconds)
    except queue.Empty:
        raise _late(log) from None
    if error is not None:
        raise error
    return value


def _late(log: CallLog | None) -> Exception:
    """The error of an effect that the deadline cut off; a call to a language model was made all the same."""
    late = DeadlineError("the deadline of the turn has passed")
    return late if log is None else PredictFailed(late, log.calls(late))


def _drive(steps: Steps[T], perform: Callable[[Effect], Any]) -> T:
    value: Any = None
    error: Exception | None = None
    while True:
        try:
            effect = steps.throw(error) if error is not None else steps.send(value)
        except StopIteration as stop:
            return stop.value  # type: ignore[no-any-return]
        value, error = None, None
        try:
            value = perform(effect)
        except Exception as problem:
            error = problem


def _perform(effect: Effect, owner: _Predictors, bindings: Bindings, log: CallLog | None) -> Any:
    if isinstance(effect, Predict):
        assert log is not None
        predictor = owner.predictor(effect.predictor)
        with _logged(log, predictor.lm or _language_model(bindings)):
            prediction = predictor(**effect.inputs, config=dict(effect.config))
        return _predicted(prediction, predictor, log)
    if isinstance(effect, Recall):
        return _recall_port(bindings).recall(
            effect.query,
            k=effect.k,
            summaries=effect.summaries,
            allowed=effect.allowed,
            exclude=effect.exclude,
        )
    if isinstance(effect, Features):
        return _embedder(bindings).features(effect.texts)
    raise TypeError(f"not an effect: {effect!r}")


async def adrive(steps: Steps[T], owner: _Predictors, bindings: Bindings, deadline: float | None = None) -> T:
    """Take the steps without blocking the loop; cancellation from outside goes through.

    Args and meaning as for :func:`drive`.
    """
    began = bindings.clock()
    ends = None if deadline is None else began + deadline

    async def perform(effect: Effect) -> Any:
        if isinstance(effect, Clock):
            return bindings.clock() * 1000.0
        if isinstance(effect, Parallel):
            return list(await asyncio.gather(*(_adrive(part, perform) for part in effect.parts)))
        log = _log_for(effect, bindings, began)
        if ends is None:
            return await _aperform(effect, owner, bindings, log)
        left = ends - bindings.clock()
        if left <= 0:
            raise DeadlineError("the deadline of the turn has passed")
        limit = asyncio.timeout(left)
        try:
            async with limit:
                return await _aperform(effect, owner, bindings, log)
        except TimeoutError as error:
            if limit.expired():
                raise _late(log) from error
            raise

    return await _adrive(steps, perform)


async def _adrive(steps: Steps[T], perform: Callable[[Effect], Awaitable[Any]]) -> T:
    value: Any = None
    error: Exception | None = None
    try:
        while True:
            try:
                effect = steps.throw(error) if error is not None else steps.send(value)
            except StopIteration as stop:
                return stop.value  # type: ignore[no-any-return]
            value, error = None, None
            try:
                value = await perform(effect)
            except Exception as problem:
                error = problem
    finally:
        steps.close()


async def _aperform(effect: Effect, owner: _Predictors, bindings: Bindings, log: CallLog | None) -> Any:
    if isinstance(effect, Predict):
        assert log is not None
        predictor = owner.predictor(effect.predictor)
        with _logged(log, predictor.lm or _language_model(bindings)):
            prediction = await predictor.acall(**effect.inputs, config=dict(effect.config))
        return _predicted(prediction, predictor, log)
    if isinstance(effect, Recall):
        return await _recall_port(bindings).arecall(
            effect.query,
            k=effect.k,
            summaries=effect.summaries,
            allowed=effect.allowed,
            exclude=effect.exclude,
        )
    if isinstance(effect, Features):
        return await _embedder(bindings).afeatures(effect.texts)
    raise TypeError(f"not an effect: {effect!r}")
