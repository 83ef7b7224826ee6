"""Public data of the routing benchmark's sets, in small, and the folder of the benchmark's modules on the path."""

from __future__ import annotations

import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "eval" / "benchmarks"))

from routing import formats, sets  # noqa: E402
from routing.parts import Row  # noqa: E402


def source(folder: Path) -> Path:
    """BANKING77, HINT3 and CLINC150 in their own formats."""
    banking = [(f"what about {label} {number}", label) for label in ("cards", "fees") for number in range(20)]
    (folder / "banking77").mkdir(parents=True)
    formats.write_csv(folder / "banking77" / "train.csv", formats.BANKING, [Row(*pair) for pair in banking])
    for bot, labels in zip(sets.BOTS, ("abcde", "vwxyz", "fghij"), strict=True):
        rows = [
            Row(f"{bot}, please {label} {number}", label.upper()) for label in labels for number in range(10)
        ]
        formats.write_csv(folder / "hint3" / "v2" / "train" / f"{bot}_train.csv", formats.HINT3, rows)
    said = {
        name: [Row(f"{name} {label} {number}", label) for label in ("hum", "sing") for number in range(size)]
        for name, size in (("train", 25), ("val", 10))
    }
    said |= {
        name: [Row(f"{name} {number}", "oos") for number in range(100)] for name in ("oos_train", "oos_val")
    }
    formats.write_clinc(folder / "clinc150" / "data_small_no_test.json", **said)
    (folder / "clinc150" / "domains.json").write_text(json.dumps({"music": ["hum", "sing"]}), "utf-8")
    return folder
