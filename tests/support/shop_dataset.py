"""A shop's dataset whose flows only labelled turns can tell apart: descriptions say nothing of what people write."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from jazzmine_dspy.datasets import write_splits

PARTS = ("train", "train", "dev_b", "train", "test", "train", "dev_a")


def write_shop(
    folder: Path,
    told: Mapping[str, tuple[str, str]],
    said: Sequence[tuple[str, str]],
    parts: Sequence[str] = PARTS,
) -> Path:
    """One conversation for each message; the parts are dealt in turn.

    Args:
        folder: Where to write.
        told: Description and example of each flow.
        said: Messages and the flows that they want; "" where none is wanted.
        parts: Of the conversations, again and again.
    """
    flows = [
        {"name": name, "description": description, "examples": [example]}
        for name, (description, example) in told.items()
    ]
    (folder / "flows.yaml").write_text(yaml.safe_dump({"flows": flows}), "utf-8")
    (folder / "card.md").write_text("# shop\n", "utf-8")
    roles: dict[str, Any] = {}
    dealt = itertools.cycle(parts)
    lines = []
    for number, (text, flow) in enumerate(said):
        turn = {"role": "user", "text": text, "labels": {"flows": [flow] if flow else []}}
        conversation = f"{flow or 'none'}-{number}"
        lines.append(json.dumps({"id": conversation, "turns": [turn]}))
        roles[conversation] = next(dealt)
    (folder / "conversations.jsonl").write_text("\n".join(lines) + "\n", "utf-8")
    write_splits(folder, roles, replace=True)
    return folder
