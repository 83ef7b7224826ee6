"""Two programs on the same turns: what differs, whether that is more than chance, and where; and whether one may take
the place of the other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from jazzmine_dspy.eval.evaluation import PARTS, SLICE_METRICS, Evaluation
from jazzmine_dspy.eval.feedback import describe_labels, describe_state
from jazzmine_dspy.eval.intervals import FEWEST_CLUSTERS
from jazzmine_dspy.eval.metrics import LOWER_IS_BETTER, TurnScores
from jazzmine_dspy.eval.objective import Objective
from jazzmine_dspy.eval.record import Record, RecordedTurn
from jazzmine_dspy.eval.significance import SIGNIFICANT, Loss, Paired, holm, loss, paired
from jazzmine_dspy.models.errors import InputError

MAIN = (*SLICE_METRICS, "cancellation_f1", "topic_shift_f1")
"""What is compared beside the objective and its constraints, where it is labelled."""


@dataclass(frozen=True)
class Slice:
    """The objective over some turns. ``kind`` is ``place``, ``command`` or ``flow``; ``tested`` says whether there are
    conversations enough, ten, for the difference to be told from chance."""

    kind: str
    name: str
    turns: int
    found: Paired
    tested: bool


@dataclass(frozen=True)
class ChangedTurn:
    """A turn whose score by the objective changed, with both answers in words."""

    key: str
    message: str
    state: str
    expected: str
    before: str
    after: str
    gained: bool


@dataclass(frozen=True)
class Comparison:
    """How ``after`` compares with ``before``. Made by :func:`compare`.

    Args:
        names: Of the two programs.
        objective: The metric that decides.
        main: The objective.
        others: Further metrics; their p-values are adjusted for their number.
        slices: The objective by place, by kind of command and by flow; those tested have adjusted p-values.
        outcomes: Turns by their outcome with ``before`` and with ``after``; crashes stand apart from wrong answers.
        changed: Turns whose answers differ, right or wrong.
        gained, lost: Turns that ``after`` has better, and worse, by the objective.
        n: Turns that both answered. ``left_out`` were not answered by the language model of one of them.
        conversations: That the turns are from.
        facts: Of each program, such as its fingerprint.
    """

    names: tuple[str, str]
    objective: str
    main: Paired
    others: tuple[Paired, ...]
    slices: tuple[Slice, ...]
    outcomes: Mapping[tuple[str, str], int]
    changed: int
    gained: tuple[ChangedTurn, ...]
    lost: tuple[ChangedTurn, ...]
    n: int
    left_out: int
    conversations: int
    facts: tuple[Mapping[str, str], Mapping[str, str]]

    @property
    def verdict(self) -> str:
        """What was found, in one sentence."""
        a, b = self.names
        found = self.main
        size = f"{self.objective} {found.before:.3f} with {a}, {found.after:.3f} with {b}"
        bounds = "too few conversations for an interval"
        if found.low is not None and found.high is not None:
            bounds = f"95 % interval {found.low:+.3f} to {found.high:+.3f}"
        counted = f"{found.gained} turns gained, {found.lost} lost"
        told = f"{size}: {found.difference:+.3f} ({bounds}; p = {found.p:.3g}); {counted}"
        if self.conversations == 1:
            return f"One conversation is too few for a conclusion: {told}."
        if not self.changed:
            return f"No difference: {a} and {b} answer all {self.n} turns alike; {size}."
        if found.significant:
            better = b if found.better else a
            return f"{better} is better: {told}."
        return (
            f"No difference is shown: {told}; {self.n} turns of {self.conversations} conversations show one of "
            f"{found.detectable:.3f} with 80 % power."
        )

    def to_json(self) -> dict[str, Any]:
        """All of it, as ``compare --json`` prints it."""
        return {
            "names": list(self.names),
            "objective": self.objective,
            "verdict": self.verdict,
            "n": self.n,
            "left_out": self.left_out,
            "conversations": self.conversations,
            "main": asdict(self.main),
            "others": [asdict(one) for one in self.others],
            "slices": [asdict(one) for one in self.slices],
            "outcomes": [
                {"before": old, "after": new, "turns": n} for (old, new), n in sorted(self.outcomes.items())
            ],
            "changed": self.changed,
            "gained": [asdict(one) for one in self.gained],
            "lost": [asdict(one) for one in self.lost],
            "facts": [dict(one) for one in self.facts],
        }


def compare(
    before: Evaluation | Record,
    after: Evaluation | Record,
    *,
    objective: Objective | str = "commands_exact",
    names: tuple[str, str] = ("A", "B"),
    seed: int = 0,
) -> Comparison:
    """Compare two programs that were evaluated on the same turns.

    Turns that the language model of either did not answer are left out. A crash is a wrong answer in all metrics and
    is counted apart in ``outcomes``.

    Args:
        before, after: Evaluations, or records of them.
        objective: The metric that decides, or an :class:`Objective`, whose constraints are compared too.
        names: What the two are called.
        seed: Of the draws behind p-values and intervals.

    Raises:
        InputError: the turns or their labels are not the same, both answered none, or the objective is not labelled.

    Example:
        >>> from jazzmine_dspy.datasets import Example, Labels
        >>> from jazzmine_dspy.eval import evaluate
        >>> from jazzmine_dspy.models import Flow, FlowRegistry, Turn
        >>> from jazzmine_dspy.program.turn import TurnProgram
        >>> program = TurnProgram(FlowRegistry([Flow(name="track", description="Tell where an order is.")]))
        >>> turn, labels = Turn(text="track it"), Labels.model_validate({"commands": []})
        >>> turns = [Example(conversation_id="c", turn_id="t1", turn=turn, labels=labels, role="dev_a", line=1)]
        >>> plain = evaluate(program.with_policy("fallback"), turns)
        >>> found = compare(plain, plain)
        >>> found.main.p, found.changed
        (1.0, 0)
    """
    old, new, aim, pairs = _answered_by_both(before, after, objective)
    main = _compared(pairs, aim.metric, seed)
    assert main is not None  # _answered_by_both has looked
    wanted = dict.fromkeys(name for name in (*aim.constraints, *MAIN) if name != aim.metric)
    others = [one for name in wanted if (one := _compared(pairs, name, seed)) is not None]
    moved = [(pair, move) for pair in pairs if (move := _move(pair, aim.metric))]
    return Comparison(
        names=names,
        objective=aim.metric,
        main=main,
        others=_adjusted(others),
        slices=_slices(pairs, aim.metric, seed),
        outcomes=Counter((one.outcome, two.outcome) for one, two in pairs),
        changed=sum(one.answer != two.answer for one, two in pairs),
        gained=tuple(_changed(pair, True) for pair, move in moved if move > 0),
        lost=tuple(_changed(pair, False) for pair, move in moved if move < 0),
        n=len(pairs),
        left_out=len(old.turns) - len(pairs),
        conversations=len({one.example.conversation_id for one, _ in pairs}),
        facts=(old.facts, new.facts),
    )


Pair = tuple[RecordedTurn, RecordedTurn]


def _answered_by_both(
    before: Evaluation | Record, after: Evaluation | Record, objective: Objective | str
) -> tuple[Record, Record, Objective, list[Pair]]:
    """Both records, the objective, and the turns but those that the language model of either did not answer.

    Raises:
        InputError: as :func:`compare`.
    """
    aim = Objective(objective) if isinstance(objective, str) else objective
    old, new = (Record.of(one) if isinstance(one, Evaluation) else one for one in (before, after))
    _check_same(old, new)
    pairs = [
        (one, two)
        for one, two in zip(old.turns, new.turns, strict=True)
        if not one.unanswered and not two.unanswered
    ]
    if not pairs:
        raise InputError(
            "No turn was answered by both programs", remedy="Evaluate both on turns of one split."
        )
    both = [{name for pair in pairs for name in pair[side].scores} for side in (0, 1)]
    if aim.metric not in both[0] & both[1]:
        shared = ", ".join(sorted(both[0] & both[1]))
        raise InputError(
            f"The objective {aim.metric!r} has no label on the turns that both answered",
            remedy=f"Compare by one of: {shared}."
            if shared
            else "Label the turns; they have no metric in common.",
        )
    return old, new, aim, pairs


def _compared(pairs: Sequence[Pair], metric: str, seed: int) -> Paired | None:
    """A metric over turns that both answered; None where it says nothing of them."""
    try:
        return paired(*_sides(pairs), metric, seed=seed)
    except InputError:
        return None


def _sides(pairs: Sequence[Pair]) -> tuple[list[TurnScores], list[TurnScores], list[str]]:
    """The scores of both programs, and the conversations of the turns."""
    conversations = [one.example.conversation_id for one, _ in pairs]
    return [one.scores for one, _ in pairs], [two.scores for _, two in pairs], conversations


def _check_same(old: Record, new: Record) -> None:
    ours, theirs = ([turn.example for turn in one.turns] for one in (old, new))
    if [each.key for each in ours] != [each.key for each in theirs]:
        raise InputError(
            "The two evaluations are not of the same turns",
            where=f"{len(ours)} turns and {len(theirs)}",
            remedy="Evaluate both on one split, with one sample.",
        )
    for one, two in zip(ours, theirs, strict=True):
        if one.turn.digest != two.turn.digest or one.labels != two.labels:
            raise InputError(
                "The two evaluations are of different states of a dataset",
                where=f"turn {one.key}",
                remedy="Evaluate both on the same flows, turns and labels.",
            )


def _adjusted(found: Sequence[Paired]) -> tuple[Paired, ...]:
    values = holm(one.p for one in found)
    return tuple(replace(one, adjusted=value) for one, value in zip(found, values, strict=True))


def _slices(pairs: Sequence[Pair], metric: str, seed: int) -> tuple[Slice, ...]:
    """By place, by kind of command that is expected, and by flow that runs or is to start."""
    found = []
    for kind, names_of in PARTS.items():
        named = [(pair, frozenset(names_of(pair[0].example))) for pair in pairs]
        for name in sorted(frozenset().union(*(names for _, names in named))):
            held = [pair for pair, names in named if name in names]
            if (one := _compared(held, metric, seed)) is not None:
                found.append(Slice(kind, name, len(held), one, one.conversations >= FEWEST_CLUSTERS))
    adjusted = iter(_adjusted([one.found for one in found if one.tested]))
    return tuple(replace(one, found=next(adjusted)) if one.tested else one for one in found)


def _move(pair: Pair, metric: str) -> float:
    """How much better the second answer is, by the objective."""
    before, after = (turn.scores[metric].value if metric in turn.scores else None for turn in pair)
    if before is None or after is None:
        # Counts say nothing where nothing was to be found and nothing was: that is right.
        before, after = (1.0 if value is None else value for value in (before, after))
    move = after - before
    return 0.0 if abs(move) <= 1e-9 else -move if metric in LOWER_IS_BETTER else move


def _changed(pair: Pair, gained: bool) -> ChangedTurn:
    one, two = pair
    example = one.example
    return ChangedTurn(
        key=example.key,
        message=example.turn.text,
        state=describe_state(example.turn),
        expected=describe_labels(example.labels),
        before=one.answer,
        after=two.answer,
        gained=gained,
    )


# --- the gate --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Gate:
    """The verdict on a program. ``adjusted`` are the p-values of ``losses``, held against their number (Holm)."""

    losses: tuple[Loss, ...]
    adjusted: tuple[float, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether no loss is significant."""
        return not any(value < SIGNIFICANT for value in self.adjusted)

    @property
    def why(self) -> str:
        """The verdict in words, metric by metric."""
        told = [_describe_loss(one, value) for one, value in zip(self.losses, self.adjusted, strict=True)]
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
        raise InputError(f"The margin {margin} is not a share", remedy="Give one from 0 to 1, such as 0.02.")
    _, _, aim, pairs = _answered_by_both(baseline, program, objective)
    allowed = {aim.metric: margin} | dict(aim.constraints) | {aim.metric: margin}
    found = tuple(
        loss(*_sides(pairs), metric, margin=most, seed=seed)
        for metric, most in allowed.items()
        if any(metric in turn.scores for pair in pairs for turn in pair)
    )
    return Gate(found, tuple(holm(one.p for one in found)))


def _describe_loss(one: Loss, p: float) -> str:
    moved = f"{one.metric} loses {one.loss:.3f}" if one.loss > 0 else f"{one.metric} gains {-one.loss:.3f}"
    allowed = f", {one.margin:g} is allowed" if one.margin else ""
    if p < SIGNIFICANT:
        return f"{moved}{allowed}: more than chance (p = {p:.3g})"
    return f"{moved}{allowed}: no significant loss (p = {p:.3g}); one of {one.detectable:.3f} is found with 80 % power"
