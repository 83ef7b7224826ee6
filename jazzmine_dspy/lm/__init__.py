"""Language models: found by name, embedded, scripted, replayed and counted.

Nothing is imported before it is used: importing DSPy takes half a second.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jazzmine_dspy.lm.deadline import call_deadline as call_deadline
    from jazzmine_dspy.lm.deferred import deferred_lm as deferred_lm
    from jazzmine_dspy.lm.engines import AsyncEngine as AsyncEngine
    from jazzmine_dspy.lm.engines import Engine as Engine
    from jazzmine_dspy.lm.errors import (
        BudgetExhausted as BudgetExhausted,
    )
    from jazzmine_dspy.lm.errors import (
        EngineError as EngineError,
    )
    from jazzmine_dspy.lm.errors import (
        LMContextError as LMContextError,
    )
    from jazzmine_dspy.lm.errors import (
        LMCrashedError as LMCrashedError,
    )
    from jazzmine_dspy.lm.errors import (
        LMNotFoundError as LMNotFoundError,
    )
    from jazzmine_dspy.lm.errors import (
        LMRequestError as LMRequestError,
    )
    from jazzmine_dspy.lm.errors import (
        LMSchemaError as LMSchemaError,
    )
    from jazzmine_dspy.lm.errors import (
        LMSettingsError as LMSettingsError,
    )
    from jazzmine_dspy.lm.errors import (
        LMTimeoutError as LMTimeoutError,
    )
    from jazzmine_dspy.lm.errors import (
        LMWarning as LMWarning,
    )
    from jazzmine_dspy.lm.errors import (
        ScriptMissError as ScriptMissError,
    )
    from jazzmine_dspy.lm.local import LocalEngine as LocalEngine
    from jazzmine_dspy.lm.local import LocalSettings as LocalSettings
    from jazzmine_dspy.lm.meter import Meter as Meter
    from jazzmine_dspy.lm.meter import metered as metered
    from jazzmine_dspy.lm.native import lm_identity as lm_identity
    from jazzmine_dspy.lm.prices import Price as Price
    from jazzmine_dspy.lm.prices import price_of as price_of
    from jazzmine_dspy.lm.recording import Recording as Recording
    from jazzmine_dspy.lm.recording import recorded_lm as recorded_lm
    from jazzmine_dspy.lm.replay import (
        ReplayStore as ReplayStore,
    )
    from jazzmine_dspy.lm.replay import (
        is_replay as is_replay,
    )
    from jazzmine_dspy.lm.replay import (
        replayed as replayed,
    )
    from jazzmine_dspy.lm.resolve import resolve_lm as resolve_lm
    from jazzmine_dspy.lm.scripted import ScriptedEngine as ScriptedEngine
    from jazzmine_dspy.lm.scripted import scripted_lm as scripted_lm

_HOMES = {
    "call_deadline": "deadline",
    "deferred_lm": "deferred",
    "AsyncEngine": "engines",
    "Engine": "engines",
    "BudgetExhausted": "errors",
    "EngineError": "errors",
    "LMContextError": "errors",
    "LMCrashedError": "errors",
    "LMNotFoundError": "errors",
    "LMRequestError": "errors",
    "LMSchemaError": "errors",
    "LMSettingsError": "errors",
    "LMTimeoutError": "errors",
    "LMWarning": "errors",
    "ScriptMissError": "errors",
    "LocalEngine": "local",
    "LocalSettings": "local",
    "Meter": "meter",
    "metered": "meter",
    "lm_identity": "native",
    "Price": "prices",
    "price_of": "prices",
    "Recording": "recording",
    "recorded_lm": "recording",
    "ReplayStore": "replay",
    "is_replay": "replay",
    "replayed": "replay",
    "resolve_lm": "resolve",
    "ScriptedEngine": "scripted",
    "scripted_lm": "scripted",
}
__all__ = [*_HOMES]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
