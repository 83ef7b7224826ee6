"""What is fitted under one order of the sources that rewrite, and the program with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from jazzmine_dspy import artifacts
from jazzmine_dspy.artifacts.recall import recall_numbers
from jazzmine_dspy.datasets.schema import Example
from jazzmine_dspy.models.decision import STAGES, SourceKind, Stage
from jazzmine_dspy.optimize.context import RunContext
from jazzmine_dspy.optimize.pipeline.added import train_heads
from jazzmine_dspy.optimize.pipeline.out_of_fold import out_of_fold
from jazzmine_dspy.optimize.pipeline.recall import FittedRecall, IndexExample
from jazzmine_dspy.optimize.pipeline.selection import SelectionFit, fit_index, fit_selection
from jazzmine_dspy.program.policy import FLOOR
from jazzmine_dspy.program.ports import HeadPort
from jazzmine_dspy.program.turn import TurnProgram


class Parts(NamedTuple):
    """What is fitted under one order of the sources that rewrite, and the program with it."""

    program: TurnProgram
    recall: FittedRecall | None
    selection: SelectionFit


def fit_parts(
    context: RunContext, base: TurnProgram, train: Sequence[Example], enhance: tuple[SourceKind, ...]
) -> Parts:
    """Fit index, floor and head on what the program's own steps make of the training turns.

    Args:
        context: Of the run.
        base: The program before anything is fitted; its prompts are those that race.
        train: Labelled turns.
        enhance: The order of the sources that rewrite them.

    Returns:
        The parts, and the program with them; floors answer where no order was raced.
    """
    program = base.with_policy(base.policy.model_copy(update={"orders": {**FLOOR, "enhance": enhance}}))
    # In the fused shape recall comes before the rewrite and does not hang on it: a head sees what the index finds.
    fused = program.shape == "fused"
    rewriting = {} if fused else bind_rewriting(context, program, train)
    recall = fit_index(context, program, train)
    if recall is not None:
        numbers = recall_numbers(recall.settings)
        program = program.with_policy(program.policy.model_copy(update={"recall": numbers}))
        program = with_index(program, recall.examples)
    if fused:
        rewriting = bind_rewriting(context, program, train)
    selection = fit_selection(context, program, train)
    scores: Mapping[str, Any] = {"floor_score": selection.thresholds} if selection.thresholds else {}
    program = program.with_policy(program.policy.model_copy(update=scores))
    if selection.head is not None:
        program.bind(heads={"select": selection.head.head})
    others = train_heads(context, program, train, STAGES[1:])
    program.bind(heads={**rewriting, **others})
    return Parts(program, recall, selection)


def bind_rewriting(
    context: RunContext, program: TurnProgram, examples: Sequence[Example]
) -> dict[Stage, HeadPort[Any]]:
    """Train the head of the rewrite that the recipe names, for what follows it to be fitted on the same turns.

    Where the program asks it, the program is left with a head that has not seen the conversation of the turn it
    rewrites: the rows of what follows are predicted, never learnt by heart.

    Returns:
        The head to bind when all is fitted; empty where the recipe names none.
    """
    heads = train_heads(context, program, examples, STAGES[:1])
    program.bind(heads=heads)
    if heads and "head" in program.policy.orders["enhance"]:
        program.bind(heads={"enhance": out_of_fold(context, program, examples, heads["enhance"])})
    return heads


def with_index(program: TurnProgram, examples: Sequence[IndexExample]) -> TurnProgram:
    """A copy of a program with an index of its flows and of labelled turns, which ranks as its policy says."""
    copy = program.with_policy(program.policy)
    artifacts.bind_recall(copy, copy.bindings.embedder, documents(examples))
    return copy


def documents(examples: Sequence[IndexExample]) -> list[dict[str, str]]:
    """Lines of ``examples.jsonl``."""
    return [{"text": text, "flow": flow, "conversation": group} for text, flow, group in examples]
