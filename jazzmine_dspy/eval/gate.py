"""Whether a program may take the place of another: no significant loss beyond what is allowed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from jazzmine_dspy.eval.compare import answered_by_both
from jazzmine_dspy.eval.evaluation import Evaluation
from jazzmine_dspy.eval.objective import Objective
from jazzmine_dspy.eval.record import Record
from jazzmine_dspy.eval.significance import SIGNIFICANT, Loss, holm, loss
from jazzmine_dspy.models.errors import InputError


@dataclass(frozen=True)
class Gate:
    """The verdict on a program. ``adjusted`` are the p-values of ``losses``, held against their number (Holm)."""

    losses: tuple[Loss, ...]
    adjusted: tuple[float, ...] = field(default=())

    @property
    def ok(self) -> bool:
        """Whether no loss is significant."""
        return not any(value < SIGNIFICANT for value in self.adjusted)

    @property
    def why(self) -> str:
        """The verdict in words, metric by metric."""
        told = [_told(one, value) for one, value in zip(self.losses, self.adjusted, strict=True)]
        return f"{'passed' if self.ok else 'failed'}: {'; '.join(told)}"

    def to_json(self) -> dict[str, Any]:
        """What ``evaluate --against --json`` prints under ``gate``."""
        rows = [{**asdict(one), "adjusted": p} for one, p in zip(self.losses, self.adjusted, strict=True)]
        return {"ok": self.ok, "why": self.why, "losses": rows}


def gate(
    baseline: Evaluation | Record,
    program: Evaluation | Record,
    *,
    objective: Objective | str = "commands_exact",
    margin: float = 0.0,
    seed: int = 0,
) -> Gate:
    """Test whether a program loses more than it may against a baseline, on the same turns.

    A program that is no worse than the margin allows fails in at most one of twenty samples, however many metrics are
    looked at.

    Args:
        baseline, program: Evaluations, or records of them.
        objective: The metric that decides; the constraints of an :class:`Objective` are tested with their own margins.
        margin: How much of the objective may be lost, from 0 to 1.
        seed: Of the draws.

    Raises:
        InputError: as :func:`compare`; or ``margin`` is not from 0 to 1.
    """
    if not 0.0 <= margin <= 1.0:
        raise InputError(f"The margin {margin} is no share", remedy="Give one from 0 to 1, such as 0.02.")
    aim = Objective(objective) if isinstance(objective, str) else objective
    old, new = (Record.of(one) if isinstance(one, Evaluation) else one for one in (baseline, program))
    pairs = answered_by_both(old, new, aim.metric)
    allowed: Mapping[str, float] = {
        aim.metric: margin,
        **{n: v for n, v in aim.constraints.items() if n != aim.metric},
    }
    found = []
    for metric, most in allowed.items():
        if not any(metric in one.scores or metric in two.scores for one, two in pairs):
            continue
        clusters = [one.example.conversation_id for one, _ in pairs]
        scores = [one.scores for one, _ in pairs], [two.scores for _, two in pairs]
        found.append(loss(*scores, clusters, metric, margin=most, seed=seed))
    return Gate(tuple(found), tuple(holm(one.p for one in found)))


def _told(one: Loss, p: float) -> str:
    moved = f"{one.metric} loses {one.loss:.3f}" if one.loss > 0 else f"{one.metric} gains {-one.loss:.3f}"
    allowed = f", {one.margin:g} is allowed" if one.margin else ""
    if p < SIGNIFICANT:
        return f"{moved}{allowed}: more than chance (p = {p:.3g})"
    return f"{moved}{allowed}: no significant loss (p = {p:.3g}); one of {one.detectable:.3f} is found with 80 % power"
