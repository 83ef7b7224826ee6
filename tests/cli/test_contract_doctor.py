"""`contract` and `doctor`."""

from __future__ import annotations

import importlib.metadata
import json
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]


def test_the_committed_contracts_are_those_of_the_code(run: Any) -> None:
    done = run("contract", "--check", ROOT / "signatures", "--json")
    assert done.code == 0, done.out + "\nwrite them anew: jazzmine-dspy contract --write signatures"
    assert done.json["different"] == []


def test_contracts_are_printed(run: Any) -> None:
    from jazzmine_dspy.signatures import fingerprints

    found = run("contract", "--json").json
    assert {name: contract["fingerprint"] for name, contract in found.items()} == fingerprints()
    assert "DecideTurn" in run("contract").out


def test_a_difference_fails_the_check(run: Any, tmp_path: Path) -> None:
    assert run("contract", "--write", "signatures").code == 0
    assert run("contract", "--check", "signatures").code == 0
    path = tmp_path / "signatures" / "SelectFlows.json"
    path.write_text(path.read_text("utf-8").replace("flows_offered", "tasks_offered"), "utf-8")
    (tmp_path / "signatures" / "DecideTurn.md").unlink()
    done = run("contract", "--check", "signatures", "--json")
    assert done.code == 1
    assert done.json["different"] == ["SelectFlows.json", "DecideTurn.md"]


def test_own_words_are_in_the_contract_and_change_no_fingerprint(run: Any, tmp_path: Path) -> None:
    folder = tmp_path / "signatures"
    folder.mkdir()
    (folder / "SelectFlows.toml").write_text('instructions = "Pick."\n[fields]\nmessage = "said"\n', "utf-8")
    assert run("contract", "--write", folder).code == 0
    written = json.loads((folder / "SelectFlows.json").read_text("utf-8"))
    assert written["instructions"] == "Pick."
    assert written["inputs"]["message"] == "said"
    assert written["fingerprint"] == run("contract", "--json").json["select"]["fingerprint"]
    assert "Pick." in (folder / "SelectFlows.md").read_text("utf-8")
    (folder / "SelectFlows.toml").write_text("instruction = 'Pick.'\n", "utf-8")
    done = run("contract", "--check", folder)
    assert done.code == 2
    assert "SelectFlows.toml" in done.err


def test_both_at_once_is_refused(run: Any, tmp_path: Path) -> None:
    assert run("contract", "--write", "a", "--check", tmp_path).code == 2


def test_all_is_well(run: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAZZMINE_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("REDIS_URL", raising=False)
    done = run("doctor", "--json")
    assert done.code == 0, done.out
    checks = {check["name"]: check for check in done.json["checks"]}
    assert {"Python", "dspy", "mlflow-skinny", "embedding model", "cache", "Redis"} <= set(checks)
    assert not checks["Redis"]["needed"]
    assert "ok" in run("doctor").out


def test_what_is_missing_is_named_with_its_remedy(
    run: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    version = importlib.metadata.version

    def without(name: str) -> str:
        if name in ("safetensors", "mlflow-skinny"):
            raise importlib.metadata.PackageNotFoundError(name)
        return "0.9" if name == "dspy" else version(name)

    (tmp_path / "file").write_text("", "utf-8")
    monkeypatch.setattr(importlib.metadata, "version", without)
    monkeypatch.setenv("JAZZMINE_CACHE_DIR", str(tmp_path / "file" / "cache"))
    done = run("doctor", "--redis", "redis://127.0.0.1:1", "--lm", "nonsense/x", "--json")
    assert done.code == 1
    missing = done.json["missing"]
    assert {"dspy", "safetensors", "cache", "Redis", "language model nonsense/x"} <= set(missing)
    assert "mlflow-skinny" not in missing
    assert all(check["remedy"] for check in done.json["checks"] if not check["ok"])
