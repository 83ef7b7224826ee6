"""The head of acts as a run trains it and an artefact holds it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

from jazzmine_dspy.models.commands import Command
from jazzmine_dspy.program.heads.acts.fit import fit_bank, fit_labelled
from jazzmine_dspy.program.heads.acts.model import Acts
from jazzmine_dspy.program.heads.acts.shipped import shipped_head
from jazzmine_dspy.program.ports import EmbedderPort, HeadExample


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
