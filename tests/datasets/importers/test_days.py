"""Days of a table: they date the turns, by a column of their own or by the one that orders the rows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from jazzmine_dspy.datasets import check_dataset, load_dataset
from jazzmine_dspy.datasets.importers import ImportReport, import_dataset

pytestmark = pytest.mark.row("D8")

FLOWS = """\
flows:
  - name: rent_kayak
    description: Rent a kayak.
    slots: [{name: day, type: date, ask: "Which day?"}]
"""


def imported(folder: Path, table: str, flows: str = FLOWS, **columns: str) -> ImportReport:
    (folder / "flows.yaml").write_text(flows, "utf-8")
    path = folder / "table.csv"
    path.write_text(table, "utf-8")
    return import_dataset(
        "csv", path, out=folder / "made", flows=folder, columns=columns, replace=True, seed=1
    )


def dated(folder: Path) -> list[tuple[str | None, list[str | None]]]:
    lines = (folder / "made" / "conversations.jsonl").read_text("utf-8").splitlines()
    return [(each.get("date"), [t.get("date") for t in each["turns"]]) for each in map(json.loads, lines)]


DAYS = {
    "2026-03-02T10:15Z": "2026-03-02",
    "2026-03-02T23:15:00-05:00": "2026-03-02",
    "2026-03-02 10:15:00+00:00": "2026-03-02",
    "2026-03-02 10:15:00.123456789": "2026-03-02",
    "2026-03-02": "2026-03-02",
    '"2026/03/02, 9:58 AM"': "2026-03-02",
    "31/12/2025 10:15": "2025-12-31",
    "12/31/2025 10:15": "2025-12-31",
    "2.3.2026 10:15": "2026-03-02",
    "1772446500": "2026-03-02",
    "1772446500.25": "2026-03-02",
    "1772446500123": "2026-03-02",
    # May be one of two days, or none at all.
    "3/2/2026 10:15": None,
    "3/2/26": None,
    "10:15": None,
    "12": None,
    "20260302": None,
    "46083": None,
}


@pytest.mark.parametrize("stamp", DAYS)
def test_the_day_of_a_stamp_dates_the_turns(tmp_path: Path, stamp: str) -> None:
    report = imported(tmp_path, f"text,flow,order\nhello,none,{stamp}\n")
    assert dated(tmp_path) == [(DAYS[stamp], [None])]
    dates = [note for note in report.notes if "dated by the column 'order'" in note]
    assert len(dates) == (DAYS[stamp] is not None)
    assert any("have no date" in note for note in report.notes) is (DAYS[stamp] is None)


@pytest.mark.parametrize("stamp", DAYS)
def test_a_column_of_days_dates_the_turns(tmp_path: Path, stamp: str) -> None:
    report = imported(tmp_path, f"text,flow,at\nhello,none,{stamp}\nwell,none,\n", date="at")
    if DAYS[stamp] is None:
        [bad] = report.bad_rows
        assert bad.line == 2
        assert bad.cause.startswith("Column 'at': ")
        assert "2026-03-02" in bad.cause
    named = [(DAYS[stamp], [None])] if DAYS[stamp] else []
    assert dated(tmp_path) == [*named, (None, [None])]


def test_a_conversation_of_several_days_counts_from_each(tmp_path: Path) -> None:
    table = """\
conversation,role,text,flow,slots,order
1,user,a kayak tomorrow,rent_kayak,day=tomorrow,2026-03-02T10:15Z
1,agent,It is yours.,,,2026-03-02T10:16Z
1,user,one more tomorrow,rent_kayak,day=tomorrow,2026-03-09T08:00Z
1,user,thanks,none,,2026-03-09T08:01Z
"""
    imported(tmp_path, table)
    assert dated(tmp_path) == [("2026-03-02", [None, None, "2026-03-09", "2026-03-09"])]
    dataset = load_dataset(tmp_path / "made")
    dataset.open_test("test")
    examples = dataset.examples(*set(dataset.roles.values()))
    assert [str(each.turn.date) for each in examples] == ["2026-03-02", "2026-03-09", "2026-03-09"]
    values = [c.value for each in examples for c in each.labels.commands or () if c.type != "start_flow"]
    assert values == ["2026-03-03", "2026-03-10"]
    assert not [each for each in check_dataset(tmp_path / "made").problems if "date" in each.message]


def test_days_of_their_own_column_come_first(tmp_path: Path) -> None:
    imported(tmp_path, "text,flow,order,date\nhello,none,2026-03-02T10:15Z,2026-03-01\n")
    assert dated(tmp_path) == [("2026-03-01", [None])]


def warned(folder: Path) -> list[Any]:
    return [each for each in check_dataset(folder / "made").warnings if "date" in each.message]


def test_conversations_without_a_date_are_reported_where_flows_have_slots_of_days(tmp_path: Path) -> None:
    table = "text,flow,date\nhello,none,\nwell,none,2026-03-02\na kayak,rent_kayak,\n"
    report = imported(tmp_path, table)
    [problem] = warned(tmp_path)
    assert "2 of 3 conversations have no date" in problem.message
    assert problem.line == 1
    assert "--map date=COLUMN" in problem.remedy
    assert any(problem.message in note for note in report.notes)
    no_days = "flows: [{name: rent_kayak, description: Rent a kayak.}]\n"
    imported(tmp_path, table, no_days)
    assert warned(tmp_path) == []


@pytest.mark.parametrize(
    ("text", "value", "disagrees"),
    [
        ("a kayak on thursday", "2026-03-05", False),
        ("a kayak on thursday", "2026-03-12", True),
        ("a kayak tomorrow", "2026-11-29", True),
        ("from friday to sunday", "2026-03-08", False),
        ("a kayak on 2026-04-01", "2026-04-01", False),
        ("the one we talked about", "2026-03-12", False),
    ],
)
def test_a_relative_word_and_its_label_disagree(
    tmp_path: Path, text: str, value: str, disagrees: bool
) -> None:
    imported(tmp_path, f"text,flow,slots,date\n{text},rent_kayak,day={value},2026-03-02\n")
    said = warned(tmp_path)
    assert len(said) == disagrees
    if disagrees:
        assert (said[0].line, said[0].field) == (1, "turns.0.labels.commands.1.value")
        assert value in said[0].message
        assert "2026-03-02" in said[0].message
