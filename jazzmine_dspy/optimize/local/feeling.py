"""Train the head of feeling: labels move the package's weights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from jazzmine_dspy import artifacts
from jazzmine_dspy.datasets.schema import Example
from jazzmine_dspy.models.decision import TurnDecision
from jazzmine_dspy.program.heads.acts.view import last_said
from jazzmine_dspy.program.heads.feeling.head import (
    FeelingHead,
    Topic,
    fit_topic,
    learnt_dataset,
    shipped_feeling,
    topic_row,
)
from jazzmine_dspy.program.heads.feeling.sentiment import MOST_ROWS, fit_sentiment, sentiment_row
from jazzmine_dspy.program.policy import Policy
from jazzmine_dspy.program.ports import EmbedderPort
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
    if embedder is None or start is None or len(labelled) < FEWEST or dataset == learnt_dataset():
        return None
    plain = TurnProgram(program.registry, policy=Policy().named("local"))
    artifacts.bind_recall(plain, embedder)
    return fit_feeling(
        labelled, plain.decide_many([each.turn for each in labelled], workers=1), embedder, start, seed
    )


class Phrase(NamedTuple):
    """A message with its sentiment, besides the turns of a dataset.

    Args:
        text: The message.
        sentiment: From -1.0 to 1.0.
        group: Phrases of one group are left out together; those of "" set no threshold.
        weight: What it counts; a turn counts 1.0.
    """

    text: str
    sentiment: float
    group: str = ""
    weight: float = 1.0


def fit_feeling(
    examples: Sequence[Example],
    decisions: Sequence[TurnDecision],
    embedder: EmbedderPort,
    start: FeelingHead | None,
    seed: int = 0,
    phrases: Sequence[Phrase] = (),
) -> FeelingHead | None:
    """Fit sentiment and change of topic on the turns that have these labels.

    Args:
        examples: Labelled turns; of more than 2,000 that many are drawn.
        decisions: What a program decides for them that has not learnt their commands.
        embedder: Gives the features.
        start: A head to stay near to; it keeps what no turn labels.
        seed: Of the draw.
        phrases: Further messages.

    Returns:
        The head; ``start`` where nothing is labelled.
    """
    if len(examples) > MOST_ROWS:
        drawn = sorted(np.random.default_rng(seed).permutation(len(examples))[:MOST_ROWS])
        examples = [examples[place] for place in drawn]
        decisions = [decisions[place] for place in drawn]
    felt = [each for each in examples if each.labels.sentiment is not None]
    shifts = [
        (each, decision)
        for each, decision in zip(examples, decisions, strict=True)
        if each.labels.is_continuation is not None and each.turn.history
    ]
    sentiment = start.sentiment if start is not None else None
    topic = start.topic if start is not None else None
    if felt:
        turns = [Phrase(each.turn.text, each.labels.sentiment or 0.0, each.conversation_id) for each in felt]
        texts, labels, groups, weights = zip(*turns, *phrases, strict=True)
        features = embedder.features(texts)
        rows = np.stack([sentiment_row(text, row) for text, row in zip(texts, features, strict=True)])
        sentiment = fit_sentiment(rows, labels, groups, np.array(weights), sentiment)
    if shifts:
        topic = _fit_topic(shifts, embedder, start)
    if sentiment is None or topic is None or not (felt or shifts):
        return start
    return FeelingHead(sentiment, topic)


def _fit_topic(
    shifts: Sequence[tuple[Example, TurnDecision]], embedder: EmbedderPort, start: FeelingHead | None
) -> Topic:
    rows = []
    for each, decision in shifts:
        said = last_said(each.turn)
        seen = embedder.features([each.turn.text, *([said] if said else [])])
        rows.append(topic_row(each.turn, decision.commands, seen[0], seen[1] if said else None))
    left = [not each.labels.is_continuation for each, _ in shifts]
    return fit_topic(
        np.stack(rows), left, [each.conversation_id for each, _ in shifts], start.topic if start else None
    )
