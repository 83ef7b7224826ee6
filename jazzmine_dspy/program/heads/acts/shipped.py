"""The head of acts: the one that comes with the package, and the one that a run trains from it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import lru_cache
from importlib.resources import files
from typing import Self

from safetensors.numpy import load

from jazzmine_dspy.models.commands import Command
from jazzmine_dspy.program.heads.acts.fit import bank_rows, fit_labelled, fit_rows
from jazzmine_dspy.program.heads.acts.model import Acts
from jazzmine_dspy.program.ports import EmbedderPort, HeadExample, HeadState

WEIGHTS = "weights.safetensors"
SHIPPED = "07c39eb98276e19a5f8540876a05fd895b74927d6408c1da99ea8df4622f0171"
"""SHA-256 of the shipped head; what a program decides may change with it."""


def metadata_of(data: bytes) -> dict[str, str]:
    """The metadata of safetensors data, which the library returns for files only: the JSON that its length precedes."""
    held: dict[str, str] = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])["__metadata__"]
    return held


def read_shipped(package: str) -> tuple[HeadState, dict[str, str]]:
    """The state of the head that a package of ours ships, and what its file says of itself.

    Args:
        package: With the file; its metadata are the ``head``'s settings, the fingerprint of the ``embedder``, and what
            the head was fitted on.
    """
    data = files(package).joinpath(WEIGHTS).read_bytes()
    metadata = metadata_of(data)
    return HeadState(load(data), json.loads(metadata["head"])), metadata


@lru_cache(maxsize=1)
def _shipped() -> tuple[Acts, str]:
    state, metadata = read_shipped(__package__)
    return Acts.from_state(state), metadata["embedder"]


def shipped_head(embedder: EmbedderPort | None) -> Acts | None:
    """The shipped head, if it was fitted with this embedding model; else None. Read at the first call."""
    if embedder is None:
        return None
    head, fingerprint = _shipped()
    return head if fingerprint == embedder.fingerprint else None


class ActsHead(Acts):
    """The head of acts, trained on the labels of a run."""

    @classmethod
    def train(
        cls, examples: Sequence[HeadExample[list[Command]]], seed: int, *, embedder: EmbedderPort
    ) -> Self:
        """Fit it on labelled turns, from what the phrase bank taught it on.

        Args:
            examples: Labelled turns.
            seed: Of the draw where they are many.
            embedder: Gives the features of the bank's phrases, where they are not of the bundled model.
        """
        start = shipped_head(embedder) or fit_rows(bank_rows(embedder, 1))
        head, _ = fit_labelled(start, examples, seed)
        return cls.from_state(head.to_state())
