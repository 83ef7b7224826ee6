"""What ``make bench-routing`` measures with: parts held apart, peers, and the table."""

from __future__ import annotations

import sys


def say(text: str) -> None:
    """Print how far the run is, on stderr."""
    print(text, file=sys.stderr, flush=True)
