"""The state of a run: results of its steps so far; its result in the end, and the facts for its manifest."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

import dspy

from jazzmine_dspy.artifacts import BASE
from jazzmine_dspy.eval.evaluation import Evaluation, TurnResult
from jazzmine_dspy.eval.report import Report
from jazzmine_dspy.models.decision import Usage
from jazzmine_dspy.optimize.context import RunContext
from jazzmine_dspy.optimize.gates import Gate
from jazzmine_dspy.optimize.local.recall import IndexExample
from jazzmine_dspy.optimize.local.training import TrainedLocal
from jazzmine_dspy.optimize.optimizers.registry import Candidate
from jazzmine_dspy.program.turn import TurnProgram
from jazzmine_dspy.program.turn_confidence import TurnConfidence

Kind = Literal["base", "before", "local", "lm", "cascade", "other"]


@dataclass(frozen=True)
class ConfidenceFit:
    """The confidence of turns that are decided locally, and the gate on it.

    Args:
        model: Fitted on all judged turns, with its gate.
        gate: The gate, with its error and how it was set.
        passing: For each judged turn, whether it passes a gate that was fitted without its conversation.
    """

    model: TurnConfidence
    gate: Gate
    passing: Mapping[str, bool]


@dataclass(frozen=True)
class Tried:
    """A candidate with its score and its turns of dev-A; the score is None until it is scored."""

    candidate: Candidate
    score: float | None = None
    turns: tuple[TurnResult, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def scored(self) -> int:
        """Number of turns behind the score."""
        return 0 if self.score is None else len(self.turns)

    @property
    def cost(self) -> tuple[float, float]:
        """Mean calls and tokens of a turn."""
        usages = [turn.decision.usage for turn in self.turns if turn.decision is not None]
        spent, per = sum(usages, Usage()), max(1, len(usages))
        return spent.lm_calls / per, (spent.prompt_tokens + spent.completion_tokens) / per


@dataclass(frozen=True)
class PromptsFit:
    """The scored candidates, those with prompts as written first, and the best one."""

    tried: tuple[Tried, ...] = ()
    best: Tried | None = None

    @property
    def uncompiled(self) -> Tried | None:
        """The prompts as written; None without a language model."""
        return _best(each for each in self.tried if not each.candidate.compiled)

    @property
    def best_compiled(self) -> Tried | None:
        """The compiled candidate that was scored on the most turns of dev-A, with the best score among these."""
        return _best(each for each in self.tried if each.candidate.compiled and each.score is not None)


def _best(tried: Iterable[Tried]) -> Tried | None:
    return max(tried, key=lambda each: (each.scored, each.score or 0.0), default=None)


@dataclass(frozen=True)
class LocalFit:
    """A trained local decider, judged on turns that it had not learnt from.

    Args:
        name: Name of its program.
        trained: The program and its training data.
        evaluation: Its evaluation on unseen turns: out of fold, or on the dev parts.
        base: The base program on the same turns.
        confidence: None if there are too few conversations to fit it.
        curve: The learning curve: numbers of labelled conversations, 0 for the base, with evaluations on the dev parts.
    """

    name: str
    trained: TrainedLocal
    evaluation: Evaluation
    base: Evaluation
    confidence: ConfidenceFit | None = None
    curve: tuple[tuple[int, Evaluation], ...] = ()


@dataclass(frozen=True)
class Contender:
    """A whole program that may ship.

    Args:
        name: Such as "local", or "local, then LM compiled".
        kind: What it consists of; it decides which prior applies.
        program: The program as judged.
        evaluation: On turns that it had not learnt from.
        calls: Mean LM calls of a turn.
        local: Its local decider; None without one.
    """

    name: str
    kind: Kind
    program: TurnProgram
    evaluation: Evaluation
    calls: float = 0.0
    local: LocalFit | None = None


@dataclass(frozen=True)
class Verdict:
    """A contender compared with the base program.

    Args:
        contender: The program.
        score: Its objective on the turns that both answered.
        difference: Paired difference over the base with bounds; None for the base itself.
        expected: Expected gain over the base, with the prior.
        spread: Standard deviation of the expected gain.
        worth: Expected gain minus the price of its calls; the run chooses the highest.
        broken: Broken constraints, or a gain that is not likely, in words; such a program does not ship.
    """

    contender: Contender
    score: float
    difference: Any = None
    expected: float = 0.0
    spread: float = 0.0
    worth: float = 0.0
    broken: tuple[str, ...] = ()


@dataclass(frozen=True)
class RunState:
    """Results of the steps of a run.

    Args:
        base: The base program over the dataset's flows.
        start: The program before any training, with the prompts as written or those of the previous program.
        program: The best program so far; the shipped one in the end.
        examples: Labelled turns in its index.
        locals: Local deciders, the one with moved package weights first.
        prompts: Candidates of prompts.
        contenders: Whole programs that may ship.
        verdicts: On the contenders, the base program first; empty before the choice.
        chosen: The verdict on the program that ships; None before the choice.
        refitted: Labelled turns in the final training of the chosen program; 0 if it was not trained again.
        systems: The rows of the report, by name.
        report: The report.
        paths: Files of the report.
        spent: Spending of the run.
        unanswered: Why the language model of the recipe is no contender; empty if it is one.
    """

    base: TurnProgram
    start: TurnProgram
    program: TurnProgram
    examples: tuple[IndexExample, ...] = ()
    locals: tuple[LocalFit, ...] = ()
    prompts: PromptsFit = field(default_factory=PromptsFit)
    contenders: tuple[Contender, ...] = ()
    verdicts: tuple[Verdict, ...] = ()
    chosen: Verdict | None = None
    refitted: int = 0
    systems: Mapping[str, Evaluation | None] = field(default_factory=dict)
    report: Report | None = None
    paths: Any = None
    spent: Mapping[str, Any] = field(default_factory=dict)
    unanswered: str = ""

    @property
    def ships(self) -> str:
        """Name of the program that ships."""
        return self.chosen.contender.name if self.chosen is not None else BASE

    @property
    def local(self) -> LocalFit:
        """The local decider that cascades and prompts are built on."""
        shipping = self.chosen.contender.local if self.chosen is not None else None
        return shipping or self.locals[0]

    @property
    def stays(self) -> bool:
        """Whether the previous program ships unchanged."""
        return self.chosen is not None and self.chosen.contender.kind == "before"

    @property
    def base_ships(self) -> bool:
        """Whether the base program ships."""
        return self.chosen is None or self.chosen.contender.kind == "base"


# --- the result --------------------------------------------------------------------------------------

PREDICTORS = ("enhance", "select", "understand", "fused")


class RunResult(NamedTuple):
    """Result of a run.

    Args:
        program: The shipped program.
        folder: Its folder.
        report: The report.
        report_paths: Files of the report.
        manifest: Manifest of the program.
        spent: Calls, tokens, money and minutes.
        shipped: Name of the chosen program.
        first_line: First line of the report.
        untracked: Why MLflow lacks a part of the run; empty if it has all.
    """

    program: TurnProgram
    folder: Path
    report: Report
    report_paths: Any
    manifest: dict[str, Any]
    spent: dict[str, Any]
    shipped: str
    first_line: str
    untracked: str = ""


def run_facts(context: RunContext) -> dict[str, Any]:
    """Facts for ``run.json``: start, end, spending, and where the run is tracked."""
    dates = {"started": context.started.isoformat(), "ended": dt.datetime.now(dt.UTC).isoformat()}
    tracking = {} if context.tracker is None else {"tracking": context.tracker.facts}
    return {**dates, "spent": context.spent(), **tracking}


def stopped_facts(context: RunContext) -> dict[str, Any]:
    """Facts for the manifest of any run, also a stopped one: recipe, dataset and language model."""
    recipe, dataset = context.recipe, context.dataset
    return {
        "objective": recipe.objective,
        "recipe": recipe.facts,
        "recipe_fingerprint": recipe.fingerprint,
        "dataset": {
            "name": dataset.name,
            "fingerprint": dataset.fingerprint,
            "splits": dataset.splits_fingerprint,
            "roles": dataset.roles,
        },
        "lm": context.lm_facts,
        "started_from": context.started_from,
    }


def manifest_facts(context: RunContext, state: RunState, first_line: str) -> dict[str, Any]:
    """Facts for the manifest of a finished run. They do not depend on time."""
    recipe, embedder = context.recipe, state.program.bindings.embedder
    local = state.local
    scores = {
        name: {
            metric: [*(None if x is None else round(x, 4) for x in (m.value, m.low, m.high)), m.n]
            for metric, m in evaluation.metrics.items()
        }
        for name, evaluation in state.systems.items()
        if evaluation is not None
    }
    uncompiled = state.prompts.uncompiled
    head = local.trained.head
    confidence = local.confidence
    return {
        "dspy": dspy.__version__,
        "shape": recipe.shape,
        **stopped_facts(context),
        "embedder": {"model": recipe.embedder, "fingerprint": embedder.fingerprint if embedder else None},
        "head": head.facts if head is not None else None,
        "local": local.trained.facts(),
        "gate": confidence.gate.facts() if confidence is not None else None,
        "refit_turns": state.refitted,
        "candidates": [
            {
                "name": each.candidate.name,
                "dev_a": each.score,
                "turns": each.scored,
                "demonstrations": each.candidate.demonstrations(),
                "reworded": each.candidate.reworded(uncompiled.candidate.program) if uncompiled else [],
                "notes": list(each.notes),
            }
            for each in state.prompts.tried
        ],
        "programs": [_verdict_facts(each) for each in state.verdicts],
        "shipped": state.ships,
        "demonstrations": {name: len(state.program.predictor(name).demos) for name in PREDICTORS},
        "first_line": first_line,
        "scores": scores,
        **({} if context.previous is None else {"from": context.previous.to_json() | {"stays": state.stays}}),
    }


def _verdict_facts(verdict: Verdict) -> dict[str, Any]:
    difference = verdict.difference
    return {
        "name": verdict.contender.name,
        "kind": verdict.contender.kind,
        "score": round(verdict.score, 4),
        "calls": round(verdict.contender.calls, 4),
        "n": difference.n if difference is not None else verdict.contender.evaluation.n,
        "difference": round(difference.value, 4) if difference is not None else None,
        "lower_bound": round(difference.lower_bound_one_sided, 4) if difference is not None else None,
        "detectable": round(difference.detectable, 4) if difference is not None else None,
        "expected": round(verdict.expected, 4),
        "spread": round(verdict.spread, 4),
        "worth": round(verdict.worth, 4),
        "broken": list(verdict.broken),
    }
