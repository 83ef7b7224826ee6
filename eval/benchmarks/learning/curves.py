"""One draw: compile n conversations, and compare the result with the base program on turns that were not drawn."""

from __future__ import annotations

import hashlib
import json
import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from jazzmine_dspy.datasets.schema import Example
from jazzmine_dspy.eval.evaluation import Evaluation
from jazzmine_dspy.eval.run import evaluate
from jazzmine_dspy.optimize.local.weights import move_weights
from jazzmine_dspy.program.ports import EmbedderPort
from jazzmine_dspy.program.turn import TurnProgram
from learning.grounds import CACHE, ROOT, Ground, Weights

_CODE = ("jazzmine_dspy/program", "jazzmine_dspy/optimize/local", "eval/benchmarks/learning")


@dataclass(frozen=True)
class Draw:
    """Result of one draw.

    Args:
        ground, kind: Name and kind of the ground.
        n: Conversations drawn.
        seed: Of the draw.
        turns: Number of scored turns.
        base: Share of them that the base program decides right.
        gain: Gain of the compiled program over the base, as a share of turns.
        observed: Gain on the drawn turns, out of fold.
        error: Its standard error, clustered by conversation.
        conversations: Gain in turns and number of turns, by scored conversation.
        seconds: CPU time of the compilation.
    """

    ground: str
    kind: str
    n: int
    seed: int
    turns: int
    base: float
    gain: float
    observed: float
    error: float
    conversations: dict[str, tuple[float, int]]
    seconds: float

    @property
    def key(self) -> tuple[str, int, int]:
        """Identity of the draw."""
        return self.ground, self.n, self.seed


class Store:
    """Draws on disk, so that a stopped measurement continues. A change of the code starts a new file."""

    def __init__(self, folder: Path = CACHE) -> None:
        self.file = folder / f"draws-{code_sha256()[:16]}.jsonl"
        self.draws: dict[tuple[str, int, int], Draw] = {}
        if self.file.is_file():
            for line in self.file.read_text("utf-8").splitlines():
                draw = Draw(**json.loads(line))
                self.draws[draw.key] = draw

        self._bases = self.file.with_name(self.file.name.replace("draws", "bases"))
        self._right: dict[str, dict[str, float]] = {}
        if self._bases.is_file():
            self._right = json.loads(self._bases.read_text("utf-8"))

    def base_right(self, ground: Ground, base: TurnProgram) -> dict[str, float]:
        """Whether the base program decides each turn of a ground right, 0 or 1, by the turn's key."""
        if ground.name not in self._right:
            turns = [turn for some in ground.pool.values() for turn in some] + list(ground.test_turns or ())
            right = _right(evaluate(base, turns))
            self._right[ground.name] = dict(zip([each.key for each in turns], right, strict=True))
            self._bases.parent.mkdir(parents=True, exist_ok=True)
            self._bases.write_text(json.dumps(self._right), "utf-8")
        return self._right[ground.name]

    def add(self, draw: Draw) -> None:
        """Write a draw."""
        self.draws[draw.key] = draw
        self.file.parent.mkdir(parents=True, exist_ok=True)
        with self.file.open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(draw)) + "\n")


def code_sha256() -> str:
    """SHA-256 of the code that draws depend on."""
    digest = hashlib.sha256()
    for folder in _CODE:
        for file in sorted((ROOT / folder).rglob("*.py")):
            digest.update(file.read_bytes())
    return digest.hexdigest()


def measure(
    ground: Ground,
    sizes: Sequence[int],
    seeds: Sequence[int],
    embedder: EmbedderPort,
    weights: Weights,
    store: Store,
    until: float = math.inf,
) -> Iterator[Draw]:
    """Measure and store the draws of a ground that are not stored yet.

    Args:
        until: Time of ``time.monotonic()`` after which no draw starts.
    """
    missing = [(n, seed) for seed in seeds for n in sizes if (ground.name, n, seed) not in store.draws]
    missing = [each for each in missing if each[0] < len(ground.pool) or ground.test_turns is not None]
    if not missing or time.monotonic() > until:
        return
    with weights.without(ground.fold):
        base = ground.base(embedder)
        right = store.base_right(ground, base)
        for n, seed in missing:
            if time.monotonic() > until:
                return
            draw = _measure_draw(ground, base, right, n, seed)
            store.add(draw)
            yield draw


def _measure_draw(ground: Ground, base: TurnProgram, right: dict[str, float], n: int, seed: int) -> Draw:
    train, test = ground.draw(n, seed)
    began = time.process_time()
    moved = move_weights(base, train, seed=seed, judge=True)
    seconds = time.process_time() - began
    gains = _gains(evaluate(moved.program, test), right)
    unseen = _gains(moved.unseen, right) if moved.unseen is not None else {}
    observed, error = clustered(list(unseen.values()))
    return Draw(
        ground.name,
        ground.kind,
        n,
        seed,
        len(test),
        float(np.mean([right[each.key] for each in test])),
        sum(gain for gain, _ in gains.values()) / len(test),
        observed,
        error,
        gains,
        round(seconds, 2),
    )


def _right(evaluation: Evaluation) -> list[float]:
    return [turn.scores["commands_exact"].value for turn in evaluation.turns]


def _gains(evaluation: Evaluation, right: dict[str, float]) -> dict[str, tuple[float, int]]:
    """Gain in turns and number of turns, by conversation."""
    gains: dict[str, tuple[float, int]] = {}
    for turn, value in zip(evaluation.turns, _right(evaluation), strict=True):
        example: Example = turn.example
        gain, count = gains.get(example.conversation_id, (0.0, 0))
        gains[example.conversation_id] = gain + value - right[example.key], count + 1
    return gains


def clustered(gains: Sequence[tuple[float, int]]) -> tuple[float, float]:
    """Mean gain a turn and its standard error, from gain and number of turns of each conversation.

    The error is at least that of one turn, because the next turn may differ even if none has so far.

    Example:
        >>> clustered([(1.0, 4), (0.0, 4), (0.0, 2)])[0]
        0.1
    """
    turns = sum(count for _, count in gains)
    if not turns or len(gains) < 2:
        return 0.0, math.inf
    mean = sum(gain for gain, _ in gains) / turns
    squares = sum((gain - mean * count) ** 2 for gain, count in gains)
    return mean, max(math.sqrt(squares * len(gains) / (len(gains) - 1)), 1.0) / turns
