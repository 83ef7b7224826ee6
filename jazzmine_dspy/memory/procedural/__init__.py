"""Procedural memory: the flows of an agent, and what finds the right one for a message."""

from __future__ import annotations

from jazzmine_dspy.memory.procedural.embed import FastembedEmbedder
from jazzmine_dspy.memory.procedural.recall import FlowIndex

__all__ = ["FastembedEmbedder", "FlowIndex"]
