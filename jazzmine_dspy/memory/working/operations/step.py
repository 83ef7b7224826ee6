"""What an operation is: a change of a state, as a function of it, in place, and as a step that a store makes."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import update_wrapper
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar

from jazzmine_dspy.memory.working.state import WorkingMemory

P = ParamSpec("P")
R = TypeVar("R")


class Step(Generic[R]):
    """An operation with its arguments: what a store is to do with a state.

    Args:
        change: The operation in place, with its arguments.
        timed: Whether it is to be told the time.
        short: Whether it brings nothing but short texts into a state: what was read of it can be read again.
    """

    def __init__(self, change: Callable[..., R], *, timed: bool, short: bool) -> None:
        self._change, self._timed, self.short = change, timed, short

    def __call__(self, state: WorkingMemory, now: float = 0.0) -> R:
        """Change a state; ``now`` is Unix time in seconds."""
        return self._change(state, now=now) if self._timed else self._change(state)


class Operation(Generic[P]):
    """A step of the state machine: ``new = operation(state, ...)``.

    The state that is given stays as it is, and so do the arguments; an error changes nothing. :meth:`inplace`
    changes the state itself, which saves the copy where nobody else has it.
    """

    def __init__(self, change: Callable[Concatenate[WorkingMemory, P], None]) -> None:
        self.inplace = change
        """The change itself. It may leave the state half changed when it raises."""
        self._short, self._timed = False, _is_timed(change)
        update_wrapper(self, change)

    @classmethod
    def of_short_texts(cls, change: Callable[Concatenate[WorkingMemory, P], None]) -> Operation[P]:
        """An operation that brings nothing but short texts into a state."""
        made = cls(change)
        made._short = True
        return made

    def step(self, *args: P.args, **kwargs: P.kwargs) -> Step[None]:
        """The operation with its arguments, for a store."""
        return Step(_applied(self.inplace, args, kwargs), timed=self._timed, short=self._short)

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
        self._timed = _is_timed(change)
        update_wrapper(self, change)

    def step(self, *args: P.args, **kwargs: P.kwargs) -> Step[R]:
        """The operation with its arguments, for a store."""
        return Step(_applied(self.inplace, args, kwargs), timed=self._timed, short=False)

    def __call__(self, state: WorkingMemory, /, *args: P.args, **kwargs: P.kwargs) -> tuple[WorkingMemory, R]:
        """The state after the step, and the result."""
        after = state.model_copy(deep=True)
        return after, self.inplace(after, *args, **kwargs)


def _is_timed(change: Callable[..., Any]) -> bool:
    return "now" in inspect.signature(change).parameters


def _applied(change: Callable[..., R], args: Any, kwargs: Any) -> Callable[..., R]:
    return lambda state, **time: change(state, *args, **kwargs, **time)
