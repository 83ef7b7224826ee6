"""Language models: found by name, embedded, scripted, replayed and counted.

Nothing is imported before it is used: importing DSPy takes half a second.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jazzmine_dspy.lm.counting import Meter, metered
    from jazzmine_dspy.lm.deferred import deferred_lm
    from jazzmine_dspy.lm.errors import (
        BudgetExhausted,
        EngineError,
        LMContextError,
        LMCrashedError,
        LMNotFoundError,
        LMRequestError,
        LMSchemaError,
        LMSettingsError,
        LMTimeoutError,
        LMWarning,
        ScriptMissError,
    )
    from jazzmine_dspy.lm.identity import lm_identity
    from jazzmine_dspy.lm.local import AsyncLocalEngine, LocalEngine, LocalSettings, call_deadline
    from jazzmine_dspy.lm.prices import Price, price_of
    from jazzmine_dspy.lm.recording import Recording, recorded_lm
    from jazzmine_dspy.lm.replay import ReplayStore, is_replayed, replayed
    from jazzmine_dspy.lm.resolve import resolve_lm
    from jazzmine_dspy.lm.scripted import ScriptedEngine, scripted_lm

_HOMES = {
    "counting": ("Meter", "metered"),
    "deferred": ("deferred_lm",),
    "errors": (
        "BudgetExhausted",
        "EngineError",
        "LMContextError",
        "LMCrashedError",
        "LMNotFoundError",
        "LMRequestError",
        "LMSchemaError",
        "LMSettingsError",
        "LMTimeoutError",
        "LMWarning",
        "ScriptMissError",
    ),
    "local": ("AsyncLocalEngine", "LocalEngine", "LocalSettings", "call_deadline"),
    "prices": ("Price", "price_of"),
    "recording": ("Recording", "recorded_lm"),
    "replay": ("ReplayStore", "is_replayed", "replayed"),
    "identity": ("lm_identity",),
    "resolve": ("resolve_lm",),
    "scripted": ("ScriptedEngine", "scripted_lm"),
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [  # noqa: RUF022 - by module, as above
    "Meter",
    "metered",
    "deferred_lm",
    "BudgetExhausted",
    "EngineError",
    "LMContextError",
    "LMCrashedError",
    "LMNotFoundError",
    "LMRequestError",
    "LMSchemaError",
    "LMSettingsError",
    "LMTimeoutError",
    "LMWarning",
    "ScriptMissError",
    "AsyncLocalEngine",
    "LocalEngine",
    "LocalSettings",
    "call_deadline",
    "Price",
    "price_of",
    "Recording",
    "recorded_lm",
    "ReplayStore",
    "is_replayed",
    "replayed",
    "lm_identity",
    "resolve_lm",
    "ScriptedEngine",
    "scripted_lm",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
