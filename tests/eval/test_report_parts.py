"""Reports of runs in which much is missing, or large: what says nothing is left out, and counts fit their rows (V4)."""

from __future__ import annotations

import io
import itertools
import json
import re
from html import unescape
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from jazzmine_dspy.datasets import Example
from jazzmine_dspy.eval import evaluate
from jazzmine_dspy.eval.report import Report, System, terminal_table, write_document, write_report
from jazzmine_dspy.eval.report.charts import Dot, Scale, named_places, tick_labels
from jazzmine_dspy.optimize.confidence import ConfidenceRow, set_gate
from jazzmine_dspy.optimize.findings import gate_words
from tests.support.report_page import Page
from tests.support.report_runs import LONG, runs

pytestmark = pytest.mark.row("V4")

SHIPPED = Path(__file__).resolve().parents[2] / "eval" / "reports" / "support"


@pytest.fixture(scope="module")
def reports(noisy: Any, support: list[Example], support_flows: list[str]) -> dict[str, Report]:
    return runs(noisy, support[:260], support_flows)


@pytest.fixture(scope="module")
def texts(reports: dict[str, Report], tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[str, str]]:
    """Page and Markdown by run."""
    found = {}
    for name, report in reports.items():
        paths = write_report(report, tmp_path_factory.mktemp(name))
        found[name] = (unescape(paths.html.read_text("utf-8")), paths.markdown.read_text("utf-8"))
    return found


@pytest.mark.parametrize("which", ["local", "one", "crashed"])
def test_without_a_language_model_nothing_is_said_of_one(
    which: str, reports: dict[str, Report], texts: dict[str, tuple[str, str]]
) -> None:
    for text in texts[which]:
        assert not re.findall(
            r"LM|[Tt]okens|[Cc]ost per|What it costs", text.partition("</style>")[2] or text
        )
    Console(file=(stream := io.StringIO()), width=80, color_system=None).print(terminal_table(reports[which]))
    assert not re.findall(r"LM|tokens", stream.getvalue())


def test_with_a_language_model_its_calls_tokens_and_plot_are_there(texts: dict[str, tuple[str, str]]) -> None:
    page, markdown = texts["long"]
    assert "LM calls per turn" in markdown
    assert "Prompt tokens per turn" in markdown
    assert "<h2>What it costs</h2>" in page


def test_columns_and_colours_without_a_case_are_left_out(texts: dict[str, tuple[str, str]]) -> None:
    page, crashed = (Page(texts[name][0]) for name in ("local", "crashed"))
    assert not {"Degraded", "Crashed", "Cost per turn"} & set(page.tables["table-headline"][0])
    assert "Refused" not in page.tables["table-wrong"][0]
    assert "Crashed" in crashed.tables["table-headline"][0]
    for which, outcomes in (("local", ["right", "wrong"]), ("crashed", ["right", "wrong", "crashed"])):
        legends = re.findall(r'<p class="legend">.*', texts[which][0])
        assert outcomes in [re.findall(r"</i>(\w+)</span>", one) for one in legends]


def test_a_column_that_nothing_was_measured_for_is_left_out(support: list[Example], gold: Any) -> None:
    labels = support[0].labels.model_copy(update={"enhanced": None})
    unlabelled = support[0].model_copy(update={"labels": labels})

    class Right:
        def decide(self, turn: Any, /, *, exclude: tuple[str, ...] = ()) -> Any:
            return gold(support[0].labels, turn)

    columns = []
    for example in (support[0], unlabelled):
        found = Report("t", "f", [System("only", evaluate(Right(), [example]))])
        Console(width=80, file=(stream := io.StringIO())).print(terminal_table(found))
        columns.append([name in stream.getvalue() for name in ("flows", "rewrite", "complete")])
    assert columns[0][0]
    assert any(columns[0][1:])
    assert columns[1] == [True, False, False]


def test_sections_that_say_nothing_are_left_out(texts: dict[str, tuple[str, str]]) -> None:
    one, crashed, local = (
        re.findall("<h2>(.*?)</h2>", texts[name][0]) for name in ("one", "crashed", "local")
    )
    # One program is no choice, one bin no curve, and there are no facts.
    assert not {"What could have shipped", "How this was made"} & {*one, *local}
    assert "Calibration of the confidence: shipped" not in one
    assert "Calibration of the confidence: shipped" in local
    assert "Decided in" not in texts["crashed"][0]
    assert "What more labels bring" in crashed


def test_one_number_of_conversations_is_no_curve_and_right_answers_are_no_confusion(tmp_path: Path) -> None:
    data = json.loads((SHIPPED / "report.json").read_text("utf-8"))
    data["learning"] = data["learning"][:1]
    data["learning_words"] = ""
    shipped = data["systems"][data["shipped"]]
    shipped["confusions"] = [one for one in shipped["confusions"] if one["wanted"] == one["answered"]]
    page = write_document(data, tmp_path).html.read_text("utf-8")
    assert "What more labels bring" not in page
    assert "Confused flows" not in page


def test_words_of_the_gate_name_a_language_model_only_where_there_is_one() -> None:
    rows = [ConfidenceRow({}, n > 4, str(n)) for n in range(30)]
    fitted: Any = SimpleNamespace(gate=set_gate([n / 30 for n in range(30)], rows))
    with_one, without = (" ".join(gate_words(fitted, 0.1, has_lm)) for has_lm in (True, False))
    assert "% are left to the language model)" in with_one
    assert "language model" not in without
    assert f"{fitted.gate.accepted} of 30 judged turns pass)" in without


@pytest.mark.parametrize("which", ["local", "one", "crashed", "long"])
def test_a_count_in_words_is_that_of_the_rows(which: str, texts: dict[str, tuple[str, str]]) -> None:
    page, markdown = texts[which]
    tables = Page(page).tables
    for section, table, noun in (
        ("Wrong turns", "wrong", "turn"),
        ("Confused flows", "confusions", "confusion"),
    ):
        if f"## {section}" not in markdown:
            continue
        note = markdown.split(f"## {section}")[1].splitlines()[2]
        shown = len(tables[f"table-{table}"]) - 1
        total = re.search(rf"([\d,]+) {noun}(s?)\b", note)
        assert total is not None
        assert (total[1] == "1") is not bool(total[2])
        if note.startswith("The first"):
            assert note.startswith(f"The first {shown} of ")
            assert int(total[1]) > shown
        else:
            assert int(total[1]) == shown
    assert not re.findall(r"\b1 turns\b", page)
    # A score of the tiles is over the turns that it is scored on, not over all.
    tile = re.search(r"Complete messages kept</span>.*?([\d,]+) turns?</span></div>", page, re.DOTALL)
    kept = next((row for row in tables["table-metrics"] if row[0] == "Complete messages kept"), None)
    assert (tile and tile[1]) == (kept and kept[-1])


def test_conversations_and_turns_are_counted_apart(tmp_path: Path) -> None:
    data = json.loads((SHIPPED / "report.json").read_text("utf-8"))
    rows = Page(write_document(data, tmp_path).html.read_text("utf-8")).tables["table-replay"]
    assert rows[0] == ["What", "Share, %", "Conversations", "Turns"]
    replay = data["replay"]
    assert [row[2:] for row in rows[1:]] == [
        *[[str(replay["conversations"]), ""]] * 2,
        *[["", str(replay["after_first_error"]["turns"])]] * 2,
    ]


def test_long_names_of_flows_can_be_told_apart(texts: dict[str, tuple[str, str]]) -> None:
    plot = texts["long"][0].partition("Expected and answered flows")[2].partition("</svg>")[0]
    names = [
        name for name in re.findall(r'<text class="t small"[^>]*>(.*?)</text>', plot) if name != "(none)"
    ]
    assert len(set(names)) == len(names) == len(LONG)
    assert max(map(len, names)) <= 24
    places = re.findall(r'class="t small" x="([\d.]+)"[^>]*>(.*?)</text>', plot)
    assert min(float(x) - 7 * len(name) for x, name in places) >= 0


@pytest.mark.parametrize(
    "values",
    [[0, 1, 2, 4, 8, 103], [0, 13, 26, 52, 103], [0, 1000, 1001], [5], list(range(40))],
    ids=str,
)
@pytest.mark.parametrize("pixels", [1.0, 3.0])
def test_labels_of_an_axis_do_not_overlap(values: list[float], pixels: float) -> None:
    labels = tick_labels(Scale(0, max(values), 0, 100 * pixels), values, "{:,}".format)
    spans = []
    for x, words, anchor in labels:
        wide = 6.5 * len(words)
        start = x - wide * {"start": 0, "middle": 0.5, "end": 1}[anchor]
        spans.append((start, start + wide))
    assert labels[0][1] == f"{values[-1]:,}"
    assert all(right[0] > left[1] for right, left in itertools.pairwise(spans))


def test_names_of_a_scatter_stand_beside_dots_and_each_other() -> None:
    points = [
        Dot("shipped, then the LM", 0.99, 0.95, 1.0, "s4", x=416),
        Dot("LM as written", 0.98, 0.94, 1.0, "s2", x=823),
        Dot("LM compiled", 0.98, 0.94, 1.0, "s3", x=1297),
        Dot("base", 0.85, 0.8, 0.9, "s1", x=0),
        Dot("shipped", 0.86, 0.8, 0.9, "ship", strong=True, x=0),
    ]
    across, up = Scale(0, 1375, 48, 364), Scale(0.7, 1.0, 268, 26)
    boxes = []
    for point, x, y, anchor in named_places(points, across, up, 380):
        wide = 6 * len(point.name)
        boxes.append((x - wide if anchor == "end" else x, y, wide))
        assert boxes[-1][0] >= 0
        assert boxes[-1][0] + wide <= 380
    for at, (x, y, wide) in enumerate(boxes):
        for other_x, other_y, other_wide in boxes[:at]:
            assert abs(y - other_y) >= 12 or x > other_x + other_wide or other_x > x + wide
        for point in points:
            dot = (across(point.x), up(point.value))
            assert abs(y - 4 - dot[1]) >= 12 or not x - 5 < dot[0] < x + wide + 5
