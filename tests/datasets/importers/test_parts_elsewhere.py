"""Parts that lie apart from the source and from each other: ``--split train=A --split test=B`` for every kind."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from jazzmine_dspy.datasets import check_dataset
from jazzmine_dspy.datasets.importers import IMPORTERS
from jazzmine_dspy.models.errors import DatasetError

from .conftest import FIXTURES

PARTS: dict[str, tuple[str, str]] = {
    "banking77": ("train.csv", "test.csv"),
    "clinc150": ("data_small.json", "data_small.json"),
    "hint3": ("train/soapbot_train.csv", "test/soapbot_test.csv"),
    "nlupp": ("data/library", "data/zoo/fold0.json"),
    "mixsnips": ("train.txt", "test.txt"),
    "mixatis": ("dev.txt", "dev.txt"),
    "star": ("dialogues", "dialogues"),
    "sgd": ("train", "test"),
    "sgd_x": ("train", "test"),
    "multiwoz22": ("train", "test"),
    "multidogo": ("train.tsv", "test.tsv"),
    "gecor": ("CamRest676_annotated.json", "test.json"),
    "canard": ("train.json", "test.json"),
    "treccast": ("2020_manual_evaluation_topics_v1.0.json", "evaluation_topics_v1.0.json"),
    "disfl_qa": ("train.json", "test.json"),
    "tiage": ("anno_train.json", "anno_test.json"),
    "rasa_nlu": ("data/nlu.yml", "data/more.yml"),
    "calm_e2e": ("e2e_tests/rent.yml", "e2e_tests/repair.yml"),
    "candidates": ("candidates.jsonl", "candidates.jsonl"),
    "csv": ("train.csv", "test.csv"),
    "jsonl": ("train.jsonl", "test.jsonl"),
}
"""What is copied from the fixtures as train and as test; of one file or folder a different half each."""
SHARED = ("nlupp", "star", "multiwoz22", "treccast", "candidates")
"""Kinds that need files beside the parts, which SRC names as it was published."""


def halved(path: Path, first: bool) -> None:
    """Keep one half of what train and test were both copied from."""
    if path.is_dir():
        for file in sorted(path.glob("*.json"))[first::2]:
            file.unlink()
    elif path.suffix == ".jsonl":
        lines = path.read_text("utf-8").splitlines(keepends=True)
        path.write_text("".join(lines[not first :: 2]), "utf-8")
    elif path.suffix == ".txt":
        blocks = path.read_text("utf-8").strip().split("\n\n")
        path.write_text("\n\n".join(blocks[not first :: 2]) + "\n\n", "utf-8")
    else:
        held = json.loads(path.read_text("utf-8"))
        names = ("train", "oos_train", "val", "oos_val") if first else ("test", "oos_test")
        path.write_text(json.dumps({name: held[name] for name in names}), "utf-8")


@pytest.mark.row("D5")
@pytest.mark.parametrize("kind", IMPORTERS)
def test_train_and_test_may_lie_anywhere(kind: str, imported: Any, tmp_path: Path) -> None:
    splits = []
    for name, inner in zip(("train", "test"), PARTS[kind], strict=True):
        there = tmp_path / "kept" / name / "apart" / Path(inner).name
        source = FIXTURES / kind / inner
        there.parent.mkdir(parents=True)
        if source.is_dir():
            shutil.copytree(source, there)
        else:
            shutil.copy(source, there)
        if len(set(PARTS[kind])) == 1:
            halved(there, name == "train")
        splits.append((name, there))
    src = FIXTURES / kind if kind in SHARED else None
    report, found = imported(kind, src, splits=splits, dev_share=0.0)
    assert report.roles["train"]
    assert report.roles["test"]
    assert report.roles["train"] + report.roles["test"] == len(found)
    assert report.left_out == 0
    # One's own ids stand behind the name of the part.
    assert {name.split("-")[not IMPORTERS[kind].own] for name in found} == {"train", "test"}
    labelled = [turn["labels"] for data in found.values() for turn in data["turns"] if turn.get("labels")]
    assert any(labels.get("flows") for labels in labelled) or (labelled and not report.flows)
    assert not check_dataset(report.out).errors


@pytest.mark.row("D5")
def test_an_apart_test_part_keeps_what_is_out_of_scope(imported: Any, tmp_path: Path) -> None:
    """A file with the keys of the test part alone, as an evaluation that is kept apart would have it."""
    path = tmp_path / "apart.json"
    path.write_text(
        json.dumps({"test": [["hum", "lullaby"]], "oos_test": [["how tall is a shed", "oos"]]}), "utf-8"
    )
    report, found = imported(
        "clinc150", splits=[("train", FIXTURES / "clinc150" / "data_small.json"), ("test", path)]
    )
    assert report.roles["test"] == 2
    labels = found["clinc150-test-oos-00001"]["turns"][0]["labels"]
    assert (labels["flows"], labels["intent"]) == ([], "out_of_scope")


@pytest.mark.row("D5")
@pytest.mark.parametrize(("kind", "shared"), [("nlupp", "ontology.json"), ("star", "'tasks'")])
def test_what_the_parts_share_is_asked_for_by_name(
    kind: str, shared: str, imported: Any, tmp_path: Path
) -> None:
    inner = PARTS[kind][0]
    there = Path(shutil.copytree(FIXTURES / kind / inner, tmp_path / "far" / "apart" / Path(inner).name))
    with pytest.raises(DatasetError, match=shared) as caught:
        imported(kind, splits=[("train", there)])
    assert "SRC" in str(caught.value)
