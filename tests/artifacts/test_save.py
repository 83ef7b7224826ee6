"""`jazzmine_dspy.save(program, folder)` alone: what a program is saved with where nothing more is said."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import dspy
import pytest

from jazzmine_dspy import FlowRegistry, TurnProgram, load, save
from jazzmine_dspy.artifacts import bind_recall, read_manifest

FLOWS = [
    {"name": "track_order", "description": "Tell where an order is.", "examples": ["where is my order"]},
    {"name": "pay_bill", "description": "Pay a bill that is due.", "examples": ["pay my bill"]},
]


@pytest.fixture
def program() -> TurnProgram:
    return TurnProgram(FlowRegistry(FLOWS, agent_id="shop"))


@pytest.mark.row("A1")
def test_a_program_and_a_folder_are_enough(program: TurnProgram, tmp_path: Path) -> None:
    folder = save(program, tmp_path / "orders")
    manifest = read_manifest(folder)
    assert (manifest["name"], manifest["agent_id"]) == ("orders", "shop")
    assert json.loads((folder / "run.json").read_text()) == {}
    loaded = load(folder)
    assert loaded.registry.checksum == program.registry.checksum
    assert loaded.registry.agent_id == "shop"
    assert loaded.policy == program.policy


def test_what_is_bound_is_named_and_no_more(program: TurnProgram, tmp_path: Path) -> None:
    bind_recall(program, "minilm")
    program.bind(lm=dspy.LM("openai/private", api_base="https://lm.example.org/v1", api_key="sk-hunter2"))
    folder = save(program, tmp_path / "orders")
    manifest = read_manifest(folder)
    settings = {"api_base": "https://lm.example.org/v1"}
    assert manifest["lm"] == {"model": "openai/private", "settings": settings}
    assert manifest["embedder"]["model"] == "minilm"
    data = b"".join(path.read_bytes() for path in folder.iterdir())
    assert b"hunter2" not in data
    program.bind(lm=dspy.LM("openai/private", api_base="https://me:hunter2@lm.example.org/v1"))
    assert read_manifest(save(program, tmp_path / "again"))["lm"]["settings"] == {}


def test_the_examples_of_the_bound_recall_are_kept(program: TurnProgram, tmp_path: Path) -> None:
    rows = [{"text": "has the parcel left yet", "flow": "track_order", "conversation": "c1"}]
    bind_recall(program, "minilm", rows)
    folder = save(program, tmp_path / "orders")
    kept: list[Any] = [json.loads(line) for line in (folder / "examples.jsonl").read_text().splitlines()]
    assert kept == rows
    recall, again = program.bindings.recall, load(folder).bindings.recall
    assert recall is not None
    assert again is not None
    assert again.fingerprint == recall.fingerprint
    assert (save(load(folder), tmp_path / "twice") / "examples.jsonl").read_bytes() == (
        folder / "examples.jsonl"
    ).read_bytes()


def test_saved_twice_gives_the_same_bytes(program: TurnProgram, tmp_path: Path) -> None:
    one, two = (save(program, tmp_path / part / "orders") for part in ("a", "b"))
    assert {path.name: path.read_bytes() for path in one.iterdir()} == {
        path.name: path.read_bytes() for path in two.iterdir()
    }
