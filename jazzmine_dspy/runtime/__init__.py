"""The runtime: conversations held over a program and stores."""

from jazzmine_dspy.dialogue.next_step import apply
from jazzmine_dspy.memory.errors import QueueFullError
from jazzmine_dspy.models.decision import NextStep
from jazzmine_dspy.runtime.conversations import Episode, EpisodeHook
from jazzmine_dspy.runtime.hooks import RecallHook
from jazzmine_dspy.runtime.outcome import ActionOutcome, MessageRoute, TurnOutcome, route
from jazzmine_dspy.runtime.service import Runtime, process_message

__all__ = [
    "ActionOutcome",
    "Episode",
    "EpisodeHook",
    "MessageRoute",
    "NextStep",
    "QueueFullError",
    "RecallHook",
    "Runtime",
    "TurnOutcome",
    "apply",
    "process_message",
    "route",
]
