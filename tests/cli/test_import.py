"""`datasets import`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "table.csv"
    path.write_text("text,flow\n" + "".join(f"{text},track_order\n" for text in TEXTS), "utf-8")
    return path


TEXTS = (
    "where is my parcel",
    "has it been sent",
    "i ordered two weeks ago",
    "the van never came",
    "still waiting",
)


@pytest.mark.row("D8")
def test_what_is_imported_passes_the_check(table: Path, run: Any) -> None:
    done = run("datasets", "import", "csv", table, "--out", "made", "--json")
    assert done.code == 0
    assert (done.json["kind"], done.json["left_out"], done.json["bad_rows"]) == ("csv", 0, [])
    assert done.json["conversations"] == sum(done.json["roles"].values()) == 5
    assert run("datasets", "check", "made").code == 0
    assert run("datasets", "stats", "made", "--json").json["total"]["turns"] == 5


@pytest.mark.row("D8")
def test_parts_and_columns_are_named_one_by_one(table: Path, tmp_path: Path, run: Any) -> None:
    test = tmp_path / "test.csv"
    test.write_text("text,flow\nany news of my order,track_order\n", "utf-8")
    done = run(
        "datasets", "import", "csv", table, "--split", f"test={test}", "--map", "flow=text", "--out", "made"
    )  # fmt: skip
    assert done.code == 0
    assert "6 conversations (train 3, dev_a 1, dev_b 1, test 1)" in done.out
    assert "train was divided" in done.out
    assert Path("made/splits.json").is_file()


@pytest.mark.row("D7")
def test_rows_left_out_are_shown_and_fail_only_when_strict(table: Path, run: Any) -> None:
    with table.open("a", encoding="utf-8") as stream:
        stream.write("one,two,three\n" * 25)
    done = run("datasets", "import", "csv", table, "--out", "made")
    assert done.code == 0
    assert "warning: 25 rows could not be read and were left out" in done.err
    assert f"{table}:7: The row has 3 cells" in done.err
    assert done.err.count("The row has") == 20
    assert "and 5 more; --json lists all" in done.err
    strict = run("datasets", "import", "csv", table, "--out", "made", "--replace", "--strict", "--json")
    assert strict.code == 1
    assert (strict.json["left_out"], len(strict.json["bad_rows"])) == (25, 25)
    assert (strict.json["bad_rows"][0]["file"], strict.json["bad_rows"][0]["line"]) == (str(table), 7)


BAD = {
    "an unknown kind": (["cvs", "{table}"], "Unknown kind 'cvs'"),
    "no path": (["csv", "--split", "train"], "'train' is not of the form NAME=PATH"),
    "a split twice": (["csv", "{table}", "--split", "train={table}"], "named twice"),
    "nothing to import": (["csv"], "No source is named"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_refused(case: str, table: Path, run: Any) -> None:
    arguments, message = BAD[case]
    done = run(
        "datasets", "import", *(each.format(table=table) for each in arguments), "--out", "made", "--json"
    )
    assert done.code == 2
    assert message in done.json["error"]["message"]
    assert done.json["error"]["remedy"]
    assert not Path("made").exists()


@pytest.mark.row("D5")
def test_a_public_dataset_is_refused_with_the_place_of_its_script(run: Any) -> None:
    done = run("datasets", "import", "sgd", "dstc8", "--out", "made")
    assert done.code == 2
    assert "python eval/benchmarks/importers" in done.err


def test_a_folder_to_write_to_is_needed(table: Path, run: Any) -> None:
    assert run("datasets", "import", "csv", table).code == 2
