"""What a run tells while it goes on."""

from __future__ import annotations

import sys


def say(text: str) -> None:
    """Tell how far it is, on stderr."""
    print(text, file=sys.stderr, flush=True)
