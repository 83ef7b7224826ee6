"""What can go wrong between a message and its turn."""

from __future__ import annotations

from jazzmine_dspy.memory.errors import QueueFullError

__all__ = ["QueueFullError"]
