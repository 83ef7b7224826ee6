"""DSPy's streams: tokens of a predictor on their way to ``dspy.streamify``, and waiting for them in a thread."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import dspy
import pydantic_core
from dspy.streaming import StreamResponse

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
    try:
        found = pydantic_core.from_json(answer[begin:], allow_partial="trailing-strings")
    except ValueError:
        return {}, False
    return (found if isinstance(found, dict) else {}), answer.rstrip().endswith("}") and _is_json(
        answer[begin:]
    )


def _is_json(text: str) -> bool:
    try:
        pydantic_core.from_json(text)
    except ValueError:
        return False
    return True


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
