"""What a turn is shown besides its message and its state: history, and what hooks recall, loaded side by side."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Self, TypeVar

from jazzmine_dspy.models.errors import DeadlineError, format_error

T = TypeVar("T")


class Loading:
    """Parts that are loaded at the same time, each within its seconds. Leaving the block cancels what is left."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._began = self._loop.time()
        self._parts: dict[str, asyncio.Task[Any]] = {}
        self._limits: dict[str, tuple[float, float] | None] = {}
        self.failures: list[str] = []
        """Why parts are missing: their names, each with its cause."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for name in list(self._parts):
            self._drop(name)

    def left(self, limit: float | None) -> float | None:
        """Seconds that are left of those of a turn; None is no limit."""
        return None if limit is None else max(0.0, limit - (self._loop.time() - self._began))

    def begin(self, name: str, part: Coroutine[Any, Any, Any], limit: float | None) -> None:
        """Begin to load a part; ``limit`` is in seconds from now, None is no limit."""
        self._parts[name] = self._loop.create_task(part)
        self._limits[name] = None if limit is None else (limit, self._loop.time() + limit)

    async def part(self, name: str, default: T, *, errors: type[Exception] = Exception) -> T:
        """A part; the default, with a failure noted, where it fails or is late, or where it was not begun.

        Args:
            errors: What counts as a failure; any other error is raised.
        """
        task = self._parts.get(name)
        if task is None:
            return default
        # Unlike a timeout this does not wait for a part that refuses to be cancelled.
        limit = self._limits[name]
        await asyncio.wait([task], timeout=limit and max(0.0, limit[1] - self._loop.time()))
        if not task.done():
            self._drop(name)
            self.note(name, DeadlineError(f"No answer within {limit[0] if limit else 0:g} s"))
            return default
        if task.cancelled():
            self.note(name, asyncio.CancelledError())
            return default
        error = task.exception()
        if error is None:
            found: T = task.result()
            return found
        if not isinstance(error, errors):
            raise error
        self.note(name, error)
        return default

    def note(self, name: str, error: BaseException) -> None:
        """Note why something is missing, once for each name."""
        if not any(failure.startswith(f"{name}: ") for failure in self.failures):
            self.failures.append(f"{name}: {format_error(error)}")

    def _drop(self, name: str) -> None:
        task = self._parts.pop(name)
        if not task.done():
            task.cancel()
        # Looked at when it ends, so that an error nobody waits for is not reported as forgotten.
        task.add_done_callback(lambda done: done.cancelled() or done.exception())
