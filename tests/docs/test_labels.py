"""The examples of `docs/guide/labels.md` are valid labels of the flows that the page names."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

import pytest

from jazzmine_dspy.models import COMMAND_KINDS
from jazzmine_dspy.models.commands import KINDS, command

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "guide" / "labels.md").read_text("utf-8")
FLOWS = {"book_table", "cancel_table", "opening_hours"}
SLOTS = {"guests", "day"}
_ROW = re.compile(
    r"^\| (?!the assistant)(?P<asked>.*?)\| (?P<message>.+?) \| (?P<labels>`.+`) \|$", re.MULTILINE
)


def rows() -> list[Any]:
    return [pytest.param(match["labels"], id=match["message"]) for match in _ROW.finditer(PAGE)]


def parse(text: str) -> Any:
    """The command of a call such as ``set_slot(guests, 4)``: bare names are texts."""
    call = ast.parse(text, mode="eval").body
    assert isinstance(call, ast.Call)
    assert isinstance(call.func, ast.Name)
    kind = call.func.id
    assert kind in COMMAND_KINDS
    names = [name for name in KINDS[kind].model_fields if name != "type"]
    values = [each.id if isinstance(each, ast.Name) else ast.literal_eval(each) for each in call.args]
    order = {"set_slot": ["name", "value"], "correct_slot": ["name", "value"]}.get(kind, names)
    return command({"type": kind, **dict(zip(order, values, strict=False))})


def test_the_page_has_twelve_examples() -> None:
    assert len(rows()) == 12


@pytest.mark.parametrize("labels", rows())
def test_an_example_is_a_valid_label(labels: str) -> None:
    for text in re.findall(r"`([^`]+)`", labels):
        parsed = parse(text)
        flows = getattr(parsed, "flows", None) or [getattr(parsed, "flow", None)]
        assert {flow for flow in flows if flow} <= FLOWS
        slots = {getattr(parsed, "name", None), getattr(parsed, "slot", None)} - {None}
        assert slots <= SLOTS
