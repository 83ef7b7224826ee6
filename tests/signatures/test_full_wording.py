"""The full wording says what the labelling guide settles, case by case; the brief one stays as it was, to the byte."""

from __future__ import annotations

import functools
import hashlib
from typing import Any

import pytest

from jazzmine_dspy.models.commands import UNDERSTOOD
from jazzmine_dspy.models.slots import SLOT_TYPES
from jazzmine_dspy.program.policy import Policy
from jazzmine_dspy.program.turn import TurnProgram
from jazzmine_dspy.signatures import CONTRACTS, DecisionAdapter
from jazzmine_dspy.signatures.contract import ANSWERED, WORDINGS, without
from jazzmine_dspy.signatures.definitions import INPUTS, OUTPUTS

CASES = [
    # Reading a message.
    ("commands", "answer to what was asked", "Read it first as the answer to what the assistant has just asked"),
    ("commands", "said twice or taken back", "counts once, as it is finally meant"),
    ("commands", "politeness beside something else", "beside something else get no command"),
    ("commands", "order", "one for each act, in the order of the message"),
    ("commands", "order of values", "values follow the resume_flow or restart that they belong to"),
    ("commands", "order of leaving", "cancel_flow precedes what is wanted instead"),
    ("commands", "order of a no", "deny precedes its change"),
    ("commands", "order of a yes", "a value given with a yes precedes affirm"),
    ("commands", "nothing changes", "[] where nothing changes"),
    # An open yes or no.
    ("commands", "a change there", 'With a change ("no, make it Saturday"; "great, but all four"): deny with'),
    ("commands", "a change there is no yes", "then correct_slot, without affirm"),
    ("commands", "several changes there", "one deny with the first slot, then all changes"),
    ("commands", "something to leave out there", "deny with that slot, then clear_slot"),
    ("commands", "a further value with a yes", "with a yes set_slot, then affirm"),
    ("commands", "a further value without", "a further value for an empty slot is set_slot alone"),
    ("commands", "a bare no there", "A bare no: deny alone"),
    ("commands", "no, forget it", '"no, forget it" to a confirmation'),
    ("commands", "a no with a reason", 'a no with a reason that ends the matter ("no, I\'ll keep it")'),
    ("commands", "a no without a question", "rejects what the assistant has just understood"),
    ("commands", "yes to a boolean slot", "A yes or no to the question for a boolean slot is its value"),
    # Leaving, resuming, starting.
    ("commands", "never mind, idle", 'Where nothing runs or is set aside, "never mind"'),
    ("commands", "drop this, do that", "It stands before what is wanted instead"),
    ("commands", "kind misunderstood", 'only the kind of task was misunderstood ("not a return, a refund")'),
    ("commands", "back to a task", 'says yes, or the task\'s name, to "Shall we go back to …?"'),
    ("commands", "not back to it", "A no to that is cancel_flow with its name"),
    ("commands", "a value for a paused task", "gives a value for one (its values follow)"),
    ("flows", "another task while one runs", "its letter alone, pausing follows of itself"),
    ("flows", "the running task", "The running task just goes on: never its letter"),
    ("flows", "a paused task", "A task set aside is resumed by resume_flow: never its letter"),
    ("flows", "how-to question", 'asks how to do ("how do I return this?")'),
    ("flows", "question about terms", 'A question about a task\'s terms ("how long do returns take?") starts nothing'),
    ("flows", "complaint about a trouble", "whose trouble it reports (also as a complaint)"),
    ("flows", "answer or order", "A bare word or value that answers what was asked starts nothing"),
    ("flows", "ambiguous", "If it could equally be two or more tasks"),
    ("flows", "nothing fits", "If no task offered fits: []; never the nearest one"),
    ("flows", "finished, taken back", "A finished task taken back or corrected: the task that undoes or changes it"),
    ("flows", "again for another order", "The same task for another order, while none of it runs, is started again"),
    ("flows", "order of two", "in the order of the wish"),
    # Slots.
    ("commands", "no preference", '"no preference"'),
    ("commands", "late explanation", "Not for a later explanation that leaves the value as it is"),
    ("commands", "never filled", "A correction of a slot never filled is set_slot"),
    ("commands", "part of a value", 'Of a part ("ends in 36") the whole value'),
    ("commands", "wrongly understood", "where the assistant understood a wrong one (without deny"),
    ("commands", "lost value", "one said before that the situation lacks"),
    ("commands", "invalid value", 'one that the slot cannot hold ("order 12"), as said'),
    ("commands", "taken back", 'takes a value back without giving another ("forget the date")'),
    ("commands", "similar slot", "Never fill a similar slot of another task instead"),
    ("commands", "whose slot", "each value goes to the task that it is said for"),
    # Talk.
    ("commands", "question aside or idle", "whether a task runs or not"),
    ("commands", "ask or out of scope", "A question that is the business's is ask"),
    ("commands", "ask or repeat", 'asks what it said ("which day did you say?")'),
    ("commands", "restart with a question", "a question beside it is ask as well"),
    ("commands", "complaint after a refusal", "a bare complaint or remark, also after a refusal"),
    # Values.
    ("commands", "date", "date YYYY-MM-DD, counted from today"),
    ("commands", "weekday", '"next friday" the one in the week after this'),
    ("commands", "time", "time HH:MM in 24 hours"),
    ("commands", "duration", "in the unit as said: P2W"),
    ("commands", "duration by its beginning", '"since christmas" is whole months up to today'),
    ("commands", "money", 'money "49.90 EUR" (the currency of the situation where none is said'),
    ("commands", "phone", "the digits as said without spaces, a leading + kept"),
    ("commands", "choice", "the name, as listed, of the option that is meant"),
    ("commands", "referred to", "also what it refers to, such as the order just talked about"),
    ("commands", "one value for two tasks", 'and to each of several ("where is 6634, and can it come sooner?")'),
    ("commands", "list", "a JSON list of texts in the order of the message"),
    ("commands", "text", "without article, surrounding words and closing full stop"),
    ("commands", "read out ids", "read out ones in digits"),
    # What it means.
    ("intent", "two tasks", "Of two tasks the first in the message"),
    ("intent", "restart, repeat", "Repeat or restart: the running task, question where none runs"),
    ("intent", "leaving and resuming", "A task that is started, resumed or cancelled: its name"),
    ("intent", "no act", "No act at all: the running task, chitchat where none runs"),
    ("entities", "dates, amounts", "Not: feelings, dates, times, amounts, phone numbers"),
    ("entities", "referred to", 'What is only referred to ("it") is named in enhanced_query'),
    ("entities", "common nouns", 'bare words such as "order", "parcel"'),
    ("is_cancellation", "a task that cancels", 'False for a task that cancels something ("cancel my order"'),
    ("is_cancellation", "no, correction, skip", "for a no to a confirmation, a correction, a skipped slot"),
    ("is_cancellation", "taken back, idle", 'what was asked for earlier in this conversation ("forget the taxi")'),
    ("is_continuation", "thanks, hand-over", "thanks, a wish for a person about it, a repetition"),
    ("is_continuation", "resumed", "a task set aside and taken up again"),
    ("is_continuation", "same order", "another task (also about the same order)"),
    ("is_continuation", "several acts", "of several acts one that leaves is enough"),
    ("is_continuation", "first message", "the first message of a conversation, the first wish after a bare greeting"),
    ("enhanced_query", "language", "in the user's language"),
    ("enhanced_query", "taken back", "A self-correction keeps only what is finally meant"),
    ("enhanced_query", "complete", "A complete message is copied exactly, typing errors and case included"),
    ("enhanced_query", "bare values", 'A bare value becomes a short sentence ("4471": "The order number is 4471.")'),
    ("sentiment_score", "mild steps", "-0.3 slightly put out, 0.0 neutral, 0.3 pleased"),
    ("sentiment_score", "politeness", "Politeness alone, and a trouble told without feeling, is 0.0"),
]  # fmt: skip


@functools.cache
def system_of(name: str, **policy: Any) -> str:
    program = TurnProgram(policy=Policy(**policy))
    return DecisionAdapter().format_system_message(program.predictor(name).signature)


@pytest.mark.parametrize(("field", "case", "said"), CASES, ids=[f"{f}: {c}" for f, c, _ in CASES])
def test_each_boundary_case_of_the_guide_has_its_sentence(field: str, case: str, said: str) -> None:
    assert said in system_of("fused", wording="full"), case
    alone = next(
        n for n in ("enhance", "select", "understand") if field in CONTRACTS[n].signature.output_fields
    )
    assert said in system_of(alone, wording="full"), case


@pytest.mark.row("U4")
def test_each_kind_of_command_and_each_type_of_value_is_defined() -> None:
    said = OUTPUTS["commands"]
    assert [kind for kind in UNDERSTOOD if f"\n- {kind}" not in said] == []
    values = said.partition("\nValues: ")[2]
    built_in = [
        str(kind) for kind in SLOT_TYPES if type(SLOT_TYPES[kind]).__module__.startswith("jazzmine_dspy.")
    ]
    assert [kind for kind in built_in if f"{kind} " not in values] == []


def test_every_field_has_a_full_description() -> None:
    fields = {name for contract in CONTRACTS.values() for name in contract.signature.fields}
    assert {*INPUTS, *OUTPUTS} == fields


BRIEF = {
    "enhance": "0ce24f5b37fb69e8656e7fadfcb0f8a2df029fce8a1a20194014f4b8c9594ad4",
    "select": "020f789b484764443207fa1b173ad627671779bc195db9a11b8a286bc4ef2ccf",
    "understand": "0b0a29686c4095b357aebd74ae0daf3e87e5d69f2ef96e2232940f4489b18698",
    "fused": "ed24e8aa18ff8fcdfac858dd5eabaa0ec292bd0bec7afd7ae590a7547d7bd096",
}
"""SHA-256 of what each prompt begins with: programs were compiled for these bytes, recorded answers hang on them."""


@pytest.mark.parametrize("name", BRIEF)
def test_the_brief_wording_is_the_same_to_the_byte(name: str) -> None:
    assert hashlib.sha256(system_of(name).encode()).hexdigest() == BRIEF[name]


@pytest.mark.parametrize("name", CONTRACTS)
@pytest.mark.parametrize("unasked", [(), ("enhanced_query",), ("flows",), ("entities", "commands")])
def test_one_wording_is_put_into_the_other_and_back(name: str, unasked: tuple[str, ...]) -> None:
    brief, full = (without(name, CONTRACTS[name].signature, unasked, wording) for wording in WORDINGS)
    assert without(name, full, unasked, "brief").instructions == brief.instructions
    assert repr(without(name, full, unasked, "brief")) == repr(brief)
    assert repr(without(name, brief, unasked, "full")) == repr(full)
    assert list(full.fields) == list(brief.fields)
    asked = [field for field in full.output_fields if field in ANSWERED]
    assert all(full.output_fields[f].json_schema_extra["desc"] == OUTPUTS[f] for f in asked)


def test_what_is_not_asked_is_not_spoken_of() -> None:
    said = system_of("fused", wording="full", unasked=ANSWERED[:-1])
    assert said.startswith("Say what the user's newest message does to the dialogue.")
    assert "\ncommands: " in said
    assert "\nflows: " not in said
    assert "sentiment" not in said


def test_a_projects_own_words_stay_in_both_wordings() -> None:
    own = (
        CONTRACTS["select"]
        .signature.with_instructions("Pick tasks.")
        .with_updated_fields("flows", desc="letters")
    )
    full = without("select", own, (), "full")
    assert full.instructions == "Pick tasks."
    assert full.output_fields["flows"].json_schema_extra["desc"] == "letters"
    assert full.input_fields["situation"].json_schema_extra["desc"] == INPUTS["situation"]
