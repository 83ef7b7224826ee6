"""Language models: found by name, scripted, replayed and counted."""

from jazzmine_dspy.lm.deferred import deferred_lm
from jazzmine_dspy.lm.engines import AsyncEngine, Engine, ScriptedEngine, scripted_lm
from jazzmine_dspy.lm.errors import (
    BudgetExhausted,
    EngineError,
    LMContextError,
    LMNotFoundError,
    LMRequestError,
    LMSettingsError,
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
