"""The prompts as DSPy signatures, their contracts, and the adapter that writes and reads them."""

from jazzmine_dspy.signatures.adapter import DecisionAdapter
from jazzmine_dspy.signatures.contract import CONTRACTS, describe, fingerprint, fingerprints, with_overrides
from jazzmine_dspy.signatures.definitions import DecideTurn, EnhanceMessage, SelectFlows, UnderstandMessage

__all__ = [
    "CONTRACTS", "DecideTurn", "DecisionAdapter", "EnhanceMessage", "SelectFlows", "UnderstandMessage", "describe",
    "fingerprint", "fingerprints", "with_overrides",
]  # fmt: skip
