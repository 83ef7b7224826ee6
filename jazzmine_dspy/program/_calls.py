"""What a predictor asks of language models, noted call by call while it happens."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from dspy.utils.callback import BaseCallback

from jazzmine_dspy.models.decision import LMCall, PredictorName
from jazzmine_dspy.models.errors import format_error


@dataclass(frozen=True)
class PredictorCall:
    """One call of one of the program's predictors.

    Args:
        predictor: Its name.
        inputs: The fields that it is given.
        config: Settings of the call: the schema of the answer, and its longest length in tokens.
        query: What nearest demonstrations are looked up by.
        exclude: Conversations whose turns are not shown as demonstrations.
    """

    predictor: str
    inputs: Mapping[str, Any]
    config: Mapping[str, Any]
    query: str = ""
    exclude: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Predicted:
    """The result of a :class:`PredictorCall`; ``refused`` says of fields that could not be read why not."""

    outputs: Mapping[str, Any]
    calls: tuple[LMCall, ...] = ()
    refused: Mapping[str, str] = field(default_factory=dict)


class PredictFailed(Exception):  # noqa: N818 - not an error of its own: it carries one
    """A predictor failed with ``error``, after it had made ``calls``."""

    def __init__(self, error: Exception, calls: tuple[LMCall, ...] = ()) -> None:
        super().__init__(format_error(error))
        self.error = error
        self.calls = calls


class CallLog(BaseCallback):
    """Notes the calls that one predictor makes, as a callback of DSPy's around each of them.

    Thread-safe: at a deadline the waiting thread reads it while the call still hangs in another.

    Args:
        predictor: The predictor's name.
        milliseconds: Time since the decision began.
    """

    def __init__(self, predictor: str, milliseconds: Callable[[], float]) -> None:
        self.model = ""
        """Name of the model that is to be asked, once it is known."""
        self._predictor = cast("PredictorName", predictor)
        self._now = milliseconds
        self._began = milliseconds()
        self._lock = threading.Lock()
        self._open: dict[str, tuple[str, float]] = {}
        self._done: list[LMCall] = []
        self._tracker: Any = None
        self._spent = [0, 0]

    def track(self, tracker: Any) -> None:
        """Read the tokens from another of DSPy's usage trackers from now on."""
        with self._lock:
            self._tracker, self._spent = tracker, [0, 0]

    def on_lm_start(self, call_id: str, instance: Any, inputs: dict[str, Any]) -> None:  # noqa: ARG002
        """A call begins."""
        with self._lock:
            self._open[call_id] = (str(getattr(instance, "model", "")), self._now())

    def on_lm_end(self, call_id: str, outputs: Any, exception: BaseException | None = None) -> None:  # noqa: ARG002
        """A call ends."""
        with self._lock:
            if call_id in self._open:
                model, started = self._open.pop(call_id)
                self._done.append(self._call(model, started, exception))

    def on_adapter_parse_end(
        self,
        call_id: str,  # noqa: ARG002
        outputs: Any,  # noqa: ARG002
        exception: BaseException | None = None,
    ) -> None:
        """An answer was read, or could not be: then the call came to nothing."""
        if exception is None:
            return
        with self._lock:
            if self._done:
                cause = exception.__cause__ or exception
                failed = {"success": False, "error": format_error(cause)}
                self._done[-1] = self._done[-1].model_copy(update=failed)

    def came_to_nothing(self, failure: BaseException) -> None:
        """An attempt failed: all calls so far came to nothing, those that brought something back too."""
        failed = {"success": False, "error": format_error(failure)}
        with self._lock:
            self._done = [call.model_copy(update=failed) if call.success else call for call in self._done]

    def calls(self, failure: BaseException | None = None) -> tuple[LMCall, ...]:
        """The calls so far, in their order; open ones ended now, with ``failure``. A predictor that was asked counts
        as one call at least.
        """
        with self._lock:
            cut = [self._call(model, started, failure) for model, started in self._open.values()]
            return (*self._done, *cut) or (self._call(self.model, self._began, failure),)

    def cut(self, failure: BaseException) -> tuple[LMCall, ...]:
        """The same, and nobody waits for the open ones any more."""
        calls = self.calls(failure)
        with self._lock:
            self._open.clear()
            self._done = list(calls)
        return calls

    def _call(self, model: str, started: float, failure: BaseException | None) -> LMCall:
        usage = {} if self._tracker is None else self._tracker.usage_data
        entries = [entry for calls in list(usage.values()) for entry in calls]
        totals = [
            sum(int(entry.get(kind) or 0) for entry in entries)
            for kind in ("prompt_tokens", "completion_tokens")
        ]
        prompt, completion = (max(0, now - before) for now, before in zip(totals, self._spent, strict=True))
        self._spent = totals
        return LMCall(
            predictor=self._predictor,
            model=model,
            prompt_tokens=prompt,
            completion_tokens=completion,
            started_ms=max(0.0, started),
            latency_ms=max(0.0, self._now() - started),
            success=failure is None,
            error=None if failure is None else format_error(failure),
        )
