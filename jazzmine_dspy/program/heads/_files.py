"""What a head of selection knows, as arrays and JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from jazzmine_dspy.models.base import canonical_json
from jazzmine_dspy.models.errors import ArtifactError
from jazzmine_dspy.program.clauses import ClauseRule
from jazzmine_dspy.program.heads._blend import Blend, Trust
from jazzmine_dspy.program.heads._lexical import Lexical
from jazzmine_dspy.program.heads._open import NEAR, OpenSet, Space
from jazzmine_dspy.program.ports import HeadState

if TYPE_CHECKING:
    from numpy.typing import NDArray

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
    said: dict[str, Any] = {
        "format": FORMAT,
        "features": FEATURES,
        "labels": list(labels),
        "blend": blend._asdict(),
        "trust": trust._asdict(),
        "open_set": open_set._asdict() | {"threshold": max(open_set.threshold, -1e30)},
        "rule": None if rule is None else rule.model_dump(mode="json"),
    }
    if near != NEAR:
        said["near"] = near
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
    return HeadState(arrays, said)


def from_state(state: HeadState) -> tuple[list[str], NDArray[Any], NDArray[Any], dict[str, Any]]:
    """Labels, weights, bias, and the further arguments of a head.

    Raises:
        ArtifactError: of another format, or of other features.
    """
    arrays, said = state
    if said["format"] != FORMAT:
        raise ArtifactError(f"The head has the format {said['format']}, this version reads {FORMAT}")
    if said["features"] != FEATURES:
        raise ArtifactError(f"The head was trained on other features ({said['features']})")
    parts: dict[str, Any] = {
        "blend": _tupled(Blend, said["blend"]),
        "trust": _tupled(Trust, said["trust"]),
        "open_set": _tupled(OpenSet, said["open_set"]),
        "near": None if said.get("near", NEAR) is None else float(said.get("near", NEAR)),
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
    if said["rule"] is not None:
        parts["rule"] = ClauseRule.model_validate(said["rule"])
    return said["labels"], arrays["weights"], arrays["bias"], parts


def _tupled(kind: Any, said: dict[str, Any]) -> Any:
    """A named tuple from its JSON form."""
    return kind(**{name: tuple(value) if isinstance(value, list) else value for name, value in said.items()})
