"""`doctor` looks for what the commands need."""

from __future__ import annotations

import importlib.metadata
from pathlib import Path
from typing import Any

import pytest


def test_all_is_well(run: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAZZMINE_CACHE_DIR", str(tmp_path / "cache"))
    done = run("doctor", "--json")
    assert done.code == 0, done.out
    checks = {check["name"]: check for check in done.json["checks"]}
    assert {"Python", "dspy", "scipy", "embedding model", "cache"} <= set(checks)
    assert "ok" in run("doctor").out


def test_what_is_missing_is_named_with_its_remedy(
    run: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    version = importlib.metadata.version

    def without(name: str) -> str:
        if name in ("safetensors", "scipy"):
            raise importlib.metadata.PackageNotFoundError(name)
        return "0.9" if name == "dspy" else version(name)

    (tmp_path / "file").write_text("", "utf-8")
    monkeypatch.setattr(importlib.metadata, "version", without)
    monkeypatch.setenv("JAZZMINE_CACHE_DIR", str(tmp_path / "file" / "cache"))
    done = run("doctor", "--lm", "nonsense/x", "--json")
    assert done.code == 1
    missing = done.json["missing"]
    assert {"dspy", "safetensors", "cache", "language model nonsense/x"} <= set(missing)
    assert "scipy" not in missing
    assert all(check["remedy"] for check in done.json["checks"] if not check["ok"])
