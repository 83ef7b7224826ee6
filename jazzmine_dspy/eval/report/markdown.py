"""The report in Markdown: the sections of the page, without its plots."""

from __future__ import annotations

import functools
import re
from html import escape
from typing import Any

from jazzmine_dspy.eval.report.charts import TEMPLATES
from jazzmine_dspy.eval.report.sections import sections
from jazzmine_dspy.eval.report.shown import Cell, Section, Table, bounded, resolve, shown

_SPECIAL = re.compile(r"([\\`*_{}\[\]|])")
_TEMPLATES = TEMPLATES.overlay(autoescape=False)


def render(data: dict[str, Any]) -> str:
    """The whole document as Markdown."""
    facts = Table("facts", ("Fact", "Value"), tuple(data["facts"].items()), texts=2)
    every = (*sections(data), Section("How this was made", tables=[facts]))
    text = _TEMPLATES.get_template("report.md.j2").render(
        data=data,
        sections=[section for section in every if not section._replace(plots="").empty],
        escaped=_escaped,
        cell=functools.partial(_cell_text, data),
        resolve=resolve,
        shown=shown,
    )
    return text.strip("\n") + "\n"


def _cell_text(data: dict[str, Any], cell: Cell) -> str:
    """One cell; a value with bounds as ``84.3 [80.1, 87.9]``."""
    if isinstance(cell, str):
        return _escaped(cell)
    values = [resolve(data, path) for path in cell.paths]
    if len(values) == 1 or values[0] is None:
        return shown(values[0], cell.kind)
    return bounded(dict(zip(("value", "low", "high"), values, strict=True)), cell.kind)


def _escaped(text: str) -> str:
    # As entities: not every reader of Markdown takes a backslash before a bracket.
    text = escape(" ".join(text.split()), quote=False)
    return _SPECIAL.sub(r"\\\1", text)
