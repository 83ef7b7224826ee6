"""`datasets import`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from jazzmine_dspy.datasets.importers import IMPORTERS

FIXTURES = Path(__file__).resolve().parents[1] / "datasets" / "importers" / "fixtures"
TRAIN, TEST = FIXTURES / "banking77" / "train.csv", FIXTURES / "banking77" / "test.csv"


@pytest.mark.row("D5")
@pytest.mark.parametrize("kind", IMPORTERS)
def test_what_is_imported_passes_the_check(kind: str, run: Any) -> None:
    done = run("datasets", "import", kind, FIXTURES / kind, "--out", "made", "--json")
    assert done.code == 0
    assert (done.json["kind"], done.json["left_out"], done.json["bad_rows"]) == (kind, 0, [])
    assert done.json["conversations"] == sum(done.json["roles"].values())
    assert run("datasets", "check", "made").code == 0
    assert run("datasets", "stats", "made", "--json").json["total"]["turns"] == done.json["turns"]


@pytest.mark.row("D5")
def test_parts_are_named_one_by_one(run: Any) -> None:
    done = run(
        "datasets", "import", "banking77", "--split", f"train={TRAIN}", "--split", f"test={TEST}", "--out", "made"
    )  # fmt: skip
    assert done.code == 0
    assert "12 conversations (train 8, dev_a 1, dev_b 1, test 2)" in done.out
    assert "train was divided" in done.out
    assert Path("made/splits.json").is_file()


@pytest.mark.row("D7")
def test_rows_left_out_are_shown_and_fail_only_when_strict(run: Any, tmp_path: Path) -> None:
    path = tmp_path / "train.csv"
    path.write_text(TRAIN.read_text("utf-8") + "half a row\n" * 25, "utf-8")
    done = run("datasets", "import", "banking77", path, "--out", "made")
    assert done.code == 0
    assert "warning: 25 rows could not be read and were left out" in done.err
    assert f"{path}:13: The row has 1 fields; 2 are needed" in done.err
    assert done.err.count("The row has") == 20
    assert "and 5 more" in done.err
    strict = run("datasets", "import", "banking77", path, "--out", "made", "--replace", "--strict", "--json")
    assert strict.code == 1
    assert (strict.json["left_out"], len(strict.json["bad_rows"])) == (25, 20)
    assert strict.json["bad_rows"][0] == {
        "file": str(path), "line": 13, "cause": "The row has 1 fields; 2 are needed",
    }  # fmt: skip


BAD = {
    "an unknown kind": (["banking", TRAIN], "Unknown kind 'banking'"),
    "no path": (["banking77", "--split", "train"], "'train' is not of the form NAME=PATH"),
    "a split twice": (["banking77", "--split", f"test={TEST}", "--split", f"test={TRAIN}"], "named twice"),
    "nothing to import": (["banking77"], "Nothing to import is named"),
    "a file of another kind": (["star", TRAIN], "There is no folder 'tasks'"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_refused(case: str, run: Any) -> None:
    arguments, message = BAD[case]
    done = run("datasets", "import", *arguments, "--out", "made", "--json")
    assert done.code == 2
    assert message in done.json["error"]["message"]
    assert done.json["error"]["remedy"]
    assert not Path("made").exists()


def test_a_folder_to_write_to_is_needed(run: Any) -> None:
    assert run("datasets", "import", "banking77", TRAIN).code == 2
