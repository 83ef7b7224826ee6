"""How a run tells what it is doing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol


class Progress(Protocol):
    """Watches a run. Duties: never raise, never write to stdout where that carries a document."""

    def phase(self, name: str, total: int | None) -> None:
        """A phase begins; ``total`` steps are expected, None where that is not known."""
        ...

    def step(self, done: int, total: int | None, *, best: float | None, spent: Mapping[str, Any]) -> None:
        """A step is done; best score so far, and what the run has spent."""
        ...

    def note(self, text: str) -> None:
        """Something worth a line."""
        ...

    def close(self) -> None:
        """The run is over."""
        ...


class NullProgress:
    """Tells nobody."""

    def phase(self, name: str, total: int | None) -> None:
        """Nothing."""

    def step(self, done: int, total: int | None, *, best: float | None, spent: Mapping[str, Any]) -> None:
        """Nothing."""

    def note(self, text: str) -> None:
        """Nothing."""

    def close(self) -> None:
        """Nothing."""
