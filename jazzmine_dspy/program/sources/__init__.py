"""Sources: the ways to answer a stage, tried in the order that the policy names.

Each registers itself. A package adds one with :func:`source`, and offers it as an entry point of the group
``jazzmine_dspy.sources``.
"""

from __future__ import annotations

# Importing ours registers them.
from jazzmine_dspy.program.sources import floors, heads, lm, rules
from jazzmine_dspy.program.sources.registry import SOURCES, check_orders, identity_of, source, sources_of

__all__ = ["SOURCES", "check_orders", "floors", "heads", "identity_of", "lm", "rules", "source", "sources_of"]
