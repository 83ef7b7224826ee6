"""Language models: found by name, scripted, replayed and counted.

Nothing is imported before it is used: importing DSPy takes half a second.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jazzmine_dspy.lm.deferred import deferred_lm
    from jazzmine_dspy.lm.engines import AsyncEngine, Engine, ScriptedEngine, scripted_lm
    from jazzmine_dspy.lm.errors import (
        BudgetExhausted,
        EngineError,
        LMContextError,
        LMNotFoundError,
        LMRequestError,
        LMSettingsError,
        LMTimeoutError,
        LMWarning,
        ScriptMissError,
    )
    from jazzmine_dspy.lm.meter import Meter, metered
    from jazzmine_dspy.lm.native import lm_identity
    from jazzmine_dspy.lm.prices import Price, price_of
    from jazzmine_dspy.lm.replay import Recording, ReplayStore, is_replay, recorded_lm, replayed
    from jazzmine_dspy.lm.resolve import resolve_lm

__all__ = [
    "AsyncEngine",
    "BudgetExhausted",
    "Engine",
    "EngineError",
    "LMContextError",
    "LMNotFoundError",
    "LMRequestError",
    "LMSettingsError",
    "LMTimeoutError",
    "LMWarning",
    "Meter",
    "Price",
    "Recording",
    "ReplayStore",
    "ScriptMissError",
    "ScriptedEngine",
    "deferred_lm",
    "is_replay",
    "lm_identity",
    "metered",
    "price_of",
    "recorded_lm",
    "replayed",
    "resolve_lm",
    "scripted_lm",
]

_HOMES = {
    "deferred_lm": "deferred",
    "AsyncEngine": "engines",
    "Engine": "engines",
    "BudgetExhausted": "errors",
    "EngineError": "errors",
    "LMContextError": "errors",
    "LMNotFoundError": "errors",
    "LMRequestError": "errors",
    "LMSettingsError": "errors",
    "LMTimeoutError": "errors",
    "LMWarning": "errors",
    "ScriptMissError": "errors",
    "Meter": "meter",
    "metered": "meter",
    "lm_identity": "native",
    "Price": "prices",
    "price_of": "prices",
    "Recording": "replay",
    "recorded_lm": "replay",
    "ReplayStore": "replay",
    "is_replay": "replay",
    "replayed": "replay",
    "resolve_lm": "resolve",
    "ScriptedEngine": "engines",
    "scripted_lm": "engines",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
