"""The report in Markdown: the sections of the page, without its plots."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import escape
from typing import Any

from jazzmine_dspy.eval.report.sections import sections
from jazzmine_dspy.eval.report.shown import Cell, Section, Table, bounded, resolve, shown

_SPECIAL = re.compile(r"([\\`*_{}\[\]|])")
_SCORES = (
    "A score has its 95 % interval in brackets, clustered by conversation; under 10 of them there is none. A crash "
    "counts as wrong."
)


def render(data: dict[str, Any]) -> str:
    """The whole document as Markdown."""
    return "\n".join(_lines(data))


def _lines(data: dict[str, Any]) -> Iterator[str]:
    verdict, first = data.get("verdict"), data["first_line"]
    yield from (f"# {_escaped(data['title'])}", "", f"**{_escaped(verdict or first)}**", "")
    yield from (_escaped(first), "") if verdict else ()
    yield from (_SCORES, "")
    facts = Table("facts", ("Fact", "Value"), tuple(data["facts"].items()), texts=2)
    for section in (*sections(data), Section("How this was made", tables=[facts])):
        if section._replace(plots="").empty:
            continue
        yield from (f"## {_escaped(section.title)}", "")
        yield from (_escaped(note), "") if (note := _note(data, section)) else ()
        yield from (*(f"- {_escaped(words)}" for words in section.words), "") if section.words else ()
        yield from (*_indented(section.lines), "") if section.lines else ()
        for table in section.tables:
            caption = (
                (f"**{_escaped(table.summary)}**", "") if table.summary and len(section.tables) > 1 else ()
            )
            yield from (*caption, *_table(data, table), "") if table.rows else ()
    notes = [
        f"- **{_escaped(one['name'])}**: {_escaped(one['note'])}" for one in data["systems"] if one["note"]
    ]
    yield from ("## The systems", "", *notes, "") if notes else ()
    for title, key in (("To reproduce", "reproduce"), ("The recipe", "recipe")):
        if data.get(key):
            yield from (f"## {title}", "", *_indented(data[key].splitlines()), "")


def _note(data: dict[str, Any], section: Section) -> str:
    if not section.ece:
        return section.note
    return f"Expected calibration error: {shown(resolve(data, section.ece), 'share')} points."


def _indented(lines: Any) -> list[str]:
    return [f"    {line}" for line in lines]


def _table(data: dict[str, Any], table: Table) -> list[str]:
    rules = ["---" if i < table.texts else "---:" for i in range(len(table.header))]
    rows = [[_cell_text(data, cell) for cell in row] for row in table.rows]
    lines = ([_escaped(name) for name in table.header], rules, *rows)
    return [f"| {' | '.join(cells)} |" for cells in lines]


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
