"""How figures and metric names are shown to people, and the tables that they stand in."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

DASH = "\u2013"
"""Stands where there is no figure, and between two bounds."""

HEADLINE = ("flow_set_exact", "commands_exact", "rewrite_token_f1", "unchanged_kept")
PANELS = (
    "flow_set_exact", "commands_exact", "joint_goal", "rewrite_token_f1", "unchanged_kept", "intent_accuracy",
)  # fmt: skip

LABELS: dict[str, tuple[str, str]] = {
    "flow_set_exact": ("Flows right", "the set of flows to start is exactly the expected one"),
    "flow_order_exact": ("Flows right, in order", "the flows to start, in the expected order"),
    "in_scope_accuracy": ("Flows right, in scope", "the same, over turns that start a flow"),
    "out_of_scope_recall": ("Out of scope found", "no flow is started if none fits"),
    "recall_at_1": ("Recall at 1", "the expected flows come first among the candidates"),
    "recall_at_3": ("Recall at 3", "the expected flows are among the first 3 candidates"),
    "recall_at_5": ("Recall at 5", "the expected flows are among the first 5 candidates"),
    "rewrite_exact": ("Rewrite exact", "the rewrite is the expected one, except for white space"),
    "rewrite_needed_exact": ("Rewrite exact, where needed", "the same, over messages that need one"),
    "rewrite_token_f1": ("Rewrite, word F1", "words shared with the expected rewrite"),
    "entity_recall_in_rewrite": ("Entities in the rewrite", "named things that the rewrite must name"),
    "unchanged_kept": ("Complete messages kept", "a complete message comes back letter for letter"),
    "sentiment_macro_f1": ("Sentiment, macro F1", "negative, neutral, positive"),
    "sentiment_mae": ("Sentiment error", "mean distance on the scale from -1 to 1; lower is better"),
    "intent_accuracy": ("Intent right", "the intent is the expected one"),
    "entity_f1": ("Entities, F1", "named things found, by name"),
    "cancellation_f1": ("Retractions, F1", "an earlier request is taken back"),
    "topic_shift_f1": ("Topic shifts, F1", "the turn leaves the topic before"),
    "commands_exact": ("All commands right", "every command with its arguments, in order"),
    "slot_name_f1": ("Slot names, F1", "which slots are filled or corrected"),
    "slot_value_f1": ("Slot values, F1", "the same with their values"),
    "joint_goal": ("Joint goal", "all slot values after the turn are right"),
}

VERDICTS = {True: "better", False: "worse", None: "other"}
"""What is said of a turn that two programs decide differently."""

MARKS = {True: "kept", False: "dropped"}
"""What is said of one of several choices."""

_SOURCES = ("rule", "local", "lm", "cache", "fallback")


def by_source(names: Iterable[str]) -> list[tuple[str, str]]:
    """Sources in the order in which they are asked, each with the class of its colour; added ones stand last.

    Example:
        >>> by_source({"fallback", "glossary", "rule"})
        [('rule', 'from-rule'), ('fallback', 'from-fallback'), ('glossary', 'from-added')]
    """
    held = set(names)
    ours = [(name, f"from-{name}") for name in _SOURCES if name in held]
    return [*ours, *((name, "from-added") for name in sorted(held - set(_SOURCES)))]


def label(metric: str) -> str:
    """A metric's name for people.

    Example:
        >>> label("flow_set_exact"), label("command_f1/set_slot"), label("something_new")
        ('Flows right', 'Command set_slot, F1', 'something_new')
    """
    kind = metric.removeprefix("command_f1/")
    return LABELS.get(metric, (metric if kind == metric else f"Command {kind}, F1", ""))[0]


def explanation(metric: str) -> str:
    """What a metric counts, in a few words; may be empty."""
    return LABELS.get(metric, ("", ""))[1]


def ordered(metrics: set[str]) -> list[str]:
    """Metric names in the order of a turn's stages, kinds of commands last."""
    known = [name for name in LABELS if name in metrics]
    return known + sorted(metrics - set(known))


def kind_of(metric: str) -> str:
    """How the values of a metric are shown."""
    return "error" if metric == "sentiment_mae" else "share"


def shown(value: Any, kind: str) -> str:
    """A figure as text.

    Args:
        value: The figure; None is shown as a dash.
        kind: ``share`` (percent, one decimal), ``points`` (the same with its sign), ``error`` (three
            decimals), ``count``, ``calls`` (two decimals), ``tokens`` (whole), ``ms`` or ``money``.

    Example:
        >>> shown(0.8432, "share"), shown(-0.012, "points"), shown(1234.5, "tokens")
        ('84.3', '-1.2', '1,234')
    """
    if value is None:
        return DASH
    if kind == "ms":
        return f"{value:.2f}" if value < 9.995 else f"{value:,.0f}"
    forms = {
        "share": lambda: f"{100 * value:.1f}",
        "points": lambda: f"{100 * value:+.1f}",
        "error": lambda: f"{value:.3f}",
        "count": lambda: f"{value:,}",
        "calls": lambda: f"{value:.2f}",
        "tokens": lambda: f"{value:,.0f}",
        "money": lambda: f"{value:.6f}",
    }
    return forms[kind]()


def counted(n: int, noun: str) -> str:
    """A number of things.

    Example:
        >>> counted(1, "turn"), counted(1200, "turn")
        ('1 turn', '1,200 turns')
    """
    return f"{n:,} {noun}{'' if n == 1 else 's'}"


def bounded(held: Mapping[str, float | None], kind: str) -> str:
    """A value with its interval, if it has one.

    Example:
        >>> bounded({"value": 0.5, "low": 0.4, "high": 0.6}, "share")
        '50.0 [40.0, 60.0]'
        >>> bounded({"value": 0.5, "low": None, "high": None}, "share")
        '50.0'
    """
    value, low, high = (shown(held[name], kind) for name in ("value", "low", "high"))
    return value if held["low"] is None else f"{value} [{low}, {high}]"


def pointer(*steps: str | int) -> str:
    """A JSON pointer (RFC 6901).

    Example:
        >>> pointer("systems", 0, "metrics", "command_f1/ask", "value")
        '/systems/0/metrics/command_f1~1ask/value'
    """
    return "".join("/" + str(step).replace("~", "~0").replace("/", "~1") for step in steps)


def resolve(data: Any, path: str) -> Any:
    """What a JSON pointer points at, or None where there is nothing."""
    for step in path.split("/")[1:]:
        step = step.replace("~1", "/").replace("~0", "~")
        if isinstance(data, list | tuple):
            data = data[int(step)] if int(step) < len(data) else None
        elif isinstance(data, dict):
            data = data.get(step)
        else:
            return None
    return data


@dataclass(frozen=True)
class Figure:
    """One figure of the document, or a value with its two bounds: where they stand.

    Args:
        kind: As in :func:`shown`.
        paths: JSON pointers: of the value, or of the value and its two bounds.
    """

    kind: str
    paths: tuple[str, ...]


def figure(path: str, kind: str) -> Figure:
    """One figure."""
    return Figure(kind, (path,))


def score(path: str, kind: str = "share") -> Figure:
    """A value with its bounds, all three below one path."""
    return Figure(kind, (f"{path}/value", f"{path}/low", f"{path}/high"))


Cell = str | Figure
Column = str | Figure | Callable[[dict[str, Any]], Cell]
"""The key of a text of the item, a figure whose paths begin at the item, or a function that gives a text or figure."""


@dataclass(frozen=True)
class Table:
    """A table of texts and figures.

    Args:
        name: Of the table.
        header: Headings of the columns.
        rows: The cells of each row.
        strong: The row to be stressed.
        texts: How many columns from the left are texts.
        hints: What stands below the first cell of each row, on the page alone.
        marks: For each row of a choice ``kept`` or ``dropped``.
        summary: The line under which the page folds the table; empty where it is open.
    """

    name: str
    header: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    strong: int | None = None
    texts: int = 1
    hints: tuple[str, ...] = ()
    marks: tuple[str, ...] = ()
    summary: str = ""


class Section(NamedTuple):
    """A part of the report, for the page and for Markdown.

    Args:
        title: Its heading.
        note: What its figures are.
        key: How to read its plots; on the page alone, as these are.
        plots: Above the tables.
        tables: Those without rows are left out.
        beside: Whether the page shows plot and table next to each other.
        words: Sentences.
        lines: Of a difference between two texts.
        ece: Where the expected calibration error is that belongs to the note; empty for none.
    """

    title: str
    note: str = ""
    key: str = ""
    plots: str = ""
    tables: Sequence[Table] = ()
    beside: bool = False
    words: Sequence[str] = ()
    lines: Sequence[str] = ()
    ece: str = ""

    @property
    def empty(self) -> bool:
        """Whether there is nothing to show."""
        return not (self.plots or self.words or self.lines or any(table.rows for table in self.tables))


def listed(
    name: str, items: Iterable[tuple[str, dict[str, Any]]], *columns: tuple[str, Column], **more: Any
) -> Table:
    """A table with a row for each item of the document.

    Args:
        name: Of the table.
        items: Each with the pointer to it.
        columns: Headings, each with what stands below it.
        more: Further fields of the table.
    """
    return Table(
        name,
        tuple(heading for heading, _ in columns),
        tuple(tuple(_placed(column, at, item) for _, column in columns) for at, item in items),
        **more,
    )


def first_of(items: Sequence[Any], most: int, noun: str, which: str = "") -> tuple[Sequence[Any], str]:
    """The first items, and a sentence about how many of all these are.

    Example:
        >>> first_of("abc", 2, "turn", " gained"), first_of("a", 2, "turn")
        (('ab', 'The first 2 of 3 turns gained; report.json has all.'), ('a', '1 turn.'))
    """
    every, cut = f"{counted(len(items), noun)}{which}", len(items) > most
    return items[:most], f"The first {most} of {every}; report.json has all." if cut else f"{every}."


def without_silent(data: dict[str, Any], table: Table) -> Table:
    """The table without the columns in which no row has a text, a value, or a number above zero of what is counted."""

    def tells(cell: Cell) -> bool:
        if isinstance(cell, str):
            return cell not in ("", DASH)
        value = resolve(data, cell.paths[0])
        return bool(value) if cell.kind in ("count", "calls", "tokens", "money") else value is not None

    kept = [at for at in range(len(table.header)) if not at or any(tells(row[at]) for row in table.rows)]
    return replace(
        table,
        header=tuple(table.header[at] for at in kept),
        rows=tuple(tuple(row[at] for at in kept) for row in table.rows),
        texts=sum(at < table.texts for at in kept),
    )


def _placed(column: Column, at: str, item: dict[str, Any]) -> Cell:
    if isinstance(column, str):
        return str(item[column])
    cell = column if isinstance(column, Figure) else column(item)
    return cell if isinstance(cell, str) else Figure(cell.kind, tuple(f"{at}/{path}" for path in cell.paths))


def numbered(data: dict[str, Any], at: str) -> list[tuple[str, dict[str, Any]]]:
    """The items of a list of the document, each with the pointer to it; none where there is no list."""
    return [(f"{at}/{number}", item) for number, item in enumerate(resolve(data, at) or ())]


def prompt_changes(prompt: dict[str, Any]) -> list[str]:
    """The lines of a unified difference, without its head; none where nothing changed.

    Example:
        >>> prompt_changes({"before": "Say it.\\nBriefly.", "after": "Say it.\\nIn full."})
        ['@@ -1,2 +1,2 @@', ' Say it.', '-Briefly.', '+In full.']
    """
    return list(
        difflib.unified_diff(prompt["before"].splitlines(), prompt["after"].splitlines(), lineterm="", n=3)
    )[2:]
