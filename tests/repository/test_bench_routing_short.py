"""The short run of `make bench-routing`: what is right in scope, and out of it, of three sets that need public data."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest

from routing_sources import ROOT

SPEC = importlib.util.spec_from_file_location("bench_routing", ROOT / "tools" / "bench_routing.py")
assert SPEC is not None
assert SPEC.loader is not None
BENCH = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(BENCH)

FLOORS = {
    "clinc150-short": {"in_scope_accuracy": 0.96, "out_of_scope_recall": 0.78},
    "banking77-open": {"in_scope_accuracy": 0.76, "out_of_scope_recall": 0.66},
    "sgd": {"flow_set_exact": 0.91, "start nothing": 0.965},
}
"""About two standard errors below what was measured; the last is of turns in which no flow starts."""


@pytest.mark.long
@pytest.mark.row("C4", "F9")
@pytest.mark.skipif(not (BENCH.DATA / "clinc150").is_dir(), reason="the public data are not here")
def test_flows_are_right_in_scope_and_out_of_it(tmp_path: Path) -> None:
    out = tmp_path / "routing.json"
    assert BENCH.main(["--short", "--out", str(out)]) == 0
    rows = {row["row"]: row for row in json.loads(out.read_text("utf-8"))["rows"]}
    assert set(rows) == set(FLOORS)
    found = {name: row["metrics"] | row["groups"] for name, row in rows.items()}
    for name, floors in FLOORS.items():
        unwanted = found[name]["start nothing" if name == "sgd" else "out_of_scope_recall"]
        assert unwanted["n"] >= 300
        assert {
            key: found[name][key]["value"] for key in floors if found[name][key]["value"] < floors[key]
        } == {}
