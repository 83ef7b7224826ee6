"""S3: what a text may name, wherever flows are loaded; texts of a project by language."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
import yaml

from jazzmine_dspy import Flow, FlowRegistry, load, save
from jazzmine_dspy.models.errors import FlowError
from jazzmine_dspy.models.templates import default_texts
from jazzmine_dspy.program.turn import TurnProgram

PRICES: dict[str, Any] = {
    "name": "prices",
    "description": "Tell what a treatment costs.",
    "slots": [{"name": "treatment", "type": "text"}, {"name": "day", "type": "date"}],
}

WRONG = [
    ({"confirm": "A {treatmnt}?"}, "confirm", "{treatmnt}", "Did you mean 'treatment'"),
    ({"confirm": "It costs {result.price}?"}, "confirm", "{result.price}", "Known: treatment, day, task"),
    ({"responses": {"done": "A {treatment} is {price} pounds."}}, "responses.done", "{price}", "Known"),
    ({"responses": {"begun": "{result.price}"}}, "responses.begun", "{result.price}", "Known"),
    ({"responses": {"done": "On {day:weekly}."}}, "responses.done", "{day:weekly}", "weekday"),
    ({"responses": {"done": "{result.at:noon}"}}, "responses.done", "{result.at:noon}", "duration"),
    ({"responses": {"done": "{task:long}"}}, "responses.done", "{task:long}", "Leave the format out"),
    ({"responses": {"done": "{treatment:long}"}}, "responses.done", "{treatment:long}", "Use one of: raw."),
    ({"responses": {"done": "{day:}"}}, "responses.done", "{day:}", "weekday"),
    ({"responses": {"done": "A {treatment is booked."}}, "responses.done", "a brace", "Write each name"),
    ({"responses": {"done": "Booked}."}}, "responses.done", "a brace", "Write each name"),
    ({"responses": {"done": "{result.}"}}, "responses.done", "{result.}", "Did you mean 'result'"),
    ({"responses": {"done": "{result..a}"}}, "responses.done", "{result..a}", "Did you mean 'result'"),
    ({"responses": {"done": "{result. a}"}}, "responses.done", "{result. a}", "Did you mean 'result'"),
    ({"responses": {"dome": "Booked."}}, "responses.dome", "'dome'", "Did you mean 'done'"),
    ({"slots": [{"name": "a", "type": "text", "ask": "Which {b}?"}]}, "slots.0.ask", "{b}", "Known"),
    ({"slots": [{"name": "a", "type": "text", "reask": "Which {b}?"}]}, "slots.0.reask", "{b}", "Known"),
]


def loaded_by(door: str, flow: dict[str, Any], folder: Path) -> None:
    if door == "yaml":
        (folder / "flows.yaml").write_text(yaml.safe_dump({"flows": [flow]}), "utf-8")
        FlowRegistry.from_yaml(folder / "flows.yaml")
    elif door == "load":
        load("base", flows=[flow], bind=False)
    else:
        FlowRegistry({"id": flow} if door == "mapping" else [Flow(**flow)])


@pytest.mark.row("S3")
@pytest.mark.parametrize(("change", "field", "what", "remedy"), WRONG)
@pytest.mark.parametrize("door", ["yaml", "load", "mapping", "python"])
def test_a_wrong_text_is_refused_wherever_flows_are_loaded(
    change: dict[str, Any], field: str, what: str, remedy: str, door: str, tmp_path: Path
) -> None:
    with pytest.raises(FlowError) as refused:
        loaded_by(door, PRICES | change, tmp_path)
    error = refused.value
    assert "'prices'" in error.message
    assert what in error.message
    assert f"field {field}" in error.where
    assert remedy in error.remedy


@pytest.mark.row("S3")
def test_a_subflow_has_names_of_its_own_and_all_wrong_texts_are_told_at_once() -> None:
    part = PRICES | {"name": "part", "confirm": "{treatment} {whole}?", "responses": {"done": "{x}"}}
    whole = {"name": "whole", "description": "All.", "kind": "sequential", "subflows": [part]}
    with pytest.raises(FlowError) as refused:
        FlowRegistry([whole])
    assert "field subflows.0.confirm" in refused.value.where
    assert "{whole}" in refused.value.message
    [other] = refused.value.others
    assert "the text names {x}" in other.message
    assert "field subflows.0.responses.done" in other.where
    assert refused.value.__notes__ == [str(other)], "a traceback has it"


@pytest.mark.row("S3")
def test_right_texts_pass() -> None:
    texts = {
        "confirm": "{treatment} on {day:weekday}, {day:raw}: {task}?",
        "responses": {"done": "{result}: {result.price:money} on {result.at:full}.", "ask_slot": "{slot}!"},
    }
    registry = FlowRegistry([PRICES | texts])
    assert FlowRegistry(registry.to_json()).checksum == registry.checksum


@pytest.mark.row("S3")
def test_a_title_is_in_the_checksum_and_in_no_prompt() -> None:
    slots = [PRICES["slots"][0] | {"title": "the treatment"}, PRICES["slots"][1]]
    bare, titled = Flow(**PRICES), Flow(**PRICES | {"title": "our prices", "slots": slots})
    assert "title" not in str(bare.model_dump())
    assert bare.checksum() != titled.checksum()
    assert bare.build_prompt() == titled.build_prompt()
    assert FlowRegistry(FlowRegistry([titled]).to_json())["prices"] == titled


# --- texts of a project ----------------------------------------------------------------------------------

GERMAN = {"de": {"idle": "Was kann ich für Sie tun?", "done": "Erledigt: {task}."}}


@pytest.mark.row("S3")
def test_keys_that_a_translation_lacks_are_named_once(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, logger="jazzmine_dspy"):
        FlowRegistry(texts={"de-LU": dict(default_texts()) | {"idle": "Jo?"}})
        assert not caplog.records
        lacking = {key: text for key, text in default_texts().items() if key not in ("wait", "thanks")}
        for _ in range(2):
            FlowRegistry(texts={"de-LI": lacking, "en": {"idle": "Yes?"}})
    assert [record.getMessage() for record in caplog.records] == [
        "texts in 'de-LI' lack these keys, which stay English: wait, thanks"
    ]


@pytest.mark.row("S3")
@pytest.mark.parametrize(
    ("texts", "where", "says"),
    [
        ({"de": {"idel": "Ja?"}}, "texts.de.idel", "'idel'.*Did you mean 'idle'"),
        ({"de": {"idle": False}}, "texts.de.idle", "'idle': False.*quotes"),
        ({"de": {False: "Nein"}}, "texts.de.False", "False: 'Nein'.*quotes"),
        ({"de": {"done": "{order_id}"}}, "texts.de.done", r"\{order_id\}.*Known: task, result"),
        ({"de": {"idle": "{result.x}"}}, "texts.de.idle", r"\{result.x\}"),
        ({"de": {"clarify": "{tasks:long}"}}, "texts.de.clarify", "unknown format"),
        ({"de": {"idle": "{"}}, "texts.de.idle", "brace"),
        ({"de": ["idle"]}, "texts.de.['idle']", "not a key with its text"),
        (["de"], "texts.['de']", "not a language tag"),
        ({False: {"idle": "Ja?"}}, "texts.False", "False is not a language tag.*in quotes: YAML reads no"),
        ({"german": {"idle": "Ja?"}}, "texts.german", 'not a language tag.*such as "de"'),
        ({"": {"idle": "Ja?"}}, "texts.", "not a language tag"),
        ({"de ": {"idle": "Ja?"}}, "texts.de ", "not a language tag"),
        ({"de_AT": {}, "DE-at": {}}, "texts.DE-at", "twice"),
    ],
)
def test_texts_that_cannot_be_used_are_refused(texts: Any, where: str, says: str) -> None:
    with pytest.raises(FlowError, match=says) as refused:
        FlowRegistry([PRICES], texts=texts)
    assert refused.value.where == f"field {where}"


@pytest.mark.row("S3")
def test_all_wrong_texts_of_a_file_are_told_at_once(tmp_path: Path) -> None:
    path = tmp_path / "flows.yaml"
    wrong = "texts:\n  no: {idle: Ja, done: no}\n  de: {idel: Ja, done: '{x}'}\nflows:\n- {name: a}\n"
    path.write_text(wrong, "utf-8")
    with pytest.raises(FlowError) as refused:
        FlowRegistry.from_yaml(path)
    places = [each.where.rpartition("field ")[2] for each in (refused.value, *refused.value.others)]
    texts = ["texts.False", "texts.False.done", "texts.de.idel", "texts.de.done"]
    assert places == [*texts, "description"]
    assert refused.value.__notes__ == [str(each) for each in refused.value.others]


@pytest.mark.row("S3")
def test_a_language_is_the_same_however_its_tag_is_written() -> None:
    texts = {"PT_br": {"idle": "Oi?"}, "zh-hans-CN": {"idle": "好?"}}
    assert FlowRegistry(texts=texts).texts == {"pt-BR": {"idle": "Oi?"}, "zh-Hans-CN": {"idle": "好?"}}


@pytest.mark.row("S3")
def test_a_title_of_blanks_is_none() -> None:
    flow = Flow(**PRICES | {"title": " \n", "slots": [{"name": "a", "type": "text", "title": "  "}]})
    assert (flow.title, flow.slots[0].title) == ("", "")
    assert "title" not in str(flow.model_dump())


@pytest.mark.row("S3")
def test_texts_stand_beside_the_flows_and_go_with_a_program(tmp_path: Path) -> None:
    path = tmp_path / "flows.yaml"
    path.write_text(yaml.safe_dump({"texts": GERMAN, "flows": [PRICES]}, allow_unicode=True), "utf-8")
    registry = FlowRegistry.from_yaml(path)
    assert registry.texts == GERMAN
    saved = load(save(TurnProgram(registry), tmp_path / "program"), bind=False)
    assert saved.registry.texts == GERMAN
    assert saved.registry.checksum == registry.checksum != FlowRegistry([PRICES]).checksum
