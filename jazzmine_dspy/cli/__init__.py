"""The command line: one small module per command. Nothing heavy is imported before a command runs."""

from jazzmine_dspy.cli._app import app, main

__all__ = ["app", "main"]
