"""`tools/bench_routing.py` as a command: what it measures, writes and refuses."""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from routing_sources import ROOT, source

MARKED = "before\n<!-- routing -->\nold\n<!-- /routing -->\nafter\n"


@pytest.fixture(scope="module")
def bench() -> Any:
    """The command's module."""
    spec = importlib.util.spec_from_file_location("bench_routing", ROOT / "tools" / "bench_routing.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return source(tmp_path / "data")


def whole(bench: Any) -> dict[str, Any]:
    """What a run of everything leaves."""
    figures = bench.figures
    metric = {"value": 0.97, "low": 0.96, "high": 0.98, "n": 100}
    counts = {
        "training": 9,
        "published": 10,
        "flows": 8,
        "silent": 6,
        "fillers": 3,
        "wrong": 5,
        "elsewhere": 2,
    }
    rows = [
        {
            "row": name, "system": figures.OURS, "n": 100, "seconds": 1.0, "counts": counts,
            "metrics": dict.fromkeys(spec.metrics, metric), "latency_ms": {"p50": 4.0, "p95": 9.0},
        }
        for name, spec in figures.SPECS.items()
    ]  # fmt: skip
    recall = {"points": 10, "p50_ms": 1.0, "p99_ms": 2.0, "n": 1000, "target_ms": 10.0, "target_met": True}
    about = {"seeds": [17], "quick": False, "cores": 2, "load": 0.1, "minutes": 3.0, "runs": 1}
    smaller = {"n": 9, "catalogues": 1, "alone": metric, "among": metric}
    return {
        "rows": rows,
        "share": [],
        "recall": recall,
        "flows20": smaller,
        "registries": smaller,
        "about": about,
    }


def test_it_refuses_what_it_does_not_know(bench: Any, tmp_path: Path, capsys: Any) -> None:
    with pytest.raises(SystemExit) as refused:
        bench.main(["--only", "bankng"])
    assert refused.value.code == 2
    assert "unknown set 'bankng'" in capsys.readouterr().err
    assert bench.main(["--data", str(tmp_path)]) == 2
    assert "no public data" in capsys.readouterr().err


@pytest.mark.long
def test_a_quick_run_measures_a_row_of_every_system(
    bench: Any, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    docs, out = tmp_path / "docs.md", tmp_path / "out.json"
    docs.write_text(MARKED, "utf-8")
    asked = ["--only", "banking77", "--quick", "--data", str(data), "--out", str(out)]
    assert bench.main([*asked, "--docs", "--docs-file", str(docs)]) == 1  # a quick run is not written
    printed = capsys.readouterr()
    assert "quick run" in printed.err
    assert docs.read_text("utf-8") == MARKED
    found = json.loads(out.read_text("utf-8"))
    assert [row["system"] for row in found["rows"]] == [
        "this project", "semantic-router", "top recalled candidate", "TF-IDF + logistic regression",
    ]  # fmt: skip
    for row in found["rows"]:
        assert (row["n"], row["crashed"]) == (2, 0)
        assert row["metrics"]["flow_set_exact"]["value"] == 1.0
        assert row["latency_ms"]["p50"] > 0
    assert found["rows"][0]["counts"] == {"training": 6, "published": 40}
    assert {share["row"] for share in found["share"]} == {"banking77"}
    assert re.search(r"\*\*BANKING77\*\*<br>6 to learn from, 2 asked", printed.out)
    # Its figures don't stand beside those of a whole run, or of other seeds.
    assert bench.main(["--add", "--only", "", "--data", str(data), "--out", str(out)]) == 2
    assert "quick" in capsys.readouterr().err
    assert bench.main([*asked, "--add", "--seeds", "18"]) == 2


def test_a_whole_table_is_written_and_any_other_names_what_it_lacks(
    bench: Any, data: Path, tmp_path: Path, capsys: Any
) -> None:
    docs, out = tmp_path / "docs.md", tmp_path / "out.json"
    docs.write_text(MARKED, "utf-8")
    asked = [
        "--add",
        "--only",
        "",
        "--docs",
        "--docs-file",
        str(docs),
        "--data",
        str(data),
        "--out",
        str(out),
    ]
    held = whole(bench)
    rows = [row for row in held["rows"] if row["row"] not in ("star", "sgd")]
    out.write_text(json.dumps({**held, "rows": rows, "recall": {}}), "utf-8")
    assert bench.main(asked) == 1
    assert "lacks star, sgd, recall" in capsys.readouterr().err
    assert docs.read_text("utf-8") == MARKED
    out.write_text(json.dumps(held), "utf-8")
    assert bench.main(asked) == 0
    written = docs.read_text("utf-8")
    assert written.startswith("before\n<!-- routing -->\nMade by `make bench-routing` with seed 17")
    assert "| **SGD, schema as registry**" in written
    docs.write_text("no markers", "utf-8")
    assert bench.main(asked) == 2
    assert "no place for the table" in capsys.readouterr().err


def test_the_documentation_has_the_place_for_the_table(bench: Any) -> None:
    assert "new" in bench.filled(bench.DOCS.read_text("utf-8"), "new", "routing")


@pytest.mark.long
def test_recall_is_measured_with_enough_questions_for_its_last_percentile(bench: Any) -> None:
    found = bench.recall_speed(1000)["recall"]
    assert found["points"] == 1000
    assert found["n"] >= 1000
    assert 0 < found["p50_ms"] <= found["p99_ms"]
    assert found["rss_mb_more"] < 250  # of this index, not of the whole process since its start
    assert "target_ms" not in found  # which is for 20,000 points


def test_a_measurement_of_recall_that_fails_is_told_and_fails_the_run(
    bench: Any, data: Path, tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench.sys, "executable", shutil.which("false"))
    assert bench.main(["--only", "recall", "--data", str(data), "--out", str(tmp_path / "out.json")]) == 1
    told = capsys.readouterr().err
    assert "recall: pytest ended with 1" in told
    assert "test_recall[20000]" in told
