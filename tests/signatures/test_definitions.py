"""One prompt: constant, of named parts, with every kind of command in it, and no example of any business."""

from __future__ import annotations

import re

import pytest

from jazzmine_dspy.models.commands import LISTED
from jazzmine_dspy.program.policy import Policy
from jazzmine_dspy.program.turn import TurnProgram
from jazzmine_dspy.signatures import CONTRACTS, DecisionAdapter
from jazzmine_dspy.signatures.contract import ANSWERED, asking
from jazzmine_dspy.signatures.definitions import SECTIONS, TOLD_BY_COMMANDS

HEADINGS = {
    "enhance": ["Task", "Rewrite"],
    "select": ["Task", "Flows"],
    "understand": ["Task", "Commands", "Values"],
    "fused": ["Task", "Flows", "Commands", "Values", "Rewrite"],
}


def system_of(name: str, unasked: tuple[str, ...] = ()) -> str:
    program = TurnProgram(policy=Policy(unasked=unasked))
    return DecisionAdapter().format_system_message(program.predictor(name).signature)


@pytest.mark.parametrize("name", CONTRACTS)
def test_instructions_stand_under_headings_and_every_prompt_uses_the_same_parts(name: str) -> None:
    words = CONTRACTS[name].signature.instructions
    assert re.findall(r"^# (.*)$", words, re.MULTILINE) == HEADINGS[name]
    texts = {part.heading: part.text for part in SECTIONS}
    assert words == "\n".join(f"# {heading}\n{texts[heading]}" for heading in HEADINGS[name])


@pytest.mark.row("P5")
@pytest.mark.parametrize("name", CONTRACTS)
def test_the_signature_is_what_is_sent(name: str) -> None:
    """Instructions and descriptions of the fields, and nothing else but one line between them."""
    signature = TurnProgram().predictor(name).signature
    sent = system_of(name)
    for text in (signature.instructions, "Answer as JSON:"):
        assert sent.count(text) == 1
        sent = sent.replace(text, "")
    for key, field in signature.output_fields.items():
        line = f"\n{key}: {field.json_schema_extra['desc']}"
        assert line in sent
        sent = sent.replace(line, "", 1)
    assert sent.strip() == ""


@pytest.mark.row("U4", "F11")
@pytest.mark.parametrize("name", ["understand", "fused"])
def test_each_kind_of_command_is_named(name: str) -> None:
    said = CONTRACTS[name].signature.output_fields["commands"].json_schema_extra["desc"]
    assert [kind for kind in LISTED if kind not in said] == []
    assert "clarify" in LISTED
    assert not {"start_flow", "correct_slot"} & {*LISTED}


def test_no_business_is_spoken_of() -> None:
    for name in CONTRACTS:
        assert not re.search(
            r"parcel|refund|table|room|account|shop|customer", system_of(name), re.IGNORECASE
        )


@pytest.mark.parametrize(
    "unasked", [(), ("enhanced_query",), ("flows",), ("entities", "commands"), ANSWERED[:-1]]
)
@pytest.mark.parametrize("name", CONTRACTS)
def test_what_is_not_asked_is_not_spoken_of_and_comes_back(name: str, unasked: tuple[str, ...]) -> None:
    whole = CONTRACTS[name].signature
    short = asking(name, whole, unasked)
    assert not {*unasked} & {*short.output_fields}
    assert ("# Rewrite" in short.instructions) == ("enhanced_query" in short.output_fields)
    assert repr(asking(name, short)) == repr(whole)


@pytest.mark.parametrize("gone", sorted(TOLD_BY_COMMANDS))
def test_what_commands_tell_is_asked_for_where_they_are_not(gone: str) -> None:
    assert gone not in CONTRACTS["fused"].signature.output_fields
    assert gone in asking("fused", CONTRACTS["fused"].signature, ["commands"]).output_fields


def test_the_words_of_a_project_stay() -> None:
    own = (
        CONTRACTS["select"]
        .signature.with_instructions("Pick tasks.")
        .with_updated_fields("flows", desc="the letters")
    )
    kept = asking("select", own)
    assert kept.instructions == "Pick tasks."
    assert kept.output_fields["flows"].json_schema_extra["desc"] == "the letters"
