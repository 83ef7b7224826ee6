"""Procedural memory: the flows of an agent, and what finds the right one for a message."""

from __future__ import annotations

from jazzmine_dspy.memory.procedural.embedder import FastembedEmbedder
from jazzmine_dspy.memory.procedural.fallback import FallbackRecall, with_fallback
from jazzmine_dspy.memory.procedural.index import FlowIndex
from jazzmine_dspy.memory.procedural.memory import QdrantProceduralMemory, sync_registry
from jazzmine_dspy.memory.procedural.ranking import RecallSettings
from jazzmine_dspy.memory.procedural.recall import FlowRecall
from jazzmine_dspy.memory.procedural.sync import SyncReport

__all__ = [
    "FallbackRecall",
    "FastembedEmbedder",
    "FlowIndex",
    "FlowRecall",
    "QdrantProceduralMemory",
    "RecallSettings",
    "SyncReport",
    "sync_registry",
    "with_fallback",
]
