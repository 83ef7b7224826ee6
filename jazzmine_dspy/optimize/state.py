"""The state of a run: what its steps have come to so far."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from jazzmine_dspy.artifacts import BASE
from jazzmine_dspy.eval.evaluation import Evaluation
from jazzmine_dspy.eval.report import Report
from jazzmine_dspy.eval.score_terms import TurnScores
from jazzmine_dspy.models.decision import TurnDecision, Usage
from jazzmine_dspy.optimize.confidence import GateFit
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
        gate: How the gate was set, and what is known of it.
        passing: For each judged turn, whether it passes a gate that was fitted without its conversation.
    """

    model: TurnConfidence
    gate: GateFit
    passing: Mapping[str, bool]


@dataclass(frozen=True)
class Tried:
    """A candidate with its score on dev-A (None while it has none), and its decisions there by turn."""

    candidate: Candidate
    score: float | None = None
    scored: int = 0
    answers: Mapping[str, TurnDecision] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    scores: tuple[TurnScores, ...] = ()

    @property
    def name(self) -> str:
        """Of the candidate."""
        return self.candidate.name

    @property
    def program(self) -> TurnProgram:
        """Asks the language model in every stage."""
        return self.candidate.program

    @property
    def cost(self) -> tuple[float, float]:
        """Calls and tokens that a turn took on the average."""
        spent = sum((answer.usage for answer in self.answers.values()), Usage())
        per = max(1, len(self.answers))
        return spent.lm_calls / per, (spent.prompt_tokens + spent.completion_tokens) / per


@dataclass(frozen=True)
class PromptsFit:
    """The candidates that were tried, the prompts as written first, once in each wording, and which of them goes on."""

    tried: tuple[Tried, ...] = ()
    best: Tried | None = None

    @property
    def uncompiled(self) -> Tried | None:
        """The prompts as written, in the wording that did best on dev-A; None where no language model is asked."""
        return _best(each for each in self.tried if not each.candidate.compiled)

    @property
    def best_compiled(self) -> Tried | None:
        """Of the compiled candidates, the one that did best on the most turns of dev-A."""
        return _best(each for each in self.tried if each.candidate.compiled and each.score is not None)


def _best(tried: Iterable[Tried]) -> Tried | None:
    return max(tried, key=lambda each: (each.scored, each.score or 0.0), default=None)


@dataclass(frozen=True)
class LocalFit:
    """The local decider: trained, and judged on turns that it had not learnt from.

    Args:
        name: Of the program that it makes.
        trained: The program, and what it learnt from.
        evaluation: Of it on turns that it had not learnt from: out of fold, or on the dev parts.
        base: The base program on the same turns.
        confidence: None where too few conversations tell.
        curve: Numbers of labelled conversations, 0 for the base, and what programs trained on so many do on the dev
            parts.
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
        kind: What it is made of; what is known of such programs beforehand hangs on it.
        program: As it was judged.
        evaluation: On turns that it had not learnt from.
        calls: Of the language model, for a turn, on the average.
        local: The local decider that it is made of; None where it has none.
    """

    name: str
    kind: Kind
    program: TurnProgram
    evaluation: Evaluation
    calls: float = 0.0
    local: LocalFit | None = None


@dataclass(frozen=True)
class Verdict:
    """How a contender does against the base program.

    Args:
        contender: The program.
        score: Its objective on the turns that both answered.
        difference: Over the base, paired, with bounds; None of the base itself.
        expected: The gain over the base to be expected, all that was known beforehand included.
        spread: The standard deviation of that.
        worth: The expected gain less the price of its calls: by this the run chooses.
        broken: Constraints that it breaks, in words; such a program does not ship.
    """

    contender: Contender
    score: float
    difference: Any = None
    expected: float = 0.0
    spread: float = 0.0
    worth: float = 0.0
    broken: tuple[str, ...] = ()


@dataclass(frozen=True)
class Choice:
    """What ships, and what it was chosen from, the base program first."""

    ships: Verdict
    verdicts: tuple[Verdict, ...]


@dataclass(frozen=True)
class RunState:
    """What the steps of a run have come to.

    Args:
        base: The base program over the dataset's flows.
        start: The program before anything is fitted, with the prompts as written or those that the run starts from.
        program: The best so far; what ships in the end.
        examples: Labelled turns in its index.
        locals: Local deciders, the one of the package's weights first.
        prompts: Candidates of prompts.
        contenders: Whole programs that may ship.
        choice: What ships.
        refitted: Labelled turns that taught what ships; 0 where it was not trained again.
        systems: The rows of the report, by name.
        report: All that the run found.
        paths: Where the report is.
        spent: What the run has spent.
        unanswered: Why the language model is not among the contenders although one is named; empty where it is.
    """

    base: TurnProgram
    start: TurnProgram
    program: TurnProgram
    examples: tuple[IndexExample, ...] = ()
    locals: tuple[LocalFit, ...] = ()
    prompts: PromptsFit = field(default_factory=PromptsFit)
    contenders: tuple[Contender, ...] = ()
    choice: Choice | None = None
    refitted: int = 0
    systems: Mapping[str, Evaluation | None] = field(default_factory=dict)
    report: Report | None = None
    paths: Any = None
    spent: Mapping[str, Any] = field(default_factory=dict)
    unanswered: str = ""

    @property
    def ships(self) -> str:
        """Name of what ships."""
        return self.choice.ships.contender.name if self.choice is not None else BASE

    @property
    def local(self) -> LocalFit:
        """The local decider that cascades and prompts are built on."""
        shipping = self.choice.ships.contender.local if self.choice is not None else None
        return shipping or self.locals[0]

    @property
    def stays(self) -> bool:
        """Whether the program that the run starts from ships as it was."""
        return self.choice is not None and self.choice.ships.contender.kind == "before"

    @property
    def base_ships(self) -> bool:
        """Whether nothing that was compiled ships."""
        return self.choice is None or self.choice.ships.contender.kind == "base"
