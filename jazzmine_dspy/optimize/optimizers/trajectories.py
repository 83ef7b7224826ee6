"""Trying a program on labelled turns: of each the score, what is wrong in words, and what each predictor said."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import dspy
from dspy.utils.exceptions import AdapterParseError

from jazzmine_dspy.eval.dspy_metric import feedback_of
from jazzmine_dspy.eval.evaluation import UNANSWERED
from jazzmine_dspy.eval.feedback import UNUSABLE, Feedback, unusable
from jazzmine_dspy.lm.errors import BudgetExhausted
from jazzmine_dspy.models.errors import LMUnansweredError, format_error
from jazzmine_dspy.optimize.optimizers.means import Means
from jazzmine_dspy.program.batch import at_once
from jazzmine_dspy.program.trainable import TrainableProgram
from jazzmine_dspy.signatures.contract import predictor_of

_SHOWN = 1500
"""Characters of an answer that could not be read."""


class Call(NamedTuple):
    """What one predictor was given, and what it answered: its fields, or the text that could not be read."""

    predictor: str
    inputs: dict[str, Any]
    outputs: dict[str, Any] | str


class Trajectory(NamedTuple):
    """One turn that a program was tried on.

    Args:
        example: The turn, as ``Dataset.to_dspy`` gives it.
        score: From 0 to 1, by the recipe's objective.
        findings: What is wrong; empty where nothing is.
        calls: What the predictors said, in their order.
    """

    example: dspy.Example
    score: float
    findings: tuple[Feedback, ...]
    calls: tuple[Call, ...]

    @property
    def unusable(self) -> bool:
        """Whether the answer could not be used at all."""
        return any(each.kind[0] == UNUSABLE for each in self.findings)


def tried(module: TrainableProgram, examples: Sequence[dspy.Example], means: Means) -> list[Trajectory]:
    """Try a program on labelled turns, several at once.

    Answers that cannot be read are scored 0 and told as a finding; where answers are awaited, all turns are asked about
    before the run stops.

    Raises:
        LMUnansweredError: the language model did not answer more than 5 % of the turns.
        BudgetExhausted: the run may ask nothing more.
    """
    names = {id(module.predictor(name)): name for name in module.active_predictors()}

    def one(example: dspy.Example) -> Trajectory | None:
        trace: list[Any] = []
        with dspy.context(trace=trace):
            try:
                prediction = module(**example.inputs())
            except LMUnansweredError:
                return None
            except BudgetExhausted:
                raise
            except AdapterParseError as error:
                return _failed(example, trace, error, error)
            except Exception as error:
                return _failed(example, trace, error)
        score = means.metric(example, prediction)
        return Trajectory(example, float(score), feedback_of(example, prediction), _calls(trace))

    def _calls(trace: Sequence[Any]) -> tuple[Call, ...]:
        return tuple(
            Call(names[id(predictor)], dict(inputs), dict(outputs))
            for predictor, inputs, outputs in trace
            if id(predictor) in names
        )

    def _failed(
        example: dspy.Example, trace: Sequence[Any], error: Exception, unread: AdapterParseError | None = None
    ) -> Trajectory:
        calls = _calls(trace)
        why = format_error(error)
        if unread is not None:
            name = predictor_of(unread.signature) or ""
            calls = (*calls, Call(name, {"message": _message(example)}, str(unread.lm_response)[:_SHOWN]))
            why = f"{format_error(unread.__cause__ or unread)} It was: {str(unread.lm_response)[:_SHOWN]!r}"
        return Trajectory(example, 0.0, (unusable(why, _message(example)),), calls)

    found = list(at_once(one, examples, means.threads))
    lost = sum(each is None for each in found)
    if lost > UNANSWERED * len(found):
        raise LMUnansweredError(
            f"The language model did not answer {lost} of {len(found)} turns, more than {UNANSWERED:.0%}",
            remedy="Run it again when the model answers; what it has answered is not asked again.",
        )
    return [
        each if each is not None else Trajectory(example, 0.0, (), ())
        for each, example in zip(found, examples, strict=True)
    ]


def _message(example: dspy.Example) -> str:
    return str(example["turn"]["text"])
