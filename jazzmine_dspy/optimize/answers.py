"""Stored answers of runs, so that a restarted run continues where it was."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from dspy.lm15 import Request, Response

from jazzmine_dspy.lm.replay import ReplayStore
from jazzmine_dspy.lm.requests import request_key

_SAMPLED = "~"


class RunAnswers(ReplayStore):
    """A replay store that also stores sampled answers, numbered by request.

    A run is deterministic except for its answers. A restarted run replays them, continues from there, and ends in the
    same bytes as an uninterrupted one. Answers are written when they arrive, so a killed process loses only those that
    it waits for. All runs share answers at temperature 0; sampled answers belong to a recipe.

    Args:
        path: The file; created if it is missing.
        recipe: Fingerprint of the recipe.
        fresh: Whether to ignore stored answers and replace them.
    """

    def __init__(self, path: Path, recipe: str, *, fresh: bool = False) -> None:
        super().__init__(path, fresh=fresh)
        self._recipe = recipe
        self._given: Counter[str] = Counter()

    def key(self, request: Request, identity: str) -> str:
        """The key of a request; the key of a sampled one is marked."""
        sampled = "" if request.config.temperature == 0 else f"{_SAMPLED}{self._recipe}"
        return request_key(request, identity) + sampled

    def get(self, key: str) -> Response | None:
        """The stored answer; for a sampled request, the first one that this process has not used yet."""
        answer = super().get(self._numbered(key))
        self._given[key] += answer is not None
        return answer

    def put(self, key: str, response: Response) -> None:
        """Store an answer and count it as used."""
        super().put(self._numbered(key), response)
        self._given[key] += 1

    def _numbered(self, key: str) -> str:
        return f"{key}#{self._given[key]}" if _SAMPLED in key else key
