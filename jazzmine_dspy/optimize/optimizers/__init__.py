"""Optimizers of prompts: DSPy's, and those of other packages. Importing registers ours."""

from jazzmine_dspy.optimize.optimizers import teleprompters as teleprompters
from jazzmine_dspy.optimize.optimizers.registry import Candidate, Optimizer, OptimizerTools, optimizer

__all__ = ["Candidate", "Optimizer", "OptimizerTools", "optimizer"]
