"""Compiling programs against labelled conversations, and the artefacts that this leaves."""
