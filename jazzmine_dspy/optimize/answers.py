"""The answers of runs: what was answered is not asked again, so a run that is started again goes on where it was."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from dspy.lm15 import Request, Response

from jazzmine_dspy.lm.replay import ReplayStore
from jazzmine_dspy.lm.requests import request_key

_SAMPLED = "~"


class RunAnswers(ReplayStore):
    """A replay store that holds sampled answers too, by their number: of a request that was sent three times, three.

    A run is deterministic but for its answers, so one that is started again over them comes to where it was, asks on
    from there, and ends in the same bytes as one that nobody stopped. An answer is written as it comes: a killed
    process loses only the answers that it waits for. All runs share answers at temperature 0; each recipe has samples
    of its own.

    Args:
        path: The file, made when it is missing.
        recipe: Fingerprint of the recipe.
        fresh: Whether to ignore what the file holds; new answers take its place.
    """

    def __init__(self, path: Path, recipe: str, *, fresh: bool = False) -> None:
        super().__init__(path, fresh=fresh)
        self._recipe = recipe
        self._given: Counter[str] = Counter()

    def key(self, request: Request, identity: str) -> str:
        """The key of a request; a sampled one has a mark."""
        sampled = "" if request.config.temperature == 0 else f"{_SAMPLED}{self._recipe}"
        return request_key(request, identity) + sampled

    def get(self, key: str) -> Response | None:
        """The stored answer; of a sampled request the first one that this process has not been given yet."""
        answer = super().get(self._numbered(key))
        self._given[key] += answer is not None
        return answer

    def put(self, key: str, response: Response) -> None:
        """Store an answer, which counts as given."""
        super().put(self._numbered(key), response)
        self._given[key] += 1

    def _numbered(self, key: str) -> str:
        return f"{key}#{self._given[key]}" if _SAMPLED in key else key
