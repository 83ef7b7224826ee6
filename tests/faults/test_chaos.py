"""The short form of `make chaos`: 1,000 turns with everything failing that can."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

pytestmark = pytest.mark.chaos

PATH = Path(__file__).resolve().parents[2] / "tools" / "chaos.py"


@pytest.fixture(scope="module")
def chaos() -> ModuleType:
    spec = importlib.util.spec_from_file_location("jazzmine_tools_chaos", PATH)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
@pytest.mark.row("W12", "W16", "W17", "W18", "W19")
async def test_no_turn_is_lost_and_none_is_doubled(chaos: Any, servers: Any, capsys: Any) -> None:
    report = await chaos.run(1000, 3, 1, failover_every=250)
    with capsys.disabled():
        print("\n" + chaos.shown(report))
    assert (report["lost"], report["doubled"], report["versions_written_twice"]) == (0, 0, 0)
    assert report["applied"] == report["turns"] == 1000
    assert report["quarantined"] > 0
    assert report["stale_refused"] > 0
    assert all(kill["signal"] == 9 for kill in report["kills"])
    assert {kill["pid"] for kill in report["kills"]}.isdisjoint({0, -1})
    assert len(report["server"]["run_id"]) == 40
    assert report["failovers"] == {"hand_over": 2, "promote": 1}
    assert chaos.held(report)
    json.dumps(report)


GOOD: dict[str, Any] = {
    "lost": 0,
    "doubled": 0,
    "versions_written_twice": 0,
    "applied": 9,
    "acknowledged": 9,
    "turns": 9,
    "hurt": {"truncated": 1, "expired": 1},
    "quarantined": 1,
    "server": {"same_at_the_end": True},
    "kills": [{"pid": 1, "signal": 9, "followed_by": 2}],
    "pauses": [1],
    "failovers": {"promote": 1},
    "failovers_due": 1,
    "network": {"cut_reply": 1},
}


@pytest.mark.parametrize(
    "wrong",
    [
        {"lost": 1},
        {"doubled": 1},
        {"versions_written_twice": 1},
        {"applied": 8},
        {"acknowledged": 8},
        {"quarantined": 0},
        {"quarantined": 2},
        {"server": {"same_at_the_end": False}},
        {"kills": []},
        {"kills": [{"pid": 1, "signal": 15, "followed_by": 2}]},
        {"pauses": []},
        {"failovers": {}},
        {"network": {}},
    ],
)
def test_a_run_that_broke_a_promise_or_had_no_faults_does_not_pass(chaos: Any, wrong: dict[str, Any]) -> None:
    assert chaos.held(GOOD)
    assert not chaos.held(GOOD | wrong)
