"""Progress on stderr: bars on a terminal, a line per phase elsewhere."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn


class RichProgress:
    """Shows phases, the best score so far, what is spent, and the time left.

    Args:
        console: Where; nothing is ever written to stdout.
        clock: Seconds of a monotonic clock.
    """

    def __init__(self, console: Console, clock: Any = time.monotonic) -> None:
        self._console = console
        self._clock = clock
        self._bars = Progress(
            TextColumn("{task.description}", markup=False), BarColumn(bar_width=24), MofNCompleteColumn(),
            TextColumn("{task.fields[facts]}", markup=False), TimeRemainingColumn(compact=True), console=console,
            redirect_stdout=False, redirect_stderr=False,
        )  # fmt: skip
        self._task: TaskID | None = None
        self._name = ""
        self._facts = ""
        self._done = 0
        self._started = clock()
        if console.is_terminal:
            self._bars.start()

    def phase(self, name: str, total: int | None) -> None:
        """Begin a phase; the one before is over."""
        self._end_phase()
        self._name, self._done, self._started = name, 0, self._clock()
        if self._console.is_terminal:
            self._task = self._bars.add_task(name, total=total, facts=self._facts)
        else:
            self.note(f"{name}{f' ({total})' if total is not None else ''}")

    def step(self, done: int, total: int | None, *, best: float | None, spent: Mapping[str, Any]) -> None:
        """Show where the phase stands."""
        self._done, self._facts = done, facts(best, spent)
        if self._task is not None:
            self._bars.update(self._task, completed=done, total=total, facts=self._facts)

    def note(self, text: str) -> None:
        """Print a line above the bars."""
        self._console.print(text, markup=False, soft_wrap=True)

    def close(self) -> None:
        """End the bars, leaving them on the screen."""
        self._end_phase()
        if self._console.is_terminal:
            self._bars.stop()

    def _end_phase(self) -> None:
        if not self._name:
            return
        if self._task is not None:
            self._bars.update(self._task, total=max(1, self._done), completed=max(1, self._done))
            self._bars.stop_task(self._task)
            self._task = None
        else:
            seconds = self._clock() - self._started
            self.note("  " + ", ".join(part for part in (f"{seconds:.1f} s", self._facts) if part))
        self._name = ""


def facts(best: float | None, spent: Mapping[str, Any]) -> str:
    """The best score and what is spent, each with its limit where there is one.

    Example:
        >>> facts(0.5, {"lm_calls": 12, "minutes": 1.26, "limits": {"lm_calls": 150, "minutes": None}})
        'best 0.500, 12/150 LM calls, 1.3 min'
    """
    limits = spent.get("limits") or {}
    parts = [f"best {best:.3f}"] if best is not None else []
    for key, unit, form in (
        ("lm_calls", "LM calls", ",d"),
        ("tokens", "tokens", ",d"),
        ("money", (spent.get("price") or {}).get("currency") or "in money", ".4f"),
        ("minutes", "min", ".1f"),
    ):
        limit = limits.get(key)
        if spent.get(key) is not None and (limit is not None or key in ("lm_calls", "minutes")):
            most = "" if limit is None else f"/{limit:,}" if isinstance(limit, int) else f"/{limit:g}"
            parts.append(f"{spent[key]:{form}}{most} {unit}")
    return ", ".join(parts)
