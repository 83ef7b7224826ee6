"""What an optimizer of prompts yields: candidates, with what each may cost and the whole state of its predictors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from jazzmine_dspy.models.errors import JazzmineError
from jazzmine_dspy.program.prompts import States, put, states_of
from jazzmine_dspy.program.turn import TurnProgram


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
