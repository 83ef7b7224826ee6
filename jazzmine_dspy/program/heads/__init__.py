"""Local heads: small models, served with numpy in about a millisecond, kept as safetensors.

What a head sees of a turn is defined here too, so that training and serving can't come apart.
"""

from __future__ import annotations

from jazzmine_dspy.program.clarify import NONE
from jazzmine_dspy.program.heads.features import STATE_SIZE, state_features
from jazzmine_dspy.program.heads.registry import HEADS, HeadState, StoredHead, head
from jazzmine_dspy.program.heads.selection import SelectionHead
from jazzmine_dspy.program.heads.storing import heads_from_bytes, heads_to_bytes

__all__ = [
    "HEADS",
    "NONE",
    "STATE_SIZE",
    "HeadState",
    "SelectionHead",
    "StoredHead",
    "head",
    "heads_from_bytes",
    "heads_to_bytes",
    "state_features",
]
