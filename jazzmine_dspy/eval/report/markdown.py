"""The report in Markdown: the same tables as the page, without its plots."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape
from typing import Any

from jazzmine_dspy.eval.report import comparison, tables
from jazzmine_dspy.eval.report.shown import Cell, Table, bounded, prompt_changes, resolve, shown

_SPECIAL = re.compile(r"([\\`*_{}\[\]|])")


def render(data: dict[str, Any]) -> str:
    """The whole document as Markdown."""
    shipped = data["systems"][data["shipped"]]["name"]
    verdict, first = data.get("verdict"), data["first_line"]
    lines = [f"# {_escaped(data['title'])}", "", f"**{_escaped(verdict or first)}**", ""]
    lines += [_escaped(first), ""] if verdict else []
    sections = [
        (
            "Result",
            tables.headline(data),
            "Value [95 % interval, clustered by conversation; none under 10 of them]. A crash counts as wrong.",
        ),
        ("What each step gained", tables.gains(data), "Paired differences on the same turns."),
        ("What could have shipped", tables.candidates(data), "Judged on turns that none had learnt from."),
        ("What more labels bring", tables.learning(data), _escaped(data["learning_words"])),
        ("Every metric", tables.all_metrics(data), "In percent, save the sentiment error."),
        ("Cost and latency by stage", tables.stage_costs(data), ""),
        ("Who answered", tables.sources(data), ""),
        (f"By kind of turn: {shipped}", tables.slices(data), ""),
        *(
            (f"By {name.lower()}: {shipped}", tables.part(data, kind), "")
            for kind, name in tables.PARTS.items()
        ),
        (f"What is taken for what: {shipped}", tables.top_confusions(data), ""),
        (
            f"Is confidence to be believed: {shipped}",
            tables.trust(data),
            _calibration(data["systems"][data["shipped"]]["reliability"]),
        ),
        ("What decided the gates", tables.decisions(data), ""),
        (
            "Is the head's confidence to be believed",
            tables.head_trust(data),
            _calibration(tables.choosing(data).get("reliability"), "Out of fold. "),
        ),
        (
            "Recall, by choice",
            tables.recall(data),
            "On training turns, each without its own conversation.",
        ),
        ("Open set", tables.open_set(data), "Scores that tell turns that want a flow from others."),
        ("Crashes and degraded stages", tables.errors(data), ""),
        ("Turns that compiling changed", tables.changes(data), ""),
        *tables.further(data),
        *comparison.sections(data),
        ("How this was made", tables.facts(data), ""),
    ]
    for title, table, note in sections:
        if table.rows:
            lines += [f"## {_escaped(title)}", "", *([note, ""] if note else []), *_table(data, table), ""]
    for one in data.get("prompts", ()):
        if found := prompt_changes(one):
            lines += [f"## The compiled prompt: {_escaped(one['predictor'])}", "", *_indented(found), ""]
    notes = [
        f"- **{_escaped(one['name'])}**: {_escaped(one['note'])}" for one in data["systems"] if one["note"]
    ]
    if notes:
        lines += ["## The systems", "", *notes, ""]
    if data["reproduce"]:
        lines += ["## To reproduce", "", *_indented(data["reproduce"].splitlines()), ""]
    if data.get("recipe"):
        lines += ["## The recipe", "", *_indented(data["recipe"].splitlines()), ""]
    return "\n".join(lines)


def _indented(lines: Sequence[str]) -> list[str]:
    return [f"    {line}" for line in lines]


def _calibration(found: dict[str, Any] | None, before: str = "") -> str:
    return f"{before}Expected calibration error: {shown(found['ece'], 'share')} points." if found else ""


def _table(data: dict[str, Any], table: Table) -> list[str]:
    rules = ["---" if i < table.texts else "---:" for i in range(len(table.header))]
    rows = [[cell_text(data, cell) for cell in row] for row in table.rows]
    return [_row([_escaped(name) for name in table.header]), _row(rules), *(_row(row) for row in rows)]


def _row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def cell_text(data: dict[str, Any], cell: Cell) -> str:
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
