"""What an operation is: a change of a state, in two forms."""

from __future__ import annotations

from collections.abc import Callable
from functools import update_wrapper
from typing import Concatenate, Generic, ParamSpec, TypeVar

from jazzmine_dspy.memory.working.state import WorkingMemory

P = ParamSpec("P")
R = TypeVar("R")


class Operation(Generic[P]):
    """A step of the state machine: ``new = operation(state, ...)``.

    The state that is given stays as it is, and so do the arguments; an error changes nothing. :meth:`inplace`
    changes the state itself, which saves the copy where nobody else has it.
    """

    def __init__(self, change: Callable[Concatenate[WorkingMemory, P], None]) -> None:
        self.inplace = change
        """The change itself. It may leave the state half changed when it raises."""
        update_wrapper(self, change)

    def __call__(self, state: WorkingMemory, /, *args: P.args, **kwargs: P.kwargs) -> WorkingMemory:
        """The state after the step."""
        after = state.model_copy(deep=True)
        self.inplace(after, *args, **kwargs)
        return after


class Answering(Generic[P, R]):
    """An operation with a result: ``new, result = operation(state, ...)``; else as :class:`Operation`."""

    def __init__(self, change: Callable[Concatenate[WorkingMemory, P], R]) -> None:
        self.inplace = change
        """The change itself, giving the result. It may leave the state half changed when it raises."""
        update_wrapper(self, change)

    def __call__(self, state: WorkingMemory, /, *args: P.args, **kwargs: P.kwargs) -> tuple[WorkingMemory, R]:
        """The state after the step, and the result."""
        after = state.model_copy(deep=True)
        return after, self.inplace(after, *args, **kwargs)
