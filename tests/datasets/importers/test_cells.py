"""Cells as pandas, R and spreadsheets write them: lists, missing values, unnamed columns, and other forms of tables."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from jazzmine_dspy.datasets.importers import ImportReport, import_dataset
from jazzmine_dspy.models.errors import DatasetError

pytestmark = pytest.mark.row("D8")


def imported(folder: Path, table: str, kind: str = "csv", **columns: str) -> ImportReport:
    path = folder / f"table.{kind}"
    path.write_bytes(table.encode())
    return import_dataset(kind, path, out=folder / "made", columns=columns, replace=True)


def conversations(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "made" / "conversations.jsonl").open(encoding="utf-8")]


def labels(folder: Path) -> list[Any]:
    return [turn.get("labels") for each in conversations(folder) for turn in each["turns"]]


def flows_of(folder: Path) -> list[Any]:
    return [each and each["flows"] for each in labels(folder)]


@pytest.mark.parametrize(
    ("cell", "flows"),
    [
        ("\"['a', 'b']\"", ["a", "b"]),
        ('"[""a"", ""b""]"', ["a", "b"]),
        ('"[""a""]"', ["a"]),
        ("['a']", ["a"]),
        ("\"('a', 'b')\"", ["a", "b"]),
        ('"[""it\'s"", \'b\']"', ["it's", "b"]),
        ('"""a"""', ["a"]),
        ("[]", []),
        ("['none']", []),
        ("none", []),
        ("a; b", ["a", "b"]),
    ],
)
def test_a_list_in_a_cell_is_read_as_one(tmp_path: Path, cell: str, flows: list[str]) -> None:
    report = imported(tmp_path, f"text,flow\nhello there,{cell}\n")
    assert flows_of(tmp_path) == [flows]
    assert (report.flows, report.left_out) == (len(flows), 0)


@pytest.mark.parametrize(
    ("cell", "cause"),
    [
        ("['a' 'b']", "the JSON is broken"),
        ("[a b]", "the JSON is broken"),
        ('"[""a"""', "the JSON is broken"),
        ("\"array(['a', 'b'], dtype=object)\"", "brackets or quotes"),
        ("\"{'a', 'b'}\"", "the JSON is broken"),
        ('"[""a"", null]"', "write the name of a flow"),
        ('"[""a"", """"]"', "write the name of a flow"),
        ("a; nan", "write the name of a flow"),
        ("a; none", "none cannot stand next"),
        ("\"[['a']]\"", "write the name of a flow"),
    ],
)
def test_a_list_that_cannot_be_read_makes_no_flow(tmp_path: Path, cell: str, cause: str) -> None:
    report = imported(tmp_path, f"text,flow\nhello there,{cell}\nwell,c\n")
    [bad] = report.bad_rows
    assert (bad.line, report.flows) == (2, 1)
    assert bad.cause.startswith("Column 'flow': ")
    assert cause in bad.cause


@pytest.mark.parametrize(
    "word", ["nan", "NaN", "NaT", "<NA>", "None", "null", "NULL", "NA", "N/A", "#N/A", ""]
)
def test_a_missing_value_is_no_label(tmp_path: Path, word: str) -> None:
    table = f"conversation,role,text,flow,slots,commands\n1,user,one,a,{word},{word}\n1,user,two,{word},{word},{word}\n"
    report = imported(tmp_path, table)
    assert labels(tmp_path) == [{"flows": ["a"], "commands": [{"type": "start_flow", "flow": "a"}]}, None]
    assert (report.flows, report.left_out) == (1, 0)
    assert any("1 messages" in note and "None or nan" in note and "`none`" in note for note in report.notes)


@pytest.mark.parametrize("word", ["nan", "NaN", "NaT", "<NA>"])
def test_a_missing_text_or_id_is_reported(tmp_path: Path, word: str) -> None:
    report = imported(tmp_path, f"conversation,text,flow\n1,{word},a\n{word},hello,a\n2,None,none\n")
    assert [bad.line for bad in report.bad_rows] == [3, 2]
    assert "Column 'conversation': there is no id" in report.bad_rows[0].cause
    assert "Column 'text': there is no text" in report.bad_rows[1].cause
    # "None" is what people say.
    assert [each["turns"][0]["text"] for each in conversations(tmp_path)] == ["None"]


@pytest.mark.parametrize("how", ["index", "astype", "na_rep", "jsonl", "records"])
def test_what_pandas_writes_is_read(tmp_path: Path, how: str) -> None:
    rows = {
        "conversation": [1, 1, 2],
        "text": ["a kayak and a lesson", "never mind", "hello"],
        "flow": [["rent_kayak", "lesson"], None, ["none"]],
        "order": pd.to_datetime(["2026-03-02T10:15Z", "2026-03-02T10:16Z", "2026-03-03T09:00Z"]),
    }
    frame = pd.DataFrame(rows)
    kind = "csv"
    if how == "index":
        text = frame.to_csv()
    elif how == "astype":
        text = frame.astype(str).to_csv(index=False)
    elif how == "na_rep":
        text = frame.to_csv(na_rep="nan")
    else:
        kind = "jsonl"
        text = str(frame.to_json(orient="records", lines=how == "jsonl", date_format="iso"))
    report = imported(tmp_path, text, kind)
    assert (report.left_out, report.flows) == (0, 2)
    assert flows_of(tmp_path) == [["rent_kayak", "lesson"], None, []]
    assert [each["date"] for each in conversations(tmp_path)] == ["2026-03-02", "2026-03-03"]


@pytest.mark.parametrize(
    "table",
    [
        ",text,flow\n0,hello,a\n1,well,none\n",
        "text,flow,\nhello,a\nwell,none\n",
        "text,flow,\nhello,a,\nwell,none,\n",
        ",,text,flow\n0,0,hello,a\n1,1,well,none\n",
        "Unnamed: 0,text,flow\n0,hello,a\n1,well,none\n",
        ";text;flow\r\n0;hello;a\r\n1;well;none\r\n",
        "\ufefftext;flow;\r\nhello;a;\r\nwell;none;\r\n",
        'text,flow,"two\nlines"\nhello,a,x\nwell,none,y\n',
        "text,flow,x,x\nhello,a,1,2\nwell,none,1,2\n",
    ],
)
def test_columns_that_are_not_used_do_no_harm(tmp_path: Path, table: str) -> None:
    report = imported(tmp_path, table)
    assert (report.left_out, report.turns) == (0, 2)
    assert flows_of(tmp_path) == [["a"], []]


@pytest.mark.parametrize("header", ["text,flow,flow", "text,flow,Flow", "Text,TEXT,flow"])
def test_a_column_that_may_be_one_of_two_is_refused(tmp_path: Path, header: str) -> None:
    if header == "text,flow,Flow":
        imported(tmp_path, f"{header}\nhello,a,b\n")
        assert flows_of(tmp_path) == [["a"]]
        return
    with pytest.raises(DatasetError, match="is there twice"):
        imported(tmp_path, f"{header}\nhello,a,b\n")


def test_slots_and_commands_may_be_python_objects(tmp_path: Path) -> None:
    flows = (
        "flows:\n  - name: rent\n    description: Rent a kayak.\n    slots: [{name: seats, type: number}]\n"
    )
    (tmp_path / "flows.yaml").write_text(flows, "utf-8")
    path = tmp_path / "table.csv"
    path.write_text(
        "conversation,text,flow,slots,commands\n1,for two,['rent'],{'seats': 2},\n"
        "1,yes,none,,[{'type': 'affirm'}]\n",
        "utf-8",
    )
    report = import_dataset("csv", path, out=tmp_path / "made", flows=tmp_path)
    assert report.left_out == 0, report.bad_rows
    start = {"type": "start_flow", "flow": "rent"}
    assert labels(tmp_path) == [
        {"flows": ["rent"], "commands": [start, {"type": "set_slot", "name": "seats", "value": 2}]},
        {"flows": [], "commands": [{"type": "affirm"}]},
    ]


def test_a_list_of_objects_that_is_broken_is_refused_with_its_place(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="not JSON") as caught:
        imported(tmp_path, '[{"text": "a"},\n{"text": ]', "jsonl")
    assert caught.value.where.endswith("table.jsonl:1")


@pytest.mark.parametrize(
    "table",
    [
        # A comma that no quotes hold shifts the cells behind it.
        "text,flow,\nhello, there,a\nwell,none,\n",
        "text,flow\nhello,there,\nwell,none\n",
        "text,flow,\nhello,there,a,\nwell,none\n",
    ],
)
def test_cells_without_a_column_are_refused(tmp_path: Path, table: str) -> None:
    [bad] = imported(tmp_path, table).bad_rows
    assert bad.line == 2
    assert "and there are 2 columns" in bad.cause


def test_an_unclosed_quote_near_the_end_costs_its_own_line(tmp_path: Path) -> None:
    rows = "".join(f'so {n},a\nwell "{n},b\n"broken {n},c\n' for n in range(150))
    report = imported(tmp_path, f"text,flow\n{rows}")
    assert (report.left_out, report.turns) == (150, 300)
