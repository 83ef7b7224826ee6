"""Whole messages by writers, as drawn turns: with their values, or in pairs of nearly the same words."""

from __future__ import annotations

import json
import lzma
import random
import re
from functools import cache
from pathlib import Path
from typing import Any

from reader.draw import Drawer
from reader.states import Drawn, SlotLabel

PAIRS, WHOLE = (Path(__file__).parent / f"{name}.jsonl.xz" for name in ("pairs", "whole"))
LOWER = 0.2
"""Share of messages that lose their capitals."""


@cache
def by_domain(path: Path) -> dict[str, list[dict[str, Any]]]:
    """The lines of a file, by domain."""
    found: dict[str, list[dict[str, Any]]] = {}
    for line in lzma.decompress(path.read_bytes()).decode().splitlines():
        row = json.loads(line)
        found.setdefault(row["domain"], []).append(row)
    return found


def pair_turn(drawer: Drawer, pair: dict[str, str], rng: random.Random) -> Drawn:
    """A message of a pair; its values are not known."""
    flow, wish = pair["flow"], rng.random() < 0.5
    drawn = drawer.where_not("pair", flow)
    drawn.text, drawn.values_known = pair["wish" if wish else "none"], False
    drawn.starts = [flow] if wish else []
    drawn.unlabelled = {"ask"} if wish else {"chitchat", "deny", "pause", "out_of_scope", "ask"}
    return drawn


def whole_turn(drawer: Drawer, row: dict[str, Any], rng: random.Random) -> Drawn:
    """A message with its values: it requests a task, answers a question, or changes what stands to be confirmed."""
    flow, text = row["flow"], row["text"]
    if row["kind"] == "change":
        drawn = (flow in drawer.confirmed and drawer.confirming("change", flow)) or drawer.running(
            "change", flow, awaited=False, most=1.0
        )
        drawn.unlabelled = {"deny", "affirm", "ask", "chitchat", "pause"}
    elif row["kind"] == "open":
        drawn = drawer.where_not("opening", flow)
        drawn.starts, drawn.unlabelled = [flow], {"ask"}
    else:
        drawn, asked = drawer.running("answer", flow), row["asked"]
        drawn.awaiting, drawn.unlabelled = asked, {"ask", "deny"}
        drawn.filled.pop(asked, None)
        drawn.assistant = drawer.domain.slot(flow, asked).get("ask") or f"What is the {asked}?"
    drawn.text = text.lower() if rng.random() < LOWER and len(text.lower()) == len(text) else text
    for name, value in row["values"].items():
        kind, label = drawer.domain.slot(flow, name)["type"], SlotLabel("given")
        if kind == "choice":
            label.option = str(value)
        elif kind == "boolean":
            label.truth = bool(value)
        else:
            label.spans = [place(text, piece) for piece in (value if isinstance(value, list) else [value])]
        drawn.slots[f"{flow}.{name}"] = label
    return drawn


def place(text: str, piece: str) -> tuple[int, int]:
    """Where a piece of a text stands, preferably as whole words."""
    whole = re.search(rf"(?<!\w){re.escape(piece)}(?!\w)", text)
    at = whole.start() if whole else text.index(piece)
    return at, at + len(piece)
