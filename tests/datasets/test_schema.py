"""The form of a dataset, and its JSON Schema (D1)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from jazzmine_dspy.datasets import LabelledConversation, Labels, json_schema, load_dataset

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.row("D1")
def test_the_committed_json_schema_is_that_of_the_models() -> None:
    committed = json.loads((ROOT / "datasets" / "schema.json").read_text("utf-8"))
    assert committed == json_schema(), "write it anew: see json_schema() in jazzmine_dspy/datasets/schema.py"


@pytest.mark.row("D1")
def test_json_schema_and_models_agree(conversations: list[dict[str, Any]]) -> None:
    schema = json_schema()
    for conversation in conversations:
        jsonschema.validate(conversation, schema)
        read = LabelledConversation.model_validate(conversation)
        assert LabelledConversation.model_validate_json(read.model_dump_json()) == read
        hash(read)
    noted = conversations[0] | {"x-source": "phone"}
    jsonschema.validate(noted, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(conversations[0] | {"source": "phone"}, schema)


@pytest.mark.row("D1")
def test_a_label_that_was_not_made_stays_none(folder: Path) -> None:
    example = load_dataset(folder).examples("dev_b")[0]
    made = {name for name in Labels.model_fields if getattr(example.labels, name) is not None}
    assert made == {"sentiment"}
    assert example.labels.flows is None
    assert example.labels.commands is None
    assert example.labels.is_cancellation is None, "not labelled is another thing than labelled false"


def test_an_empty_list_is_a_label() -> None:
    labels = Labels.model_validate({"flows": [], "commands": []})
    assert (labels.flows, labels.commands, labels.entities) == ((), (), None)


@pytest.mark.parametrize("value", ["4471", 3, 2.5, True, None, ["a", "b"], {"street": "Elm", "number": 4}])
def test_a_slot_value_may_be_any_json(value: Any) -> None:
    labels = Labels.model_validate({"commands": [{"type": "set_slot", "name": "code", "value": value}]})
    assert labels.model_dump(mode="json")["commands"][0]["value"] == value
    hash(labels)


def test_keys_beginning_with_x_are_notes_at_every_level() -> None:
    data = {
        "id": "a",
        "x-by": "Ann",
        "turns": [
            {
                "role": "user",
                "text": "hi",
                "x-n": 1,
                "before": {"x-n": 2},
                "labels": {"intent": "chitchat", "x-n": 3},
            }
        ],
    }
    conversation = LabelledConversation.model_validate(data)
    assert "x-" not in conversation.model_dump_json()
    assert conversation.turns[0].labels == Labels(intent="chitchat")
