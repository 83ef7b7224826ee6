"""What an evaluation found: scores, cost, and where the answers are from."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from jazzmine_dspy.datasets.schema import Example
from jazzmine_dspy.eval.intervals import Metric, Resamples, summarise
from jazzmine_dspy.eval.metrics import LARGEST, TurnScores
from jazzmine_dspy.eval.significance import Difference, paired_metric
from jazzmine_dspy.models.decision import STAGES, StageRecord, TurnDecision, Usage
from jazzmine_dspy.models.errors import InputError

OPENING, MID_FORM = "opening", "a flow is running"
NOTHING = "no command"


def flows_of(example: Example) -> tuple[str, ...]:
    """The flows that a turn is about: those that it is labelled to start, and the running one.

    Example:
        >>> from jazzmine_dspy.models.labels import Labels
        >>> from jazzmine_dspy.models.turn import Turn
        >>> turn = Turn(text="and where is 4471?", flow="refund")
        >>> example = Example(
        ...     conversation_id="c", turn_id="t", turn=turn, labels=Labels(flows=("track",)), role="test", line=1
        ... )
        >>> flows_of(example), _commands_of(example), place_of(example)
        (('track', 'refund'), (), ('a flow is running',))
    """
    running = (example.turn.flow,) if example.turn.flow else ()
    return tuple(dict.fromkeys((*(example.labels.flows or ()), *running)))


def _commands_of(example: Example) -> tuple[str, ...]:
    """The kinds of the commands that a turn is labelled with; "no command" for none, nothing where it has no label."""
    labelled = example.labels.commands
    return () if labelled is None else tuple(dict.fromkeys(each.type for each in labelled)) or (NOTHING,)


def place_of(example: Example) -> tuple[str, ...]:
    """Whether a flow runs before the turn."""
    return (MID_FORM if example.turn.flow else OPENING,)


Price = tuple[float, float]
"""Money per million prompt tokens, and per million completion tokens."""

SLICE_METRICS = (
    "flow_set_exact", "commands_exact", "joint_goal", "rewrite_token_f1", "rewrite_needed_exact",
    "unchanged_kept", "intent_accuracy",
)  # fmt: skip
WHOLE_TURN = frozenset({"flow_set_exact", "commands_exact"})
"""What makes a turn right as a whole."""

ANSWERED = "answered"
"""The slice of turns that neither crashed nor are degraded; given where some did or are."""

DEGRADED = "degraded"
"""The slice of degraded turns."""

UNANSWERED = 0.05
"""Share of the turns that may stay unanswered; with more of them an evaluation decides nothing."""


@dataclass(frozen=True)
class TurnResult:
    """One turn: what was decided, or the error that kept it from it. ``latency_ms`` is wall-clock.

    ``unanswered`` is a turn on which the language model was not answering: it has no decision and no score.
    """

    example: Example
    decision: TurnDecision | None
    error: str | None
    scores: TurnScores
    latency_ms: float = 0.0
    unanswered: bool = False

    @property
    def degraded(self) -> bool:
        """Whether a part of the decision failed, so that another one answered."""
        return self.decision is not None and self.decision.degraded

    @property
    def refused(self) -> bool:
        """Whether a content filter, or the model itself, refused to answer."""
        return self.decision is not None and any(call.refused for call in self.decision.calls)

    @property
    def wrong(self) -> bool:
        """Whether a flow or a command is wrong. True for a crash, False where the language model did not answer."""
        return not self.unanswered and not all(
            self.scores[name].value for name in WHOLE_TURN if name in self.scores
        )

    @property
    def outcome(self) -> str:
        """``unanswered``, ``crashed``, ``degraded``, ``right`` (all flows and commands) or ``wrong``."""
        if self.unanswered:
            return "unanswered"
        if self.decision is None:
            return "crashed"
        return "degraded" if self.decision.degraded else "wrong" if self.wrong else "right"


@dataclass(frozen=True)
class Evaluation:
    """Results of all turns, in the order of the examples.

    ``metrics`` are over all turns but the unanswered: a crash is wrong, a degraded answer is scored as the answer that
    a user got. The slices ``answered`` and ``degraded`` tell how much of a figure is owed to failures.
    """

    turns: tuple[TurnResult, ...]
    seed: int = 0
    price: Price | None = None

    @property
    def n(self) -> int:
        """Turns that were evaluated."""
        return len(self.turns)

    @property
    def crashed(self) -> int:
        """Turns that ended in an error."""
        return sum(turn.decision is None and not turn.unanswered for turn in self.turns)

    @property
    def unanswered(self) -> int:
        """Turns on which the language model was not answering; they have no score."""
        return sum(turn.unanswered for turn in self.turns)

    @property
    def inconclusive_reason(self) -> str:
        """Why nothing may be decided by these figures; empty where it may."""
        return inconclusive_reason(self.turns)

    @property
    def degraded(self) -> int:
        """Turns of which some stage is degraded."""
        return sum(turn.degraded for turn in self.turns)

    @property
    def refused(self) -> int:
        """Turns that a content filter, or the model itself, refused to answer; they are among the degraded."""
        return sum(turn.refused for turn in self.turns)

    @cached_property
    def outcomes(self) -> dict[str, int]:
        """Turns by outcome: right, wrong, degraded, crashed, and unanswered if any is; each turn is in one of them."""
        found = Counter(turn.outcome for turn in self.turns)
        names = ("right", "wrong", "degraded", "crashed", *(("unanswered",) if self.unanswered else ()))
        return {name: found[name] for name in names}

    @cached_property
    def _draws(self) -> Resamples:
        return Resamples([turn.example.conversation_id for turn in self.turns], seed=self.seed)

    @cached_property
    def metrics(self) -> dict[str, Metric]:
        """Every metric that some turn says something about, with its interval."""
        return self._summary([True] * self.n)

    @cached_property
    def slices(self) -> dict[str, tuple[int, dict[str, Metric]]]:
        """For each tag, and for answered and degraded turns: how many turns, and some metrics over them."""
        tags = sorted({tag for turn in self.turns for tag in turn.example.tags})
        chosen = {tag: [tag in turn.example.tags for turn in self.turns] for tag in tags}
        if self.crashed or self.degraded:
            chosen[ANSWERED] = [turn.decision is not None and not turn.degraded for turn in self.turns]
            chosen[DEGRADED] = [turn.degraded for turn in self.turns]
        return {
            name: (sum(keep), self._summary(keep, SLICE_METRICS))
            for name, keep in chosen.items()
            if any(keep)
        }

    @cached_property
    def parts(self) -> dict[str, dict[str, tuple[int, dict[str, Metric]]]]:
        """The same by flow, by wanted command and by place, the largest first: how many turns, and some metrics."""
        return {name: self._sliced(names) for name, names in PARTS.items()}

    def _sliced(self, names: Callable[[Example], Iterable[str]]) -> dict[str, tuple[int, dict[str, Metric]]]:
        held = [frozenset(names(turn.example)) for turn in self.turns]
        counts = Counter(name for each in held for name in sorted(each))
        largest = sorted(counts.items(), key=lambda each: (-each[1], each[0]))[:_MOST]
        return {
            name: (n, self._summary([name in each for each in held], SLICE_METRICS)) for name, n in largest
        }

    def _summary(self, keep: Sequence[bool], only: Iterable[str] | None = None) -> dict[str, Metric]:
        clusters = [turn.example.conversation_id for turn in self.turns]
        scores: list[TurnScores] = [
            turn.scores if kept else {} for turn, kept in zip(self.turns, keep, strict=True)
        ]
        return summarise(scores, clusters, resamples=self._draws, largest=LARGEST, only=only)

    def shared_difference(self, other: Evaluation, metric: str) -> Difference | None:
        """Paired difference of this program and another on the turns that both answered.

        Returns:
            The difference; None if no turn has the metric.
        """
        theirs = {turn.example.key: turn.scores for turn in other.turns if not turn.unanswered}
        shared = [
            turn
            for turn in self.turns
            if not turn.unanswered
            and turn.example.key in theirs
            and (metric in turn.scores or metric in theirs[turn.example.key])
        ]
        try:
            return paired_metric(
                [turn.scores for turn in shared],
                [theirs[turn.example.key] for turn in shared],
                [turn.example.conversation_id for turn in shared],
                metric,
                largest=LARGEST.get(metric, 1.0),
            )
        except InputError:
            return None

    @cached_property
    def sources(self) -> dict[str, dict[str, float]]:
        """For each stage, the share of its decided turns that each kind of source answered."""
        found = {stage: Counter(record.source for record in self._records(stage)) for stage in STAGES}
        return {
            stage: {source: count / counts.total() for source, count in counts.most_common()}
            for stage, counts in found.items()
            if counts
        }

    @cached_property
    def usage(self) -> dict[str, Any]:
        """Cost per decided turn, latency in milliseconds, and both by stage. ``cost_per_turn`` is None if
        unknown, tokens are None if the LM's answers came without a count."""
        decided = [turn for turn in self.turns if turn.decision is not None]
        spent = [turn.decision.usage for turn in decided if turn.decision is not None]
        by_stage = {
            stage: {
                **self._spent([record.usage for record in records], len(decided)),
                "latency_ms": quantiles([record.latency_ms for record in records]),
                "degraded": sum(record.degraded for record in records),
            }
            for stage in STAGES
            if (records := self._records(stage))
        }
        return {
            **self._spent(spent, len(decided)),
            "latency_ms": quantiles([turn.latency_ms for turn in decided]),
            "by_stage": by_stage,
        }

    def latency_by_source(self) -> dict[str, dict[str, dict[str, float]]]:
        """For each stage and kind of source: how many turns, and their latency in milliseconds."""
        found: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
        for stage in STAGES:
            for record in self._records(stage):
                found[stage][record.source].append(record.latency_ms)
        return {
            stage: {source: {"n": len(times), **quantiles(times)} for source, times in sorted(held.items())}
            for stage, held in found.items()
        }

    def to_json(self) -> dict[str, Any]:
        """The document that ``evaluate --json`` prints; it holds no NaN."""
        return {
            "n": self.n,
            "crashed": self.crashed,
            "degraded": self.degraded,
            "refused": self.refused,
            "unanswered": self.unanswered,
            "metrics": {name: metric.to_json() for name, metric in self.metrics.items()},
            "usage": self.usage,
            "sources": self.sources,
            "slices": {
                name: {"n": n, "metrics": {key: metric.to_json() for key, metric in metrics.items()}}
                for name, (n, metrics) in self.slices.items()
            },
        }

    def _records(self, stage: str) -> list[StageRecord]:
        held = [turn.decision.stages for turn in self.turns if turn.decision is not None]
        return [record for stages in held for name, record in stages.items() if name == stage]

    def _spent(self, usages: Sequence[Usage], turns: int) -> dict[str, float | None]:
        total = sum(usages, Usage())
        if (cost := total.cost) is None and self.price is not None:
            cost = (total.prompt_tokens * self.price[0] + total.completion_tokens * self.price[1]) / 1e6
        per = max(1, turns)
        counted = not total.lm_calls or total.prompt_tokens > 0
        return {
            "lm_calls_per_turn": total.lm_calls / per,
            "prompt_tokens_per_turn": total.prompt_tokens / per if counted else None,
            "completion_tokens_per_turn": total.completion_tokens / per if counted else None,
            "cost_per_turn": None if cost is None else cost / per,
        }


PARTS: dict[str, Callable[[Example], Iterable[str]]] = {
    "place": place_of,
    "command": _commands_of,
    "flow": flows_of,
}
"""By what turns are divided: what of a division a turn belongs to."""

_MOST = 40
"""Parts of one kind that are told, of the largest: of a thousand flows few have turns enough for a figure."""


def quantiles(times: Sequence[float]) -> dict[str, float]:
    """Median and 95th percentile; zeros where there is nothing to measure.

    Example:
        >>> quantiles([1.0, 2.0, 3.0])["p50"]
        2.0
    """
    if not times:
        return {"p50": 0.0, "p95": 0.0}
    import numpy as np

    p50, p95 = (float(point) for point in np.percentile(times, [50, 95]))
    return {"p50": p50, "p95": p95}


def inconclusive_reason(turns: Sequence[Any]) -> str:
    """Why turns decide nothing: the language model left too many unanswered. Empty if they are conclusive."""
    if (silent := sum(turn.unanswered for turn in turns)) <= UNANSWERED * len(turns):
        return ""
    return (
        f"the language model did not answer {silent} of {len(turns)} turns, more than {UNANSWERED:.0%}: "
        "these figures decide nothing"
    )
