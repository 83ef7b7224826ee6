"""Tables become datasets, and each of their faults is reported with its place and remedy."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from jazzmine_dspy.datasets import check_dataset, load_dataset
from jazzmine_dspy.datasets.importers import ImportReport, import_dataset
from jazzmine_dspy.models.errors import DatasetError

FLOWS = """\
# our own notes stay
flows:
  - name: rent_kayak
    description: Rent a kayak.
    slots:
      - {name: day, type: date, ask: "Which day?"}
      - {name: seats, type: number, ask: "How many seats?"}
  - name: lesson
    description: Book a lesson.
    slots: [{name: level, type: choice, options: [beginner, expert], ask: "Which level?"}]
"""
MAP = {"conversation": "Chat", "role": "Who", "text": "Message", "flow": "Topic", "slots": "Details"}
HEADER = "Chat,Who,Message,Topic,Details"
RIGHT = """\
1,customer,I'd like a kayak,rent_kayak,
1,bot,Which day?,,
1,customer,"the 3rd of March,
for two",rent_kayak,"{""day"": ""2026-03-03"", ""seats"": 2}"

1,customer,Teach my son too,lesson,level=beginner
2,customer,do you sell ice cream,none,
"""


def brought(folder: Path, table: str | bytes, **options: Any) -> ImportReport:
    (folder / "flows.yaml").write_text(FLOWS, "utf-8")
    path = folder / "table.csv"
    path.write_bytes(table if isinstance(table, bytes) else table.encode())
    options = dict[str, Any](columns=MAP, flows=folder / "flows.yaml") | options
    return import_dataset("csv", path, out=folder / "made", **options)


def turns(folder: Path) -> dict[str, list[dict[str, Any]]]:
    lines = (folder / "made" / "conversations.jsonl").read_text("utf-8").splitlines()
    return {data["id"]: data["turns"] for data in map(json.loads, lines)}


@pytest.mark.row("D8")
def test_a_table_becomes_a_dataset(tmp_path: Path) -> None:
    report = brought(tmp_path, f"{HEADER}\n{RIGHT}")
    assert (report.conversations, report.turns, report.left_out) == (2, 4, 0)
    first = turns(tmp_path)["1"]
    assert first[2]["text"] == "the 3rd of March,\nfor two"
    assert [turn.get("labels") for turn in first] == [
        {"flows": ["rent_kayak"], "commands": [{"type": "start_flow", "flow": "rent_kayak"}]},
        None,
        {"flows": [], "commands": [
            {"type": "set_slot", "name": "day", "value": "2026-03-03"},
            {"type": "set_slot", "name": "seats", "value": 2},
        ]},
        {"flows": ["lesson"], "commands": [
            {"type": "start_flow", "flow": "lesson"}, {"type": "set_slot", "name": "level", "value": "beginner"},
        ]},
    ]  # fmt: skip
    assert turns(tmp_path)["2"][0]["labels"] == {"flows": []}
    assert (tmp_path / "made" / "flows.yaml").read_text("utf-8") == FLOWS
    checked = check_dataset(tmp_path / "made")
    assert checked.ok, checked.errors
    states = {
        c.id: [t.before.awaiting for t in c.turns] for c in load_dataset(tmp_path / "made").conversations
    }
    assert states["1"] == [None, None, "day", None]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be"])
def test_encodings_are_told_by_the_file(encoding: str, tmp_path: Path) -> None:
    brought(tmp_path, f"{HEADER}\n1,user,Ça coûte combien à Genève?,none,\n".encode(encoding))
    assert turns(tmp_path)["1"][0]["text"] == "Ça coûte combien à Genève?"


def test_another_encoding_is_told_and_can_be_named(tmp_path: Path) -> None:
    table = f"{HEADER}\n1,user,hello,none,\n2,user,où est mon kayak,none,\n".encode("latin-1")
    with pytest.raises(DatasetError, match="not UTF-8") as caught:
        brought(tmp_path, table)
    assert caught.value.where.endswith("table.csv:3")
    assert "--encoding cp1252" in caught.value.remedy
    brought(tmp_path, table, encoding="latin-1")
    assert turns(tmp_path)["2"][0]["text"] == "où est mon kayak"


@pytest.mark.parametrize("sign", [";", "\t", "|"])
def test_delimiters_are_told_by_the_first_line(sign: str, tmp_path: Path) -> None:
    brought(tmp_path, HEADER.replace(",", sign) + f"\n1{sign}user{sign}a, b{sign}lesson{sign}\n")
    assert turns(tmp_path)["1"][0]["text"] == "a, b"


@pytest.mark.row("D8")
def test_a_map_says_whose_words_stand_for_a_role(tmp_path: Path) -> None:
    table = (
        f"{HEADER}\n1,Patient,Teach me,lesson,\n1,Praxis,Which level?,,\n1,Gast,expert,none,level=expert\n"
    )
    words = {"user": "patient, gast", "assistant": "praxis"}
    report = brought(tmp_path, table, columns=MAP | words)
    assert (report.turns, report.left_out) == (2, 0)
    assert [turn["role"] for turn in turns(tmp_path)["1"]] == ["user", "assistant", "user"]


@pytest.mark.row("D3")
@pytest.mark.parametrize(
    ("row", "told"),
    [
        ("9,user,hi,rent_boat,", r"Column 'Topic': unknown flow 'rent_boat'; .*rent_kayak, lesson"),
        ('9,user,hi,lesson,"{""level"": }"', r"Column 'Details': the JSON is broken"),
        ('9,user,hi,lesson,"[1]"', r"Column 'Details': the JSON is not an object"),
        ("9,user,hi,lesson,beginner", r"Column 'Details': 'beginner' is neither JSON"),
        ("9,user,hi,lesson,seats=2", r"Column 'Details': unknown slot 'seats' of the flow lesson"),
        ("9,user,hi,none,seats=2", r"unknown slot 'seats' of any flow that runs here"),
        ("9,robot,hi,lesson,", r"'robot'is not a role; write user, .* whose word it is: --map user=robot"),
        (",user,hi,lesson,", r"Column 'Chat': there is no id"),
        ("9,user,,lesson,", r"Column 'Message': there is no text"),
        ("9,user,hi, there,lesson,", r"6 cells, and there are 5 columns; put a text that holds ','"),
        ('9,user,"hi,lesson,', r"A quote is not closed"),
        (f"9,user,{'x' * 9000},lesson,", r"9,000 characters; 8,000 are the limit"),
        (f"9,user,{'x' * 200_000},lesson,", r"A cell has over 131,072 characters"),
    ],
)  # fmt: skip
def test_a_row_that_is_wrong_is_told_with_its_line_column_and_remedy(
    row: str, told: str, tmp_path: Path
) -> None:
    report = brought(tmp_path, f"{HEADER}\n1,user,hello,none,\n{row}\n")
    assert [bad.line for bad in report.bad_rows] == [3]
    assert re.search(told, report.bad_rows[0].cause), report.bad_rows[0].cause
    assert list(turns(tmp_path)) == ["1"]


def test_a_conversation_with_a_bad_row_is_left_out_whole(tmp_path: Path) -> None:
    report = brought(tmp_path, f"{HEADER}\n1,user,hello,none,\n9,user,hi,lesson,\n9,user,so,boat,\n")
    assert list(turns(tmp_path)) == ["1"]
    assert any("left out whole" in note and "9" in note for note in report.notes)


@pytest.mark.row("D3")
@pytest.mark.parametrize(
    ("table", "columns", "told"),
    [
        (
            "Chat,Words\n1,hi\n",
            {"text": "Message"},
            "The column 'Message' is missing.*the columns are: Chat, Words",
        ),
        ("Chat,Words\n1,hi\n", {}, "The column 'text' is missing.*--map text=COLUMN"),
        ("text,b,text\n1,2,3\n", {}, "The column 'text' is there twice"),
        ("text\nhi\n", {"flows": "text"}, "Unknown 'flows' in the map"),
        ("", {}, "no readable row.*that has rows"),
        ("text\n\n\n", {}, "no readable row"),
        ("role,text\nrobot,hi\n", {}, "(?s)no readable row.*what --map says of their columns"),
    ],
)
def test_a_table_that_cannot_be_read_is_refused(
    table: str, columns: dict[str, str], told: str, tmp_path: Path
) -> None:
    with pytest.raises(DatasetError, match=told):
        brought(tmp_path, table, columns=columns)
    assert not (tmp_path / "made").exists()


def test_rows_are_sorted_and_two_at_one_place_are_told(tmp_path: Path) -> None:
    columns = {"order": "n", "conversation": "c"}
    brought(tmp_path, "c,n,text,flow\n1,10,last,none\n2,1,other,none\n1,9,first,none\n", columns=columns)
    assert [turn["text"] for turn in turns(tmp_path)["1"]] == ["first", "last"]
    table = "c,n,text,flow\n1,1,a,none\n1,1,b,none\n2,1,c,none\n"
    report = brought(tmp_path, table, columns=columns, replace=True)
    assert "is that of line 2 already" in report.bad_rows[0].cause
    assert list(turns(tmp_path)) == ["2"]
    apart = "c,text,flow\n1,a,none\n2,b,none\n1,c,none\n"
    report = brought(tmp_path, apart, columns={"conversation": "c"}, replace=True)
    assert any("table.csv:4: conversation '1' goes on" in note for note in report.notes)


def test_lines_of_json_and_commands(tmp_path: Path) -> None:
    (tmp_path / "flows.yaml").write_text(FLOWS, "utf-8")
    rows: list[dict[str, Any]] = [
        {"conversation": 1, "text": "a lesson and a kayak", "flow": ["lesson", "rent_kayak"], "slots": {}},
        {"conversation": 1, "text": "a person please", "commands": "handoff"},
        {"conversation": 2, "text": "stop", "commands": [{"type": "start_flow"}]},
    ]
    path = tmp_path / "table.jsonl"
    path.write_text("\n".join([*map(json.dumps, rows), "{"]), "utf-8")
    report = import_dataset("jsonl", path, out=tmp_path / "made", flows=tmp_path)
    assert [bad.line for bad in report.bad_rows] == [4, 3]
    first = turns(tmp_path)["1"]
    assert first[0]["labels"]["flows"] == ["lesson", "rent_kayak"]
    assert first[1]["labels"]["commands"] == [{"type": "handoff"}]


def test_flows_are_made_from_labels_where_there_are_none(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_text("text,flow\nwhere is it,track_order\nhello,none\n", "utf-8")
    report = import_dataset("csv", path, out=tmp_path / "made")
    assert report.flows == 1
    assert any("--flows" in note for note in report.notes)


@pytest.mark.row("D8")
@pytest.mark.parametrize("places", [("12/31/2025", "1/2/2026"), ("1", "NaN"), ("1", "inf")])
def test_what_does_not_sort_as_the_talk_went_is_no_order(tmp_path: Path, places: tuple[str, str]) -> None:
    columns = {"conversation": "Chat", "text": "Message", "flow": "Topic", "order": "At"}
    rows = "".join(f"1,say {place},none,{place}\n" for place in places) + "2,well,none,1\n"
    report = brought(tmp_path, f"Chat,Message,Topic,At\n{rows}", columns=columns)
    assert (report.conversations, report.left_out > 0) == (1, True)


@pytest.mark.row("D8")
def test_long_whole_numbers_are_told_apart(tmp_path: Path) -> None:
    columns = {"conversation": "Chat", "text": "Message", "flow": "Topic", "order": "At"}
    places = (9007199254740993, 9007199254740992, 9007199254740994)
    rows = "".join(f"1,say {place},none,{place}\n" for place in places)
    brought(tmp_path, f"Chat,Message,Topic,At\n{rows}", columns=columns)
    assert [turn["text"] for turn in turns(tmp_path)["1"]] == [f"say {place}" for place in sorted(places)]


@pytest.mark.row("D3")
@pytest.mark.parametrize("encoding", ["undefined", "punycode", "a\0b"])
def test_an_encoding_that_is_none_of_files_is_told(tmp_path: Path, encoding: str) -> None:
    with pytest.raises(DatasetError, match="--encoding"):
        brought(tmp_path, f"{HEADER}\n{RIGHT}", encoding=encoding)
