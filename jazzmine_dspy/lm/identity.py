"""What the answers of a language model depend on, as one line: the key of recorded answers and of decisions."""

from __future__ import annotations

import hashlib
import json
from urllib.parse import urlsplit

import dspy
from dspy.clients.backend_selection import CLIENT_KEYS

from jazzmine_dspy.lm.asked import asked, engine_identity
from jazzmine_dspy.lm.fitting import fitted


def lm_identity(lm: dspy.LM) -> str:
    """All that an answer of a language model to a given request depends on, as one line; without secrets.

    The model's name, its weights by SHA-256 where they are local, the engine's settings, sampling settings,
    and of an address only a digest.
    """
    lm, engine = asked(fitted(lm))
    kwargs = {key: value for key, value in lm.kwargs.items() if key not in CLIENT_KEYS and value is not None}
    parts = [lm.model, lm.model_type, json.dumps(kwargs, sort_keys=True, default=str)]
    if not isinstance(engine, str):
        parts.append(engine_identity(engine))
    elif address := lm.kwargs.get("api_base") or lm.kwargs.get("base_url"):
        parts.append("at " + hashlib.sha256(_without_user(str(address)).encode()).hexdigest()[:16])
    return " ".join(parts)


def _without_user(address: str) -> str:
    parts = urlsplit(address)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2], query="").geturl()
