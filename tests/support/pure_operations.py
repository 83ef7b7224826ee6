"""The operations of working memory as functions from a state to a new one, so that a test can compare the two.

Each copies the state, changes the copy in place and returns it; those with a result return ``(state, result)``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jazzmine_dspy.memory.working import WorkingMemory, operations

_WITH_RESULT = {"confirm_action", "dequeue"}


def _pure(name: str) -> Callable[..., Any]:
    operation = getattr(operations, name)

    def changed(state: WorkingMemory, /, *args: Any, **options: Any) -> Any:
        after = state.model_copy(deep=True)
        result = operation(after, *args, **options)
        return (after, result) if name in _WITH_RESULT else after

    return changed


NAMES = tuple(operations.__all__)
globals().update({name: _pure(name) for name in NAMES})
