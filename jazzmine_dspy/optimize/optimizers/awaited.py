"""Within DSPy's evaluations all turns are asked about before a run waits for answers that come by file."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import dspy
from dspy.utils.callback import BaseCallback

from jazzmine_dspy.models.awaiting import Awaiting, AwaitingGroup
from jazzmine_dspy.program.trainable import TrainableProgram
from jazzmine_dspy.program.turn import TurnProgram


class _NotYet(Exception):  # noqa: N818 - nothing failed
    """An answer is awaited; the evaluation goes on to the next turn."""


class _Evaluations(BaseCallback):
    """Notes what is awaited while an evaluation runs, and stops the run where it ends."""

    def __init__(self) -> None:
        self.open: list[AwaitingGroup] = []

    def __deepcopy__(self, memo: dict[int, Any]) -> _Evaluations:
        return self

    def on_evaluate_start(self, call_id: str, instance: Any, inputs: dict[str, Any]) -> None:  # noqa: ARG002
        """An evaluation begins."""
        self.open.append(AwaitingGroup())

    def on_evaluate_end(
        self,
        call_id: str,  # noqa: ARG002
        outputs: Any,  # noqa: ARG002
        exception: Exception | None = None,  # noqa: ARG002
    ) -> None:
        """An evaluation ends: what is awaited stops the run, since its score is none.

        Raises:
            Awaiting: for all turns that await an answer.
        """
        self.open.pop().check()


class _Asking(TrainableProgram):
    """Goes on to the next turn where an evaluation looks at all of them."""

    def forward(self, *args: Any, **kwargs: Any) -> dspy.Prediction:
        """As that of the class."""
        try:
            return super().forward(*args, **kwargs)
        except Awaiting as awaiting:
            found = next((each for each in dspy.settings.callbacks if isinstance(each, _Evaluations)), None)
            if found is None or not found.open:
                raise
            found.open[-1].add(awaiting)
            raise _NotYet from None


def trainable(program: TurnProgram) -> TrainableProgram:
    """``program.trainable()`` for DSPy's optimizers within :func:`awaited_together`."""
    return _Asking(program.with_policy("lm"))


@contextlib.contextmanager
def awaited_together() -> Iterator[None]:
    """Within it an evaluation of DSPy's asks about all of its turns before the run waits for an answer."""
    with dspy.context(callbacks=[*dspy.settings.callbacks, _Evaluations()]):
        yield
