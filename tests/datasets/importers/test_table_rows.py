"""Rows of a table are sorted by numbers or by times; where the order is unknown, the conversation is left out."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from jazzmine_dspy.datasets.importers import ImportReport, import_dataset


def imported(folder: Path, places: tuple[str, ...]) -> tuple[ImportReport, list[str]]:
    """Imports one conversation with a row for each place, and gives the places in the order of its turns."""
    path = folder / "table.csv"
    rows = "".join(f'1,"say {place}",none,"{place}"\n' for place in places)
    # A second conversation, so that one that is left out does not leave the dataset empty.
    path.write_text(f"conversation,text,flow,order\n{rows}2,well,none,1\n", "utf-8")
    report = import_dataset("csv", path, out=folder / "made")
    lines = (folder / "made" / "conversations.jsonl").read_text("utf-8").splitlines()
    turns = {data["id"]: data["turns"] for data in map(json.loads, lines)}
    return report, [turn["text"].removeprefix("say ") for turn in turns.get("1", [])]


@pytest.mark.row("D8")
@pytest.mark.parametrize(
    "places",
    [
        ("9:58", "10:01"),
        ("9:58:30", "10:01:05.250", "10:01:06"),
        ("9:58 AM", "10:01 am", "12:05 p.m.", "1:02PM"),
        ("12:10 AM", "1:02 AM"),
        ("11:58 PM", "11:59 PM"),
        ("2026-03-02T10:15:00Z", "2026-03-02T10:15:00.500Z", "2026-03-02T10:15:01Z"),
        ("2026-03-02T10:15:00.25", "2026-03-02T10:15:00.3", "2026-03-02T10:15:00.300001"),
        ("2026-03-02T11:15:00+01:00", "2026-03-02T10:16:00Z", "2026-03-02T05:17:00-0500"),
        ("2026-03-02 9:58", "2026-03-02 10:01", "2026-03-10 00:00"),
        ("2026-3-2 9:58", "2026-03-02 10:01:00", "2026-10-01 08:00"),
        ("2026/03/02, 9:58 AM", "2026/03/02, 1:02 PM"),
        ("3/2/2026 9:58 AM", "3/2/2026 10:01 AM"),
        ("2.3.2026 9:58", "2.3.2026 10:01"),
        ("2026-03-02", "2026-03-10"),
        ("8:00", "21:00"),
        ("9", "10", "10.5"),
        ("1.10", "1.25", "1.90"),
        ("1769990000.0", "1769990000.25", "1769990000.5"),
    ],
)
def test_rows_are_sorted_by_time_however_it_is_written(tmp_path: Path, places: tuple[str, ...]) -> None:
    assert imported(tmp_path, places)[1] == list(places)
    if places[0] != "8:00":  # the other way around it may go past midnight
        folder = tmp_path / "reversed"
        folder.mkdir()
        assert imported(folder, places[::-1])[1] == list(places)


@pytest.mark.row("D8")
@pytest.mark.parametrize(
    ("places", "cause"),
    [
        (("12/31/2025", "1/2/2026"), "dates of 12/31/2025 and dates of 1/2/2026 are mixed"),
        (("3/2/2026 9:58", "4/2/2026 9:59"), "are mixed; write all as numbers, or all as 2026-"),
        (("2026-03-02T10:15:00Z", "2026-03-02T10:16:00"), "times, with a time zone and times are mixed"),
        (("9:58 AM", "10:01"), "with AM or PM and times without a date are mixed"),
        (("9:58", "2026-03-02T10:01"), "are mixed"),
        (("2026-03-02", "2026-03-02T10:01"), "dates and times are mixed"),
        (("1", "9:58"), "numbers and times without a date are mixed"),
        (("23:58", "0:02"), "may be of another day; write the date as well"),
        (("11:58 PM", "12:02 AM"), "may be of another day"),
        (("12:58", "1:02"), "may be of another day"),
        (("10:02", "10:01", "10:01"), "the place is that of line 3"),
        (("1.8", "1.9", "1.10"), "decimals, or two numbers with a dot between them?"),
        (("999", "1.000"), "decimals, or two numbers"),
        (("9:58", "25:00"), "write a number or a time"),
        (("9:58", "13:01 PM"), "write a number or a time"),
        (("2026-02-30T10:00", "2026-03-01T10:00"), "write a number or a time"),
        (("9:58", "soon"), "write a number or a time"),
        (("9:58", "10:01 CET"), "write a number or a time"),
    ],
)
def test_an_order_that_is_unknown_is_refused(tmp_path: Path, places: tuple[str, ...], cause: str) -> None:
    report, turns = imported(tmp_path, places)
    assert turns == []
    assert any(cause in bad.cause for bad in report.bad_rows), report.bad_rows


@pytest.mark.row("D8")
def test_times_that_are_the_same_stay_in_the_order_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    rows = "1,b,none,9:58\n1,a,none,9:58\n1,c,none,10:01\n"
    path.write_text(f"conversation,text,flow,order\n{rows}", "utf-8")
    import_dataset("csv", path, out=tmp_path / "made")
    [data] = map(json.loads, (tmp_path / "made" / "conversations.jsonl").read_text("utf-8").splitlines())
    assert [turn["text"] for turn in data["turns"]] == ["b", "a", "c"]


@pytest.mark.row("D8")
@pytest.mark.parametrize("first", ["sep=;", "SEP=;", '"sep=;"', "sep=;;;;", "\ufeffsep=;"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_first_line_may_name_the_delimiter(tmp_path: Path, first: str, end: str) -> None:
    path = tmp_path / "table.csv"
    lines = [first, "conversation;text;flow;order", "1;well, well, well;none;1", "2;;none;2", ""]
    path.write_bytes(end.join(lines).encode())
    report = import_dataset("csv", path, out=tmp_path / "made")
    [data] = map(json.loads, (tmp_path / "made" / "conversations.jsonl").read_text("utf-8").splitlines())
    assert data["turns"][0]["text"] == "well, well, well"
    assert [bad.line for bad in report.bad_rows] == [4]
