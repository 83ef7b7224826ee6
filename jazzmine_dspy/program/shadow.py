"""Two programs on the same turn: one answers, the other is only watched."""

from __future__ import annotations

import contextvars
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, Self

from jazzmine_dspy.models import Turn, TurnDecision
from jazzmine_dspy.models.base import log
from jazzmine_dspy.models.errors import format_error
from jazzmine_dspy.program.deadline import DEADLINE
from jazzmine_dspy.program.state import as_turn
from jazzmine_dspy.program.turn import TurnProgram

WAITING = 64
"""Turns at most that wait for the program beside; what comes on top is not shown to it, and counted."""


class Shadowed(NamedTuple):
    """One turn as both programs decided it. ``theirs`` is None, with the reason in ``error``, where it failed."""

    turn: Turn
    ours: TurnDecision
    theirs: TurnDecision | None
    error: str = ""

    @property
    def same(self) -> bool:
        """Whether both want the same flows and the same commands."""
        other = self.theirs
        return (
            other is not None
            and other.selection.flows == self.ours.selection.flows
            and other.commands == self.ours.commands
        )


class Shadow:
    """Decides by one program, and lets another decide the same turns beside it.

    The answer is the first program's and never waits for the other, which works in a thread of its own; what becomes of
    it, failures included, changes nothing. In all else it is the first program: a ``Runtime`` takes it as one.

    Args:
        program: Answers.
        beside: Is watched.
        tell: Called, in that thread, with each turn that both have decided; None counts only.

    Example:
        >>> from jazzmine_dspy import FlowRegistry, TurnProgram
        >>> program = TurnProgram(FlowRegistry([{"name": "a", "description": "A thing."}])).with_policy("fallback")
        >>> with Shadow(program, program) as shadow:
        ...     commands = shadow.decide(text="thanks").commands
        >>> dict(shadow.counts)
        {'same': 1}
    """

    def __init__(
        self, program: TurnProgram, beside: TurnProgram, tell: Callable[[Shadowed], None] | None = None
    ) -> None:
        self._program, self._beside, self._tell = program, beside, tell
        self._places = threading.BoundedSemaphore(WAITING)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="shadow")
        self.counts: Counter[str] = Counter()
        """Turns that were the ``same``, ``different``, ``failed`` or ``dropped``."""

    def __getattr__(self, name: str) -> Any:
        """All else is the first program's: ``registry``, ``bindings``, ``fingerprint`` …"""
        return getattr(self._program, name)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Wait for the turns that are still being watched."""
        self._thread.shutdown(wait=True)

    def deepcopy(self) -> Shadow:
        """The same beside a copy of the program that answers; both count together."""
        copied = object.__new__(Shadow)
        copied.__dict__ |= {**self.__dict__, "_program": self._program.deepcopy()}
        return copied

    def bind(self, **ports: Any) -> Self:
        """Bind the program that answers."""
        self._program.bind(**ports)
        return self

    def decide(
        self,
        turn: Turn | str | None = None,
        *,
        text: str | None = None,
        exclude: Sequence[str] = (),
        deadline: float | None = DEADLINE,
    ) -> TurnDecision:
        """As :meth:`TurnProgram.decide`, by the first program."""
        checked_turn = as_turn(turn, text)
        decided = self._program.decide(checked_turn, exclude=exclude, deadline=deadline)
        self._watch(checked_turn, decided, exclude, deadline)
        return decided

    async def adecide(
        self,
        turn: Turn | str | None = None,
        *,
        text: str | None = None,
        exclude: Sequence[str] = (),
        deadline: float | None = DEADLINE,
    ) -> TurnDecision:
        """The same without blocking the loop."""
        checked_turn = as_turn(turn, text)
        decided = await self._program.adecide(checked_turn, exclude=exclude, deadline=deadline)
        self._watch(checked_turn, decided, exclude, deadline)
        return decided

    def _watch(self, turn: Turn, ours: TurnDecision, exclude: Sequence[str], deadline: float | None) -> None:
        """Leave the turn to the other program, which has what DSPy is configured with here."""
        if not self._places.acquire(blocking=False):
            self.counts["dropped"] += 1
            return

        def work() -> None:
            theirs, error = None, ""
            try:
                theirs = self._beside.decide(turn, exclude=exclude, deadline=deadline)
            except BaseException as caught:  # answers that are awaited are no Exception
                error = format_error(caught)
            told = Shadowed(turn, ours, theirs, error)
            self.counts["failed" if error else "same" if told.same else "different"] += 1
            try:
                if self._tell is not None:
                    self._tell(told)
            except Exception as caught:
                log.warning("what watches a shadow failed: %s", format_error(caught))
            finally:
                self._places.release()

        self._thread.submit(contextvars.copy_context().run, work)
