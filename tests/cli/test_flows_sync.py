"""`flows sync`, and what `flows check` says of examples that are nearly the same."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import qdrant_server
from jazzmine_dspy.memory.procedural import memory as procedural_memory
from word_embedder import WordEmbedder

KEY = "a-very-secret-key"
FLOWS = """
about: a shop
flows:
  - name: track_order
    description: Tell where an order is.
    condition: There is an order.
    examples: [where is my order, track my parcel, has it been sent]
  - name: cancel_order
    description: Stop an order.
    condition: It has not left.
    examples: [cancel my order, stop it, I changed my mind]
"""


@pytest.fixture
def running() -> Iterator[qdrant_server.QdrantDouble]:
    with qdrant_server.server(api_key=KEY) as running:
        yield running


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(procedural_memory, "FastembedEmbedder", WordEmbedder)
    monkeypatch.delenv("QDRANT_API_KEY", raising=False)
    (tmp_path / "flows.yaml").write_text(FLOWS, "utf-8")
    return tmp_path / "flows.yaml"


@pytest.mark.row("F3")
def test_a_server_is_synced_and_then_skipped(
    run: Any, file: Path, running: qdrant_server.QdrantDouble
) -> None:
    running.api_key = ""
    done = run("flows", "sync", file, "--memory", running.url, "--agent", "shop", "--dry-run")
    assert done.out.splitlines() == [
        "CREATE (2): track_order, cancel_order",
        "2 changes, 0 unchanged",
        "nothing was done (--dry-run)",
    ]
    assert running.writes == 0
    first = run("flows", "sync", file, "--memory", running.url, "--agent", "shop", "--json").json
    assert first == {
        "memory": running.url,
        "agent": "shop",
        "layout": "examples",
        "prefix": "jazzmine",
        "dry_run": False,
        "created": ["track_order", "cancel_order"],
        "updated": [],
        "deleted": [],
        "skipped": [],
    }
    further = {"text": "where on earth is it", "flow": "track_order", "conversation": "c1"}
    (file.parent / "examples.jsonl").write_text(json.dumps(further) + "\n", "utf-8")
    learnt = run("flows", "sync", file.parent, "--memory", running.url, "--agent", "shop", "--json").json
    assert (learnt["updated"], learnt["skipped"]) == (["track_order"], ["cancel_order"])
    (file.parent / "examples.jsonl").write_text("{}\n", "utf-8")
    broken = run("flows", "sync", file.parent, "--memory", running.url, "--agent", "shop")
    assert (broken.code, "examples.jsonl, line 1" in broken.err) == (2, True)
    (file.parent / "examples.jsonl").write_text(json.dumps(further) + "\n", "utf-8")
    file.write_text(FLOWS.replace("stop it", "call it off"), "utf-8")
    again = run("flows", "sync", file.parent, "--memory", running.url, "--agent", "shop", "--json").json
    assert (again["updated"], again["skipped"]) == (["cancel_order"], ["track_order"])


@pytest.mark.row("F3", "F5")
def test_a_server_is_synced_with_a_key_out_of_the_environment(
    run: Any, file: Path, running: qdrant_server.QdrantDouble, monkeypatch: pytest.MonkeyPatch
) -> None:
    sync = ("flows", "sync", file, "--memory", running.url, "--layout", "jazzmine", "--prefix", "shared")
    refused = run(*sync)
    assert refused.code == 2
    assert "needs an API key" in refused.err
    unset = run(*sync, "--api-key-env", "OTHER_KEY")
    assert (unset.code, "OTHER_KEY is not set" in unset.err) == (2, True)
    monkeypatch.setenv("OTHER_KEY", "wrong-secret")
    wrong = run(*sync, "--api-key-env", "OTHER_KEY", "--json")
    assert (wrong.code, "refuses the API key" in wrong.json["error"]["message"]) == (2, True)
    assert "wrong-secret" not in wrong.out + wrong.err
    monkeypatch.setenv("QDRANT_API_KEY", KEY)
    assert run(*sync, "--json").json["created"] == ["track_order", "cancel_order"]
    assert running.count("shared_flows") == 2
    assert "--api-key " not in run("flows", "sync", "--help").out


def test_a_server_that_is_down_ends_with_a_remedy(run: Any, file: Path) -> None:
    done = run("flows", "sync", file, "--memory", "http://127.0.0.1:9", "--timeout", "0.2")
    assert done.code == 2
    assert "can't be reached" in done.err
    assert "http://127.0.0.1:9" in done.err
    for place in ("localhost:6333", "folder"):
        refused = run("flows", "sync", file, "--memory", place)
        assert (refused.code, "write http://HOST:6333" in refused.err) == (2, True)
        assert not Path(place).exists()
    absent = run("flows", "sync", file, "--memory", "https://127.0.0.1:9", "--ca", "absent.pem")
    assert (absent.code, "absent.pem" in absent.err) == (2, True)
    bad = run("flows", "sync", file, "--memory", "ftp://x")
    assert (bad.code, "not a URL of a Qdrant server" in bad.err) == (2, True)


def test_examples_of_the_same_words_are_warned_of(run: Any, file: Path) -> None:
    file.write_text(FLOWS.replace("stop it", "'my order: where is?'"), "utf-8")
    report = run("flows", "check", file, "--json").json
    assert report["ok"]
    problem, routed = report["problems"]
    assert routed["message"] == "'my order: where is?' selects 'track_order'"
    assert (problem["severity"], problem["field"]) == ("warning", "flow 'cancel_order', examples")
    assert "'where is my order' of 'track_order'" in problem["message"]


@pytest.mark.parametrize("options", [(), ("--dry-run",)])
def test_a_memory_that_ends_with_the_command_is_refused(
    run: Any, file: Path, options: tuple[str, ...]
) -> None:
    done = run("flows", "sync", file, "--memory", ":memory:", *options, "--json")
    assert done.code == 2
    error = done.json["error"]
    assert "would be lost" in error["message"]
    assert error["where"] == "--memory"
    assert "http://localhost:6333" in error["remedy"]
