"""Stores: working memory, procedural memory and messages."""
