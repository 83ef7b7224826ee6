"""The exported contracts are those of the code, and a project's own wording changes no fingerprint."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest

from jazzmine_dspy.models.errors import RecipeError
from jazzmine_dspy.signatures import (
    CONTRACTS,
    DecisionAdapter,
    fingerprint,
    fingerprints,
    with_overrides,
)
from jazzmine_dspy.signatures.definitions import TOLD_BY_COMMANDS

ROOT = Path(__file__).resolve().parents[2]
NAMES = {
    "enhance": "EnhanceMessage",
    "select": "SelectFlows",
    "understand": "UnderstandMessage",
    "fused": "DecideTurn",
}


def test_the_files_are_those_of_the_code() -> None:
    spec = importlib.util.spec_from_file_location("tool_signatures", ROOT / "tools" / "signatures.py")
    assert spec is not None
    assert spec.loader is not None
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    written = {path.name: path.read_text("utf-8") for path in (ROOT / "signatures").iterdir()}
    assert written == tool.files(), "run: make signatures"
    for name, file in NAMES.items():
        assert json.loads(written[f"{file}.json"])["fingerprint"] == fingerprint(name)


@pytest.mark.parametrize(("name", "file"), NAMES.items())
def test_the_exported_prompt_is_that_of_the_code(name: str, file: str) -> None:
    prompt = (ROOT / "signatures" / f"{file}.md").read_text("utf-8")
    assert DecisionAdapter().format_system_message(CONTRACTS[name].signature) in prompt


@pytest.mark.parametrize("name", NAMES)
def test_the_outputs_of_a_signature_are_the_fields_of_its_answer(name: str) -> None:
    contract = CONTRACTS[name]
    answered, promised = contract.answer.model_fields, contract.signature.output_fields
    assert set(answered) == {*promised, *(TOLD_BY_COMMANDS if name == "fused" else ())}
    assert all(field.is_required() for field in answered.values())
    for field in promised:
        assert answered[field].annotation == promised[field].annotation


def test_the_fused_contract_is_the_other_three_in_one_but_for_what_commands_tell() -> None:
    outputs = [
        field
        for name in ("enhance", "select", "understand")
        for field in CONTRACTS[name].signature.output_fields
        if field not in TOLD_BY_COMMANDS
    ]
    assert list(CONTRACTS["fused"].signature.output_fields) == outputs


def test_fingerprints_tell_the_contracts_apart() -> None:
    assert fingerprints() == {name: fingerprint(name) for name in NAMES}
    assert len(set(fingerprints().values())) == 4


def test_own_wording_is_used_and_the_contract_stays(tmp_path: Path) -> None:
    before = fingerprint("select")
    (tmp_path / "SelectFlows.toml").write_text(
        'instructions = "Pick tasks."\n[fields]\nflows = "the letters"\nmessage = "what was said"\n', "utf-8"
    )
    signature: Any = with_overrides("select", tmp_path)
    system = DecisionAdapter().format_system_message(signature)
    assert system.startswith("Pick tasks.\n")
    assert "flows: the letters" in system
    assert "\nmessage: what was said\n" in system
    assert fingerprint("select") == before
    assert with_overrides("enhance", tmp_path) is CONTRACTS["enhance"].signature
    assert CONTRACTS["select"].signature.instructions != "Pick tasks."


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("instructions = ", "Not valid TOML"),
        ('title = "x"', "'title'"),
        ('[fields]\ncolour = "x"', "'colour'"),
    ],
)
def test_wording_that_fits_nothing_is_refused(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "SelectFlows.toml").write_text(text, "utf-8")
    with pytest.raises(RecipeError, match=f"{says}.*SelectFlows.toml"):
        with_overrides("select", tmp_path)
