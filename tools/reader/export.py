"""Writes a checkpoint as the package reads it: export.py CHECKPOINT FOLDER

Two graphs in 8 bits (the encoder, and the fusion of a turn with its cards), and the heads as matrices.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import torch
from onnxruntime.quantization import QuantType, quantize_dynamic
from safetensors.torch import save_file
from torch import Tensor, nn

from reader.base import base_folder
from reader.batch import BIND
from reader.cards import FLAGS
from reader.model import N_STATE, WIDTH, Reader


class Encoder(nn.Module):
    """Token states of texts."""

    def __init__(self, reader: Reader) -> None:
        super().__init__()
        self.reader = reader

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        """States, (n, t, width)."""
        return self.reader.encode(ids, mask)


class Fusion(nn.Module):
    """States of a turn and its cards, for the heads."""

    def __init__(self, reader: Reader) -> None:
        super().__init__()
        self.reader = reader

    def forward(self, *inputs: Tensor) -> tuple[Tensor, Tensor]:
        """States (b, 1 + t + c, width) and nearness (b, c, near)."""
        return self.reader.fuse(*inputs)


FUSION = {
    "tokens": {0: "b", 1: "t"}, "token_mask": {0: "b", 1: "t"}, "parts": {0: "b", 1: "t"}, "cards": {0: "a"},
    "card_mask": {0: "b", 1: "c"}, "kinds": {0: "c"}, "types": {0: "c"}, "flags": {0: "b", 1: "c"},
    "binds": {0: "b", 1: "c"}, "state": {0: "b"}, "owns": {0: "c", 1: "e"}, "overlap": {0: "b", 1: "c"},
}  # fmt: skip


def export(checkpoint: str, folder: Path) -> None:
    """Writes the files."""
    folder.mkdir(parents=True, exist_ok=True)
    reader = Reader(base_folder())
    reader.load_state_dict(torch.load(checkpoint)["model"])
    reader.eval()
    ids = torch.randint(1000, 20_000, (2, 12))
    names: dict[str, dict[int, str]] = {"ids": {0: "n", 1: "t"}, "mask": {0: "n", 1: "t"}}
    _write(Encoder(reader), (ids, torch.ones(2, 12)), names, ["states"], folder / "encoder.onnx")
    write_fusion(reader, folder)


def write_fusion(reader: Reader, folder: Path) -> None:
    """Writes the fusion and the heads, and prints the hash of each file of the folder."""
    b, t, c, e = 2, 12, 7, 3
    inputs = (
        torch.randn(b, t, WIDTH), torch.ones(b, t), torch.full((b, t), 3), torch.randn(c + e, WIDTH), torch.ones(b, c),
        torch.zeros(c, dtype=torch.long), torch.zeros(c, dtype=torch.long), torch.zeros(b, c, len(FLAGS)),
        torch.randn(b, c, 2 * BIND), torch.zeros(b, N_STATE), torch.eye(c)[:, :e], torch.zeros(b, c),
    )  # fmt: skip
    _write(Fusion(reader), inputs, FUSION, ["fused", "near"], folder / "fusion.onnx")
    heads = {
        name: value.contiguous()
        for name, value in reader.state_dict().items()
        if name.split(".")[0]
        in ("acts", "none", "flow", "op", "truth", "option", "query", "key", "near", "near_option")
    }
    save_file(heads, folder / "heads.safetensors")
    for path in (*sorted(folder.glob("*.onnx")), folder / "heads.safetensors"):
        print(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}  {path.stat().st_size:,} bytes")


def _write(module: nn.Module, inputs: Any, axes: Any, outputs: list[str], path: Path) -> None:
    whole = path.with_suffix(".fp32")
    with torch.inference_mode():
        torch.onnx.export(
            module, inputs, str(whole), input_names=list(axes), output_names=outputs, dynamic_axes=axes,
            opset_version=17, dynamo=False,
        )  # fmt: skip
    quantize_dynamic(str(whole), str(path), weight_type=QuantType.QInt8, per_channel=True)
    whole.unlink()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkpoint")
    parser.add_argument("folder", type=Path)
    options = parser.parse_args()
    export(options.checkpoint, options.folder)
