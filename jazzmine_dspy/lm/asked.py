"""Which language model is asked in the end, within all that is wrapped around it."""

from __future__ import annotations

from typing import Any

import dspy


def asked(lm: dspy.LM) -> tuple[dspy.LM, Any]:
    """The language model that is asked in the end, within all that is wrapped around it, and its engine."""
    engine = getattr(lm, "engine", "auto")
    while not isinstance(engine, str) and hasattr(engine, "source"):
        engine = engine.source
    if isinstance(native := getattr(engine, "lm", None), dspy.LM):
        # An engine that only asks another language model: what that one would be asked with is not on the outer one.
        return native, "auto"
    return lm, engine


def engine_identity(engine: Any) -> str:
    """What an engine calls itself, else the name of its class."""
    if (identity := getattr(engine, "identity", None)) is not None:
        return str(identity)
    return f"{type(engine).__module__}.{type(engine).__qualname__}"
