"""What a head of selection knows, as arrays and JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jazzmine_dspy.models.base import canonical_json
from jazzmine_dspy.models.errors import ArtifactError
from jazzmine_dspy.program.clauses import ClauseRule
from jazzmine_dspy.program.heads._blend import NEAR, Blend, OpenSet, Space, Trust
from jazzmine_dspy.program.heads._lexical import Lexical
from jazzmine_dspy.program.ports import HeadState

FORMAT = 2
FEATURES = "selection/2"
"""Name of what a head sees of a turn; to be raised with every change of it."""


def to_state(
    labels: Sequence[str],
    weights: NDArray[Any],
    bias: NDArray[Any],
    *,
    lexical: Lexical | None,
    blend: Blend,
    open_set: OpenSet,
    trust: Trust,
    space: Space | None,
    rule: ClauseRule | None,
    near: float | None,
) -> HeadState:
    """The whole head."""
    arrays: dict[str, NDArray[Any]] = {"weights": weights, "bias": bias}
    settings: dict[str, Any] = {
        "format": FORMAT,
        "features": FEATURES,
        "labels": list(labels),
        "blend": blend._asdict(),
        "trust": trust._asdict(),
        "open_set": open_set._asdict() | {"threshold": max(open_set.threshold, -1e30)},
        "rule": None if rule is None else rule.model_dump(mode="json"),
    }
    if near != NEAR:
        settings["near"] = near
    if lexical is not None:
        grams = canonical_json([lexical.words, lexical.pieces]).encode()
        arrays |= {
            "lexical.grams": np.frombuffer(grams, dtype=np.uint8),
            "lexical.idf": lexical.idf,
            "lexical.weights": lexical.weights,
            "lexical.scales": lexical.scales,
            "lexical.bias": lexical.bias,
        }
    if space is not None:
        arrays |= {"space.whitening": space.whitening, "space.means": space.means}
    return HeadState(arrays, settings)


def from_state(state: HeadState) -> tuple[list[str], NDArray[Any], NDArray[Any], dict[str, Any]]:
    """Labels, weights, bias, and the further arguments of a head.

    Raises:
        ArtifactError: of another format, or of other features.
    """
    arrays, settings = state
    if settings["format"] != FORMAT:
        raise ArtifactError(f"The head has the format {settings['format']}, this version reads {FORMAT}")
    if settings["features"] != FEATURES:
        raise ArtifactError(f"The head was trained on other features ({settings['features']})")
    parts: dict[str, Any] = {
        "blend": _from_json(Blend, settings["blend"]),
        "trust": _from_json(Trust, settings["trust"]),
        "open_set": _from_json(OpenSet, settings["open_set"]),
        "near": None if settings.get("near", NEAR) is None else float(settings.get("near", NEAR)),
    }
    if "lexical.grams" in arrays:
        words, pieces = json.loads(arrays["lexical.grams"].tobytes())
        lexical = {name: arrays[f"lexical.{name}"] for name in ("idf", "weights", "scales", "bias")}
        rows = len(words) + len(pieces)
        if {len(lexical["idf"]), len(lexical["weights"]), len(lexical["scales"])} != {rows}:
            raise ArtifactError("The n-grams of a head do not fit its weights")
        parts["lexical"] = Lexical(words, pieces, **lexical)
    if "space.means" in arrays:
        parts["space"] = Space(arrays["space.whitening"], arrays["space.means"])
    if settings["rule"] is not None:
        parts["rule"] = ClauseRule.model_validate(settings["rule"])
    return settings["labels"], arrays["weights"], arrays["bias"], parts


def _from_json(kind: Any, fields: dict[str, Any]) -> Any:
    """A named tuple from its JSON form."""
    return kind(
        **{name: tuple(value) if isinstance(value, list) else value for name, value in fields.items()}
    )
