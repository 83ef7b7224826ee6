"""The report: one page, and Markdown and JSON of the same figures (V4)."""

from __future__ import annotations

import io
import json
import math
import re
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from markupsafe import escape
from rich.console import Console

from jazzmine_dspy.datasets import Example
from jazzmine_dspy.eval import Evaluation, evaluate
from jazzmine_dspy.eval.reliability import reliability_of
from jazzmine_dspy.eval.report import (
    CandidateRow,
    Change,
    Choosing,
    Gain,
    LearningPoint,
    OpenSetScore,
    Paths,
    Prompt,
    RecallChoice,
    Report,
    System,
    terminal_table,
    write_document,
    write_report,
)
from jazzmine_dspy.models import JazzmineError
from tests.support.report_page import Page

pytestmark = pytest.mark.row("V4")

NASTY = "<script>alert('x')</script> & \"quoted\" | pipe"
SCALE = {"share": 100.0, "points": 100.0}
STEP = {
    "share": 0.1,
    "points": 0.1,
    "error": 0.001,
    "count": 1.0,
    "calls": 0.01,
    "tokens": 1.0,
    "money": 1e-6,
}


def _resolve(data: Any, pointer: str) -> Any:
    """RFC 6901, written apart from the code under test."""
    for step in pointer[1:].split("/"):
        key = step.replace("~1", "/").replace("~0", "~")
        data = data[int(key)] if isinstance(data, list) else data[key]
    return data


@pytest.fixture(scope="module")
def report(support: list[Example], support_flows: list[str], noisy: Any) -> Report:
    turns = support[:260]

    def run(**settings: Any) -> Evaluation:
        return evaluate(noisy(turns, support_flows, **settings), turns, price=(0.1, 0.4))

    base = run(quality=0.5, source="fallback", seed=1)
    plain = run(quality=0.6, seed=2, degraded=0.05, crashed=0.02)
    compiled = run(quality=0.8, seed=2, tokens=600)
    shipped = run(quality=0.9, source="local", seed=3)
    return Report(
        title=f"support {NASTY}",
        verdict=f"It gets better {NASTY}",
        prompts=[Prompt("fused", f"Say it.\n{NASTY}\nBriefly.", f"Say it.\n{NASTY}\nIn full: {NASTY}")],
        card=f"# Card\n\n{NASTY}",
        recipe=f'name = "{NASTY}"',
        first_line=f"The heads carry it {NASTY}",
        systems=[
            System("TF-IDF", run(quality=0.55, source="local"), covers=frozenset({"flow_set_exact"})),
            System("base", base, note=NASTY),
            System("LM as written", plain),
            System("LM compiled", compiled),
            System("Shipped", shipped, shipped=True),
        ],
        candidates=[
            CandidateRow("base", 0.5, False, NASTY),
            CandidateRow(
                f"local {NASTY}",
                0.9,
                True,
                "best",
                0.4,
                shipped.shared_difference(base, "flow_set_exact"),
                0.35,
                260,
            ),
        ],
        learning=[
            LearningPoint(0, base.metrics["flow_set_exact"]),
            LearningPoint(40, plain.metrics["flow_set_exact"]),
            LearningPoint(80, shipped.metrics["flow_set_exact"]),
        ],
        learning_words=f"Twice the labels bring more {NASTY}",
        gains=[Gain("Compiling", "commands_exact", compiled.shared_difference(plain, "commands_exact"))],
        facts={"Recipe": NASTY, "Seed": "0"},
        reproduce=f"jazzmine-dspy optimize {NASTY}",
        examples_changed=[Change(NASTY, "a", "b", "c", True), Change("x", "a", "b", "c", None)],
        choosing=Choosing(
            words=[f"certified {NASTY}", "the language model is dropped"],
            recall=[
                RecallChoice(f"one vector {NASTY}", 0.5, 0.75, 0.875, 8),
                RecallChoice("all", 0.625, 0.75, 1.0, 8, kept=True),
            ],
            reliability=reliability_of([(0.91, 1.0), (0.88, 1.0), (0.42, 0.0), (0.4, 1.0)]),
            open_set=[
                OpenSetScore("energy", {"AUC": 0.97, "recall": 0.7}, kept=True),
                OpenSetScore("softmax", {"AUC": 0.96}),
            ],
        ),
    )


@pytest.fixture(scope="module")
def written(report: Report, tmp_path_factory: pytest.TempPathFactory) -> Paths:
    return write_report(report, tmp_path_factory.mktemp("report") / "deep")


@pytest.fixture(scope="module")
def page(written: Paths) -> Page:
    return Page(written.html.read_text("utf-8"))


@pytest.fixture(scope="module")
def data(written: Paths) -> Any:
    return json.loads(written.json.read_text("utf-8"), parse_constant=pytest.fail)


def test_every_figure_of_the_page_is_that_of_the_json(page: Page, data: Any) -> None:
    assert len(page.figures) > 800
    for pointer, kind, text in page.figures:
        try:
            value = _resolve(data, pointer)
        except (KeyError, TypeError):
            value = None
        if value is None:
            assert text == "\u2013", pointer
            continue
        said = float(text.replace(",", ""))
        step = STEP.get(kind) or (0.01 if value < 9.99 else 1.0)
        assert abs(said - value * SCALE.get(kind, 1.0)) <= step / 2 + 1e-9, (pointer, text, value)


def test_tables_hold_no_other_figures(page: Page) -> None:
    assert [text for text in page.bare if re.search(r"\d", text)] == []


def test_the_tables_hold_what_they_should(page: Page, data: Any, written: Paths) -> None:
    shown = {pointer for pointer, _, _ in page.figures}
    metrics = {
        f"/systems/{i}/metrics/{name.replace('/', '~1')}/{part}"
        for i, system in enumerate(data["systems"])
        for name in system["metrics"]
        for part in ("value", "low", "high")
        if system["metrics"][name][part] is not None
    }
    assert metrics <= shown
    assert len(page.tables["table-headline"]) == 1 + 5
    assert [row[0] for row in page.tables["table-headline"][1:]] == [one["name"] for one in data["systems"]]
    assert set(data["systems"][0]["metrics"]) == {"flow_set_exact"}
    assert data["systems"][0]["outcomes"] is None
    assert [row[:2] for row in page.tables["table-recall"][1:]] == [
        [f"one vector {NASTY}", "dropped"],
        ["all", "kept"],
    ]
    assert page.tables["table-recall"][2][2:] == ["62.5", "75.0", "100.0", "8"]
    assert page.tables["table-open-set"][2] == ["softmax", "dropped", "96.0", "\u2013"]
    assert "the language model is dropped" in written.html.read_text("utf-8")


@pytest.mark.row("C3")
def test_the_calibration_of_the_head_is_reported(page: Page, data: Any, written: Paths) -> None:
    found = data["choosing"]["reliability"]
    assert found["n"] == 4
    assert ("/choosing/reliability/ece", "share", f"{100 * found['ece']:.1f}") in page.figures
    assert len(page.tables["table-head-reliability"]) == 1 + len(found["bins"])
    assert f"error: {100 * found['ece']:.1f} points" in written.markdown.read_text("utf-8")


def _markdown_tables(text: str) -> list[list[list[str]]]:
    tables: list[list[list[str]]] = []
    inside = False
    for line in text.splitlines():
        if not line.startswith("|"):
            inside = False
            continue
        cells = [
            unescape(re.sub(r"\\(.)", r"\1", cell)).strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]
        ]
        if not inside:
            tables.append([])
        inside = True
        if not all(re.fullmatch(r"-+:?", cell) for cell in cells):
            tables[-1].append(cells)
    return tables


def test_markdown_has_the_same_tables(page: Page, written: Paths) -> None:
    tables = _markdown_tables(written.markdown.read_text("utf-8"))
    by_header = {tuple(table[0]): table for table in tables}
    compared = 0
    for table in page.tables.values():
        flat = [[" ".join(cell.split()) for cell in row] for row in table]
        theirs = by_header[tuple(flat[0])]
        assert theirs == flat
        compared += 1
    assert compared >= 10
    assert {len(row) for table in tables for row in table} <= set(range(2, 15))


def test_the_page_needs_nothing_else(page: Page, written: Paths) -> None:
    text = written.html.read_text("utf-8")
    assert not {"script", "link", "img", "iframe", "object", "a"} & {tag for tag, _ in page.tags}
    assert not re.findall(r"@import|url\(|src=|href=|\bon\w+=", text)
    assert set(re.findall(r"https?://[^\"'\s<]+", text)) == {"http://www.w3.org/2000/svg"}
    assert "prefers-color-scheme: dark" in text
    assert len(text) < 1_000_000


def test_texts_are_escaped_everywhere(page: Page, written: Paths) -> None:
    text = written.html.read_text("utf-8")
    assert "<script" not in text
    assert text.count("&lt;script&gt;") >= 7
    assert "<script" not in re.sub(r"^    .*$", "", written.markdown.read_text("utf-8"), flags=re.MULTILINE)


def test_the_verdict_comes_first(page: Page, written: Paths) -> None:
    text = unescape(written.html.read_text("utf-8"))
    assert f"<h1>It gets better {NASTY}</h1>" in text
    assert text.index("It gets better") < text.index("The heads carry it")
    lines = written.markdown.read_text("utf-8").splitlines()
    assert lines[2].startswith("**It gets better")


def test_the_compiled_prompt_is_shown_as_a_difference(written: Paths) -> None:
    text = written.html.read_text("utf-8")
    assert f'<span class="removed">-Briefly.\n</span><span class="added">+In full: {escape(NASTY)}' in text
    assert "    -Briefly." in written.markdown.read_text("utf-8")


def test_there_is_a_figure_by_place_command_and_flow(
    page: Page, report: Report, support: list[Example]
) -> None:
    shipped = report.systems[-1].evaluation
    for kind, wanted in {
        "place": {"opening", "a flow is running"},
        "command": {c.type for e in support[:260] for c in e.labels.commands or ()}
        | {"no command" for e in support[:260] if e.labels.commands == ()},
        "flow": {f for e in support[:260] for f in (*(e.labels.flows or ()), e.turn.flow) if f},
    }.items():
        assert set(shipped.parts[kind]) == wanted
        shown = page.tables[f"table-by-{kind}"][1:]
        assert len(shown) == len(wanted)
        assert [int(row[1]) for row in shown] == [n for n, _ in shipped.parts[kind].values()]
    running = [e for e in support[:260] if e.turn.flow]
    assert shipped.parts["place"]["a flow is running"][0] == len(running)
    value = shipped.parts["place"]["a flow is running"][1]["flow_set_exact"].value
    right = [t.scores["flow_set_exact"].value for t in shipped.turns if t.example.turn.flow]
    assert value == pytest.approx(sum(right) / len(right))


def test_plots_are_there_and_described(page: Page) -> None:
    labels = [held["aria-label"] or "" for tag, held in page.tags if tag == "svg"]
    assert len(labels) >= 12
    wanted = (
        "by system",
        "prompt tokens",
        "Outcomes",
        "Gains",
        "by source",
        "answered flows",
        "Confidence of the selection",
        "Confidence of the local head",
        "by kind",
    )
    assert [one for one in wanted if not any(one in label for label in labels)] == []
    for tag, held in page.tags:
        for key, value in held.items():
            assert not (key in ("x", "y", "cx", "cy", "width", "d") and "nan" in (value or "")), (tag, key)


def test_dots_stand_where_their_values_are(written: Paths, data: Any) -> None:
    text = written.html.read_text("utf-8")
    plot = next(
        one for one in re.findall(r"<svg.*?</svg>", text, re.DOTALL) if "All commands right, percent" in one
    )
    places = [float(x) for x in re.findall(r'<circle class="dot" cx="([\d.]+)%"', plot)]
    spans = [
        tuple(map(float, pair)) for pair in re.findall(r'class="whisker" x1="([\d.]+)%" x2="([\d.]+)%"', plot)
    ]
    held = [one["metrics"]["commands_exact"] for one in data["systems"][1:]]
    scale = (places[-1] - places[0]) / (held[-1]["value"] - held[0]["value"])
    assert len(places) == 4
    assert scale > 0
    for place, (low, high), metric in zip(places, spans, held, strict=True):
        assert place == pytest.approx(places[0] + scale * (metric["value"] - held[0]["value"]), abs=0.1)
        assert low == pytest.approx(place + scale * (metric["low"] - metric["value"]), abs=0.1)
        assert high == pytest.approx(place + scale * (metric["high"] - metric["value"]), abs=0.1)


def test_outages_are_said_first(page: Page, written: Paths, data: Any) -> None:
    lame = data["systems"][2]
    assert lame["crashed"] > 0
    assert lame["degraded"] > 0
    words = f"LM as written: {lame['crashed']} crashed, {lame['degraded']} degraded of {lame['n']}"
    text = written.html.read_text("utf-8")
    assert text.index(words) < text.index("<section")
    rows = [row for row in page.tables["table-errors"][1:] if row[1] == "crashed"]
    # A foreign error is told by its class: its text may quote a key or the user.
    assert rows == [["LM as written", "crashed", "RuntimeError", str(lame["crashed"])]]


def test_a_report_is_made_again_from_its_json(written: Paths, data: Any, tmp_path: Path) -> None:
    again = write_document(data, tmp_path)
    for first, second in zip(written, again, strict=True):
        assert first.read_bytes() == second.read_bytes()


def test_a_report_with_little_in_it(tmp_path: Path, support: list[Example], gold: Any) -> None:
    class Bare:
        def decide(self, turn: Any, /, *, exclude: tuple[str, ...] = ()) -> Any:
            return gold(support[0].labels, turn).model_copy(update={"stages": {}})

    found = evaluate(Bare(), support[:1])
    paths = write_report(Report("t", "f", [System("only", found, covers=frozenset())]), tmp_path)
    Page(paths.html.read_text("utf-8"))
    crashed = evaluate(Bare.__new__(type("None", (), {"decide": lambda *a, **k: 1 / 0})), support[:2])
    paths = write_report(Report("t", "f", [System("broken", crashed)]), tmp_path)
    Page(paths.html.read_text("utf-8"))
    assert not math.isnan(
        json.loads(paths.json.read_text("utf-8"))["systems"][0]["metrics"]["flow_set_exact"]["value"]
    )


@pytest.mark.row("V2")
def test_where_conversations_are_too_few_the_report_says_so(
    support: list[Example], support_flows: list[str], noisy: Any, tmp_path: Path
) -> None:
    """Under ten of them: no bound in the JSON, words in page, Markdown and terminal, dots without lines in plots."""
    kept = set(list(dict.fromkeys(example.conversation_id for example in support))[:9])
    turns = [example for example in support if example.conversation_id in kept]
    good, bad = (evaluate(noisy(turns, support_flows, quality=quality), turns) for quality in (0.9, 0.4))
    gain = Gain("Compiling", "commands_exact", good.shared_difference(bad, "commands_exact"))
    judged = [
        CandidateRow("local", 0.9, True, "best", 0.0, good.shared_difference(bad, "flow_set_exact"), 0.4)
    ]
    curve = [
        LearningPoint(number, found.metrics["flow_set_exact"]) for number, found in ((0, bad), (9, good))
    ]
    systems = [System("bad", bad), System("good", good)]
    report = Report("t", "f", systems, candidates=judged, learning=curve, gains=[gain])
    paths = write_report(report, tmp_path)
    data = json.loads(paths.json.read_text("utf-8"))
    assert data["systems"][0]["metrics"]["flow_set_exact"]["low"] is None
    assert (data["gains"][0]["difference"]["low"], data["gains"][0]["difference"]["high"]) == (None, None)
    html, markdown = paths.html.read_text("utf-8"), paths.markdown.read_text("utf-8")
    assert "[" not in Page(html).tables["table-headline"][1][1] + Page(html).tables["table-gains"][1][2]
    assert "no interval: under 10 conversations" in html
    plot = html[html.index("percent, by system") :].partition("</svg>")[0]
    assert ('class="dot"' in plot, 'class="whisker"' in plot) == (True, False)
    value = f"{100 * data['systems'][0]['metrics']['flow_set_exact']['value']:.1f}"
    assert f"| {value} |" in unescape(markdown)
    assert markdown.count("under 10 of them there is none") == 1
    Console(width=80, file=(stream := io.StringIO())).print(terminal_table(report))
    shown = stream.getvalue()
    assert shown.count("none under 10") == 1
    assert shown.count(f"{len(turns)} turns") == 2


def test_bad_input_is_refused(report: Report, data: Any, tmp_path: Path) -> None:
    with pytest.raises(JazzmineError, match="no systems"):
        write_report(Report("t", "f", []), tmp_path)
    with pytest.raises(JazzmineError, match="format 99"):
        write_document({**data, "format": 99}, tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(JazzmineError, match="Cannot write the report"):
        write_report(report, tmp_path / "file" / "below")


def test_the_terminal_shows_five_rows_in_80_columns(report: Report, data: Any) -> None:
    stream = io.StringIO()
    Console(file=stream, width=80, color_system=None).print(terminal_table(report))
    text = stream.getvalue()
    assert "…" not in text
    assert terminal_table(report).row_count == 5
    for system in data["systems"]:
        line = next(line for line in text.splitlines() if line.strip().startswith(system["name"]))
        assert f"{100 * system['metrics']['flow_set_exact']['value']:.1f}" in line
        assert f"{system['usage']['prompt_tokens_per_turn']:,.0f}" in line
