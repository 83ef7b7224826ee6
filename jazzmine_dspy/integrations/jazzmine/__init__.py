"""Stores shared with the package jazzmine, version 0.1.42: its formats, read and written."""
