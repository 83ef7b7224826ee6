"""A package outside jazzmine_dspy that adds to it: one file for each thing added.

Tests import a file, whose decorator registers what it holds, or offer it as an entry point of an installed package.
Both happen in a process of their own, so that no other test meets what was added.
"""
