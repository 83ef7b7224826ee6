"""Checks on labelled turns of service whether the error of a gate is within its target."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from jazzmine_dspy.datasets.schema import Example
from jazzmine_dspy.eval.run import evaluate
from jazzmine_dspy.models.errors import InputError
from jazzmine_dspy.optimize.confidence import confidence_rows, is_closed
from jazzmine_dspy.optimize.gates import DELTA, TARGET_ERROR, passing, upper_bound
from jazzmine_dspy.program.local.understanding import acts_head
from jazzmine_dspy.program.turn import TurnProgram
from jazzmine_dspy.program.turn_confidence import in_force


class Audit(NamedTuple):
    """How often a program is wrong on the turns that it decides without a language model.

    Args:
        target: Share of these turns that may be wrong.
        error: Share that was wrong.
        low, high: One-sided bounds of the error, each with 90 % confidence. Similar turns of one conversation count as
            one.
        n: Labelled turns.
        local: Labelled turns that are decided without a language model.
    """

    target: float
    error: float
    low: float
    high: float
    n: int
    local: int

    @property
    def broken(self) -> bool:
        """Whether the lower bound of the error exceeds the target."""
        return self.low > self.target

    def in_words(self) -> str:
        """One sentence."""
        verdict = (
            "missed"
            if self.broken
            else "held"
            if self.high <= self.target
            else "neither held nor missed surely"
        )
        return (
            f"audit: {self.local} of {self.n} turns are decided locally, {100 * self.error:.1f} % of them wrong; with "
            f"90 % confidence at least {100 * self.low:.1f} % and at most {100 * self.high:.1f} %: the target of "
            f"{100 * self.target:g} % is {verdict}"
        )

    def to_json(self) -> dict[str, Any]:
        """The same as JSON."""
        return {**self._asdict(), "broken": self.broken}


def audit(
    program: TurnProgram,
    examples: Sequence[Example],
    *,
    target_error: float = TARGET_ERROR,
    delta: float = DELTA,
) -> Audit:
    """Check a gate on labelled turns, without a language model.

    Args:
        program: Its gate is checked: that of its policy, else that of the package.
        examples: Turns of service with labelled commands.
        target_error: Share of the turns decided locally that may be wrong.
        delta: Probability that a bound is false.

    Raises:
        InputError: the program has no gate, or no turn has labelled commands.
    """
    policy = program.policy
    model = in_force(policy.turn_confidence, acts_head(program.bindings))
    if model is None:
        raise InputError(
            "The program has no gate to audit",
            remedy="Compile it on more labelled conversations, or bind the bundled embedding model.",
        )
    cascade_gate = dict(policy.deciders).get("local")
    gate = model.gate if cascade_gate is None else cascade_gate
    decided = evaluate(program.with_policy("local"), examples).turns
    turns = [turn for turn in decided if turn.decision is not None and turn.scores.get("commands_exact")]
    rows = confidence_rows(turns, program.registry)
    if not rows:
        raise InputError("No turn has labelled commands", remedy="Label the commands of some turns.")
    # Turns that rules decide as a whole pass every gate.
    confidences = [
        1.0 if is_closed(turn) else model.probability(row.features)
        for turn, row in zip(turns, rows, strict=True)
    ]
    right, groups = [row.right for row in rows], [row.group for row in rows]
    passed = passing(confidences, right, groups, gate, delta)
    wrong = passed.error * passed.worth
    low = 1.0 - upper_bound(passed.worth - wrong, passed.worth, delta) if wrong else 0.0
    return Audit(target_error, passed.error, low, passed.bound, len(rows), passed.accepted)
