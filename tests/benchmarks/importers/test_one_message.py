"""Sources of single messages: what each format's rows become."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from jazzmine_dspy.datasets import load_dataset

from .conftest import FIXTURES

pytestmark = pytest.mark.row("D5")


def start(flow: str) -> dict[str, Any]:
    return {"type": "start_flow", "flow": flow}


def fill(name: str, value: Any) -> dict[str, Any]:
    return {"type": "set_slot", "name": name, "value": value}


def test_banking77(labels: Any, tmp_path: Path) -> None:
    found = labels("banking77")
    assert len(found) == 12
    assert found["Is it late, or lost?"] == {"flows": ["kite_arrival"], "intent": "kite_arrival"}
    assert found["My line snapped,\nwhat now"]["flows"] == ["broken_line?"]
    flows = load_dataset(tmp_path / "made").flows
    assert {name: flow.description for name, flow in flows.items()} == {
        "Tail_swap": "Tail swap",
        "broken_line?": "Broken line?",
        "kite_arrival": "Kite arrival",
        "never_said": "Never said",
    }
    assert not any(flow.examples or flow.slots for flow in flows.values())


def test_clinc150_says_what_is_out_of_scope(labels: Any, tmp_path: Path) -> None:
    found = labels("clinc150")
    assert found["one more slow tune"] == {"flows": ["lullaby"], "intent": "lullaby"}
    for text in ("who won the sack race", "fold my laundry", "how tall is a shed"):
        assert found[text] == {"flows": [], "intent": "out_of_scope"}
    dataset = load_dataset(tmp_path / "made")
    assert {name: flow.category for name, flow in dataset.flows.items()} == dict.fromkeys(
        ["lullaby", "monster_check", "night_light"], "night"
    )
    assert dataset.roles["clinc150-train-oos-00001"] == "train"
    assert dataset.roles["clinc150-test-oos-00001"] == "test"


def test_hint3_of_one_bot(imported: Any) -> None:
    train, test = (FIXTURES / "hint3" / part / f"soapbot_{part}.csv" for part in ("train", "test"))
    report, found = imported("hint3", splits=[("train", train), ("test", test)])
    assert report.roles == {"train": 2, "dev_a": 1, "dev_b": 1, "test": 4}
    assert found["hint3-test-00004"]["turns"][0]["labels"] == {"flows": [], "intent": "out_of_scope"}
    assert found["hint3-train-00004"]["turns"][0]["text"] == "scent, please"
    assert "NO_NODES_DETECTED" not in load_dataset(report.out).flows
    assert any("CUSTOM_SCENT" in note for note in report.notes)


def test_nlupp_tells_acts_from_flows(imported: Any) -> None:
    report, found = imported("nlupp", FIXTURES / "nlupp" / "data")
    turns = {turn["text"]: turn for data in found.values() for turn in data["turns"]}
    assert turns["keep Moby Duck until Friday"]["labels"] == {
        "flows": ["change", "loan"],
        "commands": [start("change"), start("loan"), fill("title", "Moby Duck"), fill("date", "Friday")],
    }
    assert turns["take 12 books"]["labels"]["commands"] == [start("loan"), fill("number", 12)]
    assert turns["cheers"]["labels"] == {"flows": [], "commands": [{"type": "chitchat"}]}
    assert turns["cheers"]["tags"] == ["act:thank"]
    somebody = turns["get me somebody about that penalty"]
    assert somebody["labels"]["commands"] == [start("fine"), {"type": "handoff"}]
    flows = load_dataset(report.out).flows
    assert list(flows) == ["change", "loan", "fine", "feeding"]
    assert flows["loan"].description == "is it about borrowing?"
    assert [slot.name for slot in flows["loan"].slots] == ["date", "number", "title"]
    assert [slot.type for slot in flows["loan"].slots] == ["text", "number", "text"]


def test_nlupp_leaves_open_what_hangs_on_the_message_before(labels: Any) -> None:
    found = labels("nlupp")
    assert found["yes, borrow 3"] == {"flows": ["loan"]}
    assert found["on Friday"] == {"flows": []}


def test_a_fold_knows_its_domain_by_its_folder_or_its_intents(source: Any, imported: Any) -> None:
    folder = source("nlupp") / "data"
    lone = folder / "zoo" / "fold0.json"
    report, _ = imported("nlupp", splits=[("train", lone)], dev_share=0.0)
    assert list(load_dataset(report.out).flows) == ["change", "fine", "feeding"]
    moved = lone.rename(folder / "held_out.json")
    report, _ = imported("nlupp", splits=[("train", moved)], dev_share=0.0, replace=True)
    assert list(load_dataset(report.out).flows) == ["change", "fine", "feeding"]


def test_mixed_requests_keep_their_order_and_their_slots(labels: Any, tmp_path: Path) -> None:
    found = labels("mixsnips")
    assert found["water the moss and then feed tom at six"] == {
        "flows": ["WaterPlant", "FeedPet"],
        "intent": "WaterPlant",
        "commands": [
            start("WaterPlant"), fill("plant", "moss"), start("FeedPet"), fill("pet", "tom"), fill("hour", "six"),
        ],
    }  # fmt: skip
    assert found["feed old tom at noon"]["commands"][1] == fill("pet", "old tom")
    flows = load_dataset(tmp_path / "made").flows
    assert {name: [slot.name for slot in flow.slots] for name, flow in flows.items()} == {
        "FeedPet": ["hour", "pet"],
        "PlayGame": ["game", "pet"],
        "WaterPlant": ["plant"],
    }


def test_slots_that_may_belong_to_two_flows_give_no_commands(labels: Any) -> None:
    found = labels("mixsnips")
    assert found["feed tom and play chess"] == {"flows": ["FeedPet", "PlayGame"], "intent": "FeedPet"}
    assert "commands" not in found["feed tom , feed kit and water the ferns"]


def test_mixatis(labels: Any, tmp_path: Path) -> None:
    found = labels("mixatis")
    assert found["when does the gull sail and from which pier"]["commands"] == [
        start("atis_sailing"), fill("boat.name", "gull"), start("atis_pier"),
    ]  # fmt: skip
    assert load_dataset(tmp_path / "made").flows["atis_sailing"].description == "Sailing"


def test_rasa_nlu_marks_values_inside_the_examples(labels: Any, tmp_path: Path) -> None:
    found = labels("rasa_nlu")
    assert found["a red kite for monday"]["commands"] == [
        start("rent_kite"), fill("color", "red"), fill("day", "Monday"),
    ]  # fmt: skip
    assert found["the blue one comes back"]["commands"] == [start("return_kite"), fill("color", "navy")]
    assert found["when do you open"]["intent"] == "faq"
    assert found["sing me a song"] == {"flows": [], "intent": "out_of_scope"}
    assert "mon" not in found
    flows = load_dataset(tmp_path / "made").flows
    assert {name: [slot.name for slot in flow.slots] for name, flow in flows.items()} == {
        "faq": [],
        "rent_kite": ["color", "day"],
        "return_kite": ["color"],
    }


def test_calm_e2e_has_what_its_assertions_state(labels: Any) -> None:
    found = labels("calm_e2e")
    assert found["Rent me a red kite"]["commands"] == [start("rent_kite"), fill("color", "red")]
    assert found["for two days"] == {"flows": [], "commands": [fill("days", "2")]}
    assert found["my kite is torn"]["flows"] == ["repair_kite"]
    # A slot that is set without a flow belongs to none that is known.
    assert found["on Monday"] is None
