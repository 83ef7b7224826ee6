"""Demonstrations chosen per call: of all that a predictor holds, those of the turns that are nearest to the message."""

from __future__ import annotations

import logging
import threading
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

import dspy

from jazzmine_dspy.models.errors import format_error
from jazzmine_dspy.models.messages import MessageRole
from jazzmine_dspy.models.turn import Turn
from jazzmine_dspy.program.ports import EmbedderPort

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Vectors = NDArray[np.float32]

NEAREST = "nearest"
"""Where the state of a predictor says how many of its demonstrations are shown; without it all are."""

SAID, CONVERSATION = "said", "conversation"
"""Where such a demonstration says what its turn is found by, and whose it is; neither is shown."""

_SHORT = 10
"""Words up to which a message says too little alone."""

_ASKED = 200
"""Characters of what the assistant said before it: its end."""

_KEPT = 4
"""Indices that are kept in memory: a program has one for each predictor."""

log = logging.getLogger("jazzmine_dspy")


def nearest_of(predictor: dspy.Predict) -> int:
    """How many demonstrations a predictor is shown per call; 0 where it is shown all that it holds.

    Example:
        >>> nearest_of(dspy.Predict("question -> answer"))
        0
    """
    return int(getattr(predictor, NEAREST, 0) or 0)


def found_by(turn: Turn) -> str:
    """The text that a turn is found by: the message, and before a short one what it answers.

    Example:
        >>> found_by(Turn(text="the 14th", history=[{"role": "assistant", "text": "On which day?"}]))
        'On which day?\\nthe 14th'
    """
    asked = next(
        (one.text[-_ASKED:].strip() for one in reversed(turn.history) if one.role is MessageRole.ASSISTANT),
        "",
    )
    return f"{asked}\n{turn.text}" if asked and len(turn.text.split()) <= _SHORT else turn.text


def shown(
    predictor: dspy.Predict, embedder: EmbedderPort | None, said: str, exclude: Collection[str]
) -> dict[str, Any]:
    """What a call of a predictor is given beside its inputs: ``demos``, the nearest last; nothing where it shows all.

    Args:
        predictor: Holds the demonstrations.
        embedder: Embeds message and turns; where it is down, the first demonstrations are shown.
        said: What the message is found by.
        exclude: Conversations whose turns must not be shown, while fitting; nor any that say the same then.
    """
    count = nearest_of(predictor)
    if not count or not predictor.demos:
        return {}
    demos = [
        demo
        for demo in predictor.demos
        if not exclude or (demo.get(CONVERSATION) not in exclude and demo.get(SAID) != said)
    ]
    if len(demos) <= count:
        return {"demos": demos}
    if embedder is None:
        return {"demos": demos[:count]}
    try:
        alike = _index(embedder, tuple(str(demo.get(SAID) or "") for demo in predictor.demos))
        query = _unit(embedder.embed([said]))[0]
    except Exception as error:
        log.warning("the nearest demonstrations were not found: %s", format_error(error))
        return {"demos": demos[:count]}
    scores = dict(zip(map(id, predictor.demos), alike @ query, strict=True))
    best = sorted(demos, key=lambda demo: -scores[id(demo)])[:count]
    # The nearest stands last, beside the question.
    return {"demos": best[::-1]}


_LOCK = threading.Lock()
_INDICES: dict[tuple[str, tuple[str, ...]], Vectors] = {}


def _index(embedder: EmbedderPort, texts: tuple[str, ...]) -> Vectors:
    """Vectors of unit length of all texts, made once per process: array of shape (number of texts, size)."""
    key = (embedder.fingerprint, texts)
    with _LOCK:
        if (found := _INDICES.get(key)) is None:
            found = _unit(embedder.embed(list(texts)))
            while len(_INDICES) >= _KEPT:
                del _INDICES[next(iter(_INDICES))]
            _INDICES[key] = found
        return found


def _unit(vectors: Vectors) -> Vectors:
    import numpy as np

    found: Vectors = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-9)
    return found


def marks_of(demo: Any) -> dict[str, Any]:
    """What a demonstration holds beside the fields of its predictor."""
    return {name: demo[name] for name in ("augmented", SAID, CONVERSATION) if demo.get(name)}


def with_nearest(predictor: dspy.Predict, state: dict[str, Any]) -> dict[str, Any]:
    """The state of a predictor, with how many of its demonstrations it is shown."""
    count = nearest_of(predictor)
    return {**state, NEAREST: count} if count else state
