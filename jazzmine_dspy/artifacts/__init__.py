"""Compiled programs on disk: saved, checked and loaded."""

from jazzmine_dspy.artifacts.artifact import load, save

__all__ = ["load", "save"]
