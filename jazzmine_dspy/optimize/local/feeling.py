"""Train the head of feeling: labels move the package's weights."""

from __future__ import annotations

from collections.abc import Sequence

from jazzmine_dspy import artifacts
from jazzmine_dspy.datasets.schema import Example
from jazzmine_dspy.optimize.heads.feeling import fit_feeling
from jazzmine_dspy.program.heads.feeling import FeelingHead, shipped_feeling
from jazzmine_dspy.program.heads.feeling.head import learnt_dataset
from jazzmine_dspy.program.policy import Policy
from jazzmine_dspy.program.turn import TurnProgram

FEWEST = 50
"""Minimum number of labelled turns."""


def fit_own_feeling(
    program: TurnProgram, examples: Sequence[Example], dataset: str, seed: int
) -> FeelingHead | None:
    """Fit the head on turns with a sentiment or a continuation.

    Its commands are those of a program that was never compiled: a compiled one knows these turns by heart.

    Args:
        program: Has the embedding model and the flows.
        examples: Labelled turns.
        dataset: The fingerprint of their dataset.
        seed: Of the fit.

    Returns:
        The head; None where the package's has learnt this dataset, is for another embedding model, or too few turns
        are labelled.
    """
    embedder = program.bindings.embedder
    start = shipped_feeling(embedder)
    labelled = [
        each
        for each in examples
        if each.labels.sentiment is not None or each.labels.is_continuation is not None
    ]
    if embedder is None or start is None or len(labelled) < FEWEST:
        return None
    if dataset == learnt_dataset():
        return None
    plain = TurnProgram(program.registry, policy=Policy().named("local"))
    artifacts.bind_recall(plain, embedder)
    decisions = plain.decide_many([each.turn for each in labelled], workers=1)
    return fit_feeling(labelled, decisions, embedder, start, seed)
