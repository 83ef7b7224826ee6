"""What a model at its server takes and does other than the tables say, as its own answers have shown."""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass, field
from typing import Any, Literal

import dspy

from jazzmine_dspy.lm.asked import asked, engine_identity

LIMITS = ("max_completion_tokens", "max_tokens")
"""Names that providers give the limit of an answer."""


@dataclass
class Quirks:
    """What is known of one model at one server.

    Args:
        form: What is asked for in the place of a schema, which the provider refuses; "" where it refused none.
        refused: Names of parameters that it refuses: ``temperature`` and those of :data:`LIMITS`.
        thinks: Whether its thoughts count as part of the answer, so that a short limit leaves no room for one.
        most: The largest limit that is sent, since it refuses larger ones; None where it refused none.
    """

    form: Literal["", "json", "none"] = ""
    refused: set[str] = field(default_factory=set)
    thinks: bool = False
    most: int | None = None


_lock = threading.Lock()
_known: dict[str, Quirks] = {}


def quirks_of(lm: dspy.LM) -> Quirks:
    """What is known of a language model, within all that is wrapped around it; shared by all that ask it."""
    inner, engine = asked(lm)
    with _lock:
        return _known.setdefault(_server_of(inner, engine), Quirks())


def named_by_environment() -> str:
    """The address of OpenAI's protocol in the environment; "" where none is set."""
    return os.environ.get("OPENAI_API_BASE") or os.environ.get("OPENAI_BASE_URL") or ""


def _server_of(lm: dspy.LM, engine: Any) -> str:
    """The model and the server that it is asked at."""
    if not isinstance(engine, str):
        return f"{lm.model} {engine_identity(engine)}"
    return f"{lm.model} {lm.kwargs.get('api_base') or lm.kwargs.get('base_url') or named_by_environment()}"
