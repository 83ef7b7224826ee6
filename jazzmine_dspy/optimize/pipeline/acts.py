"""The head of acts in a run: trained on the labels, raced for the commands, and gated where a language model wins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from jazzmine_dspy.datasets.schema import Example
from jazzmine_dspy.eval.evaluation import Evaluation, TurnResult
from jazzmine_dspy.models.commands import Command
from jazzmine_dspy.models.decision import SourceKind, Stage
from jazzmine_dspy.optimize.context import RunContext
from jazzmine_dspy.optimize.pipeline.heats import MARGIN, Entry, run_heat
from jazzmine_dspy.optimize.pipeline.race import (
    HEAD_ORDER,
    LM_ORDER,
    Challenger,
    LanguageModel,
    Standing,
    race_one,
)
from jazzmine_dspy.program.driver import drive
from jazzmine_dspy.program.heads.acts import ActsHead
from jazzmine_dspy.program.ports import HeadExample
from jazzmine_dspy.program.sources.heads import head_input
from jazzmine_dspy.program.stage import Context
from jazzmine_dspy.program.turn import TurnProgram

WITH_LM: tuple[SourceKind, ...] = ("rule", "head", "lm", "floor")


class Raced(NamedTuple):
    """What came of the race: what stands, and how the head did under which order of the flows."""

    standing: Standing
    evaluation: Evaluation
    select: tuple[SourceKind, ...]


def fit_acts(context: RunContext, program: TurnProgram, examples: Sequence[Example]) -> ActsHead | None:
    """Train the head; None where the recipe has another one for the commands or wants none, or nothing is labelled."""
    labelled = [each for each in examples if each.labels.commands is not None]
    embedder = program.bindings.embedder
    if not (context.recipe.acts and labelled and embedder) or "understand" in context.recipe.heads:
        return None
    context.progress.phase("train acts for understand", len(labelled))
    return ActsHead.train([shown(program, each) for each in labelled], context.recipe.seed, embedder=embedder)


def shown(program: TurnProgram, example: Example) -> HeadExample[list[Command]]:
    """A labelled turn as the head is shown it, with the flows that are labelled: who else chooses them is raced."""
    turn, flows = example.turn, example.labels.flows or ()
    context = Context(turn=turn, registry=program.registry)
    context.selected = [name for name in flows if name != turn.flow]
    steps = head_input(_READER, context, context.choosable, rewritten=False)
    commands = [command for command in example.labels.commands or () if command.understood]
    return HeadExample(
        drive(steps, program, program.bindings), commands, example.conversation_id, tuple(flows)
    )


def race_acts(
    context: RunContext, program: TurnProgram, standing: Standing, lm: LanguageModel | None
) -> Raced | None:
    """Race the head for the commands; it costs no call of its own."""
    order: dict[Stage, tuple[SourceKind, ...]] = {"understand": HEAD_ORDER}
    after, evaluation = race_one(context, program, standing, "understand", Challenger("acts", order, {}), lm)
    return None if evaluation is None else Raced(after, evaluation, standing.orders["select"])


def gate_acts(context: RunContext, standing: Standing, raced: Raced | None, gate: float) -> Standing:
    """Let the head answer what it is sure of, where the language model won the commands.

    Both have answered the same turns, so nothing is asked again: each turn has the answer of who would give it.

    Args:
        context: Of the run.
        standing: What stands; the language model answers for the commands.
        raced: How the head alone did.
        gate: The confidence that it was fitted to need; over 1 it answers nothing.
    """
    if raced is None or gate > 1 or standing.orders["understand"] != LM_ORDER:
        return standing
    if standing.orders["select"] != raced.select:
        return standing
    ours = {turn.example.key: turn for turn in raced.evaluation.turns if _sure(turn, gate)}
    turns = tuple(ours.get(turn.example.key, turn) for turn in standing.evaluation.turns)
    mixed = replace(standing.evaluation, turns=turns)
    theirs = Entry(standing.names["understand"], standing.evaluation)
    name = f"acts, then {theirs.name}"
    heat = run_heat("understand", Entry(name, mixed), theirs, context.objective, least=-MARGIN)
    if heat is None:
        return standing
    standing = replace(standing, heats=(*standing.heats, heat))
    if not heat.won:
        return standing
    return replace(
        standing,
        orders={**standing.orders, "understand": WITH_LM},
        gates={**standing.gates, "understand": {"head": round(gate, 6)}},
        names={**standing.names, "understand": name},
        evaluation=mixed,
    )


def _sure(turn: TurnResult, gate: float) -> bool:
    record = turn.decision.stages["understand"] if turn.decision is not None else None
    if record is None:
        return False
    # Where the head failed a floor stood in; behind the gate the language model does.
    return record.source == "rule" or (record.source == "head" and record.confidence >= gate)


class _Reader:
    """Says what the head wants to see, before there is one."""

    fingerprint = ""
    texts_of = staticmethod(ActsHead.texts_of)

    def texts(self, message: str) -> tuple[str, ...]:
        return (message,)

    def predict(self, given: object) -> None:
        raise NotImplementedError


_READER = _Reader()
