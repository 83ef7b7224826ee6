"""Whether a command of the command line runs: it imports no module of a project, and so knows no validators of it."""

from __future__ import annotations

from contextvars import ContextVar

COMMAND: ContextVar[bool] = ContextVar("jazzmine_command", default=False)
