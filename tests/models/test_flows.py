"""F1: flows as their author writes them. F2: registries that know nothing of each other."""

from __future__ import annotations

import copy
import datetime as dt
import operator
import uuid
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import ValidationError

from jazzmine_dspy import load
from jazzmine_dspy.models import SLOT_TYPES, Flow, FlowRegistry, ReadingContext, Slot
from jazzmine_dspy.models.errors import FlowError, JazzmineError
from jazzmine_dspy.models.registry import reading_context

TWENTY_LINES = """\
flows:
  - name: book_table
    description: Book a table.
    condition: The guest wants to come and eat.
    desired_effects: [A table is held.]
    examples: [a table for two please, can we come on friday]
    category: tables
    keywords: [table, seats]
    priority: 2
    tools: [tables.hold]
    guards: [{status: [idle], requires_slots: [name], user: [[tier, gold]]}]
    confirm: "Book for {guests}?"
    slots:
      - name: guests
        type: number
        ask: "How many are you?"
        reask: "A number, please."
        confirm: "{guests} of you?"
      - {name: area, type: choice, options: [inside, terrace], required: false}
    responses: {done: "See you then."}
"""


def write(folder: Path, text: str) -> Path:
    path = folder / "flows.yaml"
    path.write_text(text, "utf-8")
    return path


def leaf(name: str = "a", **fields: Any) -> dict[str, Any]:
    return {"name": name, "description": f"Do {name}."} | fields


@pytest.mark.row("F1")
def test_twenty_lines_of_yaml_make_a_flow(tmp_path: Path) -> None:
    assert len(TWENTY_LINES.splitlines()) <= 20
    flow = FlowRegistry.from_yaml(write(tmp_path, TWENTY_LINES), agent_id="inn")["book_table"]
    assert flow.model_dump(mode="json") == {
        "name": "book_table",
        "description": "Book a table.",
        "condition": "The guest wants to come and eat.",
        "desired_effects": ["A table is held."],
        "examples": ["a table for two please", "can we come on friday"],
        "slots": [
            {"name": "guests", "type": "number", "description": "", "required": True, "options": [],
             "pattern": None, "ask": "How many are you?", "reask": "A number, please.",
             "confirm": "{guests} of you?", "validator": None},
            {"name": "area", "type": "choice", "description": "", "required": False,
             "options": ["inside", "terrace"], "pattern": None, "ask": "", "reask": "", "confirm": "",
             "validator": None},
        ],
        "tools": ["tables.hold"],
        "priority": 2,
        "category": "tables",
        "keywords": ["table", "seats"],
        "guards": [{"status": ["idle"], "requires_slots": ["name"], "user": [["tier", "gold"]]}],
        "confirm": "Book for {guests}?",
        "responses": [["done", "See you then."]],
        "kind": "flow",
        "subflows": [],
        "condition_expr": "",
    }  # fmt: skip
    assert flow == Flow(**flow.model_dump())


@pytest.mark.row("F1")
def test_python_and_yaml_make_the_same_registry(tmp_path: Path) -> None:
    read = FlowRegistry.from_yaml(write(tmp_path, TWENTY_LINES))
    made = FlowRegistry(list(read.values()))
    again = FlowRegistry(read.to_json())
    assert dict(read) == dict(made) == dict(again)
    assert read.checksum == made.checksum == again.checksum
    assert FlowRegistry({"some id": read["book_table"]}).checksum == read.checksum


@pytest.mark.row("F1")
def test_the_prompt_is_xml_and_escaped() -> None:
    nasty = '<flow> & "quotes" </flow>'
    flow = Flow(
        **leaf('a"<b>', description=nasty, condition=nasty, examples=[nasty], keywords=["k&k"], tools=["t<"],
               desired_effects=[nasty], slots=[{"name": "s", "type": "text", "description": nasty}])
    )  # fmt: skip
    tree = ET.fromstring(flow.build_prompt(verbose=True))
    assert (tree.get("name"), tree.get("kind")) == ('a"<b>', "flow")
    assert {
        tag: tree.findtext(tag) for tag in ("description", "condition", "effect", "example", "slot")
    } == dict.fromkeys(("description", "condition", "effect", "example", "slot"), nasty)
    assert (tree.findtext("keyword"), tree.findtext("tool")) == ("k&k", "t<")
    short = ET.fromstring(flow.build_prompt(verbose=False))
    assert {child.tag for child in tree} - {child.tag for child in short} == {"example", "keyword"}
    assert flow.build_prompt() == flow.build_prompt(verbose=True)


@pytest.mark.row("F1")
@pytest.mark.parametrize("kind", ["sequential", "parallel", "conditional"])
def test_flows_of_flows(kind: str) -> None:
    parts = [leaf("one", examples=["1"]), leaf("two", kind="sequential", subflows=[leaf("three")])]
    extra = {"condition_expr": "tier == 'gold'"} if kind == "conditional" else {}
    flow = Flow(**leaf("whole", kind=kind, subflows=parts, **extra))
    tree = ET.fromstring(flow.build_prompt())
    assert [part.get("name") for part in tree.iter("flow")] == ["whole", "one", "two", "three"]
    assert tree.findtext("when") == extra.get("condition_expr")
    assert Flow(**flow.model_dump(mode="json")) == flow
    changed = copy.deepcopy(parts)
    changed[1]["subflows"][0]["description"] += " Differently."
    assert Flow(**leaf("whole", kind=kind, subflows=changed, **extra)).checksum() != flow.checksum()


@pytest.mark.row("F1")
@pytest.mark.parametrize(
    "fields",
    [
        {"kind": "sequential"}, {"kind": "parallel"}, {"kind": "conditional", "condition_expr": "x"},
        {"subflows": [leaf("b")]}, {"kind": "conditional", "subflows": [leaf("b")]},
        {"kind": "conditional", "condition_expr": "x", "subflows": [leaf("b"), leaf("c"), leaf("d")]},
        {"kind": "loop", "subflows": [leaf("b")]}, {"invented": 1}, {"name": ""}, {"description": ""},
        {"slots": [{"name": "s", "type": "text"}, {"name": "s", "type": "date"}]},
        {"slots": [{"name": "s"}]}, {"slots": [{"name": "s", "type": "choice"}]},
        {"slots": [{"name": "s", "type": "colour"}]}, {"slots": [{"name": "s", "type": "text", "pattern": "("}]},
    ],
)  # fmt: skip
def test_what_is_no_flow_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Flow(**leaf() | fields)
    with pytest.raises(FlowError, match=r"flow 1, field .+\. .+"):
        FlowRegistry([leaf() | fields])


def test_a_pattern_with_flags_for_all_is_refused_since_it_is_used_inside_others() -> None:
    with pytest.raises(ValidationError, match="not a regular expression"):
        Slot(name="s", type="text", pattern="(?i)[a-z]{2}[0-9]+")
    assert Slot(name="s", type="text", pattern="(?i:[a-z]{2})[0-9]+").pattern


@pytest.mark.row("F1")
def test_every_slot_type() -> None:
    assert [*SLOT_TYPES] == [
        "text", "number", "money", "date", "time", "duration", "phone", "email", "boolean", "choice", "list",
    ]  # fmt: skip


@pytest.mark.row("F1")
def test_ids_are_uuid5_of_agent_and_name() -> None:
    flow, edited = Flow(**leaf()), Flow(**leaf(description="Quite another thing.", examples=["x"]))
    assert flow.id_for("inn") == edited.id_for("inn") == Flow(**leaf()).id_for("inn")
    assert uuid.UUID(flow.id_for("inn")).version == 5
    ids = {Flow(**leaf(name)).id_for(agent) for name in ("a", "ab", "b") for agent in ("", "inn", "a", "ina")}
    assert len(ids) == 12
    # Ids are stored elsewhere, so this one must never change.
    assert flow.id_for("inn") == "168bb441-f44e-5975-9326-7f1f528df738"


@pytest.mark.row("F2")
def test_registries_know_nothing_of_each_other() -> None:
    inn, shop = (
        FlowRegistry([leaf()], agent_id="inn"),
        FlowRegistry([leaf(description="Other.")], agent_id="shop"),
    )
    assert (inn["a"].description, shop["a"].description) == ("Do a.", "Other.")
    assert (inn.agent_id, shop.agent_id) == ("inn", "shop")
    assert inn.checksum != shop.checksum
    assert list(FlowRegistry()) == []
    assert FlowRegistry().get("a") is None


@pytest.mark.row("F2")
def test_a_registry_never_changes_and_follows_no_list() -> None:
    given = [leaf()]
    registry = FlowRegistry(given)
    checksum = registry.checksum
    given.append(leaf("b"))
    given[0]["name"] = "z"
    assert list(registry) == ["a"]
    for change in (operator.setitem, lambda held, name, flow: held.update({name: flow})):
        with pytest.raises((TypeError, AttributeError)):
            change(registry, "b", registry["a"])
    with pytest.raises(TypeError):
        operator.delitem(registry, "a")  # type: ignore[arg-type]
    assert registry.checksum == checksum == FlowRegistry([leaf()]).checksum
    assert copy.deepcopy(registry) is registry
    assert FlowRegistry([leaf("a"), leaf("b")]).checksum != FlowRegistry([leaf("b"), leaf("a")]).checksum


@pytest.mark.parametrize("item", [None, object(), "track_order"])
def test_only_flows_and_mappings_are_flows(item: Any) -> None:
    with pytest.raises(FlowError, match=f"{type(item).__name__} is not a flow.*flow 1"):
        FlowRegistry([item])


def test_the_content_of_a_file_is_not_its_list_of_flows() -> None:
    data = yaml.safe_load("about: a shop\nflows: [{name: a, description: Do a.}]")
    with pytest.raises(FlowError, match=r"FlowRegistry\(data\['flows'\], region=…\).*from_yaml"):
        FlowRegistry(data)
    with pytest.raises(FlowError, match="key 'flows'"):
        load("base", flows=data)
    assert list(FlowRegistry({"flows": {"name": "flows", "description": "Do flows."}})) == ["flows"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("flows:\n  - name: a\n    description: x: y\n", r"flows\.yaml:3"),
        ("- name: a\n", r"No list of flows.*flows\.yaml"),
        ("flows: 5\n", r"No list of flows"),
        ("flows:\n  - name: a\n    description: x\n    slots: [{name: s}]\n", r"Slot 's' has no type.*flows\.yaml:4"),
        ("flows:\n  - name: a\n    description: x\n  - name: a\n    description: y\n",
         r"Flow 'a' is defined twice.*flows\.yaml:4"),
        ("flows:\n  - description: x\n", r"field name"),
        ("flows: [word]\n", r"not a flow"),
    ],
)  # fmt: skip
def test_a_file_that_cannot_be_used_is_named_with_its_line(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(FlowError, match=says):
        FlowRegistry.from_yaml(write(tmp_path, text))


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(FlowError, match="none\\.yaml"):
        FlowRegistry.from_yaml(tmp_path / "none.yaml")
    latin = tmp_path / "latin.yaml"
    latin.write_bytes("flows: [Grüße]".encode("latin-1"))
    with pytest.raises(JazzmineError, match="not UTF-8"):
        FlowRegistry.from_yaml(latin)


@pytest.mark.row("F1")
@pytest.mark.row("F17")
def test_guards_are_written_as_mappings_and_come_back(tmp_path: Path) -> None:
    path = tmp_path / "flows.yaml"
    path.write_text(
        "flows:\n  - name: refund\n    description: Pay back.\n"
        "    guards: [{status: [idle], user: {vip: true, level: 2, plan: gold}}]\n",
        "utf-8",
    )
    registry = FlowRegistry.from_yaml(path)
    assert registry["refund"].guards[0].user == (("vip", "true"), ("level", "2"), ("plan", "gold"))
    assert FlowRegistry(registry.to_json()).checksum == registry.checksum
    path.write_text(path.read_text("utf-8").replace("idle", "idel"), "utf-8")
    with pytest.raises(FlowError, match=r"flows\.yaml:4, flow 'refund', field guards"):
        FlowRegistry.from_yaml(path)


def test_the_share_of_messages_that_want_no_flow(tmp_path: Path) -> None:
    file = tmp_path / "flows.yaml"
    file.write_text("out_of_scope_share: 0.25\nflows:\n  - {name: a, description: A.}\n", "utf-8")
    assert FlowRegistry.from_yaml(file).out_of_scope_share == 0.25
    assert FlowRegistry([{"name": "a", "description": "A."}]).out_of_scope_share is None
    for wrong in ("1.0", "-0.1", "many", "true"):
        file.write_text(f"out_of_scope_share: {wrong}\nflows: []\n", "utf-8")
        with pytest.raises(FlowError, match=r"not a share of messages .*flows\.yaml.*out_of_scope_share"):
            FlowRegistry.from_yaml(file)


def test_region_and_currency_stand_beside_the_flows(tmp_path: Path) -> None:
    file = tmp_path / "flows.yaml"
    file.write_text("region: gb\ncurrency: gbp\nflows:\n  - {name: a, description: A.}\n", "utf-8")
    registry = FlowRegistry.from_yaml(file)
    bare = FlowRegistry([{"name": "a", "description": "A."}])
    assert (registry.region, registry.currency, bare.region, bare.currency) == ("GB", "GBP", "", "")
    assert (registry.habits, bare.habits) == ({"region": "GB", "currency": "GBP"}, {})
    # What is read depends on them, so they are part of what a program is.
    assert registry.checksum != bare.checksum
    at = reading_context(registry, dt.date(2026, 3, 6), "de")
    assert at == ReadingContext(dt.date(2026, 3, 6), "de", "GB", "GBP")
    assert reading_context(dict(registry)) == ReadingContext()
    for wrong in ("region: no", "region: England", "currency: €", "currency: 978"):
        file.write_text(f"{wrong}\nflows: []\n", "utf-8")
        with pytest.raises(
            FlowError, match=rf"is not a valid {wrong.split(':')[0]} .*flows\.yaml.*in quotes"
        ):
            FlowRegistry.from_yaml(file)


def test_a_range_is_left_out_of_flows_that_give_none() -> None:
    held = Slot(name="guests", type="number", min=1, max=6)
    assert Slot.model_validate_json(held.model_dump_json()) == held
    assert {"min", "max"}.isdisjoint(Slot(name="guests", type="number").model_dump())
    with pytest.raises(ValidationError, match="min 6 is greater than max 1"):
        Slot(name="guests", type="number", min=6, max=1)
    with pytest.raises(ValidationError, match="a slot of the type email has no min and max"):
        Slot(name="mail", type="email", max=1)
