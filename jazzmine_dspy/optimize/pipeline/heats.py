"""One program against another on whole turns: a challenger takes a stage only where it raises the objective."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from jazzmine_dspy.eval.evaluation import Evaluation, TurnResult
from jazzmine_dspy.eval.intervals import pooled
from jazzmine_dspy.eval.metrics import score_turn, stage_score
from jazzmine_dspy.eval.objective import Objective
from jazzmine_dspy.eval.score_terms import TurnScores
from jazzmine_dspy.eval.significance import Difference, paired_metric
from jazzmine_dspy.models.decision import STAGES, Stage
from jazzmine_dspy.models.errors import InputError

HIDDEN = "#without"
"""End of the key of a turn that is asked as if its flow did not exist."""

SURE = 0.0
"""The lower bound of the difference must lie above it where the challenger costs calls to a language model."""

MARGIN = 0.02
"""What the lower bound may lie below zero where the challenger costs no call, and is better by all estimates."""


class Heat(NamedTuple):
    """One challenger against the incumbent of a stage, by the objective.

    Args:
        stage: A stage; ``all`` for compiled against uncompiled prompts, ``base`` for what was compiled against the
            base program.
        challenger, incumbent: Their names.
        score, incumbent_score: Their scores on the turns that decide.
        difference: Paired, on these turns.
        won: Whether the challenger takes the stage.
        out_of_fold: How many of the turns are training turns that neither side had seen.
        alone: The difference on dev-B without them; None where there are none.
        synthetic: How many of all turns stand for messages out of scope.
        broken: Constraints that the challenger breaks, in words.
        least: What the lower bound of the difference had to exceed.
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
    synthetic: int = 0
    broken: tuple[str, ...] = ()
    least: float = SURE

    @property
    def verdict(self) -> str:
        """What was decided, in a sentence."""
        seen = f"on {self.difference.n} turns only a difference of {self.difference.detectable:.3f} or more would show"
        if self.won:
            gain, least = self.difference.value, self.difference.lower_bound_one_sided
            why = "" if least > SURE else f"; a loss of {-self.least:g} is ruled out"
            return (
                f"{self.challenger} ships: better by {gain:+.3f}, at least by {least:+.3f}{why}{self._where}"
            )
        if self.broken and self.difference.lower_bound_one_sided > self.least:
            return f"{self.incumbent} stays, though {self.challenger} is better: {'; '.join(self.broken)}"
        if self.alone is not None and self.difference.lower_bound_one_sided > SURE:
            return f"{self.incumbent} stays: on dev-B alone the difference is {self.alone.value:+.3f}{self._where}"
        return f"{self.incumbent} stays: {self.difference.value:+.3f} is not surely above zero{self._where}; {seen}"

    @property
    def _where(self) -> str:
        if self.alone is None:
            return ""
        hidden = f", {self.synthetic} of all with their flow hidden" if self.synthetic else ""
        return f" ({self.alone.n} turns of dev-B, {self.alone.value:+.3f}, and {self.out_of_fold} out of fold{hidden})"


@dataclass(frozen=True)
class Entry:
    """A program in the race for a stage.

    Args:
        name: Such as "head".
        evaluation: How the whole program did on dev-B.
        unseen: The scores of whole training turns that its head had not seen, by turn; empty where it can't be judged
            there.
        synthetic: The same of turns of dev-B that stand for messages out of scope, where the labels have none.
    """

    name: str
    evaluation: Evaluation
    unseen: Mapping[str, TurnScores] = field(default_factory=dict)
    synthetic: Mapping[str, TurnScores] = field(default_factory=dict)


def run_heat(
    stage: str, challenger: Entry, incumbent: Entry, objective: Objective, *, least: float = SURE
) -> Heat | None:
    """Compare two entries on the turns that both answered; None where the objective says nothing of any.

    A challenger wins where the one-sided 95 % bound of the paired difference, clustered by conversation, lies above
    ``least``: on dev-B, and on training turns where both were judged without having seen them. With such turns, the
    difference on dev-B alone must not lie below zero, as these turns had no part in anything that was fitted. And it
    must break no constraint on dev-B.

    Args:
        least: Zero, or less for a challenger that costs no call, or whose cost is no matter: it must be better by
            estimate then, and a loss of more than that must be ruled out.
    """
    metric = objective.metric
    mine, theirs = by_turn(challenger.evaluation), by_turn(incumbent.evaluation)
    if challenger.synthetic and incumbent.synthetic:
        mine, theirs = {**mine, **challenger.synthetic}, {**theirs, **incumbent.synthetic}
    keys = [key for key, scores in mine.items() if key in theirs and metric in scores]
    further = [
        key
        for key, scores in challenger.unseen.items()
        if key in incumbent.unseen and key not in mine and metric in scores
    ]
    alone = _paired(mine, theirs, keys, metric)
    if alone is None:
        return None
    mine, theirs = {**challenger.unseen, **mine}, {**incumbent.unseen, **theirs}
    keys = [*keys, *further]
    found = _paired(mine, theirs, keys, metric)
    assert found is not None, "more turns say no less"
    broken = objective.broken_constraints(challenger.evaluation, incumbent.evaluation)
    return Heat(
        stage,
        challenger.name,
        incumbent.name,
        pooled([mine[key] for key in keys], metric) or 0.0,
        pooled([theirs[key] for key in keys], metric) or 0.0,
        found,
        won=found.lower_bound_one_sided > least and found.value > 0 and alone.value >= 0 and not broken,
        out_of_fold=len(further),
        alone=alone if further else None,
        synthetic=sum(key.endswith(HIDDEN) for key in keys),
        broken=broken,
        least=least,
    )


def by_turn(evaluation: Evaluation) -> dict[str, TurnScores]:
    """The scores of every turn by its key, the unanswered left out."""
    return {turn.example.key: turn.scores for turn in evaluation.turns if not turn.unanswered}


def _paired(
    mine: Mapping[str, TurnScores], theirs: Mapping[str, TurnScores], keys: list[str], metric: str
) -> Difference | None:
    try:
        return paired_metric(
            [mine[k] for k in keys], [theirs[k] for k in keys], [k.rpartition("/")[0] for k in keys], metric
        )
    except InputError:
        return None


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


def mean_stage_scores(evaluation: Evaluation) -> dict[Stage, float]:
    """The mean score of every stage: how far a source that knows no confidence of its own can be trusted."""
    means: dict[Stage, float] = {}
    for stage in STAGES:
        found = [
            stage_score(stage, t.decision, t.example.labels, t.example.turn)
            for t in evaluation.turns
            if not t.unanswered
        ]
        known = [score for score in found if score is not None]
        if known:
            means[stage] = sum(known) / len(known)
    return means
