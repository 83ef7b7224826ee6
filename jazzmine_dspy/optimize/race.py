"""The race on dev-B: a source ships for a stage only where it beats what stands there already."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from jazzmine_dspy.eval.evaluation import Evaluation, TurnResult
from jazzmine_dspy.eval.metrics import score_turn, stage_score, turn_score
from jazzmine_dspy.eval.stats import Difference, paired_difference
from jazzmine_dspy.models.decision import STAGES, SourceKind, Stage


class Heat(NamedTuple):
    """One challenger against the incumbent of a stage."""

    stage: str
    challenger: str
    incumbent: str
    score: float
    incumbent_score: float
    difference: Difference
    won: bool

    @property
    def verdict(self) -> str:
        """What was decided, in a sentence."""
        seen = f"{self.difference.n} turns could have shown a difference of {self.difference.detectable:.3f}"
        if self.won:
            gain, least = self.difference.value, self.difference.lower_bound_one_sided
            return f"{self.challenger} ships: better by {gain:+.3f}, at least by {least:+.3f}"
        return f"{self.incumbent} stays: {self.difference.value:+.3f} is not surely above zero; {seen}"


class Entry(NamedTuple):
    """A way to answer: its name, its order of sources, and how it did."""

    name: str
    order: tuple[SourceKind, ...]
    evaluation: Evaluation


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

    A challenger wins where the one-sided 95 % bound of the paired difference, clustered by conversation,
    lies above zero.
    """
    incumbent, heats = floor, []
    for challenger in challengers:
        mine = stage_scores(challenger, stage, floor.evaluation)
        theirs = stage_scores(incumbent, stage, floor.evaluation)
        keys = [key for key in mine if key in theirs]
        if not keys:
            continue
        found = paired_difference(
            [mine[k] for k in keys], [theirs[k] for k in keys], [k.rpartition("/")[0] for k in keys]
        )
        won = found.lower_bound_one_sided > 0
        heats.append(
            Heat(
                stage, challenger.name, incumbent.name, sum(mine[k] for k in keys) / len(keys),
                sum(theirs[k] for k in keys) / len(keys), found, won,
            )
        )  # fmt: skip
        incumbent = challenger if won else incumbent
    return incumbent, heats


def race_whole(challenger: str, incumbent: str, ours: Evaluation, theirs: Evaluation) -> Heat | None:
    """Compiled against uncompiled, over whole turns that both answered; None where there are none."""
    mine, other = _turn_scores(ours), _turn_scores(theirs)
    keys = [key for key in mine if key in other]
    if not keys:
        return None
    found = paired_difference(
        [mine[k] for k in keys], [other[k] for k in keys], [k.rpartition("/")[0] for k in keys]
    )
    return Heat(
        "all",
        challenger,
        incumbent,
        sum(mine[k] for k in keys) / len(keys),
        sum(other[k] for k in keys) / len(keys),
        found,
        found.lower_bound_one_sided > 0,
    )


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
