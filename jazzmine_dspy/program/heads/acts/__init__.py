"""What a message does, without a language model: a fitted head, and a bank of ordinary phrases that it learns from."""

from jazzmine_dspy.program.heads.acts.model import ACTS, Acts
from jazzmine_dspy.program.heads.acts.shipped import ActsHead

__all__ = ["ACTS", "Acts", "ActsHead"]
