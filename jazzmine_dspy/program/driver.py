"""Two drivers of the same steps: one waits, one awaits. Deadline and clock belong to them, never to a turn."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import queue
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator
from contextlib import contextmanager, suppress
from time import monotonic
from typing import Any, Protocol, TypeVar

import dspy

from jazzmine_dspy.lm.engines import call_deadline
from jazzmine_dspy.models.awaiting import Awaiting, AwaitingGroup
from jazzmine_dspy.models.errors import EmbeddingError, MemoryUnavailableError
from jazzmine_dspy.program._calls import CallLog
from jazzmine_dspy.program.bindings import Bindings
from jazzmine_dspy.program.first_call import LOADING_S, is_ready, make_ready, unloaded
from jazzmine_dspy.program.nearest import nearest_of, shown
from jazzmine_dspy.program.outages import Asking, late
from jazzmine_dspy.program.own_loop import LOOK_S
from jazzmine_dspy.program.patience import deadline_in_force
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
from jazzmine_dspy.program.streaming import TokenStream, stream_for, within_loop
from jazzmine_dspy.signatures.adapter import adapter_in_force

T = TypeVar("T")

LEFT_BEHIND_S = 0.25
"""Seconds after its deadline at which a language model's call ends that nobody waits for any more."""


class _Predictors(Protocol):
    def predictor(self, name: str) -> dspy.Predict: ...


class LMMissingError(MemoryUnavailableError):
    """No language model is bound or configured."""


def _language_model(bindings: Bindings, predictor: dspy.Predict) -> dspy.LM:
    lm = bindings.lm_for(predictor)
    if lm is None:
        raise LMMissingError("No language model", remedy="Pass lm=… to load(), or call dspy.configure(lm=…).")
    return lm


def _predicted(prediction: Any, predictor: dspy.Predict, log: CallLog) -> Predicted:
    return Predicted({name: prediction[name] for name in predictor.signature.output_fields}, log.calls())


class _Limit:
    """The deadline of a decision, by the driver's clock."""

    def __init__(self, clock: Callable[[], float], deadline: float | None) -> None:
        deadline = deadline_in_force(deadline)
        self.clock = clock
        self.began = clock()
        self.ends = None if deadline is None else self.began + deadline

    def left(self) -> float | None:
        """Seconds left; None is no limit.

        Raises:
            DeadlineError: there are none.
        """
        left = None if self.ends is None else self.ends - self.clock()
        if left is not None and left <= 0:
            raise late()
        return left

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """What is done within it has nothing to do with the decision, and takes nothing of its time."""
        since = self.clock()
        try:
            yield
        finally:
            if self.ends is not None:
                self.ends += self.clock() - since

    def log(self, effect: Predict) -> CallLog:
        """A log whose times count from the beginning of the decision."""
        return CallLog(effect.predictor, lambda: (self.clock() - self.began) * 1000.0)


@contextmanager
def _logged(log: CallLog, lm: dspy.LM, stream: TokenStream | None) -> Iterator[None]:
    """Ask this language model, note what is asked of it, and stream its tokens where somebody reads them."""
    log.model, since = str(lm.model), log.made
    settings = {
        "adapter": adapter_in_force(),
        "callbacks": [*dspy.settings.callbacks, log],
        "send_stream": stream,
    }
    with dspy.context(lm=lm, **settings), dspy.track_usage() as tracker:
        log.track(tracker)
        try:
            yield
        except Exception as error:
            log.came_to_nothing(since, error)
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
            predictor is waited for; None for no limit. All attempts at a call share it.
    """
    limit = _Limit(bindings.clock, deadline)

    def perform(effect: Effect) -> Any:
        if isinstance(effect, Clock):
            return bindings.clock() * 1000.0
        if isinstance(effect, Parallel):
            return _parts(effect.parts, perform)
        limit.left()
        if isinstance(effect, Predict):
            return _ask(effect, owner, bindings, limit)
        if (load := unloaded(bindings)) is not None:
            # What keeps it from loading is met again by the effect, and told.
            with limit.stopped(), suppress(Exception):
                _within(LOADING_S, load, late)
        return _within(limit.left(), lambda: _perform(effect, bindings), late)

    return _drive(steps, perform)


def _ask(effect: Predict, owner: _Predictors, bindings: Bindings, limit: _Limit) -> Predicted:
    """Ask a predictor, again where an outage kept the language model from answering."""
    predictor, log = owner.predictor(effect.predictor), limit.log(effect)
    lm = _language_model(bindings, predictor)
    if not is_ready(lm):
        with limit.stopped():
            make_ready(lm)
    asking = Asking(lm, limit.clock, limit.ends)
    demos = shown(predictor, bindings.embedder, effect.said, effect.exclude)

    streamed = stream_for(predictor, in_thread=True) is not None

    def once(seconds: float | None) -> Any:
        # The thread that is left behind ends soon after, and with it a local model's call.
        left = None if seconds is None else seconds + LEFT_BEHIND_S
        with call_deadline(left), _logged(log, asking.lm, stream_for(predictor, in_thread=True)):
            return predictor(**effect.inputs, **demos, config=dict(effect.config))

    def attempt() -> Any:
        seconds = asking.seconds()
        with asking.judged():
            ask = functools.partial(once, seconds)
            return _within(seconds, ask, lambda: asking.late(log), streamed=streamed)

    with asking.ended():
        return _predicted(asking.retrying()(attempt), predictor, log)


def _within(
    seconds: float | None, ask: Callable[[], T], cut: Callable[[], Exception], *, streamed: bool = False
) -> T:
    """Wait at most ``seconds`` for an effect, None is no limit; after that raise what ``cut`` gives.

    A thread is the only way to stop waiting for a call that cannot be interrupted. It is a daemon, and one of its own
    for each effect: what hangs keeps neither other turns nor the process from ending. The wait is in short steps, so
    that an interrupt reaches a thread that waits too (:func:`~jazzmine_dspy.program.own_loop.outside_loop`). Where
    tokens are streamed it has to be one of AnyIO's.
    """
    if seconds is None:
        return ask()
    if streamed:
        return within_loop(seconds, ask, cut)
    answer: queue.SimpleQueue[Callable[[], T]] = queue.SimpleQueue()

    def work() -> None:
        try:
            value = ask()
        except BaseException as error:
            # An interrupt too: nobody would look for it in this thread.
            answer.put(functools.partial(_raise, error))
        else:
            answer.put(lambda: value)

    context = contextvars.copy_context()
    threading.Thread(target=context.run, args=(work,), daemon=True, name="jazzmine-deadline").start()
    ends = monotonic() + seconds
    while True:
        left = max(0.0, ends - monotonic())
        try:
            found = answer.get(timeout=min(left, LOOK_S))
        except queue.Empty:
            if left <= LOOK_S:
                raise cut() from None
        else:
            return found()


def _raise(error: BaseException) -> Any:
    raise error


def _parts(parts: Iterable[Steps[T]], perform: Callable[[Effect], Any]) -> list[T]:
    """What comes of each part; where one awaits an answer, the others are asked about all the same."""
    found, gathered = [], AwaitingGroup()
    for part in parts:
        try:
            found.append(_drive(part, perform))
        except Awaiting as awaiting:
            gathered.add(awaiting)
    gathered.check()
    return found


async def _aparts(parts: Iterable[Steps[T]], perform: Callable[[Effect], Awaitable[Any]]) -> list[T]:
    places: dict[Steps[T], T] = {}
    listed, gathered = list(parts), AwaitingGroup()

    async def take(part: Steps[T]) -> None:
        try:
            places[part] = await _adrive(part, perform)
        except Awaiting as awaiting:
            gathered.add(awaiting)

    await asyncio.gather(*(take(part) for part in listed))
    gathered.check()
    return [places[part] for part in listed]


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


def _perform(effect: Effect, bindings: Bindings) -> Any:
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
    limit = _Limit(bindings.clock, deadline)

    async def perform(effect: Effect) -> Any:
        if isinstance(effect, Clock):
            return bindings.clock() * 1000.0
        if isinstance(effect, Parallel):
            return await _aparts(effect.parts, perform)
        limit.left()
        if isinstance(effect, Predict):
            return await _aask(effect, owner, bindings, limit)
        if (load := unloaded(bindings)) is not None:
            # What keeps it from loading is met again by the effect, and told.
            with limit.stopped(), suppress(Exception):
                await asyncio.to_thread(_within, LOADING_S, load, late)
        return await _awithin(limit.left(), _aperform(effect, bindings), late)

    return await _adrive(steps, perform)


async def _aask(effect: Predict, owner: _Predictors, bindings: Bindings, limit: _Limit) -> Predicted:
    predictor, log = owner.predictor(effect.predictor), limit.log(effect)
    lm = _language_model(bindings, predictor)
    if not is_ready(lm):
        with limit.stopped():
            await asyncio.to_thread(make_ready, lm)
    asking = Asking(lm, limit.clock, limit.ends)
    chosen = functools.partial(shown, predictor, bindings.embedder, effect.said, effect.exclude)
    demos = await asyncio.to_thread(chosen) if nearest_of(predictor) else {}

    async def once() -> Any:
        with _logged(log, asking.lm, stream_for(predictor, in_thread=False)):
            return await predictor.acall(**effect.inputs, **demos, config=dict(effect.config))

    async def attempt() -> Any:
        seconds = asking.seconds()
        with asking.judged():
            return await _awithin(seconds, once(), lambda: asking.late(log))

    with asking.ended():
        return _predicted(await asking.aretrying()(attempt), predictor, log)


async def _awithin(seconds: float | None, asked: Coroutine[Any, Any, T], cut: Callable[[], Exception]) -> T:
    limit = asyncio.timeout(seconds)
    try:
        async with limit:
            return await asked
    except TimeoutError as error:
        if limit.expired():
            raise cut() from error
        raise


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


async def _aperform(effect: Effect, bindings: Bindings) -> Any:
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
