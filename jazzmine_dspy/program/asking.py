"""Calls of a language model through the program's predictors, under the deadline of the turn, and their streams."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

import dspy
import pydantic_core
from dspy.streaming import StreamResponse
from tenacity import AsyncRetrying, Retrying

from jazzmine_dspy.lm.engines import call_deadline
from jazzmine_dspy.models.errors import MemoryUnavailableError
from jazzmine_dspy.program.bindings import READY, Bindings, make_ready
from jazzmine_dspy.program.deadline import Deadline, awithin, in_thread, within
from jazzmine_dspy.program.lm_requests import CallLog, Predicted, PredictFailed, PredictorCall
from jazzmine_dspy.program.module import ProgramModule
from jazzmine_dspy.program.outages import Asking
from jazzmine_dspy.program.prompts import nearest_of, shown
from jazzmine_dspy.signatures.adapter import adapter_in_force

LEFT_BEHIND_S = 0.25
"""Seconds after the deadline until an abandoned call of a language model ends."""


class LMMissingError(MemoryUnavailableError):
    """No language model is bound or configured."""


def ask(call: PredictorCall, owner: ProgramModule, bindings: Bindings, deadline: Deadline) -> Predicted:
    """Call a predictor, and retry during outages of the language model.

    Args:
        call: The call to make.
        owner: Provides the predictors.
        bindings: The language model, and the embedding model that finds demonstrations.
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
    demos = shown(predictor, bindings.embedder, call.query, call.exclude)
    streamed = stream_for(predictor, in_thread=True) is not None

    def once(seconds: float | None) -> Any:
        # An abandoned thread ends soon after the deadline, together with the call of a local model.
        left = None if seconds is None else seconds + LEFT_BEHIND_S
        with call_deadline(left), _logged(log, asking.lm, stream_for(predictor, in_thread=True)):
            return predictor(**call.inputs, **demos, config=dict(call.config))

    def attempt() -> Any:
        seconds = asking.seconds()
        with asking.judged():
            work = functools.partial(once, seconds)
            if streamed and seconds is not None:
                return within_loop(seconds, work, lambda: asking.late(log))
            return within(seconds, work, lambda: asking.late(log))

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
    nearest = functools.partial(shown, predictor, bindings.embedder, call.query, call.exclude)
    demos = await in_thread(nearest) if nearest_of(predictor) else {}

    async def once() -> Any:
        with _logged(log, asking.lm, stream_for(predictor, in_thread=False)):
            return await predictor.acall(**call.inputs, **demos, config=dict(call.config))

    async def attempt() -> Any:
        seconds = asking.seconds()
        with asking.judged():
            return await awithin(seconds, once(), lambda: asking.late(log))

    with asking.ended():
        retrying = AsyncRetrying(sleep=asking.patience.asleep, **asking.rules)
        return _predicted(await retrying(attempt), predictor, log)


def _language_model(bindings: Bindings, predictor: dspy.Predict) -> dspy.LM:
    lm = bindings.lm_for(predictor)
    if lm is None:
        raise LMMissingError("No language model", remedy="Pass lm=… to load(), or call dspy.configure(lm=…).")
    return lm


def _predicted(prediction: Any, predictor: dspy.Predict, log: CallLog) -> Predicted:
    return Predicted({name: prediction[name] for name in predictor.signature.output_fields}, log.calls())


@contextmanager
def _logged(log: CallLog, lm: dspy.LM, stream: TokenStream | None) -> Iterator[None]:
    """Configure a call of the language model, log it, and stream its tokens if requested."""
    log.model = str(lm.model)
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
            log.came_to_nothing(error)
            raise PredictFailed(error, log.calls(error)) from error


T = TypeVar("T")


class TokenStream:
    """DSPy's stream with the listeners at its near end.

    ``dspy.streamify`` reads tokens by the adapter of the settings that its reader has; ours answers in JSON whatever
    that adapter is. So the fields are read here, and what is new of them is sent: text as it is, any other value as
    JSON, when it is whole.

    Args:
        stream: DSPy's own.
        predictor: The predictor whose tokens pass, at one attempt.
    """

    def __init__(self, stream: Any, predictor: dspy.Predict) -> None:
        self._stream = stream
        self._id = id(predictor)
        self._listeners = [one for one in dspy.settings.stream_listeners or () if one.predict is predictor]
        self._sent = ["" for _ in self._listeners]
        self._open = [one.allow_reuse or not one.stream_end for one in self._listeners]
        self._answer = ""

    async def send(self, item: Any) -> None:
        """Send what is new of the fields; anything but a token as it is, and every token where nobody listens."""
        if not self._listeners or getattr(item, "predict_id", None) != self._id:
            await self._stream.send(item)
            return
        for choice in item.choices[:1]:
            self._answer += choice.delta.content or ""
        for response in self._heard():
            await self._stream.send(response)

    def _heard(self) -> Iterator[StreamResponse]:
        values, whole = _partial(self._answer)
        for place, listener in enumerate(self._listeners):
            name = listener.signature_field_name
            if name not in values or not self._open[place]:
                continue
            ended = whole or next(reversed(values)) != name
            value = values[name]
            text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False) if ended else ""
            new = text[len(self._sent[place]) :]
            if new or ended:
                self._sent[place], self._open[place] = text, not ended
                # DSPy asks the listener whether it has heard anything.
                listener.stream_start, listener.stream_end = True, ended
                yield StreamResponse(listener.predict_name, name, new, is_last_chunk=ended)


def _partial(answer: str) -> tuple[dict[str, Any], bool]:
    """The fields of an answer of which only the beginning is there, and whether it is all of it."""
    begin = answer.find("{")
    if begin < 0:
        return {}, False
    for partial in (False, "trailing-strings"):
        with suppress(ValueError):
            fields = pydantic_core.from_json(answer[begin:], allow_partial=partial)
            return (fields if isinstance(fields, dict) else {}), not partial
    return {}, False


def stream_for(predictor: dspy.Predict, *, in_thread: bool) -> TokenStream | None:
    """The stream that a predictor's tokens go to; None where nobody reads them.

    Args:
        predictor: The predictor that is asked.
        in_thread: Whether it is asked in a thread and not in a loop. Tokens reach the reader's loop from a thread of
            AnyIO's alone, such as one of ``dspy.asyncify``; from any other none are sent.
    """
    stream = dspy.settings.send_stream
    if stream is None or (in_thread and not _in_worker_thread()):
        return None
    return TokenStream(stream, predictor)


def _in_worker_thread() -> bool:
    import anyio.from_thread

    try:
        anyio.from_thread.check_cancelled()
    except RuntimeError:
        return False
    return True


def within_loop(seconds: float, ask: Callable[[], T], cut: Callable[[], Exception]) -> T:
    """Wait in a thread of AnyIO's at most ``seconds`` for ``ask``, which runs in another.

    After that raise what ``cut`` gives. What is cut off sends no more tokens.
    """
    import anyio.from_thread
    import anyio.to_thread

    async def wait() -> Callable[[], T]:
        with anyio.move_on_after(seconds):
            value = await anyio.to_thread.run_sync(
                ask, abandon_on_cancel=True, limiter=anyio.CapacityLimiter(1)
            )
            return lambda: value
        raise cut()

    return anyio.from_thread.run(wait)()
