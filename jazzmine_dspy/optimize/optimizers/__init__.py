"""Optimizers of prompts: those that choose demonstrations and those that write. Importing registers them."""

from jazzmine_dspy.optimize.optimizers import few_shot as few_shot
from jazzmine_dspy.optimize.optimizers import instructions as instructions
from jazzmine_dspy.optimize.optimizers.registry import Candidate, Optimizer, OptimizerTools, optimizer

__all__ = ["Candidate", "Optimizer", "OptimizerTools", "optimizer"]
