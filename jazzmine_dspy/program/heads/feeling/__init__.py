"""What a message feels, and whether it leaves the topic: small linear heads over the frozen embedding and n-grams."""

from jazzmine_dspy.program.heads.feeling.head import FeelingHead, shipped_feeling

__all__ = ["FeelingHead", "shipped_feeling"]
