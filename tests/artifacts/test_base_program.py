"""`load("base")`: the package's weights over flows of the caller's, with no label used."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from jazzmine_dspy import FlowRegistry, load
from jazzmine_dspy.models.errors import ArtifactError, InputError

FLOWS = [
    {
        "name": "book_table",
        "description": "Reserve a table in the restaurant.",
        "examples": ["a table for two please", "can I reserve for Friday"],
        "slots": [{"name": "guests", "type": "number", "ask": "For how many people?"}],
    },
    {
        "name": "opening_hours",
        "description": "Say when the restaurant is open.",
        "examples": ["when do you open", "are you open on Sundays"],
    },
]


@pytest.mark.row("A1")
def test_it_decides_without_a_label_and_without_a_language_model() -> None:
    program = load("base", flows=FLOWS)
    decision = program.decide(text="I'd like to reserve a table for four")
    assert decision.selection.flows == ["book_table"]
    assert not decision.degraded
    assert decision.usage.lm_calls == 0
    assert program.policy.names == ("local",)


def test_it_takes_a_registry_and_a_file(tmp_path: Path) -> None:
    path = tmp_path / "flows.yaml"
    path.write_text(yaml.safe_dump({"flows": FLOWS}), "utf-8")
    ours = load("base", flows=FlowRegistry(FLOWS), warm=False)
    theirs = load("base", flows=path, warm=False)
    assert ours.registry.checksum == theirs.registry.checksum
    assert ours.fingerprint == theirs.fingerprint


def test_without_flows_it_says_what_to_pass() -> None:
    with pytest.raises(ArtifactError, match="no flows of its own") as caught:
        load("base")
    assert "flows=" in caught.value.remedy


def test_what_are_no_flows_is_refused() -> None:
    with pytest.raises(InputError, match=r"These are not flows.*flows=5"):
        load("base", flows=5)
