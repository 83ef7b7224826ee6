"""What a program is bound to at run time; none of it is saved with the program."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import dspy

from jazzmine_dspy.program.ports import EmbedderPort, HeadPort, RecallPort


@dataclass(frozen=True)
class Bindings:
    """What a program is bound to. Copying a program copies no client: ``__deepcopy__`` gives the same object."""

    recall: RecallPort | None = None
    embedder: EmbedderPort | None = None
    head: HeadPort | None = None
    lm: dspy.LM | None = None
    clock: Callable[[], float] = time.monotonic

    def __deepcopy__(self, memo: dict[int, Any]) -> Bindings:
        return self

    def but(self, **changes: Any) -> Bindings:
        """The same with some parts changed."""
        return replace(self, **changes)
