"""Compiling the prompts."""
