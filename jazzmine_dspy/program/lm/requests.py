"""A call of a language model for a turn: its inputs, the schema of its answer, its result, and the log of it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from jazzmine_dspy.lm.dspy_api import BaseCallback
from jazzmine_dspy.models.decision import LMCall, PredictorName, Recalled
from jazzmine_dspy.models.errors import format_error
from jazzmine_dspy.program.lm import render
from jazzmine_dspy.program.lm.render import Addresses
from jazzmine_dspy.program.state import TurnState
from jazzmine_dspy.signatures.answers import ALIASES
from jazzmine_dspy.signatures.contract import CONTRACTS
from jazzmine_dspy.signatures.schema import response_format


@dataclass(frozen=True)
class PredictorCall:
    """One call of one of the program's predictors.

    Args:
        predictor: Its name.
        inputs: The fields that it is given.
        config: Settings of the call: the schema of the answer, and its longest length in tokens.
    """

    predictor: str
    inputs: Mapping[str, Any]
    config: Mapping[str, Any]


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


_MAX_TOKENS = {"enhance": 400, "select": 64, "understand": 640, "fused": 1024}
_SHORT = 600
"""Longest message, in bytes, whose answer fits these limits; longer ones get one more token per two bytes."""
_LIKELY, _DESCRIBED = 0.7, 3
"""Share of the best score from which on a flow is likely to start, and how many of those are described at most, or one
while a flow runs."""

_INTENTS = 60
"""Most names in an answer schema: with more of them decoding is slow, and hosted models reject the schema."""


def offered(state: TurnState) -> list[Recalled]:
    """Return the flows that a prompt offers to start: the recalled ones, or a whole small registry if recall is down.

    The running flow and paused ones are no candidates: they go on, or are resumed.
    """
    there = {state.turn.flow, *state.turn.paused}
    if state.recalled:
        return [one for one in state.recalled if one.name not in there][: state.policy.top_k]
    names = [name for name in state.choosable if name not in there]
    return [Recalled(name, 0.0) for name in names] if len(names) <= len(ALIASES) else []


def intents(state: TurnState, candidates: Sequence[Recalled]) -> list[str] | None:
    """Return the flows that an intent may name: choosable or active ones; the likeliest of a large catalogue.

    None if a schema cannot list them: there are no flows, or too many and no candidates.
    """
    turn = state.turn
    alive = {turn.flow, *turn.paused}
    open_to = set(state.choosable)
    if not state.registry or (len(open_to) > _INTENTS and not candidates):
        return None
    if len(open_to) > _INTENTS:
        open_to &= {candidate.name for candidate in candidates}
    return [name for name in state.registry if name in open_to or name in alive]


def addresses_of(state: TurnState, predictor: str) -> Addresses:
    """Return the flows of a call with the names of their slots, and the letters of the offered flows."""
    lettered = [one.name for one in offered(state)] if predictor in ("select", "fused") else []
    return Addresses(state.turn, state.registry, lettered, state.selected)


def request_for(state: TurnState, predictor: str) -> PredictorCall:
    """Build the call of a predictor for a turn: its inputs and the schema of its answer."""
    turn, policy, registry = state.turn, state.policy, state.registry
    candidates, addresses = offered(state), addresses_of(state, predictor)
    selects = predictor == "select"
    best = max((one.score for one in candidates), default=0.0)
    most = _DESCRIBED if turn.flow is None else 1
    near = [one for one in candidates if one.score >= _LIKELY * best][: most if best else None]
    likely = {one.name: one.near for one in (candidates if selects else near)}
    amounts = any(each.slot.type == "money" for each in addresses.slots)
    every = {
        "about": registry.about,
        "flows_offered": render.flows_offered(addresses, likely, slots=not selects, effects=selects),
        "situation": render.situation(turn, registry.currency if amounts and not selects else ""),
        "history": (
            render.last_messages(turn, policy.history_shown)
            if predictor == "understand"
            else render.current_episode(turn, policy.history_window)
        ),
        "context": render.context_snippets(turn),
        "message": render.message(
            turn, state.query or None if predictor in ("select", "understand") else None
        ),
    }
    unlikely = {one.name for one in candidates} - {*likely}
    schema = response_format(
        predictor,
        turn,
        letters=len(candidates),
        slots=addresses.slots,
        described=[each.slot for each in addresses.slots if each.flow not in unlikely],
        intents=intents(state, candidates),
        max_commands=policy.max_commands,
    )
    limit = _MAX_TOKENS[predictor]
    if not selects:
        # The rewrite and the values repeat text of the message.
        limit += max(0, len(render.message(turn).encode("utf-8", "replace")) - _SHORT) // 2
    config = {"response_format": schema, "max_tokens": limit}
    inputs = {name: every[name] for name in CONTRACTS[predictor].signature.input_fields}
    return PredictorCall(predictor, inputs, config)
