"""Labelled turns as DSPy's tutorials write examples: plain values, fields by name, inputs set."""

from __future__ import annotations

from typing import Any

import dspy

from jazzmine_dspy.datasets.demos import to_demo
from jazzmine_dspy.datasets.schema import Example
from jazzmine_dspy.program.trainable import STAGES_FIELD
from jazzmine_dspy.program.turn import TurnProgram

INPUTS = ("turn", "exclude")


def to_dspy(example: Example, program: TurnProgram) -> dspy.Example:
    """A labelled turn for ``program.trainable()``: as :meth:`~jazzmine_dspy.datasets.load.Dataset.to_dspy` says."""
    asking = program.with_policy("lm")
    fields: dict[str, Any] = {}
    special: dict[str, dict[str, Any]] = {}
    for name in asking.active_predictors():
        demo = to_demo(name, example, asking)
        if demo is None:
            continue
        shown = demo.toDict()
        special[name] = {
            field: value for field, value in shown.items() if fields.setdefault(field, value) != value
        }
    # What a later stage is shown otherwise than an earlier one, such as the message beside its rewrite.
    stages = {name: other for name, other in special.items() if other}
    whole = dspy.Example(
        turn=example.turn.model_dump(mode="json", exclude_defaults=True),
        exclude=[example.conversation_id],
        # Not under the name 'labels', which is a method of DSPy's examples.
        gold=example.labels.model_dump(mode="json", exclude_none=True),
        **fields,
        **({STAGES_FIELD: stages} if stages else {}),
    )
    return whole.with_inputs(*INPUTS)
