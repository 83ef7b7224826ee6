"""What a decision is worth against labels, for each stage and for the whole turn; and how scores of turns add up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from jazzmine_dspy.eval.equality import (
    collapse,
    command_keys,
    held_after,
    longest_common,
    name_key,
    slot_pairs,
    words,
)  # fmt: skip
from jazzmine_dspy.models.commands import Command
from jazzmine_dspy.models.decision import Selection, Stage, TurnDecision
from jazzmine_dspy.models.labels import Labels
from jazzmine_dspy.models.turn import Turn


class Part(NamedTuple):
    """A numerator and a denominator; ``name`` tells the classes of a macro average apart."""

    name: str
    numerator: float
    denominator: float


@dataclass(frozen=True)
class ScoreTerm:
    """What a turn adds to a score: its parts are summed over turns, divided, and averaged over part names.

    A mean adds (value, 1); a micro F1 adds (2 tp, 2 tp + fp + fn), which may be (0, 0): the turn is scored,
    yet says nothing either way.

    Example:
        >>> mean(0.5).value, f1(tp=1, fp=1, fn=0).value, f1(tp=0, fp=0, fn=0).value
        (0.5, 0.6666666666666666, None)
    """

    parts: tuple[Part, ...]

    @property
    def value(self) -> float | None:
        """The score of this turn alone, or None where it says nothing."""
        ratios = [part.numerator / part.denominator for part in self.parts if part.denominator]
        return sum(ratios) / len(ratios) if ratios else None


TurnScores = Mapping[str, ScoreTerm]
"""Metric names to contributions. A metric that is absent does not apply to the turn, or was not labelled."""


def mean(value: float) -> ScoreTerm:
    """A value that is averaged over turns."""
    return ScoreTerm((Part("", float(value), 1.0),))


def f1(*, tp: float, fp: float, fn: float) -> ScoreTerm:
    """Counts for a micro F1."""
    return ScoreTerm((_f1_part("", tp, fp, fn),))


def _f1_of(answer: Iterable[Hashable], gold: Iterable[Hashable]) -> ScoreTerm:
    """Counts for a micro F1 over two bags: an item said twice must be wanted twice."""
    said, wanted = Counter(answer), Counter(gold)
    tp = (said & wanted).total()
    return f1(tp=tp, fp=said.total() - tp, fn=wanted.total() - tp)


def _flag_f1(answer: bool | None, gold: bool) -> ScoreTerm:
    """Counts for the F1 of a yes; None is no answer, which finds nothing."""
    return f1(tp=bool(gold and answer), fp=bool(answer and not gold), fn=bool(gold and not answer))


def _class_f1(answer: str | None, gold: str, classes: Collection[str]) -> ScoreTerm:
    """Counts for a macro F1: one part for each class."""
    return ScoreTerm(
        tuple(
            _f1_part(name, tp=gold == name == answer, fp=answer == name != gold, fn=gold == name != answer)
            for name in classes
        )
    )


def _f1_part(name: str, tp: float, fp: float, fn: float) -> Part:
    return Part(name, 2.0 * tp, 2.0 * tp + fp + fn)


SENTIMENTS = ("negative", "neutral", "positive")
RECALL_AT = (1, 3, 5)
LOWER_IS_BETTER = frozenset({"sentiment_mae"})
LARGEST = {"sentiment_mae": 2.0}
"""The largest value of a metric that does not end at 1."""

_SURE = 0.2


def score_turn(decision: TurnDecision | None, labels: Labels, turn: Turn) -> TurnScores:
    """Score one decision. Only what is labelled is scored.

    Args:
        decision: The answer; None is a crash, which is as wrong as an answer can be.
        labels: What people say the turn means.
        turn: The turn that was decided; slots held before it, and its text, enter some scores.

    Returns:
        Contributions by metric name. Names ending in ``_f1`` or beginning with ``command_f1/`` are counts for
        a micro F1 (``sentiment_macro_f1``: one F1 for each class; ``rewrite_token_f1``: the turn's own F1,
        averaged); ``sentiment_mae`` is an absolute error; all others are 0 or 1, or a share, averaged over
        the turns that they apply to.

    Example:
        >>> from jazzmine_dspy.models import Enhancement, Selection, TurnDecision
        >>> labels = Labels.model_validate({"flows": ["track_order"]})
        >>> turn = Turn(text="where is my order?")
        >>> chosen = Selection(flows=["track_order"], candidates=[("track_order", 0.9)])
        >>> found = TurnDecision(enhancement=Enhancement(enhanced_query=turn.text), selection=chosen)
        >>> scores = score_turn(found, labels, turn)
        >>> scores["flow_set_exact"].value, scores["recall_at_1"].value, "rewrite_exact" in scores
        (1.0, 1.0, False)
    """
    return {
        **_enhancement(decision, labels, turn),
        **_selection(decision, labels),
        **_commands(decision, labels, turn),
    }


def _sentiment_class(score: float) -> str:
    """``negative`` up to -0.2, ``positive`` from 0.2, ``neutral`` between.

    Example:
        >>> _sentiment_class(-0.2), _sentiment_class(0.1), _sentiment_class(0.3)
        ('negative', 'neutral', 'positive')
    """
    return SENTIMENTS[1 + (score >= _SURE) - (score <= -_SURE)]


def _token_f1(answer: str, gold: str) -> float:
    """F1 over the bags of lower-cased words of two texts; where neither has one, whether they are equal.

    Example:
        >>> round(_token_f1("Where is order 4471?", "where is it"), 3)
        0.571
    """
    said, wanted = words(answer), words(gold)
    return _f1_of(said, wanted).value or 0.0 if said or wanted else float(collapse(answer) == collapse(gold))


def stage_score(stage: Stage, decision: TurnDecision | None, labels: Labels, turn: Turn) -> float | None:
    """One number for one stage of one turn, in [0, 1]: how far the stage can be trusted.

    No candidate is chosen by it. Of the answers that the objective takes for right, it keeps those out of the
    demonstrations of which another part is wrong.

    ``enhance``: the mean over what is labelled of the rewrite's word F1, 1 - |sentiment error| / 2, and
    whether the two flags are right. ``select``: whether the set of flows is right. ``understand``: F1 over
    the commands in their order, by their longest common subsequence, so that reversed commands lose; 1.0
    where there are none on both sides. Starts are left out of it: they are the selection's, and would else be
    scored twice.

    Returns:
        The score; 0.0 for a crash; None where nothing of the stage is labelled.
    """
    if stage == "enhance":
        return _enhance_score(decision, labels)
    if stage == "select":
        if labels.flows is None:
            return None
        return float(decision is not None and set(decision.selection.flows) == set(labels.flows))
    return _sequence_f1(decision, labels, turn, understood=True)


def commands_f1(decision: TurnDecision | None, labels: Labels, turn: Turn) -> float | None:
    """F1 over the commands with their values, in their order, by their longest common subsequence.

    It grows on the way to ``commands_exact``, and is 1 where that is 1 and nowhere else: what optimizers raise instead.

    Returns:
        From 0 to 1, 1 where there are none on both sides, 0 for a crash; None where commands are not labelled.

    Example:
        >>> from jazzmine_dspy.models import Enhancement, TurnDecision
        >>> labels = Labels.model_validate({"commands": [{"type": "affirm"}, {"type": "handoff"}]})
        >>> turn = Turn(text="yes, and get me a human")
        >>> said, chosen = Enhancement(enhanced_query=turn.text), Selection(flows=[])
        >>> found = TurnDecision(enhancement=said, selection=chosen, commands=labels.commands[:1])
        >>> round(commands_f1(found, labels, turn), 3)
        0.667
    """
    return _sequence_f1(decision, labels, turn, understood=False)


def _sequence_f1(
    decision: TurnDecision | None, labels: Labels, turn: Turn, *, understood: bool
) -> float | None:
    """F1 over the longest common subsequence of the commands, or of the understood ones alone."""
    if labels.commands is None:
        return None
    if decision is None:
        return 0.0
    answer, gold = (
        command_keys([command for command in commands if command.understood or not understood], turn)
        for commands in (decision.commands, labels.commands)
    )
    return 2.0 * longest_common(answer, gold) / (len(answer) + len(gold)) if answer or gold else 1.0


def _enhance_score(decision: TurnDecision | None, labels: Labels) -> float | None:
    answer = decision.enhancement if decision else None
    scores: list[float] = []
    if labels.enhanced is not None:
        scores.append(_token_f1(answer.enhanced_query, labels.enhanced) if answer else 0.0)
    if labels.sentiment is not None:
        scores.append(1.0 - abs(answer.sentiment_score - labels.sentiment) / 2.0 if answer else 0.0)
    if labels.is_cancellation is not None:
        scores.append(float(answer is not None and answer.is_cancellation == labels.is_cancellation))
    if labels.is_continuation is not None:
        scores.append(float(answer is not None and answer.is_continuation == labels.is_continuation))
    return sum(scores) / len(scores) if scores else None


def _enhancement(decision: TurnDecision | None, labels: Labels, turn: Turn) -> dict[str, ScoreTerm]:
    answer = decision.enhancement if decision else None
    scores: dict[str, ScoreTerm] = {}
    if labels.enhanced is not None:
        scores |= _rewrite(answer.enhanced_query if answer else None, labels, turn)
    if labels.sentiment is not None:
        gold = labels.sentiment
        said = _sentiment_class(answer.sentiment_score) if answer else None
        scores["sentiment_macro_f1"] = _class_f1(said, _sentiment_class(gold), SENTIMENTS)
        scores["sentiment_mae"] = mean(abs(answer.sentiment_score - gold) if answer else 1.0 + abs(gold))
    if labels.intent is not None:
        scores["intent_accuracy"] = mean(answer is not None and answer.intent == labels.intent)
    if labels.entities is not None:
        scores["entity_f1"] = _f1_of(
            {name_key(entity.name) for entity in answer.entities} if answer else set(),
            {name_key(entity.name) for entity in labels.entities},
        )
    if labels.is_cancellation is not None:
        scores["cancellation_f1"] = _flag_f1(
            answer.is_cancellation if answer else None, labels.is_cancellation
        )
    if labels.is_continuation is not None:
        scores["topic_shift_f1"] = _flag_f1(
            not answer.is_continuation if answer else None, not labels.is_continuation
        )
    return scores


def _rewrite(answer: str | None, labels: Labels, turn: Turn) -> dict[str, ScoreTerm]:
    gold = labels.enhanced or ""
    exact = mean(answer is not None and collapse(answer) == collapse(gold))
    scores = {
        "rewrite_exact": exact,
        "rewrite_token_f1": mean(_token_f1(answer, gold) if answer is not None else 0.0),
    }
    scores |= (
        {"unchanged_kept": mean(answer == turn.text)}
        if gold == turn.text
        else {"rewrite_needed_exact": exact}
    )
    # Only entities that the right rewrite names are asked for: others are known from the state alone.
    named = [
        name for entity in labels.entities or () if (name := set(words(entity.name))) <= set(words(gold))
    ]
    if named:
        said = set(words(answer or ""))
        scores["entity_recall_in_rewrite"] = mean(sum(name <= said for name in named) / len(named))
    return scores


def _selection(decision: TurnDecision | None, labels: Labels) -> dict[str, ScoreTerm]:
    answer = decision.selection if decision else None
    scores: dict[str, ScoreTerm] = {}
    if labels.flows is not None:
        gold = list(labels.flows)
        exact = answer is not None and set(answer.flows) == set(gold)
        scores["flow_set_exact"] = mean(exact)
        scores["flow_order_exact"] = mean(answer is not None and answer.flows == gold)
        if gold:
            scores["in_scope_accuracy"] = mean(exact)
            scores |= {f"recall_at_{k}": mean(_found(answer, gold, k)) for k in RECALL_AT}
    is_other = labels.intent == "out_of_scope" or any(c.type == "out_of_scope" for c in labels.commands or ())
    # Beside a task that the assistant does have, an empty selection would be wrong.
    if is_other and not labels.flows:
        scores["out_of_scope_recall"] = mean(answer is not None and not answer.flows)
    return scores


def _found(answer: Selection | None, gold: Collection[str], k: int) -> bool:
    """Whether all flows are among the first k candidates, or the first n where n > k of them are wanted."""
    first = [name for name, _ in answer.candidates[: max(k, len(gold))]] if answer else []
    return set(gold) <= set(first)


def _commands(decision: TurnDecision | None, labels: Labels, turn: Turn) -> dict[str, ScoreTerm]:
    if labels.commands is None:
        return {}
    said: Sequence[Command] = decision.commands if decision else ()
    answer, gold = command_keys(said, turn), command_keys(labels.commands, turn)
    said_slots, gold_slots = slot_pairs(said), slot_pairs(labels.commands)
    held = held_after(turn, labels.commands)
    scores = {
        "commands_exact": mean(decision is not None and answer == gold),
        "joint_goal": mean(decision is not None and held_after(turn, said) == held),
        "slot_name_f1": _f1_of([name for name, _ in said_slots], [name for name, _ in gold_slots]),
        "slot_value_f1": _f1_of(said_slots, gold_slots),
    }
    for kind in sorted({str(key[0]) for key in (*answer, *gold)}):
        scores[f"command_f1/{kind}"] = _f1_of(
            [key for key in answer if key[0] == kind], [key for key in gold if key[0] == kind]
        )
    return scores
