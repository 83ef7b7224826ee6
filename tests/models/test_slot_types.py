"""Slot types: one object each, which knows everything about its values; and those that a user adds."""

from __future__ import annotations

import copy
import json
import pickle
import re
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from jazzmine_dspy.models import (
    SLOT_TYPES,
    FlowRegistry,
    ReadingContext,
    Slot,
    SlotType,
    TextType,
    slot_type,
)
from jazzmine_dspy.models.errors import ExtensionError, FlowError
from jazzmine_dspy.models.language import Span
from jazzmine_dspy.models.slots import ANYWHERE, call_type

TEXT = {"type": "string", "minLength": 1, "maxLength": 80}


def slot(name: str, **fields: Any) -> Slot:
    options = ["standard", "next_day"] if name == "choice" else []
    return Slot(name="it", type=name, **{"options": options} | fields)


@pytest.fixture
def open_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test registers is forgotten after it."""
    for name in ("_values", "_origins"):
        monkeypatch.setattr(SLOT_TYPES, name, dict(getattr(SLOT_TYPES, name)))


@pytest.mark.row("X1")
@pytest.mark.parametrize(
    ("name", "schema"),
    [
        ("text", TEXT), ("money", TEXT), ("date", TEXT), ("time", TEXT), ("duration", TEXT), ("phone", TEXT),
        ("email", TEXT), ("number", {"type": "number"}), ("boolean", {"type": "boolean"}),
        ("choice", {"enum": ["standard", "next_day"]}),
        ("list", {"type": "array", "maxItems": 5, "items": {"type": "string", "maxLength": 40}}),
    ],
)  # fmt: skip
def test_the_schema_of_each_type(name: str, schema: dict[str, Any]) -> None:
    # In this very order of keys: servers cache prompts by their bytes.
    assert json.dumps(slot(name).kind.schema(slot(name))) == json.dumps(schema)


@pytest.mark.parametrize(
    ("name", "pattern", "text", "wanted"),
    [
        ("text", r"\d{4}", " 4471!", "4471"), ("date", r"\d{4}", "4471.", "4471"), ("list", r"\d{4}", "4471", ["4471"]),
        # A number or a yes is read as such; an address in the form that the flow's author allows.
        ("number", r"\d{4}", "4471", 4471), ("number", r"[A-Z]\d", "B2", "B2"),
        ("boolean", "yes|never", "yes", True), ("boolean", "yes|never", "never", "never"),
        ("email", r"\w+@acme\.org", "Ann@acme.org", "Ann@acme.org"),
        ("email", r"\w+@acme\.org", "Ann@b.org", "ann@b.org"),
        ("choice", r"\d{4}", "4471", None),
    ],
)  # fmt: skip
def test_a_pattern_of_the_slot_s_own_is_read(name: str, pattern: str, text: str, wanted: Any) -> None:
    read = slot(name).kind.parse(slot(name, pattern=pattern), text)
    assert (read, type(read)) == (wanted, type(wanted))


@pytest.mark.parametrize(
    ("name", "text", "found"),
    [
        ("money", "not 5 but €20, or 7,5 euros", ["20.00 EUR", "7.50 EUR"]), ("money", "it costs 20", []),
        ("phone", "call +44 (151) 496-0000 or 4471", ["+441514960000"]),
        ("email", "to Ann@x.org. and b@y.co.uk", ["ann@x.org", "b@y.co.uk"]),
        ("choice", "standard or next day!", ["standard", "next_day"]), ("choice", "substandard", []),
        ("number", "3 cups", []), ("boolean", "yes, the blue one", []), ("text", "blue", []),
        ("date", "2026-03-14", ["2026-03-14"]),
    ],
)  # fmt: skip
def test_what_occurs_in_a_text(name: str, text: str, found: list[Any]) -> None:
    assert slot(name).kind.find_values(slot(name), text) == found


@pytest.mark.parametrize("kind", list(SLOT_TYPES.values()))
@pytest.mark.parametrize("given", [None, "", 1, 1.5, True, [], ["a", 1], {"a": 1}, "x"])
def test_no_value_makes_a_type_fail(kind: SlotType, given: Any) -> None:
    held = slot(kind.name)
    assert isinstance(kind.check(held, given), str)
    normal = kind.normalize(held, given)
    assert kind.normalize(held, normal) == normal
    assert kind.check(held, normal) == kind.check(held, given) or kind.check(held, normal) == ""
    assert isinstance(kind.label_error(held, given), str)
    assert all(isinstance(text, str) for text in kind.spans(given))


def test_each_type_has_an_example_that_no_prompt_of_today_shows() -> None:
    assert all(kind.example and kind.prompt_text(slot(name)) == name for name, kind in SLOT_TYPES.items())


def test_a_slot_has_its_type_by_name_and_as_an_object() -> None:
    held = slot("date")
    assert held.kind is SLOT_TYPES["date"]
    for other in (
        pickle.loads(pickle.dumps(held)),
        copy.deepcopy(held),
        Slot.model_validate_json(held.model_dump_json()),
    ):
        assert other.type == "date"
        assert other.kind is held.kind
    assert held.kind.name == held.model_dump()["type"] == "date"
    assert len(SLOT_TYPES) == 11


def test_an_unknown_type_is_refused_with_those_that_are_known() -> None:
    known = "'text', 'number', 'money', .*'choice' or 'list'"
    with pytest.raises(ValidationError, match=known):
        Slot(name="it", type="colour")
    with pytest.raises(FlowError, match=rf"{known} \(flow 1, field slots\.0\.type\)"):
        FlowRegistry([{"name": "a", "description": "b", "slots": [{"name": "it", "type": "colour"}]}])


@pytest.mark.row("X1")
def test_a_type_that_a_user_adds_is_one_like_ours(open_registry: None) -> None:
    @slot_type("plate")
    class Plate(TextType):
        """Number plates."""

        example = "AB12 CDE"

        def normalize(self, slot: Slot, value: Any, at: ReadingContext = ANYWHERE) -> Any:
            return value.upper() if isinstance(value, str) else value

    held = slot("plate")
    assert type(held.kind) is Plate
    assert [*SLOT_TYPES][-1] == "plate"
    assert held.kind.prompt_text(held) == "plate, such as AB12 CDE"
    assert TypeAdapter(Slot).json_schema()["properties"]["type"]["enum"][-1] == "plate"
    assert held.kind.label_error(held, "ab12 cde") == "in its normal form, 'AB12 CDE'"
    assert held.kind.label_error(held, "AB12 CDE") == ""


def test_a_type_writes_find_alone_and_may_have_several_readings(open_registry: None) -> None:
    @slot_type("plate")
    class Plate(TextType):
        example = "AB12 CDE"
        noise = ("car",)

        def find(self, slot: Slot, text: str, at: ReadingContext = ANYWHERE) -> list[Span]:
            plates = re.finditer(r"\b([A-Z]{2}\d\d) ?([A-Z]{3})\b", text, re.IGNORECASE)
            return [Span(*match.span(), f"{match[1]} {match[2]}".upper()) for match in plates]

    @slot_type("half_day")
    class HalfDay(TextType):
        example = "morning"

        def candidates(self, slot: Slot, text: str, at: ReadingContext = ANYWHERE) -> list[Any]:
            return ["morning", "evening"] if text == at.region else [text]

    at = ReadingContext(region="GB")
    plate, half = slot("plate"), slot("half_day")
    for text, bare, inside in (
        ("it's my car ab12cde", ["AB12 CDE"], ["AB12 CDE"]),
        ("ab12cde has a flat tyre, not AB12 CDF", [], ["AB12 CDE"]),
        ("no plate", [], []),
    ):
        assert (plate.kind.candidates(plate, text, at), plate.kind.find_values(plate, text, at)) == (
            bare,
            inside,
        )
    assert plate.kind.normalize(plate, "ab12cde") == "AB12 CDE"
    assert (half.kind.parse(half, "noon", at), half.kind.parse(half, "GB", at)) == ("noon", None)
    assert call_type(half, "candidates", "GB", [], at) == ["morning", "evening"]
    assert call_type(plate, "parse", "ab12 cde", None, at) == "AB12 CDE"


class Bare(TextType):
    """Lacks an example."""


class Half(SlotType):
    """Lacks methods."""

    example = "x"


@pytest.mark.parametrize(
    ("name", "cls", "message"),
    [
        ("money", TextType, r"'money' is taken twice: there is a slot type of jazzmine-dspy itself in .*money\.Money"),
        ("bare", Bare, "'bare' cannot be used: it has no example"),
        ("half", Half, "'half' cannot be used: it lacks schema"),
        ("plain", int, "it is not a subclass of SlotType"),
        ("Plate", TextType, "'Plate' cannot be the name of a slot type"),
    ],
)  # fmt: skip
def test_a_type_that_cannot_be_used_is_refused(
    name: str, cls: Any, message: str, open_registry: None
) -> None:
    with pytest.raises(ExtensionError, match=message):
        slot_type(name)(cls)
    assert len(SLOT_TYPES) == 11
