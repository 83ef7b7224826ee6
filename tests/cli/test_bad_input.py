"""Bad input of every kind: exit code 2, and a message with place and remedy."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

RECIPE = 'name = "shop"\ndataset = "shop"\nlm = "none"\ntracking = "none"\n'


def _refused(done: Any, *told: str) -> None:
    assert done.code == 2, done
    for text in told:
        assert text in done.err
    assert "remedy: " in done.err


def _commands(program: Path, dataset: Path, tmp_path: Path) -> list[list[object]]:
    (tmp_path / "recipe.toml").write_text(RECIPE, "utf-8")
    return [
        ["datasets", "check", dataset],
        ["datasets", "stats", dataset],
        ["evaluate", program, dataset],
        ["optimize", tmp_path / "recipe.toml"],
    ]


@pytest.mark.row("D3")
@pytest.mark.parametrize(
    ("file", "old", "new", "told"),
    [
        ("conversations.jsonl", '{"id": "saturday",', '{"id": "saturday"', ("jsonl:2", "not JSON")),
        (
            "conversations.jsonl", '"flows": ["repair_status"]', '"flows": ["repair_statsu"]',
            ("conversations.jsonl:3", "field turns.0.labels.flows.0", "'repair_statsu'"),
        ),
        (
            "flows.yaml", "name: fault\n        type: text", "name: fault",
            ("flows.yaml:", "slots.0.type", "'fault' has no type"),
        ),
    ],
    ids=["not JSON", "unknown flow", "slot without type"],
)  # fmt: skip
def test_a_broken_dataset(
    run: Any, program: Path, dataset: Path, tmp_path: Path, file: str, old: str, new: str, told: Any
) -> None:  # fmt: skip
    text = (dataset / file).read_text("utf-8")
    assert old in text
    (dataset / file).write_text(text.replace(old, new, 1), "utf-8")
    for command in _commands(program, dataset, tmp_path):
        _refused(run(*command), *told)


def test_a_slot_without_type_in_a_file_of_flows(run: Any, tmp_path: Path) -> None:
    file = tmp_path / "flows.yaml"
    file.write_text("flows:\n  - name: pay\n    description: Pay.\n    slots:\n      - name: sum\n", "utf-8")
    done = run("flows", "check", file)
    _refused(done, "flows.yaml:5", "field slots.0.type", "'sum' has no type", "Give it one of")


@pytest.mark.parametrize("text", ["flows: [", "flows: 3", "", "- name: x"])
def test_a_file_that_holds_no_flows(run: Any, tmp_path: Path, text: str) -> None:
    (tmp_path / "flows.yaml").write_text(text, "utf-8")
    _refused(run("flows", "check", tmp_path / "flows.yaml"), "flows.yaml")


def test_files_that_are_not_there_or_not_utf_8(run: Any, program: Path, tmp_path: Path) -> None:
    (tmp_path / "latin.yaml").write_bytes("flows: # Päckchen".encode("latin-1"))
    for command in (
        ["flows", "check", "nowhere.yaml"],
        ["flows", "check", "latin.yaml"],
        ["optimize", "nowhere.toml"],
        ["optimize", "latin.yaml"],
        ["evaluate", program, "nowhere"],
        ["evaluate", "nowhere", "nowhere"],
        ["decide", "nowhere", "--text", "hello"],
        ["chat", "nowhere"],
        ["report", "nowhere"],
        ["datasets", "check", "nowhere"],
    ):
        _refused(run(*command))


def test_an_empty_split(run: Any, program: Path, dataset: Path, tmp_path: Path) -> None:
    from jazzmine_dspy.datasets import write_splits

    roles = json.loads((dataset / "splits.json").read_text("utf-8"))["roles"]
    by_id = {name: "train" if role == "dev_b" else role for role, names in roles.items() for name in names}
    write_splits(dataset, by_id, replace=True)
    (tmp_path / "recipe.toml").write_text(RECIPE, "utf-8")
    for command in (["evaluate", program, dataset, "--split", "dev_b"], ["optimize", "recipe.toml"]):
        _refused(run(*command), "'dev_b' is empty", "splits.json", "field roles.dev_b", "datasets split")


def test_a_split_that_does_not_exist(run: Any, program: Path, dataset: Path) -> None:
    _refused(run("evaluate", program, dataset, "--split", "dev"), "'dev'", "dev_a")


def test_splits_edited_by_hand(run: Any, program: Path, dataset: Path) -> None:
    text = (dataset / "splits.json").read_text("utf-8")
    (dataset / "splits.json").write_text(text.replace('"wheel"', '"gears"', 1), "utf-8")
    _refused(run("evaluate", program, dataset), "splits.json", "edited by hand")


@pytest.mark.row("O1")
@pytest.mark.parametrize(
    ("recipe", "told"),
    [
        (RECIPE + "optimiser = 'none'\n", ("'optimiser'", "'optimizer'")),
        (RECIPE + "[budget]\nlm_call = 3\n", ("'budget.lm_call'", "'lm_calls'")),
        (RECIPE + "shape = 'round'\n", ("'shape'",)),
        ("name = 'shop'\n", ("'dataset'",)),
        ("name = shop\n", ("recipe.toml:1",)),
    ],
)
def test_a_recipe_with_a_slip(run: Any, tmp_path: Path, recipe: str, told: tuple[str, ...]) -> None:
    (tmp_path / "recipe.toml").write_text(recipe, "utf-8")
    _refused(run("optimize", "recipe.toml"), "recipe.toml", *told)


@pytest.mark.row("A3")
def test_an_artefact_of_another_signature(run: Any, program: Path, dataset: Path, reseal: Any) -> None:
    manifest = json.loads((program / "manifest.json").read_bytes())
    reseal(program, {"signatures": manifest["signatures"] | {"fused": "0" * 64}})
    for command in (
        ["decide", program, "--text", "hello"],
        ["evaluate", program, dataset],
        ["chat", program],
    ):
        _refused(run(*command), "another signature of 'fused'", "manifest.json", "Compile it again")


@pytest.mark.row("A3")
def test_an_artefact_that_was_changed(run: Any, program: Path) -> None:
    (program / "policy.json").write_bytes((program / "policy.json").read_bytes() + b" ")
    _refused(run("decide", program, "--text", "hello"), "policy.json", "changed")


@pytest.mark.parametrize("name", ["gpt-4o", "nonsense/model", ""])
def test_a_language_model_that_does_not_resolve(
    run: Any, program: Path, dataset: Path, tmp_path: Path, name: str
) -> None:
    (tmp_path / "recipe.toml").write_text(RECIPE, "utf-8")
    for command in (
        ["decide", program, "--text", "hello"],
        ["evaluate", program, dataset, "--split", "dev_a"],
        ["chat", program],
        ["optimize", "recipe.toml"],
    ):
        _refused(run(*command, "--lm", name), name)


def test_an_embedding_model_that_is_missing(run: Any, dataset: Path, tmp_path: Path) -> None:
    (tmp_path / "recipe.toml").write_text(RECIPE + "embedder = 'nobody/no-model'\n", "utf-8")
    _refused(run("optimize", "recipe.toml"), "nobody/no-model")


@pytest.mark.row("A8")
def test_serving_without_the_embedding_model_is_degraded(run: Any, program: Path, reseal: Any) -> None:
    reseal(program, {"embedder": {"model": "nobody/no-model"}})
    done = run("decide", program, "--text", "my wheel wobbles", "--json")
    assert done.code == 0
    assert done.json["degraded"]
    assert "nobody/no-model" in done.json["stages"]["select"]["cause"]
    assert "nobody/no-model" in done.err


@pytest.mark.row("G5")
@pytest.mark.parametrize("text", ["", " \n ", "x" * 100_000], ids=["empty", "blank", "100,000 characters"])
def test_texts_that_cannot_be_decided(run: Any, program: Path, tmp_path: Path, text: str) -> None:
    told = "8,000" if text.strip() else "empty"
    _refused(run("decide", program, "--text", text), told, "--text")
    (tmp_path / "turn.json").write_text(json.dumps({"text": text}), "utf-8")
    _refused(run("decide", program, "--turn", "turn.json"), told, "turn.json", "field text")


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("{", "not JSON"),
        ("[]", "not a JSON object"),
        ('{"text": "hi", "slot": {}}', "slot"),
        ('{"text": "hi", "status": "asleep"}', "status"),
        ('{"text": 3}', "text"),
    ],
)
def test_a_turn_that_is_none(run: Any, program: Path, tmp_path: Path, content: str, told: str) -> None:
    (tmp_path / "turn.json").write_text(content, "utf-8")
    _refused(run("decide", program, "--turn", "turn.json"), told)


def test_nothing_to_decide(run: Any, program: Path) -> None:
    _refused(run("decide", program), "--text")


def test_an_unknown_policy(run: Any, program: Path, dataset: Path) -> None:
    _refused(run("evaluate", program, dataset, "--split", "dev_a", "--policy", "best"), "'best'", "shipped")
