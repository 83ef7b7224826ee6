"""Demonstrations of single stages, built from labelled turns (never whole turns: no predictor takes one)."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import dspy

from jazzmine_dspy.datasets.schema import Example
from jazzmine_dspy.program.demonstrations import label_of, to_demo
from jazzmine_dspy.program.turn import TurnProgram
from jazzmine_dspy.signatures.contract import ANSWERED

_SHORT = 110
"""Characters of a message that is shown; longer ones are where all are."""


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


def demo_pool(
    predictor: str, examples: Sequence[Example], program: TurnProgram, seed: int, size: int
) -> list[Any]:
    """Demonstrations to draw from: shuffled, and such that kinds of turns alternate.

    Short turns come first within a kind, since a small model's prompt has little room. Turns that lack the label of a
    field that the prompt asks for are shown only where no turn has all of them.
    """
    asked = program.predictor(predictor).signature.output_fields
    whole = [e for e in examples if all(label_of(field, e.labels) is not None for field in asked)]
    examples = whole or examples
    examples = [example for example in examples if len(example.turn.text) <= _SHORT] or examples
    rng = random.Random(seed)
    kinds: dict[str, list[Example]] = {}
    for example in rng.sample(list(examples), len(examples)):
        commands = example.labels.commands or ()
        kind: str = commands[0].type if commands else "none"
        kinds.setdefault(kind, []).append(example)
    # Starting a flow and filling a slot are most of what turns do, so they are shown first.
    first = ("start_flow", "set_slot")
    order = sorted(kinds, key=lambda kind: (first.index(kind) if kind in first else 2, rng.random()))
    pool: list[Any] = []
    while len(pool) < size and any(kinds.values()):
        for kind in order:
            if kinds[kind] and len(pool) < size:
                demo = to_demo(predictor, kinds[kind].pop(), program)
                if demo is not None:
                    pool.append(demo)
    return pool


def to_dspy(example: Example) -> dspy.Example:
    """A labelled turn for DSPy: as :meth:`~jazzmine_dspy.datasets.load.Dataset.to_dspy` says."""
    return dspy.Example(
        turn=example.turn.model_dump(mode="json", exclude_defaults=True),
        exclude=[example.conversation_id],
        # Not under the name 'labels', which is a method of DSPy's examples.
        gold=example.labels.model_dump(mode="json", exclude_none=True),
    ).with_inputs("turn", "exclude")
