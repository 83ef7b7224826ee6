"""The head of acts: the one that comes with the package, and the one that a run trains from it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from importlib.resources import files
from typing import TYPE_CHECKING, Self

from jazzmine_dspy.models.base import sha256
from jazzmine_dspy.models.commands import Command
from jazzmine_dspy.program.heads.acts.bank import FILE
from jazzmine_dspy.program.heads.acts.fit import fit_bank, fit_labelled
from jazzmine_dspy.program.heads.acts.model import Acts
from jazzmine_dspy.program.ports import EmbedderPort, HeadExample

if TYPE_CHECKING:
    from jazzmine_dspy.program.ports import EmbedderPort


WEIGHTS = "weights.safetensors"
SHIPPED = "07c39eb98276e19a5f8540876a05fd895b74927d6408c1da99ea8df4622f0171"
"""SHA-256 of the shipped head; what a program decides may change with it."""


@lru_cache(maxsize=1)
def _read() -> tuple[Acts, str, tuple[str, str]]:
    """The head, the fingerprint of its embedding model, and the SHA-256 of the bank and registries it was fitted on."""
    import json

    from safetensors.numpy import load

    from jazzmine_dspy.program.ports import HeadState

    data = files(__package__).joinpath(WEIGHTS).read_bytes()
    metadata = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])["__metadata__"]
    state = json.loads(metadata["head"])
    fitted = (metadata["bank"], metadata["practice"])
    return Acts.from_state(HeadState(load(data), state)), metadata["embedder"], fitted


def shipped_head(embedder: EmbedderPort | None) -> Acts | None:
    """The shipped head, if it was fitted with this embedding model; else None. Read at the first call."""
    if embedder is None:
        return None
    head, fingerprint, _ = _read()
    return head if fingerprint == embedder.fingerprint else None


def fitted_on() -> tuple[str, str]:
    """SHA-256 of the phrase bank and of the practice registries that the shipped weights were fitted on."""
    return _read()[2]


def bank_sha256() -> str:
    """SHA-256 of the phrase bank that is installed."""
    return sha256(files(__package__).joinpath(FILE).read_text("utf-8"))


def write(head: Acts, embedder: EmbedderPort, practice: str) -> bytes:
    """What the shipped file holds; ``practice`` is the SHA-256 of the registries that it was fitted on."""
    from safetensors.numpy import save

    from jazzmine_dspy.models.base import canonical_json

    state = head.to_state()
    metadata = {
        "head": canonical_json(state.settings),
        "embedder": embedder.fingerprint,
        "bank": bank_sha256(),
        "practice": practice,
    }
    return save(state.arrays, metadata)


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
        head, _ = fit_labelled(shipped_head(embedder) or fit_bank(embedder), examples, seed)
        return cls.from_state(head.to_state())
