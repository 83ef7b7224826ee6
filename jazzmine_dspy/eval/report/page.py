"""The report as one HTML page: no script, no outside file, light or dark as the reader's system is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib.resources import files
from typing import Any

from jazzmine_dspy.eval.report import comparison, figures, tables
from jazzmine_dspy.eval.report.markup import Markup, join, tag
from jazzmine_dspy.eval.report.shown import DASH, TOO_FEW, Cell, Figure, Table, prompt_changes, resolve, shown

_TILES = (
    ("Flows right", "metrics", "flow_set_exact"),
    ("All commands right", "metrics", "commands_exact"),
    ("Complete messages kept", "metrics", "unchanged_kept"),
)
_COSTS = (
    ("LM calls per turn", ("usage", "lm_calls_per_turn"), "calls", ""),
    ("Prompt tokens per turn", ("usage", "prompt_tokens_per_turn"), "tokens", ""),
    ("Decided in, median", ("usage", "latency_ms", "p50"), "ms", "ms"),
)

_DIFF = {"+": "added", "-": "removed", "@": "hunk"}


def render(data: dict[str, Any]) -> str:
    """The whole document as HTML."""
    style = files("jazzmine_dspy.eval.report").joinpath("page.css").read_text("utf-8")
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", data["title"]),
        tag("style", Markup(style)),
    )
    top = tag(
        "header",
        tag("p", data["title"], cls="eyebrow"),
        tag("h1", data.get("verdict") or data["first_line"]),
        tag("p", data["first_line"], cls="lede") if data.get("verdict") else None,
        _warning(data),
        tag("div", *_tiles(data), cls="tiles"),
    )
    body = tag("body", tag("main", top, *_sections(data), _foot(data)))
    return f"<!doctype html>\n{tag('html', head, body, lang='en')}\n"


def _warning(data: dict[str, Any]) -> Markup | None:
    lame = [
        f"{one['name']}: {one['crashed']} crashed, {one['degraded']} degraded{_further(one)} of {one['n']}"
        for one in data["systems"]
        if one["crashed"] + one["degraded"] + one["unanswered"] > 0
    ]
    if not lame:
        return None
    words = "Not every turn was answered by the part that should have. "
    words += "A crash counts as wrong; a degraded answer is another part's, "
    words += "such as where a content filter refused; an unanswered turn has no score."
    return tag("p", tag("strong", words), " ", "; ".join(lame) + ".", cls="warning")


def _further(one: dict[str, Any]) -> str:
    return "".join(f", {one[what]} {what}" for what in ("refused", "unanswered") if one[what])


def _tiles(data: dict[str, Any]) -> Iterator[Markup]:
    at = f"/systems/{data['shipped']}"
    for name, group, metric in _TILES:
        place = f"{at}/{group}/{metric}"
        if resolve(data, place) is not None:
            low, high = (_figure(data, f"{place}/{bound}", "share") for bound in ("low", "high"))
            few = resolve(data, f"{place}/low") is None
            bounds = Markup(f"{TOO_FEW} for an interval") if few else join(low, DASH, high)
            yield _tile(name, _figure(data, place + "/value", "share"), "%", bounds)
    for name, steps, kind, unit in _COSTS:
        yield _tile(name, _figure(data, "/".join((at, *steps)), kind), unit, None)


def _tile(name: str, value: Markup, unit: str, below: Markup | None) -> Markup:
    return tag(
        "div",
        tag("span", name, cls="tile-name"),
        tag("span", value, tag("small", unit) if unit else None, cls="tile-value"),
        tag(
            "span", below if below is not None else "mean over all turns" if not unit else "", cls="tile-note"
        ),
        cls="tile",
    )


def _sections(data: dict[str, Any]) -> Iterator[Markup]:
    system = data["systems"][data["shipped"]]
    name = system["name"]
    yield _section(
        "Result",
        "Each dot is a score, each line its 95 % interval, drawn by conversation; under 10 of them there is none.",
        figures.legend_of_systems(data),
        tag("div", *figures.panels(data), cls="grid3"),
        _table(data, tables.headline(data)),
    )
    yield _section(
        "What it costs",
        "Up and to the left is better: more turns right for fewer prompt tokens. "
        "On the dashed line nothing is better at its cost.",
        tag("div", *figures.costs(data), cls="grid2"),
    )
    yield _section(
        "Right, wrong, degraded, crashed",
        "Right: the flows and every command, for systems that answer both. Outages are counted apart.",
        figures.outcomes(data),
        _table(data, tables.errors(data)),
    )
    if data["gains"]:
        yield _section(
            "What each step gained",
            "Paired differences on the same turns; an interval that does not touch zero is a difference.",
            figures.gains(data),
            _table(data, tables.gains(data)),
        )
    if data["candidates"]:
        yield _section(
            "What could have shipped",
            "Whole programs, judged on turns that none of them had learnt from. The one of the highest expected "
            "gain over the base ships, its calls paid for; on a tie what was there stays.",
            _table(data, tables.candidates(data), _race_mark),
        )
    if data["learning"]:
        split = _split(figures.learning(data), _table(data, tables.learning(data)))
        yield _section("What more labels bring", data["learning_words"], split)
    yield _section(
        f"Who answered: {name}",
        "The share of turns by source, and its latency: dot the median, bar the 95th percentile.",
        figures.legend_of_sources(data),
        tag("div", figures.sources(data), figures.latencies(data), cls="grid2"),
        _details("Cost and latency by stage, all systems", _table(data, tables.stage_costs(data))),
        _details("Sources, all systems", _table(data, tables.sources(data))),
    )
    if system["confusions"]:
        plot = figures.confusion("Wanted flows against answered flows", system["confusions"])
        yield _section(
            f"What is taken for what: {name}",
            "Wanted flows down, answered flows across, shaded by share of the row.",
            _split(plot, _table(data, tables.top_confusions(data))),
        )
    if system["reliability"]:
        label = "Confidence of the selection against how often it is right"
        plot = figures.reliability(label, system["reliability"]["bins"])
        yield _section(
            f"Is its confidence to be believed: {name}",
            _calibration(
                data,
                "On the dashed line, confidence is what it says.",
                f"/systems/{data['shipped']}/reliability",
            ),
            _split(plot, _table(data, tables.trust(data))),
        )
    yield from _choosing(data)
    yield _section(
        f"Commands by kind: {name}", "F1 of each kind, type and arguments alike.", figures.kinds(data)
    )
    parts = ((kind, tables.part(data, kind)) for kind in tables.PARTS)
    yield _section(
        f"By kind of turn: {name}",
        "",
        _table(data, tables.slices(data)),
        *(
            _details(f"By {tables.PARTS[kind].lower()}", _table(data, table))
            for kind, table in parts
            if table.rows
        ),
    )
    yield _section(
        "Every metric", "In percent, save the sentiment error.", _table(data, tables.all_metrics(data))
    )
    for one in data.get("prompts", ()):
        if lines := prompt_changes(one):
            marked = (tag("span", line + "\n", cls=_DIFF.get(line[:1], "same")) for line in lines)
            yield _section(
                f"The compiled prompt: {one['predictor']}",
                "What the language model is sent about one turn: compiled against uncompiled.",
                tag("pre", *marked, cls="diff"),
            )
    for title, table, note in (*tables.further(data), *comparison.sections(data)):
        if table.rows:
            yield _section(title, note, _table(data, table))
    if data["examples_changed"]:
        before, after = data["compared"]
        yield _section(
            "What changed",
            f"A few turns that {before} and {after} decide differently.",
            *(_change(one, before, after) for one in data["examples_changed"]),
        )


def _choosing(data: dict[str, Any]) -> Iterator[Markup]:
    """How the selection of flows was fitted: gates, confidence, recall, open set."""
    held = tables.choosing(data)
    if held.get("words"):
        words = tag("ul", *(tag("li", text) for text in held["words"]))
        yield _section("What decided the gates", "", words)
    if held.get("reliability"):
        note = "Each turn judged by a model that saw no turn of its conversation."
        plot = figures.reliability("Confidence of the local head, out of fold", held["reliability"]["bins"])
        yield _section(
            "Is the head's confidence to be believed",
            _calibration(data, note, "/choosing/reliability"),
            _split(plot, _table(data, tables.head_trust(data))),
        )
    if held.get("recall"):
        note = "On training turns, each without its own conversation."
        yield _section("Recall, by choice", note, _table(data, tables.recall(data), _race_mark))
    if held.get("open_set"):
        note = "Scores that tell turns that want a flow from others."
        yield _section("Open set", note, _table(data, tables.open_set(data), _race_mark))


def _calibration(data: dict[str, Any], note: str, at: str) -> Markup:
    return join(f"{note} Expected calibration error: ", _figure(data, f"{at}/ece", "share"), " points.")


def _split(plot: Markup, table: Markup) -> Markup:
    return tag("div", plot, table, cls="split")


def _foot(data: dict[str, Any]) -> Markup:
    notes = [join(tag("dt", one["name"]), tag("dd", one["note"])) for one in data["systems"] if one["note"]]
    return tag(
        "footer",
        tag("h2", "How this was made"),
        tag("dl", *notes, *(join(tag("dt", key), tag("dd", value)) for key, value in data["facts"].items())),
        join(tag("h3", "To reproduce"), tag("pre", data["reproduce"])) if data["reproduce"] else None,
        _details("The recipe", tag("pre", data["recipe"])) if data.get("recipe") else None,
        _details("The dataset's card", tag("pre", data["card"], cls="text")) if data.get("card") else None,
    )


def _section(title: str, note: str | Markup, *content: Markup | None) -> Markup:
    return tag("section", tag("h2", title), tag("p", note, cls="note") if note else None, *content)


def _details(title: str, content: Markup) -> Markup:
    return tag("details", tag("summary", title), content)


def _change(one: dict[str, Any], before: str, after: str) -> Markup:
    verdict = tables.VERDICTS[one["better"]]
    answers = ((before, one["before"]), (after, one["after"]), ("Wanted", one["wanted"]))
    return tag(
        "div",
        tag("blockquote", one["message"]),
        tag("dl", *(join(tag("dt", name), tag("dd", answer)) for name, answer in answers)),
        tag("span", verdict, cls=f"badge {verdict}"),
        cls="change",
    )


def _race_mark(row: tuple[Cell, ...]) -> str:
    return "kept" if {"kept", "ships"} & {cell for cell in row if isinstance(cell, str)} else "dropped"


def _table(data: dict[str, Any], table: Table, mark: Any = None) -> Markup:
    if not table.rows:
        return Markup("")
    head = tag("tr", *(_head(name, i, table) for i, name in enumerate(table.header)))
    rows = []
    for number, row in enumerate(table.rows):
        cls = "strong" if number == table.strong else mark(row) if mark else ""
        hint = table.hints[number] if table.hints else None
        cells = [_cell(data, cell, i, table, hint if i == 0 else None) for i, cell in enumerate(row)]
        rows.append(tag("tr", *cells, cls=cls))
    inner = tag("table", tag("thead", head), tag("tbody", *rows), id=f"table-{table.name}")
    return tag("div", inner, cls="scroll", tabindex="0")


def _head(name: str, column: int, table: Table) -> Markup:
    return tag("th", name, scope="col", cls="" if column < table.texts else "n")


def _cell(data: dict[str, Any], cell: Cell, column: int, table: Table, hint: str | None) -> Markup:
    cls = "" if column < table.texts else "n"
    if isinstance(cell, str):
        below = tag("small", hint) if hint else None
        return tag("td", cell, below, cls=cls)
    return tag("td", *_figures(data, cell), cls=cls)


def _figures(data: dict[str, Any], cell: Figure) -> Sequence[Markup]:
    value, *bounds = (_figure(data, path, cell.kind) for path in cell.paths)
    if not bounds:
        return [value]
    if resolve(data, cell.paths[0]) is None:
        return [Markup(shown(None, cell.kind))]
    inner = ", ".join(bounds) if resolve(data, cell.paths[1]) is not None else TOO_FEW
    return [value, join(" ", tag("small", Markup(f"[{inner}]")))]


def _figure(data: dict[str, Any], path: str, kind: str) -> Markup:
    return tag("data", shown(resolve(data, path), kind), value=path, data_kind=kind)
