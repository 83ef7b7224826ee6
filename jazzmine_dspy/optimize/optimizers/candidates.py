"""What an optimizer of prompts yields: candidates, with what each may cost and the whole state of its predictors."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

from jazzmine_dspy.datasets.schema import Example
from jazzmine_dspy.models.errors import JazzmineError
from jazzmine_dspy.program.prompts import States, put, states_of
from jazzmine_dspy.program.turn import TurnProgram

if TYPE_CHECKING:
    from jazzmine_dspy.optimize.optimizers.means import Means


class DeadCompileError(JazzmineError):
    """A compile claims predictors that it never reached."""


@dataclass(frozen=True)
class Candidate:
    """A program with its predictors in one state: demonstrations, instructions, descriptions of fields.

    Args:
        name: Such as "labeled 1".
        program: Asks the language model in every stage.
        notes: What was told of making it.
        compiled: Whether it is more than the prompts as written.
    """

    name: str
    program: TurnProgram
    notes: tuple[str, ...] = ()
    compiled: bool = True

    @property
    def states(self) -> States:
        """The whole state of every predictor of the shape."""
        return states_of(self.program)

    def demonstrations(self) -> dict[str, int]:
        """How many each predictor of the shape holds."""
        return {name: len(self.program.predictor(name).demos) for name in self.program.active_predictors()}

    def reworded(self, base: TurnProgram) -> list[str]:
        """The predictors whose instructions or descriptions of fields are others than those of a program."""
        mine, theirs = states_of(self.program), states_of(base)
        return [name for name in mine if mine[name]["signature"] != theirs[name]["signature"]]


class Attempt(NamedTuple):
    """A candidate that can be made: its name, the calls that making it may take, and how."""

    name: str
    calls: int
    make: Callable[[], Candidate]


class Optimizer(Protocol):
    """Makes candidates of a program: the one seam between a run and whatever compiles prompts.

    Duties: an optimizer yields attempts, the cheapest first. An attempt says beforehand how many calls of the run's
    language model its making may take at most; a run skips the one that does not fit. A candidate is the whole state
    of the program's predictors, which race and artefact carry: demonstrations, instructions, descriptions of fields,
    and how many demonstrations are chosen per call. What it learns of answers it learns as :func:`.trajectories.tried`
    tells it: the score, and the metric's findings in words, of answers that cannot be read too.

    Errors: :class:`DeadCompileError` where a candidate claims a predictor that its making did not reach. What a
    language model that is down raises goes through. Nothing else ends a run.

    Invariants: nothing is asked before an attempt's ``make`` is called; the program and the turns stay as they are; the
    same recipe, program, turns and answers give the same candidates; a turn is never shown its own conversation.
    """

    def __call__(self, base: TurnProgram, train: Sequence[Example], means: Means) -> Iterator[Attempt]:
        """The attempts.

        Args:
            base: The uncompiled program; its policy asks the language model in every stage.
            train: Labelled turns to learn from.
            means: What it may use. Called with a number, it says whether the budget allows so many more calls.
        """
        ...


def with_states(program: TurnProgram, states: States) -> TurnProgram:
    """A copy of a program with the predictors in another state; policy and bindings are the same."""
    copy = program.with_policy(program.policy)
    put(states, copy)
    return copy


def assert_alive(candidate: Candidate, base: TurnProgram) -> None:
    """Make sure that a compile reached each predictor: by demonstrations, or by other words.

    Raises:
        DeadCompileError: a predictor has no demonstration and is worded as it was.
    """
    reworded = candidate.reworded(base)
    dead = [name for name, count in candidate.demonstrations().items() if not count and name not in reworded]
    if dead:
        raise DeadCompileError(
            f"The compile left {', '.join(dead)} without a demonstration, and worded as before",
            where=candidate.name,
            remedy="Label more turns, or take the optimizer 'none'.",
        )


def calls_per_turn(program: TurnProgram) -> int:
    """Calls that one turn needs at most."""
    predictors = program.active_predictors()
    if not predictors:
        return 0
    return 1 if program.shape == "fused" else len(predictors) + 1
