"""The race on dev-B: a source ships for a stage only where it beats what stands there already."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from jazzmine_dspy.eval.evaluation import Evaluation, TurnResult
from jazzmine_dspy.eval.metrics import score_turn, stage_score, turn_score
from jazzmine_dspy.eval.stats import Difference, paired_difference
from jazzmine_dspy.models.decision import STAGES, SourceKind, Stage

STAND_IN = "#without"
"""End of the key of a turn that is asked as if its flow did not exist."""


class Heat(NamedTuple):
    """One challenger against the incumbent of a stage.

    ``out_of_fold`` is how many of the turns are training turns that neither side had seen; ``alone`` is the difference
    on dev-B without them, None where there are none; ``stand_ins`` is how many of all turns stand for messages out of
    scope.
    """

    stage: str
    challenger: str
    incumbent: str
    score: float
    incumbent_score: float
    difference: Difference
    won: bool
    out_of_fold: int = 0
    alone: Difference | None = None
    stand_ins: int = 0

    @property
    def verdict(self) -> str:
        """What was decided, in a sentence."""
        seen = f"{self.difference.n} turns could have shown a difference of {self.difference.detectable:.3f}"
        if self.won:
            gain, least = self.difference.value, self.difference.lower_bound_one_sided
            return f"{self.challenger} ships: better by {gain:+.3f}, at least by {least:+.3f}{self._where}"
        if self.alone is not None and self.difference.lower_bound_one_sided > 0:
            return f"{self.incumbent} stays: on dev-B alone the difference is {self.alone.value:+.3f}{self._where}"
        return f"{self.incumbent} stays: {self.difference.value:+.3f} is not surely above zero{self._where}; {seen}"

    @property
    def _where(self) -> str:
        if self.alone is None:
            return ""
        hidden = f", {self.stand_ins} of all with their flow hidden" if self.stand_ins else ""
        return f" ({self.alone.n} turns of dev-B, {self.alone.value:+.3f}, and {self.out_of_fold} out of fold{hidden})"


@dataclass(frozen=True)
class Entry:
    """A way to answer.

    Args:
        name: Such as "head".
        order: Of its sources.
        evaluation: How it did on dev-B.
        gates: Confidence that its sources need.
        unseen: Its scores on training turns that it had not seen, by turn; empty where it can't be judged there.
        hidden: Its scores on turns of dev-B that stand for messages out of scope, where the labels have none.
    """

    name: str
    order: tuple[SourceKind, ...]
    evaluation: Evaluation
    gates: Mapping[SourceKind, float] = field(default_factory=dict)
    unseen: Mapping[str, float] = field(default_factory=dict)
    hidden: Mapping[str, float] = field(default_factory=dict)


def failures_as_wrong(evaluation: Evaluation) -> Evaluation:
    """The same, with degraded turns taken for crashes.

    Where a language model is judged, a floor's answer in the place of its failure is not its answer: a model that fails
    often would else look as good as the floor.
    """
    turns = [
        TurnResult(
            t.example, None, _cause(t), score_turn(None, t.example.labels, t.example.turn), t.latency_ms
        )
        if t.degraded
        else t
        for t in evaluation.turns
    ]
    return replace(evaluation, turns=tuple(turns))


def _cause(turn: TurnResult) -> str:
    records = turn.decision.stages.values() if turn.decision else ()
    return "; ".join(dict.fromkeys(record.cause for record in records if record.cause))[:500]


def stage_scores(entry: Entry, stage: Stage, floor: Evaluation) -> dict[str, float]:
    """Scores of a stage by turn. Where a rule stands first in the order and answers, its score counts."""
    scores: dict[str, float] = {}
    ruled = {
        turn.example.key: turn for turn in floor.turns
        if "rule" in entry.order and turn.decision and turn.decision.stages[stage].source == "rule"
    }  # fmt: skip
    for turn in entry.evaluation.turns:
        answered = ruled.get(turn.example.key, turn)
        score = stage_score(stage, answered.decision, turn.example.labels, turn.example.turn)
        if score is not None:
            scores[turn.example.key] = score
    return scores


def race_stage(stage: Stage, floor: Entry, challengers: Sequence[Entry]) -> tuple[Entry, list[Heat]]:
    """Let challengers run one after another, the cheapest first; a winner becomes the incumbent.

    A challenger wins where the one-sided 95 % bound of the paired difference, clustered by conversation, lies above
    zero: on dev-B, and on training turns where both were judged without having seen them. With such turns, the
    difference on dev-B alone must not lie below zero, as these turns had no part in anything that was fitted.
    """
    incumbent, heats = floor, []
    for challenger in challengers:
        mine = stage_scores(challenger, stage, floor.evaluation)
        theirs = stage_scores(incumbent, stage, floor.evaluation)
        if not mine.keys() & theirs.keys():
            continue
        if challenger.hidden and incumbent.hidden:
            mine, theirs = {**mine, **challenger.hidden}, {**theirs, **incumbent.hidden}
        keys = [key for key in mine if key in theirs]
        alone = _paired(mine, theirs, keys)
        further = [key for key in challenger.unseen if key in incumbent.unseen and key not in mine]
        if further:
            mine, theirs = {**challenger.unseen, **mine}, {**incumbent.unseen, **theirs}
            keys = [*keys, *further]
        found = _paired(mine, theirs, keys)
        won = found.lower_bound_one_sided > 0 and alone.value >= 0
        heats.append(
            Heat(
                stage, challenger.name, incumbent.name, sum(mine[k] for k in keys) / len(keys),
                sum(theirs[k] for k in keys) / len(keys), found, won,
                out_of_fold=len(further), alone=alone if further else None,
                stand_ins=sum(key.endswith(STAND_IN) for key in keys),
            )
        )  # fmt: skip
        incumbent = challenger if won else incumbent
    return incumbent, heats


def _paired(mine: Mapping[str, float], theirs: Mapping[str, float], keys: Sequence[str]) -> Difference:
    return paired_difference(
        [mine[k] for k in keys], [theirs[k] for k in keys], [k.rpartition("/")[0] for k in keys]
    )


def composed(first: Evaluation, then: Evaluation, gate: float) -> Evaluation:
    """What two evaluations of the same turns give together: the first where it passes a gate, else the second.

    Turns that one of both lacks are left out. A rule's answer in the first stands, whatever the gate.
    """
    others = {turn.example.key: turn for turn in then.turns}
    turns = []
    for turn in first.turns:
        if turn.example.key in others:
            record = turn.decision.stages.get("select") if turn.decision is not None else None
            passes = record is not None and (
                record.source == "rule" or (record.source == "head" and record.confidence >= gate)
            )
            turns.append(turn if passes else others[turn.example.key])
    return replace(first, turns=tuple(turns))


def race_whole(
    challenger: str,
    incumbent: str,
    ours: Evaluation,
    theirs: Evaluation,
    *,
    hidden: tuple[Mapping[str, float], Mapping[str, float]] = ({}, {}),
) -> Heat | None:
    """One program against another, over whole turns that both answered; None where there are none.

    Args:
        challenger, incumbent: Their names.
        ours, theirs: How they did.
        hidden: Scores of both in choosing flows, on the same turns that stand for messages out of scope. They weigh
            as much as choosing flows weighs among the other scores of a turn.
    """
    mine, other = _turn_scores(ours), _turn_scores(theirs)
    if not mine.keys() & other.keys():
        return None
    keys = [key for key in mine if key in other]
    share = sum(_selection_share(turn) for turn in ours.turns if turn.example.key in other) / len(keys)
    mine, other = [
        {**scores, **{k: share * v for k, v in more.items()}}
        for scores, more in zip((mine, other), hidden, strict=True)
    ]
    keys = [key for key in mine if key in other]
    found = _paired(mine, other, keys)
    return Heat(
        "all",
        challenger,
        incumbent,
        sum(mine[k] for k in keys) / len(keys),
        sum(other[k] for k in keys) / len(keys),
        found,
        found.lower_bound_one_sided > 0,
        stand_ins=len(hidden[0]),
    )


def _selection_share(turn: TurnResult) -> float:
    """What choosing flows counts among the scores of a turn, from 0 to 1."""
    known = {
        stage
        for stage in STAGES
        if stage_score(stage, turn.decision, turn.example.labels, turn.example.turn) is not None
    }
    return 1 / len(known) if "select" in known else 0.0


def _turn_scores(evaluation: Evaluation) -> dict[str, float]:
    scores = {
        t.example.key: turn_score(t.decision, t.example.labels, t.example.turn) for t in evaluation.turns
    }
    return {key: score for key, score in scores.items() if score is not None}


def mean_stage_scores(evaluation: Evaluation) -> dict[Stage, float]:
    """The mean score of every stage."""
    means: dict[Stage, float] = {}
    for stage in STAGES:
        found = [stage_score(stage, t.decision, t.example.labels, t.example.turn) for t in evaluation.turns]
        known = [score for score in found if score is not None]
        if known:
            means[stage] = sum(known) / len(known)
    return means
