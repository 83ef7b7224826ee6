"""What a head sees of a turn beside the message's words: its state, and what recall found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from jazzmine_dspy.models import ConversationStatus, Recalled, Turn
from jazzmine_dspy.program.ports import Floats

# Not the enum's own order: a status added there must not move the others.
_STATUSES = (
    ConversationStatus.IDLE,
    ConversationStatus.IN_FLOW,
    ConversationStatus.COLLECTING_SLOTS,
    ConversationStatus.AWAITING_CONFIRMATION,
    ConversationStatus.EXECUTING_ACTION,
)
STATE_SIZE = len(_STATUSES) + 3
"""Features that stem from the state."""

_STATE_SCALE = 2.0
"""What a state feature is instead of 1: the message's features have a length of about 10."""

EVIDENCE = ("votes", "similarity", "fused", "running")
"""What recall tells of one flow: logarithm of the support, similarity, share of the best fused score; and whether it
is the flow that runs."""

_LEAST_SUPPORT = 1e-4
SIMILARITY_SCALE = 10.0
"""What a cosine of 1 is in the evidence."""

_FUSED_SCALE = 4.0


def state_features(turn: Turn) -> Floats:
    """The state before a message.

    Returns:
        Shape (8,), float32: one-hot status; whether the user has begun, a paused flow, an awaited slot. What holds
        is 2, what does not 0.

    Example:
        >>> from jazzmine_dspy.models.turn import Turn
        >>> state_features(Turn(text="hello")).tolist()
        [2.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]
    """
    state = [float(turn.status is status) for status in _STATUSES]
    state += [float(turn.begun), float(bool(turn.paused)), float(turn.awaiting is not None)]
    return np.multiply(state, _STATE_SCALE, dtype=np.float32)


def busy(turn: Turn) -> float:
    """1 where something runs before the turn, else 0."""
    return float(turn.load == "busy")


def evidence(recalled: Sequence[Recalled], column: Mapping[str, int], running: str | None) -> Floats:
    """What recall tells of flows, shape (flows, 4), float32; see :data:`EVIDENCE`.

    A flow that was not recalled has the least support, the least similarity that was recalled, and no fused score.

    Args:
        recalled: What recall found; flows without a column do not count.
        column: Row of each flow in the result.
        running: The flow that runs.
    """
    found = [one for one in recalled if one.name in column]
    told = np.zeros((len(column), len(EVIDENCE)), dtype=np.float32)
    told[:, 0] = np.log(_LEAST_SUPPORT)
    if found:
        best = max(one.score for one in found)
        told[:, 1] = min(one.similarity for one in found) * SIMILARITY_SCALE
        for one in found:
            fused = one.score / best * _FUSED_SCALE if best > 0 else 0.0
            told[column[one.name], :3] = (
                np.log(max(one.support, 0.0) + _LEAST_SUPPORT),
                one.similarity * SIMILARITY_SCALE,
                fused,
            )
    if running is not None and running in column:
        told[column[running], 3] = 1.0
    return told
