"""SGD as a dataset to compile on: what is drawn from the two parts, and what is labelled of it."""

from __future__ import annotations

import importlib
import itertools
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jazzmine_dspy.datasets import check_dataset, load_dataset
from jazzmine_dspy.datasets.split import delexicalise
from jazzmine_dspy.optimize.recipe import read_recipe

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "eval" / "benchmarks"))
sgd_services = importlib.import_module("sgd_services")

PLACES = (
    "mole",
    "quay",
    "pier",
    "bay",
    "cove",
    "inlet",
    "harbour",
    "lagoon",
    "beach",
    "dune",
    "reef",
    "shoal",
)
SIDES = ("north", "south", "east", "west", "upper")
THANKS = "many thanks and a good evening to everybody"
SIZES = {"train": 6, "dev": 4}


def service(name: str, intent: str) -> dict[str, Any]:
    slot = {"name": "place", "description": "Where", "is_categorical": False, "possible_values": []}
    flow = {
        "name": intent, "description": f"{intent} somewhere", "is_transactional": False,
        "required_slots": ["place"], "optional_slots": {}, "result_slots": [],
    }  # fmt: skip
    return {"service_name": name, "description": name, "slots": [slot], "intents": [flow]}


def user(text: str, of: str, intent: str, place: str = "", acts: str = "INFORM") -> dict[str, Any]:
    state = {
        "active_intent": intent,
        "requested_slots": [],
        "slot_values": {"place": [place]} if place else {},
    }
    actions = [{"act": acts, "slot": "", "values": []}]
    return {
        "speaker": "USER", "utterance": text,
        "frames": [{"service": of, "slots": [], "actions": actions, "state": state}],
    }  # fmt: skip


def dialogue(name: str, asked: list[tuple[str, str, str]], thanks: str) -> dict[str, Any]:
    """A dialogue that asks for one intent after the other, each at a place, and ends with thanks."""
    turns: list[dict[str, Any]] = []
    for of, intent, place in asked:
        turns.append(
            user(f"{intent} tomorrow in the {place} for dialogue {place} {name[:1]}", of, intent, place)
        )
        turns.append({"speaker": "SYSTEM", "utterance": "Here it is.", "frames": []})
    turns.append(user(thanks, asked[-1][0], "NONE", acts="THANK_YOU"))
    return {"dialogue_id": name, "services": sorted({of for of, *_ in asked}), "turns": turns}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A folder of public data with SGD's two parts, where the dev part has a service more."""
    tides, boats = ("Tides_1", "GetTide"), ("Boats_1", "FindBoat")
    kites = ("Kites_1", "FindKite")
    parts = {
        "train": (
            [tides, boats],
            [dialogue(f"t{n}", [(*[tides, boats][n % 2], f"{side} {place}")], f"thanks from all {side} {place} people")
             for n, (side, place) in enumerate(itertools.product(SIDES, PLACES))]
            + [dialogue("t99", [(*tides, "moor")], THANKS)],
        ),
        "dev": (
            [tides, kites],
            [dialogue(f"d{n}", [(*tides, place), (*kites, place)], THANKS) for n, place in enumerate(PLACES[:8])]
            + [dialogue("d99", [(*tides, "moor")], THANKS)],
        ),
    }  # fmt: skip
    for name, (services, dialogues) in parts.items():
        folder = tmp_path / "data" / "sgd" / name
        folder.mkdir(parents=True)
        (folder / "schema.json").write_text(json.dumps([service(*each) for each in services]), "utf-8")
        (folder / "dialogues_001.json").write_text(json.dumps(dialogues), "utf-8")
    return tmp_path / "data"


@pytest.fixture
def written(data: Path, tmp_path: Path) -> Callable[..., Path]:
    """Writes the dataset, and gives its folder."""

    def run(name: str = "out", **options: Any) -> Path:
        train, dev = data / "sgd" / "train", data / "sgd" / "dev"
        settings = {"sizes": SIZES, "turns": 5, **options}
        sgd_services.write(train, dev, tmp_path / name, work=tmp_path / f"work-{name}", **settings)
        return tmp_path / name

    return run


def conversations(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "conversations.jsonl").read_text("utf-8").splitlines()]


def test_test_turns_have_commands_and_are_about_services_that_train_lacks(
    written: Callable[..., Path], tmp_path: Path
) -> None:
    folder = written()
    dataset = load_dataset(folder)
    dataset.open_test("check", tmp_path)
    test = dataset.examples("test")
    assert len(test) == 5
    assert all(example.labels.commands for example in test)
    # The thanks after it end the flow, and are no command of the new service's by themselves.
    assert {name for each in test for name in (each.labels.flows or (each.turn.flow,))} == {
        "Kites_1.FindKite"
    }
    learnt = dataset.examples("train", "dev_a", "dev_b")
    assert {name for each in learnt for name in each.labels.flows or ()} == {
        "Tides_1.GetTide",
        "Boats_1.FindBoat",
    }
    counts = {role: list(dataset.roles.values()).count(role) for role in ("train", "dev_a", "dev_b")}
    assert counts == {"train": 6, "dev_a": 2, "dev_b": 2}


def test_the_history_of_a_test_turn_stays_without_labels(written: Callable[..., Path]) -> None:
    test = [each for each in conversations(written()) if each["id"].startswith("sgd-test-")]
    assert test
    for each in test:
        said = [turn for turn in each["turns"] if turn["role"] == "user"]
        assert len(said) == 3
        assert 0 < sum("labels" in turn for turn in said) < 3


def test_no_message_stands_in_two_parts(written: Callable[..., Path]) -> None:
    folder = written(sizes={"train": 57, "dev": 4})
    said: dict[str, set[str]] = {}
    for each in conversations(folder):
        for turn in each["turns"]:
            if turn["role"] == "user" and len(turn["text"].split()) >= 4:
                said.setdefault(delexicalise(turn["text"]), set()).add(each["id"].split("-")[1])
    assert {text for text, parts in said.items() if len(parts) > 1} == set()
    assert check_dataset(folder).errors == ()


def test_a_seed_draws_the_same_dataset_again(written: Callable[..., Path]) -> None:
    first, again, other = written("first"), written("again"), written("other", seed=3)
    assert conversations(first) == conversations(again)
    assert conversations(first) != conversations(other)


def test_the_command_writes_the_folder_of_the_recipe(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / read_recipe(ROOT / "eval" / "recipes" / "sgd.toml").dataset
    assert sgd_services.main(["--out", str(out), "--data", str(data)]) == 0
    assert str(out) in capsys.readouterr().out
    assert "The test part has labels on 8 turns" in (out / "card.md").read_text("utf-8")
    assert sgd_services.main(["--out", str(out), "--data", str(data)]) == 2
    assert "--replace" in capsys.readouterr().err


def test_missing_data_is_skipped_with_a_reason(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert sgd_services.main(["--out", str(tmp_path / "out"), "--data", str(tmp_path)]) == 0
    assert "skipped: there is no" in capsys.readouterr().out
    assert not (tmp_path / "out").exists()
