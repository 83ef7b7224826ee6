"""Local heads: small models, served with numpy in about a millisecond, kept as safetensors.

What a head sees of a turn is defined here too, so that training and serving can't come apart.
"""

from __future__ import annotations

from jazzmine_dspy.program.clarify import NONE
from jazzmine_dspy.program.heads.features import STATE_SIZE, state_features
from jazzmine_dspy.program.heads.selection import SelectionHead
from jazzmine_dspy.program.heads.storing import heads_from_bytes, heads_to_bytes
from jazzmine_dspy.program.ports import HeadState

__all__ = [
    "NONE",
    "STATE_SIZE",
    "HeadState",
    "SelectionHead",
    "heads_from_bytes",
    "heads_to_bytes",
    "state_features",
]
