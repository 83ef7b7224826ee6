"""The runtime: conversations held over a program and stores."""

from jazzmine_dspy.memory.errors import QueueFullError
from jazzmine_dspy.runtime.outcome import ActionOutcome, MessageRoute, NextStep, TurnOutcome
from jazzmine_dspy.runtime.router import route
from jazzmine_dspy.runtime.runtime import Runtime
from jazzmine_dspy.runtime.state_machine import apply

__all__ = [
    "ActionOutcome",
    "MessageRoute",
    "NextStep",
    "QueueFullError",
    "Runtime",
    "TurnOutcome",
    "apply",
    "route",
]
