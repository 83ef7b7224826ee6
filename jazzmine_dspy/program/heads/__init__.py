"""Local heads: small models, served with numpy in about a millisecond, kept as safetensors.

What a head sees of a turn is defined here too, so that training and serving can't come apart.
"""

from __future__ import annotations

from jazzmine_dspy.program.clarify import NONE
from jazzmine_dspy.program.heads.features import STATE_SIZE, state_features
from jazzmine_dspy.program.heads.selection import SelectionHead

__all__ = ["NONE", "STATE_SIZE", "SelectionHead", "state_features"]
