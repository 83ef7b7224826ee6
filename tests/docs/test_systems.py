"""The page for those who come from jazzmine or soni: the names that it gives exist, and every row has one."""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from typing import Any

import pytest

import jazzmine_dspy

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "reference" / "systems.md").read_text("utf-8")
MODULES = [
    "jazzmine_dspy",
    "jazzmine_dspy.memory.messages",
    "jazzmine_dspy.memory.working",
    "jazzmine_dspy.models.messages",
    "jazzmine_dspy.models.turn",
    "jazzmine_dspy.program.policy",
    "jazzmine_dspy.signatures",
]
_NAME = re.compile(r"`([A-Za-z_][\w.]*)[`(]")


def rows() -> list[tuple[str, str]]:
    table = PAGE.partition("## Names")[2].partition("\n## ")[0]
    lines = [line.strip("|").split("|") for line in table.splitlines() if line.startswith("| `")]
    return [(there.strip(), here.strip()) for there, here in lines]


def resolve(name: str) -> Any:
    """The object of a dotted name, found in one of the modules or by its full path."""
    head, *rest = name.split(".")
    for module in MODULES:
        found = getattr(importlib.import_module(module), head, None)
        if found is not None:
            for part in rest:
                known = getattr(found, "model_fields", {})
                found = known[part] if part in known else getattr(found, part)
            return found
    parts = name.split(".")
    return getattr(importlib.import_module(".".join(parts[:-1])), parts[-1])


@pytest.mark.row("U20")
@pytest.mark.parametrize("row", rows(), ids=lambda row: row[0])
def test_every_name_on_this_side_exists(row: tuple[str, str]) -> None:
    there, here = row
    names = _NAME.findall(here)
    if here.startswith("the same"):
        module = names[0] if names else "jazzmine_dspy"
        found = [getattr(importlib.import_module(module), name) for name in _NAME.findall(there)]
        assert found
        if module == "jazzmine_dspy":
            assert set(_NAME.findall(there)) <= set(jazzmine_dspy.__all__)
        return
    assert names
    for name in names:
        assert resolve(name) is not None, name


@pytest.mark.row("U20")
def test_names_in_the_text_exist_too() -> None:
    text = PAGE.partition("## Message enhancer")[2]
    own = {name for name in _NAME.findall(text) if "." in name and name[0].isupper()}
    own -= {"AgentBuilder.with_enhancer"}
    assert own
    for name in own:
        assert resolve(name) is not None, name


def test_the_index_links_the_page() -> None:
    assert (
        "docs/reference/systems.md"
        in (ROOT / "README.md").read_text("utf-8").partition("## Documentation")[2]
    )
