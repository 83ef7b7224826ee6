"""Messages, and the traces of the turns that they belong to."""

from jazzmine_dspy.memory.messages.in_process import InMemoryMessageStore
from jazzmine_dspy.memory.messages.store import MessageStore

__all__ = ["InMemoryMessageStore", "MessageStore"]
