"""A head that answers training turns as if it had not seen their conversations, for what follows it to learn from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from jazzmine_dspy.datasets.schema import Example
from jazzmine_dspy.models.decision import Stage
from jazzmine_dspy.models.turn import Turn
from jazzmine_dspy.optimize.context import RunContext
from jazzmine_dspy.optimize.pipeline.added import WANTED, train_heads
from jazzmine_dspy.optimize.pipeline.rows import RecordedHead
from jazzmine_dspy.optimize.pipeline.selection import SelectionFit
from jazzmine_dspy.program.ports import HeadInput, HeadOutput, HeadPort
from jazzmine_dspy.program.turn import TurnProgram

_FOLDS = 3


class OutOfFold:
    """A head that lets a training turn be answered by a head that was trained without it.

    Args:
        whole: The head that was trained on all turns: it answers all others.
        parts: The heads that answer in its place, by turn.
    """

    def __init__(self, whole: HeadPort[Any], parts: Mapping[str, HeadPort[Any]]) -> None:
        self.whole = whole
        self._parts = parts
        self.fingerprint = f"out of fold: {whole.fingerprint}"

    def __deepcopy__(self, memo: dict[int, Any]) -> OutOfFold:
        return self

    def texts(self, message: str) -> tuple[str, ...]:
        """What the head wants to see the features of."""
        return tuple(self.whole.texts(message))

    def predict(self, given: HeadInput) -> HeadOutput[Any]:
        """What the head says that has not seen the turn."""
        found: HeadOutput[Any] = self._parts.get(_key(given.turn), self.whole).predict(given)
        return found


def out_of_fold(
    context: RunContext,
    program: TurnProgram,
    examples: Sequence[Example],
    whole: HeadPort[Any],
    stage: Stage = "enhance",
) -> HeadPort[Any]:
    """Train the head of a stage once per fold of the conversations.

    Args:
        context: Of the run.
        program: As it was when the head was trained.
        examples: The turns that the head was trained on.
        whole: The head.
        stage: Its stage.

    Returns:
        A head to bind while what follows the stage is fitted. The head itself where only one conversation taught it.
    """
    from jazzmine_dspy.optimize.heads.training import group_folds

    labelled = [each for each in examples if WANTED[stage](each.labels) is not None]
    groups = [each.conversation_id for each in labelled]
    if len(set(groups)) < 2:
        context.progress.note(
            f"one conversation teaches the head for {stage}: what follows it is fitted on turns it has seen"
        )
        return whole
    fold_of: dict[str, int] = {}
    folds = group_folds(groups, seed=context.recipe.seed, folds=_FOLDS).tolist()
    for example, fold in zip(labelled, folds, strict=True):
        # Turns that are alike in all are one turn, whatever conversation they stand in.
        fold_of.setdefault(_key(example.turn), fold)
    heads: dict[int, HeadPort[Any]] = {}
    for out in sorted(set(fold_of.values())):
        kept = [
            example
            for example, fold in zip(labelled, folds, strict=True)
            if fold != out and fold_of[_key(example.turn)] != out
        ]
        heads[out] = train_heads(context, program, kept, (stage,))[stage] if kept else whole
    return OutOfFold(whole, {key: heads[fold] for key, fold in fold_of.items()})


def unseen_selection(
    context: RunContext, program: TurnProgram, selection: SelectionFit, examples: Sequence[Example]
) -> dict[Stage, HeadPort[Any]]:
    """A head of the selection that has seen none of the turns, to bind while a head of the commands is trained.

    Args:
        context: Of the run.
        program: Its policy says who chooses the flows.
        selection: Holds what our own head said of the training turns while it had not seen them.
        examples: The turns that the head of the commands is trained on.

    Returns:
        The head; empty where no head is asked, or none that the run has trained.
    """
    if "head" not in program.policy.orders["select"]:
        return {}
    if "select" in context.recipe.heads:
        whole = program.bindings.heads["select"]
        return {"select": out_of_fold(context, program, examples, whole, "select")}
    if selection.head is None:
        return {}
    said = zip(selection.rows, selection.head.judgements, strict=True)
    parts = {_key(row.example.turn): RecordedHead(output) for row, output in said}
    # Turns of the development parts never taught this head: it answers them itself.
    return {"select": OutOfFold(selection.head.head, parts)}


def _key(turn: Turn) -> str:
    return turn.model_dump_json()
