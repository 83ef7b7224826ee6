"""The report as JSON data, the one place that figures come from; its files; and its headline rows for the terminal."""

from __future__ import annotations

import functools
import json
import re
from collections import Counter
from dataclasses import asdict
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from jazzmine_dspy.eval.evaluation import WHOLE_TURN
from jazzmine_dspy.eval.feedback import wrong_turns
from jazzmine_dspy.eval.reliability import confusions, reliability
from jazzmine_dspy.eval.report.charts import TEMPLATES
from jazzmine_dspy.eval.report.model import Report, System
from jazzmine_dspy.eval.report.sections import sections
from jazzmine_dspy.eval.report.shown import (
    DASH,
    HEADLINE,
    VERDICTS,
    Cell,
    Section,
    Table,
    bounded,
    counted,
    resolve,
    shown,
)
from jazzmine_dspy.models.errors import InputError

if TYPE_CHECKING:
    from rich.table import Table as RichTable

FORMAT = 2


def document(report: Report) -> dict[str, Any]:
    """All figures and texts of a report, ready for ``json.dumps``.

    Raises:
        InputError: the report has no systems.
    """
    if not report.systems:
        raise InputError("The report has no systems", remedy="Evaluate at least one program.")
    systems = report.systems
    shipped = next((i for i, system in enumerate(systems) if system.shipped), len(systems) - 1)
    return {
        "format": FORMAT,
        "title": report.title,
        "verdict": report.verdict,
        "first_line": report.first_line,
        "shipped": shipped,
        "systems": [_system(system) for system in report.systems],
        "parts": _parts(report.systems[shipped]),
        "wrong": [asdict(turn) for turn in wrong_turns(report.systems[shipped].evaluation)],
        "candidates": [asdict(row) for row in report.candidates],
        "learning": [
            {"conversations": one.conversations, "score": one.score.to_json()} for one in report.learning
        ],
        "learning_words": report.learning_words,
        "gains": [asdict(gain) for gain in report.gains],
        "facts": dict(report.facts),
        "reproduce": report.reproduce,
        "compared": ["LM as written", "LM compiled"],
        "examples_changed": [asdict(change) for change in report.examples_changed],
        "choosing": asdict(report.choosing) if report.choosing is not None else None,
        "prompts": [asdict(one) for one in report.prompts],
        "card": report.card,
        "recipe": report.recipe,
        "replay": dict(report.replay) if report.replay is not None else None,
        "comparison": report.comparison.to_json() if report.comparison is not None else None,
    }


def _parts(system: System) -> dict[str, list[dict[str, Any]]]:
    """The shipped choice by place, wanted command and flow."""
    return {
        kind: [
            {"name": name, "n": n, "metrics": {key: held.to_json() for key, held in metrics.items()}}
            for name, (n, metrics) in found.items()
        ]
        for kind, found in system.evaluation.parts.items()
    }


def _system(system: System) -> dict[str, Any]:
    found = system.evaluation
    data = found.to_json()
    if system.covers is not None:
        data["metrics"] = {name: held for name, held in data["metrics"].items() if name in system.covers}
        for one in data["slices"].values():
            one["metrics"] = {name: held for name, held in one["metrics"].items() if name in system.covers}
    trust = reliability(found.turns)
    return {
        "name": system.name,
        "note": system.note,
        **data,
        "outcomes": found.outcomes if system.covers is None or system.covers >= WHOLE_TURN else None,
        "latency_by_source": found.latency_by_source(),
        "confusions": [
            {"wanted": wanted, "answered": answered, "n": n}
            for (wanted, answered), n in sorted(
                confusions(found.turns).items(), key=lambda held: (-held[1], held[0])
            )
        ],
        "reliability": asdict(trust) if trust else None,
        "errors": _errors(system),
    }


def _errors(system: System) -> list[dict[str, Any]]:
    """What went wrong, and how often: crashes and unanswered turns by error, degraded stages by cause."""
    counts: Counter[tuple[str, str]] = Counter()
    for turn in system.evaluation.turns:
        if turn.decision is None:
            counts["unanswered" if turn.unanswered else "crashed", turn.error or "unknown"] += 1
        else:
            degraded = {stage: record for stage, record in turn.decision.stages.items() if record.degraded}
            counts.update((f"{stage} degraded", each.cause or "unknown") for stage, each in degraded.items())
    ranked = sorted(counts.items(), key=lambda held: (-held[1], held[0]))
    return [{"what": what, "cause": cause, "n": n} for (what, cause), n in ranked[:10]]


class Paths(NamedTuple):
    """Where the files are."""

    html: Path
    markdown: Path
    json: Path


def write_report(report: Report, folder: str | Path) -> Paths:
    """Write ``report.html`` (one self-contained file), ``report.md`` and ``report.json``; all hold the same
    figures.

    Raises:
        InputError: the report has no systems, or the folder cannot be written.
    """
    return write_document(document(report), folder)


def write_document(data: dict[str, Any], folder: str | Path) -> Paths:
    """Write the files of a document that :func:`document` made, such as one read back from ``report.json``.

    Raises:
        InputError: the document is of another format, or the folder cannot be written.
    """
    if data.get("format") != FORMAT:
        raise InputError(
            f"The report has format {data.get('format')!r}, not {FORMAT}",
            remedy="Make it again with this version.",
        )
    folder = Path(folder)
    paths = Paths(folder / "report.html", folder / "report.md", folder / "report.json")
    texts = (
        _page(data),
        _markdown(data),
        json.dumps(data, ensure_ascii=False, indent=1, allow_nan=False) + "\n",
    )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path, text in zip(paths, texts, strict=True):
            path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InputError(
            f"Cannot write the report: {error.strerror}",
            where=str(folder),
            remedy="Name a folder that can be written.",
        ) from error
    return paths


# Short enough for 80 columns.
_NAMES = {
    "flow_set_exact": "flows\nright, %",
    "commands_exact": "commands\nright, %",
    "rewrite_token_f1": "rewrite\nF1, %",
    "unchanged_kept": "complete\nkept, %",
}
_LM_USAGE = {
    "LM calls\na turn": ("lm_calls_per_turn", "calls"),
    "prompt\ntokens": ("prompt_tokens_per_turn", "tokens"),
}


def terminal_table(report: Report) -> RichTable:
    """The headline figures of every system for ``rich.print``, in 80 columns.

    Shares are in percent, each above its 95 % interval, which is left out under ten conversations. The number of turns
    stands below a system's name, with those that crashed, are degraded, refused or unanswered.
    """
    from rich import box
    from rich.table import Table as RichTable
    from rich.text import Text

    data = document(report)
    asks = any(one["usage"]["lm_calls_per_turn"] for one in data["systems"])
    table = RichTable(
        title=report.title,
        caption="below each figure its 95 % interval over conversations; none under 10 of them",
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        title_style="bold",
        caption_style="dim",
    )
    table.add_column("", overflow="fold", min_width=14)
    measured = [name for name in HEADLINE if any(system["metrics"].get(name) for system in data["systems"])]
    for name in (*(_NAMES[name] for name in measured), *(_LM_USAGE if asks else ())):
        table.add_column(name, justify="right", no_wrap=True)
    for index, system in enumerate(data["systems"]):
        style = "bold green" if index == data["shipped"] else ""
        scores = [(system["metrics"].get(name), "share") for name in measured]
        used = [
            ({"value": system["usage"][name], "low": None}, kind) for name, kind in _LM_USAGE.values() if asks
        ]
        failed = [
            (f"\n{system[what]} {what}", "red")
            for what in ("crashed", "degraded", "refused", "unanswered")
            if system[what]
        ]
        table.add_row(
            Text.assemble((system["name"], style), (f"\n{counted(system['n'], 'turn')}", "dim"), *failed),
            *(
                Text.assemble(
                    (shown(held and held["value"], kind), style),
                    (
                        f"\n{shown(held['low'], kind)}-{shown(held['high'], kind)}"
                        if held and held["low"] is not None
                        else "",
                        "dim",
                    ),
                )
                for held, kind in (*scores, *used)
            ),
        )
    return table


def _page(data: dict[str, Any]) -> str:
    """The document as one HTML page: no script, no outside file, light or dark as the reader's system is."""
    return TEMPLATES.get_template("page.html.j2").render(
        data=data,
        at=f"/systems/{data['shipped']}",
        sections=sections(data),
        resolve=resolve,
        shown=shown,
        counted=counted,
        dash=DASH,
        verdicts=VERDICTS,
    )


_SPECIAL = re.compile(r"([\\`*_{}\[\]|])")
_TEMPLATES = TEMPLATES.overlay(autoescape=False)


def _markdown(data: dict[str, Any]) -> str:
    """The whole document in Markdown: the sections of the page, without its plots."""
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
