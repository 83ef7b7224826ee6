"""Labelled turns as DSPy takes them, and the fields of an answer that they label."""

from __future__ import annotations

from collections.abc import Sequence

import dspy

from jazzmine_dspy.datasets.schema import Example
from jazzmine_dspy.program.demonstrations import label_of
from jazzmine_dspy.signatures.contract import ANSWERED


def unlabelled_fields(examples: Sequence[Example]) -> tuple[str, ...]:
    """Fields of an answer that no turn labels: prompts of programs for these turns leave them out.

    Example:
        >>> from jazzmine_dspy.models.labels import Labels
        >>> from jazzmine_dspy.models.turn import Turn
        >>> labels, turn = Labels(flows=(), commands=()), Turn(text="x")
        >>> one = Example(conversation_id="c", turn_id="t", turn=turn, labels=labels, role="train", line=1)
        >>> unlabelled_fields([one])[:3]
        ('enhanced_query', 'sentiment_score', 'intent')
    """
    return tuple(name for name in ANSWERED if all(label_of(name, each.labels) is None for each in examples))


def to_dspy(example: Example) -> dspy.Example:
    """A labelled turn for DSPy: as :meth:`~jazzmine_dspy.datasets.load.Dataset.to_dspy` says."""
    return dspy.Example(
        turn=example.turn.model_dump(mode="json", exclude_defaults=True),
        exclude=[example.conversation_id],
        # Not under the name 'labels', which is a method of DSPy's examples.
        gold=example.labels.model_dump(mode="json", exclude_none=True),
    ).with_inputs("turn", "exclude")
