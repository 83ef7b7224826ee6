"""Deciding one turn: by the drivers, or from the decision cache that the program is bound to."""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from typing import Any, Protocol

import dspy

from jazzmine_dspy.lm.native import lm_identity
from jazzmine_dspy.models.base import sha256
from jazzmine_dspy.models.decision import TurnDecision
from jazzmine_dspy.models.turn import Turn
from jazzmine_dspy.program.bindings import Bindings
from jazzmine_dspy.program.decision_cache import DecisionCache
from jazzmine_dspy.program.driver import adrive, drive
from jazzmine_dspy.program.patience import bearing_here
from jazzmine_dspy.program.stage import Steps


class _Program(Protocol):
    """A program, as far as deciding needs it."""

    bindings: Bindings

    @property
    def fingerprint(self) -> str: ...

    def active_predictors(self) -> tuple[str, ...]: ...

    def predictor(self, name: str) -> dspy.Predict: ...

    def steps(self, turn: Turn, exclude: Sequence[str] = ()) -> Steps[TurnDecision]: ...


def decide(program: _Program, turn: Turn, exclude: Sequence[str], deadline: float | None) -> TurnDecision:
    """The decision of a turn."""

    def work() -> TurnDecision:
        return drive(program.steps(turn, exclude), program, program.bindings, deadline)

    cache = _cache(program)
    return work() if cache is None else cache.decide(decision_key(program, turn, exclude), deadline, work)


async def adecide(
    program: _Program, turn: Turn, exclude: Sequence[str], deadline: float | None
) -> TurnDecision:
    """The same without blocking the loop."""

    def work() -> Coroutine[Any, Any, TurnDecision]:
        return adrive(program.steps(turn, exclude), program, program.bindings, deadline)

    cache = _cache(program)
    if cache is None:
        return await work()
    return await cache.adecide(decision_key(program, turn, exclude), deadline, work)


def _cache(program: _Program) -> DecisionCache | None:
    """The cache to use: none where programs are measured, since its answers cost nothing."""
    return program.bindings.cache if bearing_here() is None else None


def decision_key(program: _Program, turn: Turn, exclude: Sequence[str] = ()) -> str:
    """SHA-256 over all that a decision depends on.

    Beyond the turn, its date included, and the program with its flows, that is the language model that is configured
    where none is bound, models and settings of single predictors, and the conversations left out of recall.
    """
    predictors = {name: program.predictor(name) for name in program.active_predictors()}
    configured = dspy.settings.lm if program.bindings.lm is None else None
    return sha256(
        {
            "program": program.fingerprint,
            "turn": turn.digest,
            "exclude": sorted(exclude),
            "lm": _lm(configured) if predictors else None,
            "predictors": {
                name: [_lm(predictor.lm), repr(sorted(predictor.config.items()))]
                for name, predictor in predictors.items()
            },
            "adapter": type(dspy.settings.adapter).__qualname__,
        }
    )


def _lm(lm: Any) -> str | None:
    if lm is None or isinstance(lm, dspy.LM):
        return lm_identity(lm) if lm is not None else None
    # A client of another kind, which says nothing of its settings: it is the same as itself alone.
    return f"{type(lm).__qualname__} {id(lm)}"
