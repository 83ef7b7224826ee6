"""What an optimizer learns from: one number for a turn, and in words what is wrong with its answer."""

from __future__ import annotations

from typing import Any

import dspy

from jazzmine_dspy.eval.feedback import feedback
from jazzmine_dspy.eval.metrics import stage_score
from jazzmine_dspy.eval.objective import Objective
from jazzmine_dspy.models.decision import STAGES, TurnDecision
from jazzmine_dspy.models.errors import InputError, LMUnansweredError
from jazzmine_dspy.models.labels import Labels
from jazzmine_dspy.models.turn import Turn
from jazzmine_dspy.program.demonstrations import labelled_turn
from jazzmine_dspy.program.trainable import left_to_others

ENOUGH = 0.8
"""Score from which an answer is good enough to be shown as a demonstration."""

_OUTAGES = (
    "LMUnansweredError", "LMNoAnswerError", "LMPausedError", "LMRateLimitError", "LMServerError", "LMTimeoutError",
    "LMTransportError", "AttemptLateError", "DeadlineError", "TimeoutError", "ConnectionError", "LMMissingError",
)  # fmt: skip


def worth(objective: Objective, decision: TurnDecision, labels: Labels, turn: Turn) -> float:
    """What an answer is worth as something to learn from, from 0 to 1.

    A demonstration shows every answer of its prompt, so the parts that the objective says nothing of must be right too:
    they would be learnt as well. A degraded decision is worth nothing: a fallback answered it.
    """
    if decision.degraded:
        return 0.0
    right = objective.smooth(decision, labels, turn)
    scores = [stage_score(stage, decision, labels, turn) for stage in STAGES]
    known = [score for score in scores if score is not None]
    values = [sum(known) / len(known)] if known else []
    # Where nothing was to be found and nothing was, an F1 of counts says nothing, and the stages decide.
    return min(values if right is None else [right, *values], default=0.0)


def metric(
    gold: dspy.Example,
    pred: dspy.Prediction,
    trace: Any = None,
    pred_name: str | None = None,
    pred_trace: Any = None,  # noqa: ARG001 - GEPA passes it
    *,
    objective: str = "commands_exact",
) -> float | bool | dspy.Prediction:
    """A metric for DSPy's optimizers and ``dspy.Evaluate``, and for GEPA.

    Args:
        gold: An example of ``Dataset.to_dspy``, or one that is written by hand:
            ``dspy.Example(text="…", flows=["track_order"], commands=[…]).with_inputs("text")``. What is not labelled is
            not scored.
        pred: What a program or its ``trainable()`` answered, or a module that returns its ``decision``.
        trace: Given by optimizers that gather demonstrations: they are told whether the answer is good enough.
        pred_name: Given by GEPA, which wants words: the predictor that they are about.
        pred_trace: Given by GEPA.
        objective: What counts most, as a recipe's ``objective``; use ``functools.partial`` to name another.

    Returns:
        A number from 0 to 1; with a trace alone, whether it is 0.8 or more; with a predictor's name a prediction of
        ``score`` and ``feedback``.

    Raises:
        InputError: the example holds no labelled turn, or the prediction no decision.
        LMUnansweredError: the language model did not answer, so that there is nothing to score.

    Example:
        >>> from jazzmine_dspy import FlowRegistry, TurnProgram
        >>> program = TurnProgram(FlowRegistry([{"name": "hours", "description": "Opening hours."}]))
        >>> gold = dspy.Example(text="hello", commands=[{"type": "chitchat"}]).with_inputs("text")
        >>> metric(gold, program.with_policy("fallback")(**gold.inputs()))
        1.0
    """
    example = labelled_turn(gold)
    decision, failed = _answer(pred)
    score = 0.0 if failed else worth(Objective(objective), decision, example.labels, example.turn)
    if pred_name is not None:
        name = pred_name.rpartition(".")[2]
        stages = [stage for stage in STAGES if name in (stage, "fused")] or STAGES
        faults = feedback(decision, failed, example.labels, example.turn, stages)
        return dspy.Prediction(score=score, feedback="\n".join(faults) or "The answer is right.")
    return score if trace is None else score >= ENOUGH


def _answer(pred: Any) -> tuple[TurnDecision, str]:
    """The decision, and why the language model did not answer."""
    whole = pred.get("decision") if hasattr(pred, "get") else None
    if not isinstance(whole, TurnDecision):
        raise InputError(
            "The prediction is not one of a program",
            remedy="Compile program.trainable(), or pass a prediction with the program's decision.",
        )
    lost = [call.error for call in whole.calls if not call.success and call.error]
    if whole.degraded and any(error.startswith(_OUTAGES) for error in (*lost, *_causes(whole))):
        raise LMUnansweredError(
            "The language model did not answer, and a fallback's answer is not scored as its own",
            remedy="Try again when it does.",
        )
    return whole.model_copy(update={"stages": {}}), left_to_others(whole)


def _causes(decision: TurnDecision) -> list[str]:
    said = [record.cause or "" for record in decision.stages.values() if record.degraded]
    return [part.partition(": ")[2] for cause in said for part in cause.split("; ")]
