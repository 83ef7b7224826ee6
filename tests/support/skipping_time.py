"""An event loop for code that waits: its clock jumps to the next timer instead of waiting for it."""

from __future__ import annotations

import asyncio
from typing import Any


class SkippingLoop(asyncio.SelectorEventLoop):
    """An event loop in which time passes at once where there is nothing else to do."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        select = self._selector.select  # type: ignore[attr-defined]

        def at_once(timeout: float | None = None) -> Any:
            self.now += timeout or 0.0
            return select(0)

        self._selector.select = at_once  # type: ignore[attr-defined]

    def time(self) -> float:
        return self.now
