"""What can go wrong with a store, apart from its being down."""

from __future__ import annotations

from jazzmine_dspy.models.errors import JazzmineError


class StateError(JazzmineError):
    """The conversation's state does not allow this; nothing was changed."""


class StaleStateError(StateError):
    """The state was written by another turn since it was read; nothing was changed."""


class TurnLostError(StaleStateError):
    """The turn lasted longer than its lease and another one has begun since; nothing was changed."""


class QueueFullError(StateError):
    """Too many messages wait for the action to end; this one was not taken."""


class LockTimeoutError(JazzmineError, TimeoutError):
    """Another turn of the conversation did not end in time."""


class ConflictError(JazzmineError):
    """An id is already taken by something else."""


class DimensionError(ConflictError):
    """A collection holds vectors of another length than the embedding model makes; nothing was changed."""


class NotStoredError(JazzmineError):
    """Nothing is stored under this id."""


class UnreadableRecordError(JazzmineError):
    """A stored record is not what was written: truncated, of another kind, with a value nobody knows."""


class DamagedRecordError(JazzmineError):
    """A stored message, conversation or trace cannot be read; its neighbours can."""


class MissingExtraError(JazzmineError, ImportError):
    """A part of the package needs libraries that are not installed."""
