"""Procedural memory: the flows of an agent, and what finds the right one for a message."""

from __future__ import annotations

from jazzmine_dspy.memory.procedural.embed import FastembedEmbedder
from jazzmine_dspy.memory.procedural.fallback import FallbackRecall
from jazzmine_dspy.memory.procedural.qdrant import QdrantProceduralMemory, sync_registry
from jazzmine_dspy.memory.procedural.ranking import Settings
from jazzmine_dspy.memory.procedural.recall import FlowIndex
from jazzmine_dspy.memory.procedural.stored import StoredRecall
from jazzmine_dspy.memory.procedural.sync import SyncReport

__all__ = [
    "FallbackRecall",
    "FastembedEmbedder",
    "FlowIndex",
    "QdrantProceduralMemory",
    "Settings",
    "StoredRecall",
    "SyncReport",
    "sync_registry",
]
