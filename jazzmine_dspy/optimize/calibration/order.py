"""In which order the sources of the selection answer, and from which confidence on.

A turn goes on to the next source only where that one is estimated to be better on such turns. All estimates are made on
turns that the head has not seen, and only on those that no rule answers: the others never reach it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from jazzmine_dspy.models.decision import SourceKind
from jazzmine_dspy.optimize.calibration.gates import (
    DELTA,
    NEVER,
    TARGET_ERROR,
    Gate,
    certified_gate,
    crossing,
    passing,
)


class Verdict(NamedTuple):
    """What each source is worth on a turn that no rule answers.

    Args:
        key: Of the turn.
        group: Of the conversation.
        confidence: Of the head, which had not seen the conversation.
        head, floor: What the whole turn is worth to the objective where they choose its flows, from 0 to 1.
        lm: The same of the language model; None where it was not asked.
        fold: In which the turn was held out.
        flows: Whether the head chose the right flows; None where ``head`` says just that.
    """

    key: str
    group: str
    confidence: float
    head: float
    floor: float
    lm: float | None = None
    fold: int = 0
    flows: bool | None = None

    @property
    def chosen_right(self) -> bool:
        """Whether the head chose the right flows: what its confidence speaks of."""
        return self.head >= 1.0 if self.flows is None else self.flows

    def right(self, gate: float) -> float:
        """What head and floor together are worth, under this gate."""
        return self.head if self.confidence >= gate else self.floor


class Ordered(NamedTuple):
    """An order of the sources after the rules, with the head's gate.

    Args:
        sources: Such as head, language model, floor; without the head where the language model is better everywhere.
        gate: Confidence that the head needs; 0 where it always answers, above 1 where it never does.
        certificate: From which confidence on its error is certified; says why where it is not.
        passed: What is known of the turns that pass the gate.
        reasons: For a person, one sentence for each choice.
    """

    sources: tuple[SourceKind, ...]
    gate: float
    certificate: Gate
    passed: Gate
    reasons: tuple[str, ...]

    def facts(self) -> dict[str, Any]:
        """The same as JSON."""
        return {
            "order": list(self.sources),
            "gate": round(self.gate, 6),
            "certificate": self.certificate.facts(),
            "passed": {**self.passed.facts(), "reason": ""},
            "reasons": list(self.reasons),
        }


def fit_order(
    unseen: Sequence[Verdict],
    asked: Sequence[Verdict] = (),
    *,
    hidden: Sequence[Verdict] = (),
    target_error: float = TARGET_ERROR,
    delta: float = DELTA,
) -> Ordered:
    """Fit the order of head, language model and floor, and the head's gate.

    Without a language model the head's gate is where the floor becomes better, which costs nothing to ask. With one, it
    is where the language model becomes better than both; above a certified gate the head answers even so, since its
    error is in bounds there and a question costs. A language model that is nowhere estimated to be better is dropped.

    Args:
        unseen: Out-of-fold verdicts on training turns.
        asked: Verdicts on turns of dev-A on which the language model was asked.
        hidden: Verdicts on turns that stand for messages out of scope. They count where head and floor are compared;
            the certificate is for turns as they are labelled.
        target_error: Share of the turns that pass the certified gate which may be wrong.
        delta: Probability with which the certificate may be false.
    """
    sure, right = [row.confidence for row in unseen], [row.chosen_right for row in unseen]
    groups = [row.group for row in unseen]
    certificate = certified_gate(sure, right, groups, target_error, delta)
    both = [*unseen, *hidden]
    to_floor = _crossing(both)
    reasons = [certificate.reason if certificate.certified else _uncertified(certificate)]
    below = [row for row in both if row.confidence < to_floor]
    if below:
        reasons.append(
            f"below {to_floor:.3f} the floor scores {_share(row.floor for row in below)} on {len(below)} turns, "
            f"the head {_share(row.head for row in below)}: they go to the floor"
        )
    elif unseen:
        reasons.append("the floor is nowhere estimated to be better than the head, which answers every turn")
    gate = to_floor
    sources: tuple[SourceKind, ...] = ("head", "floor")
    answered = [row for row in asked if row.lm is not None]
    if answered:
        ours = [float(row.right(to_floor)) for row in answered]
        theirs = [float(row.lm or 0.0) for row in answered]
        to_lm = crossing([row.confidence for row in answered], ours, theirs)
        if 0 < to_lm < to_floor and not _better_below(to_floor, answered):
            # One gate can't send the least sure turns to the language model and the next ones to the floor.
            to_lm = 0.0
        if to_lm > 0:
            gate = max(to_floor, min(to_lm, certificate.threshold) if certificate.certified else to_lm)
            # What goes to the language model does not go to the floor.
            reasons = [reason for reason in reasons if not reason.endswith("they go to the floor")]
            sources = ("head", "lm", "floor") if gate < NEVER else ("lm", "floor")
            lower = [
                (us, them)
                for us, them, row in zip(ours, theirs, answered, strict=True)
                if row.confidence < gate
            ]
            reasons.append(
                f"below {gate:.3f} the language model scores {_share(them for _, them in lower)} on {len(lower)} "
                f"turns of dev-A, the sources before it {_share(us for us, _ in lower)}: they go to it"
            )
        else:
            reasons.append(
                f"on {len(answered)} turns of dev-A the language model is nowhere estimated to be better than the head "
                f"and the floor ({_share(theirs)} against {_share(ours)}): it is dropped"
            )
    passed = passing(sure, right, groups, gate, delta)
    if certificate.certified and passed.accepted > certificate.accepted:
        reasons[0] = (
            f"from {certificate.threshold:.3f} on {certificate.reason}; the gate that ships is {gate:.3f}, since "
            f"nothing else is better there, and {100 * passed.error:.1f} % of the {passed.accepted} turns that pass it "
            "are wrong"
        )
    return Ordered(sources, gate, certificate, passed, tuple(reasons))


def _better_below(gate: float, answered: Sequence[Verdict]) -> bool:
    """Whether the language model is worth more than the floor on the turns below a gate."""
    below = [row for row in answered if row.confidence < gate]
    return sum(row.lm or 0.0 for row in below) > sum(row.floor for row in below)


def fold_gates(rows: Sequence[Verdict]) -> dict[int, float]:
    """For each fold the gate that was fitted on the other folds."""
    return {
        fold: _crossing([row for row in rows if row.fold != fold])
        for fold in sorted({row.fold for row in rows})
    }


def _crossing(rows: Sequence[Verdict]) -> float:
    """The confidence below which the floor is better than the head."""
    return crossing([row.confidence for row in rows], [row.head for row in rows], [row.floor for row in rows])


def _uncertified(gate: Gate) -> str:
    return f"{gate.reason}; the gate is the one of least expected cost instead"


def _share(values: Any) -> str:
    held = [float(value) for value in values]
    return f"{100 * float(np.mean(held)):.0f} %" if held else "none"
