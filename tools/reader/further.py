"""Trains the fusion and the heads of an exported reader further, over its encoder as it is.

Run: python tools/reader/further.py FOLDER OUT --minutes 30 --recorded practice.jsonl

The encoder's states are those that are served, so one process reads them while another trains. OUT gets the same
encoder, a new fusion and new heads. ``--fresh`` begins with random weights; ``--domains`` and ``--without`` take
data away, to measure what each source adds.
"""

from __future__ import annotations

import argparse
import math
import multiprocessing
import random
import shutil
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
import onnx
import onnxruntime
import torch
from onnx import numpy_helper
from safetensors.torch import load_file
from torch import Tensor

from reader.base import base_folder, tokenizer
from reader.batch import Batch, Batcher
from reader.domains import load_domains
from reader.draw import Drawer
from reader.export import write_fusion
from reader.model import Reader
from reader.recorded import load_recorded
from reader.train import TURNS, losses
from reader.written import PAIRS, WHOLE, by_domain, pair_turn, whole_turn

RECORDED = 0.5
"""Share of batches from recorded registries."""
OF_PAIRS, OF_WHOLE = 4, 9
"""Turns of a batch that writers wrote."""
MATRICES = (
    "card_in", "flags", "bind", "near_in", "token_in", "state_in",
    *(f"fusion.{n}.{part}" for n in range(3) for part in ("qkv", "out", "up", "down")),
)  # fmt: skip
"""The matrices of the fusion, in the order of the graph."""
READY = 6
"""Batches that wait to be trained on."""


class Encoder:
    """Token states of texts by the exported encoder; vectors of cards are remembered."""

    def __init__(self, folder: Path) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        self.session = onnxruntime.InferenceSession(
            str(folder / "encoder.onnx"), options, providers=["CPUExecutionProvider"]
        )
        self.known: dict[tuple[int, ...], Any] = {}

    def states(self, ids: list[int]) -> Any:
        """(t, 384)."""
        inputs = {"ids": np.array([ids]), "mask": np.ones((1, len(ids)), np.float32)}
        return self.session.run(None, inputs)[0][0]

    def vector(self, ids: list[int]) -> Any:
        """The mean of the states, of length 1."""
        key = tuple(ids)
        if key not in self.known:
            mean = self.states(ids).mean(0)
            self.known[key] = (mean / max(float(np.linalg.norm(mean)), 1e-12)).astype(np.float16)
        return self.known[key]

    def encoded(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Token states of the turns, (b, t, 384), and vectors of cards and examples, (c, 384)."""
        lengths = batch.inputs["token_mask"].sum(1).int().tolist()
        tokens = np.zeros((*batch.ids.shape, 384), np.float32)
        for row, (ids, length) in enumerate(zip(batch.ids.tolist(), lengths, strict=True)):
            tokens[row, :length] = self.states(ids[:length])
        sizes = batch.card_token_mask.sum(1).int().tolist()
        cards = [self.vector(ids[:size]) for ids, size in zip(batch.card_ids.tolist(), sizes, strict=True)]
        return torch.from_numpy(tokens), torch.from_numpy(np.stack(cards).astype(np.float32))


def produce(options: argparse.Namespace, seed: int, queue: Any) -> None:
    """Puts batches with their states into a queue, for ever."""
    torch.set_num_threads(1)
    rng = random.Random(seed)
    encoder, batcher = Encoder(options.folder), Batcher(tokenizer(), rng)
    domains = load_domains()
    random.Random(0).shuffle(domains)
    drawers = [Drawer(domain, rng) for domain in domains[: options.domains]]
    registries = load_recorded(options.recorded)
    pairs, whole = ({} if path.name[:5] in options.without else by_domain(path) for path in (PAIRS, WHOLE))
    share = 0.0 if "recorded" in options.without else RECORDED
    while True:
        if rng.random() < share:
            registry = rng.choice(registries)
            flows, turns = registry.flows, rng.sample(registry.turns, min(TURNS, len(registry.turns)))
            examples = {name: flow.get("examples") or [] for name, flow in flows.items()}
            shown = {name: rng.sample(texts, rng.randint(0, len(texts))) for name, texts in examples.items()}
        else:
            drawer = rng.choice(drawers)
            name, flows = drawer.domain.name, drawer.domain.flows
            shown = drawer.show()
            written = rng.sample(whole.get(name, []), min(OF_WHOLE, len(whole.get(name, []))))
            turns = [whole_turn(drawer, row, rng) for row in written]
            both = rng.sample(pairs.get(name, []), min(OF_PAIRS, len(pairs.get(name, []))))
            turns += [pair_turn(drawer, row, rng) for row in both]
            turns += [drawer.draw() for _ in range(TURNS - len(turns))]
        batch = batcher.make(flows, turns, shown)
        queue.put((batch, *encoder.encoded(batch)))


def restored(folder: Path) -> Reader:
    """The exported reader as a model; weights of 8 bits become fractions again. Its encoder is not the exported one."""
    graph = onnx.load(str(folder / "fusion.onnx")).graph
    arrays = {each.name: numpy_helper.to_array(each) for each in graph.initializer}
    names = [name.removesuffix("_quantized") for name in arrays if name.endswith("_quantized")]
    found = {
        name.removeprefix("reader."): array for name, array in arrays.items() if not name.startswith("onnx::")
    }
    found = {name: array for name, array in found.items() if "weight_" not in name}
    matrices = iter(MATRICES)
    for name in names:
        whole = arrays[f"{name}_quantized"].astype(np.float32) - arrays[f"{name}_zero_point"].astype(
            np.float32
        )
        whole = whole * arrays[f"{name}_scale"]
        own = name.removeprefix("reader.")
        if own in ("kind.weight", "slot_type.weight", "part.weight"):
            found[own] = whole
        else:
            found[f"{next(matrices)}.weight"] = whole.T
    model = Reader(base_folder())
    state = {name: torch.from_numpy(np.array(array)) for name, array in found.items()}
    state |= load_file(str(folder / "heads.safetensors"))
    rest = model.load_state_dict(state, strict=False)
    assert not rest.unexpected_keys, rest.unexpected_keys
    assert all(name.startswith("encoder.") for name in rest.missing_keys), rest.missing_keys
    return model


def train(options: argparse.Namespace) -> None:
    """Trains until the processor time is over, with a checkpoint every five minutes."""
    torch.set_num_threads(1)
    torch.manual_seed(options.seed)
    options.out.mkdir(parents=True, exist_ok=True)
    model = Reader(base_folder()) if options.fresh else restored(options.folder)
    model.encoder.requires_grad_(False)
    weights = [each for each in model.parameters() if each.requires_grad]
    optimizer = torch.optim.AdamW(weights, lr=options.rate, weight_decay=0.01)
    checkpoint, step, spent = options.out / "last.pt", 0, 0.0
    if checkpoint.exists():
        saved = torch.load(checkpoint)
        model.load_state_dict(saved["model"], strict=False)
        optimizer.load_state_dict(saved["optimizer"])
        step, spent = saved["step"], saved["spent"]
    context = multiprocessing.get_context("spawn")
    queue: Any = context.Queue(READY)
    producer = context.Process(target=produce, args=(options, options.seed + step, queue), daemon=True)
    producer.start()
    model.train()
    total, begin, logged = options.minutes * 60, time.process_time(), spent
    sums: dict[str, list[float]] = {}
    while (now := spent + time.process_time() - begin) < total:
        factor = min(1.0, (step + 1) / 100) * max(0.02, 0.5 * (1 + math.cos(math.pi * min(1.0, now / total))))
        for group in optimizer.param_groups:
            group["lr"] = options.rate * factor
        batch, tokens, cards = queue.get()
        given = batch.inputs
        with torch.autocast("cpu", dtype=torch.bfloat16):
            logits = model(
                tokens, given["token_mask"], given["parts"], cards, given["card_mask"], given["kinds"], given["types"],
                given["flags"], given["binds"], given["state"], given["owns"], given["overlap"],
            )  # fmt: skip
        parts = losses(batch, logits)
        optimizer.zero_grad()
        sum(parts.values(), torch.zeros(())).backward()
        torch.nn.utils.clip_grad_norm_(weights, 1.0)
        optimizer.step()
        step += 1
        for name, value in parts.items():
            sums.setdefault(name, []).append(value.item())
        if now - logged > 60:
            told = " ".join(f"{name} {sum(values) / len(values):.3f}" for name, values in sums.items())
            print(f"{now / 60:.1f} min, step {step}: {told}", flush=True)
            logged, sums = now, {}
            kept = {
                name: value for name, value in model.state_dict().items() if not name.startswith("encoder.")
            }
            torch.save(
                {"model": kept, "optimizer": optimizer.state_dict(), "step": step, "spent": now},
                options.out / "new.pt",
            )
            (options.out / "new.pt").replace(checkpoint)
    producer.terminate()
    model.eval()
    shutil.copy(options.folder / "encoder.onnx", options.out)
    write_fusion(model, options.out)


def main() -> None:
    """Runs the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--minutes", type=float, default=30, help="of processor time of the training")
    parser.add_argument(
        "--recorded", required=True, help="file of recorded registries, as recorded.py writes it"
    )
    parser.add_argument("--fresh", action="store_true", help="begin with random weights of fusion and heads")
    parser.add_argument("--domains", type=int, help="only so many invented domains")
    parser.add_argument("--without", nargs="*", default=(), choices=("pairs", "whole", "recorded"))
    parser.add_argument("--rate", type=float, default=4e-4)
    parser.add_argument("--seed", type=int, default=1)
    train(parser.parse_args())


if __name__ == "__main__":
    main()
