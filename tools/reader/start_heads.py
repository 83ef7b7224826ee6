"""Fits the heads that tell which flows start, on the states that an exported reader serves.

Run: python tools/reader/start_heads.py FOLDER --recorded practice.jsonl

It reads drawn turns, pairs of a request and a mention of the same task, whole messages and recorded conversations, and
moves the heads `none`, `flow` (start) and `near` of FOLDER/heads.safetensors. It takes 15 minutes on two cores.
"""

from __future__ import annotations

import argparse
import hashlib
import random
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from safetensors.numpy import load, save
from torch import Tensor

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from jazzmine_dspy.memory.procedural import minilm
from jazzmine_dspy.models import FlowRegistry, Turn
from jazzmine_dspy.program.reader.network import HASHES, Network
from reader.domains import load_domains
from reader.draw import Drawer, Drawn
from reader.recorded import load_recorded
from reader.written import PAIRS, WHOLE, by_domain, whole_turn

KINDS = {
    "opening": 28, "not_wanted": 30, "question": 6, "two": 4, "anytime": 9, "cancel": 2, "resume": 2, "again": 10,
    "answer": 3, "change": 2, "more": 2, "yes_trap": 2,
}  # fmt: skip
DRAWS = 120
"""Turns that are drawn of each domain."""
HIDDEN, FINISHED = 0.12, 0.35
"""Share of openings without their flow, and of other turns after a finished flow."""
WEIGHTS = {"drawn": 1.0, "pairs": 2.0, "whole": 1.0, "recorded": 2.0}
PRIOR = 0.5
"""Added to the log-odds that no flow starts, since fewer messages start one in service than in the fit: chosen on six
registries that the network had not seen, and on pairs of a mention and a request about them."""
EPOCHS, ROWS, RATE, PENALTY = 10, 256, 1e-3, 1e-2
WORKERS = 2
SLOT = ("name", "type", "description", "options", "required")
CLOSINGS = ("Done.", "Done: {}. Is there anything else I can do for you?", "That is done. Anything else?", "")


class Row(NamedTuple):
    """States of one turn: for `none` (1152,), of its flows (f, 384) and (f, 5), which of them start, and its weight."""

    starting: Any
    flows: Any
    near: Any
    starts: list[bool]
    weight: float


def registry_of(flows: dict[str, Any], examples: dict[str, list[str]]) -> FlowRegistry:
    """The flows of a domain, with some openings as examples."""
    return FlowRegistry(
        [
            {
                "name": name, "description": flow.get("description") or "", "condition": flow.get("condition") or "",
                "examples": examples.get(name, []),
                "slots": [
                    {key: slot[key] for key in SLOT if slot.get(key) is not None}
                    for slot in flow.get("slots") or []
                ],
            }
            for name, flow in flows.items()
        ]
    )  # fmt: skip


def row_of(
    network: Network, turn: Turn, registry: FlowRegistry, names: list[str], drawn: Drawn, weight: float
) -> Row:
    """The states of a turn."""
    finished = drawn.finished[0] if drawn.finished else None
    read = network.read(turn, registry, names, finished)
    rows = [at for at, card in enumerate(read.cards) if card.kind == "flow" and card.flow != drawn.flow]
    starts = [read.cards[at].flow in drawn.starts for at in rows]
    return Row(
        read.starting.astype(np.float16),
        read.states[rows].astype(np.float16),
        read.near[rows],
        starts,
        weight,
    )


def turn_of(drawn: Drawn) -> Turn:
    """A drawn turn as the package has it."""
    messages = (("user", drawn.previous), ("assistant", drawn.assistant))
    return Turn(
        text=drawn.text, flow=drawn.flow, awaiting=drawn.awaiting, slots=dict(drawn.filled), paused=tuple(drawn.paused),
        offering=drawn.offering, confirming={"action": drawn.flow, "flow": drawn.flow} if drawn.confirming else None,
        history=[{"role": role, "text": text} for role, text in messages if text],
    )  # fmt: skip


def after(drawn: Drawn, drawer: Drawer, rng: random.Random) -> None:
    """Puts a finished flow before a turn."""
    idle = not (drawn.flow or drawn.paused or drawn.offering)
    if drawn.finished is None and idle and rng.random() < FINISHED:
        drawn.finished = (rng.choice(drawer.flows), {})
    if drawn.finished is not None:
        flow = drawn.finished[0]
        wordings = drawer.domain.wordings(flow, "open")
        request = drawer.filled(rng.choice(wordings), flow) if wordings else ""
        drawn.previous = rng.choice([request, request, "yes", "yes please", ""])
        drawn.assistant = rng.choice(CLOSINGS).format(flow.replace("_", " "))


def drawn_rows(network: Network, part: int) -> Iterator[Row]:
    """Drawn turns and pairs of every second domain."""
    rng = random.Random(part)
    pairs, whole = by_domain(PAIRS), by_domain(WHOLE)
    for domain in load_domains()[part::WORKERS]:
        drawer = Drawer(domain, rng)
        registry = registry_of(domain.flows, drawer.show())
        made = 0
        while made < DRAWS:
            kind = rng.choices(list(KINDS), list(KINDS.values()))[0]
            drawn = getattr(drawer, kind)()
            if drawn is None or not drawn.text.strip():
                continue
            made += 1
            after(drawn, drawer, rng)
            names = list(domain.flows)
            if kind == "opening" and rng.random() < HIDDEN:
                names = [name for name in names if name not in drawn.starts]
            yield row_of(network, turn_of(drawn), registry, names, drawn, WEIGHTS["drawn"])
        for pair in pairs.get(domain.name, ()):
            for kind, starts in (("none", []), ("wish", [pair["flow"]])):
                drawn = Drawn(domain.name, kind, pair[kind], starts=starts)
                yield row_of(network, turn_of(drawn), registry, list(domain.flows), drawn, WEIGHTS["pairs"])
        for line in whole.get(domain.name, ()):
            drawn = whole_turn(drawer, line, rng)
            yield row_of(network, turn_of(drawn), registry, list(domain.flows), drawn, WEIGHTS["whole"])


def recorded_rows(network: Network, path: str, part: int) -> Iterator[Row]:
    """Turns of every second recorded registry."""
    for registry in load_recorded(path)[part::WORKERS]:
        flows = registry_of(registry.flows, {name: flow["examples"] for name, flow in registry.flows.items()})
        for drawn in registry.turns:
            if "clarify" not in drawn.acts:
                yield row_of(network, turn_of(drawn), flows, list(flows), drawn, WEIGHTS["recorded"])


def rows_of(folder: Path, recorded: str, part: int) -> list[Row]:
    """The rows of one worker."""
    hashes = {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in HASHES}
    network = Network(folder, minilm.tokenizer_file(), hashes)
    return [*drawn_rows(network, part), *recorded_rows(network, recorded, part)]


def padded(rows: list[Row]) -> tuple[Tensor, ...]:
    """The rows as tensors: of none, of flows, of nearness, what is no flow, targets, weights."""
    most = max(len(row.starts) for row in rows)
    flows, near = torch.zeros(len(rows), most, 384), torch.zeros(len(rows), most, 5)
    absent, targets = torch.ones(len(rows), most + 1, dtype=torch.bool), torch.zeros(len(rows), most + 1)
    for at, row in enumerate(rows):
        count = len(row.starts)
        flows[at, :count] = torch.from_numpy(row.flows.astype(np.float32))
        near[at, :count] = torch.from_numpy(row.near)
        absent[at, : count + 1] = False
        targets[at, 1 : count + 1] = torch.tensor(row.starts, dtype=torch.float32)
    targets[:, 0] = (targets.sum(1) == 0).float()
    starting = torch.from_numpy(np.stack([row.starting for row in rows]).astype(np.float32))
    return starting, flows, near, absent, targets, torch.tensor([row.weight for row in rows])


def fit(heads: dict[str, Any], rows: list[Row]) -> dict[str, Any]:
    """Moves the heads by gradient descent from where they are."""
    torch.manual_seed(0)
    starting, flows, near, absent, targets, weights = padded(rows)
    values = [
        torch.from_numpy(heads["none.weight"]), torch.from_numpy(heads["none.bias"]),
        torch.from_numpy(heads["flow.weight"][:1].copy()),
        torch.from_numpy(heads["flow.bias"][:1].copy()), torch.from_numpy(heads["near"]),
    ]  # fmt: skip
    moved = [torch.zeros_like(value, requires_grad=True) for value in values]
    optimizer = torch.optim.AdamW(moved, lr=RATE, weight_decay=PENALTY)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, EPOCHS * (len(rows) // ROWS + 1))
    for _ in range(EPOCHS):
        for batch in torch.randperm(len(rows)).split(ROWS):
            w, b, fw, fb, n = (value + move for value, move in zip(values, moved, strict=True))
            odds = torch.cat([starting[batch] @ w.T + b, flows[batch] @ fw[0] + fb + near[batch] @ n], 1)
            shares = odds.masked_fill(absent[batch], -1e4).log_softmax(1)
            loss = -(shares * targets[batch]).sum(1) / targets[batch].sum(1) * weights[batch]
            optimizer.zero_grad()
            (loss.sum() / weights[batch].sum()).backward()
            optimizer.step()
            schedule.step()
    w, b, fw, fb, n = ((value + move).detach().numpy() for value, move in zip(values, moved, strict=True))
    new = {**heads, "none.weight": w, "none.bias": b + np.float32(PRIOR), "near": n}
    new["flow.weight"] = np.concatenate([fw, heads["flow.weight"][1:]])
    new["flow.bias"] = np.concatenate([fb, heads["flow.bias"][1:]])
    return new


def main() -> None:
    """Runs the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument(
        "--recorded", required=True, help="file of recorded registries, as recorded.py writes it"
    )
    options = parser.parse_args()
    path = options.folder / "heads.safetensors"
    heads = load(path.read_bytes())
    with ProcessPoolExecutor(WORKERS) as pool:
        tasks = [pool.submit(rows_of, options.folder, options.recorded, part) for part in range(WORKERS)]
        rows = [row for task in tasks for row in task.result()]
    path.write_bytes(save(fit(heads, rows)))
    print(f"{len(rows):,} turns; {hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}")


if __name__ == "__main__":
    main()
