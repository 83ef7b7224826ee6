"""What a vector for each example brings, on public data."""

from __future__ import annotations

import csv
import os
from pathlib import Path

import numpy as np
import pytest

from jazzmine_dspy.memory.procedural import FastembedEmbedder, FlowIndex
from jazzmine_dspy.models.registry import FlowRegistry

DATA = Path(os.environ.get("JAZZMINE_DATA", Path(__file__).resolve().parents[4] / "shared" / "data"))
TRAINING = DATA / "banking77" / "train.csv"
EXAMPLES, QUESTIONS = 40, 12


@pytest.mark.row("F6")
@pytest.mark.slow
@pytest.mark.skipif(not TRAINING.is_file(), reason=f"no public data in {DATA}")
def test_a_vector_for_each_example_beats_one_for_the_flow(minilm: FastembedEmbedder) -> None:
    """26 flows of BANKING77 about cards, easily taken for each other; 40 examples and 12 messages each."""
    texts: dict[str, list[str]] = {}
    with TRAINING.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            if "card" in row["category"]:
                texts.setdefault(row["category"], []).append(row["text"])
    known = {name: held for name, held in sorted(texts.items()) if len(held) >= EXAMPLES + QUESTIONS}
    about = {name: name.replace("_", " ") for name in known}
    per_example = FlowRegistry(
        {"name": name, "description": about[name], "examples": held[:EXAMPLES]}
        for name, held in known.items()
    )
    per_flow = FlowRegistry(
        {"name": name, "description": " | ".join([about[name], *held[:EXAMPLES]])}
        for name, held in known.items()
    )
    asked = [(text, name) for name, held in known.items() for text in held[-QUESTIONS:]]
    assert len(asked) == 312

    found = []
    for registry in (per_example, per_flow):
        with FlowIndex(registry, minilm) as index:
            ranked = [[each.name for each in index.recall(text, k=5)] for text, _ in asked]
        found.append(
            [[name in best[:k] for k in (1, 3, 5)] for best, (_, name) in zip(ranked, asked, strict=True)]
        )
    one, other = np.array(found, dtype=float)
    gain = one - other
    reach = 1.96 * gain.std(axis=0) / len(asked) ** 0.5
    for place, k in enumerate((1, 3, 5)):
        told = f"{one[:, place].mean():.3f} against {other[:, place].mean():.3f}"
        print(f"recall@{k}: {told}, gain {gain[:, place].mean():+.3f} ± {reach[place]:.3f}, n = {len(asked)}")
    assert gain[:, 0].mean() - reach[0] > 0, "the first one is right more often"
    assert (gain[:, 1:].mean(axis=0) >= 0).all(), "and nothing is lost further down"
