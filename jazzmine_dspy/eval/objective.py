"""What a run raises: one metric by its public name minus the price of tokens, and what the others may lose for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from jazzmine_dspy.datasets.schema import Example
from jazzmine_dspy.eval.evaluation import Evaluation
from jazzmine_dspy.eval.metrics import LOWER_IS_BETTER, ScoreTerm, commands_f1, mean, score_turn
from jazzmine_dspy.models.decision import TurnDecision
from jazzmine_dspy.models.labels import Labels
from jazzmine_dspy.models.turn import Turn

OBJECTIVES = (
    "commands_exact", "flow_set_exact", "rewrite_token_f1", "joint_goal", "slot_value_f1", "slot_name_f1",
    "flow_order_exact", "in_scope_accuracy", "out_of_scope_recall", "rewrite_exact", "rewrite_needed_exact",
    "intent_accuracy", "entity_f1", "cancellation_f1", "topic_shift_f1", "sentiment_macro_f1",
)  # fmt: skip
"""Metrics that a run can raise: each says something of a single turn, and more is better."""

CONSTRAINTS = (*OBJECTIVES, "unchanged_kept", "entity_recall_in_rewrite", "sentiment_mae",
               "recall_at_1", "recall_at_3", "recall_at_5")  # fmt: skip
"""Metrics that a run can hold: what is lost of them has a limit. More of ``sentiment_mae`` is a loss."""

_SMOOTH = {"rewrite_exact": "rewrite_token_f1", "rewrite_needed_exact": "rewrite_token_f1"}


@dataclass(frozen=True)
class Objective:
    """The metric that decides, and the limits of what others may lose.

    Args:
        metric: A name of :data:`OBJECTIVES`.
        constraints: For names of :data:`CONSTRAINTS`, the loss that is allowed, from 0 to 1.
        token_price: What a thousand tokens for each turn have to bring, as a share of the metric.

    Example:
        >>> Objective().metric
        'commands_exact'
    """

    metric: str = OBJECTIVES[0]
    constraints: Mapping[str, float] = field(default_factory=dict)
    token_price: float = 0.0

    def price(self, tokens: float) -> float:
        """What tokens have to bring.

        Args:
            tokens: For a turn, sent and answered together.

        Example:
            >>> Objective(token_price=0.01).price(3400)
            0.034
        """
        return self.token_price * tokens / 1000

    def smooth(self, decision: TurnDecision | None, labels: Labels, turn: Turn) -> float | None:
        """What optimizers and gates raise instead: where the metric is all or nothing, one that grows on the way to it.

        For ``commands_exact`` that is the F1 of the commands with their values, for exact rewrites the F1 of their
        words; every other metric stands for itself.

        Returns:
            From 0 to 1, 0 for a crash; None where the turn says nothing: it has no label of the metric, or, for an
            F1 of counts, nothing was to be found and nothing was.
        """
        found = self.adds(decision, labels, turn)
        return None if found is None else found.value

    def adds(self, decision: TurnDecision | None, labels: Labels, turn: Turn) -> ScoreTerm | None:
        """What one turn adds to :meth:`smooth` over many turns, pooled as the metric is; None where it has no label."""
        if self.metric == "commands_exact":
            right = commands_f1(decision, labels, turn)
            return None if right is None else mean(right)
        found = score_turn(decision, labels, turn)
        return found[_SMOOTH.get(self.metric, self.metric)] if self.metric in found else None

    def broken_constraints(self, ours: Evaluation, theirs: Evaluation) -> tuple[str, ...]:
        """The constraints that one program breaks against another, on the turns that both answered, in words."""
        found = []
        for metric, allowed in sorted(self.constraints.items()):
            if (difference := ours.shared_difference(theirs, metric)) is None:
                continue
            loss = difference.value if metric in LOWER_IS_BETTER else -difference.value
            if loss > allowed + 1e-12:
                found.append(f"{metric} loses {loss:.3f}, {allowed:g} is allowed")
        return tuple(found)


def has_label(metric: str, example: Example) -> bool:
    """Whether a metric says something of a turn, by its labels.

    Example:
        >>> labels, turn = Labels(flows=("a",)), Turn(text="x")
        >>> one = Example(conversation_id="c", turn_id="t", turn=turn, labels=labels, role="train", line=1)
        >>> has_label("flow_set_exact", one), has_label("commands_exact", one)
        (True, False)
    """
    return metric in score_turn(None, example.labels, example.turn)


def labelled(parts: Sequence[Sequence[Example]]) -> tuple[str, ...]:
    """The objectives of which some turn of every part has the label."""
    return tuple(
        name for name in OBJECTIVES if all(any(has_label(name, each) for each in part) for part in parts)
    )
