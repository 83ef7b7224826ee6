"""What cannot be read: a row is left out and counted, a file of another kind is refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jazzmine_dspy.datasets import load_dataset
from jazzmine_dspy.models.errors import DatasetError

from .conftest import FIXTURES

Spoil = Callable[[bytes], bytes]


def put(old: str, new: str) -> Spoil:
    def change(raw: bytes) -> bytes:
        assert old.encode() in raw
        return raw.replace(old.encode(), new.encode(), 1)

    return change


def cut(before: str) -> Spoil:
    return lambda raw: raw[: raw.index(before.encode())]


# kind, file, what is done to it, line, cause, rows left: the other rows are all there.
ROWS: dict[str, tuple[str, str, Spoil, int, str, int]] = {
    "unknown label": ("banking77", "train.csv", put("tail,Tail_swap", "tail,Tial"), 6, "Unknown label 'Tial'", 11),
    "no label": ("banking77", "train.csv", put("tail,Tail_swap", "tail,"), 6, "No label", 11),
    "a field missing": ("banking77", "train.csv", put("tail,Tail_swap", "tail"), 6, "The row has 1 fields", 11),
    "no text": ("banking77", "train.csv", put("Can I swap the tail", " "), 6, "The text is empty", 11),
    "a long text": ("banking77", "train.csv", put("Can I", "x" * 8000), 6, "The text has 8,014 characters", 11),
    "an open quote": ("banking77", "train.csv", put("Can I swap", '"Can I swap'), 6, "A quote is not closed", 11),
    "not UTF-8": (
        "banking77", "train.csv", lambda raw: raw.replace(b"Can I", b"C\xff"), 6, "The line is not UTF-8", 11,
    ),
    "hint3: no label": ("hint3", "train/soapbot_train.csv", put("soap,SOAP", "soap,,SOAP"), 2, "No label", 7),
    "clinc: unknown intent": (
        "clinc150", "data_small.json", put('bed", "monster_check', 'bed", "monster'), 2,
        "Unknown intent 'monster'", 13,
    ),
    "clinc: no pair": (
        "clinc150", "data_small.json", put('["hum me to sleep", "lullaby"]', '["hum me"]'), 3, "no pair", 13,
    ),
    "clinc: cut off": ("clinc150", "data_small.json", cut('["how tall'), 9, "The JSON breaks off here", 13),
    "nlupp: unknown intent": (
        "nlupp", "data/library/fold0.json", put('"affirm"', '"afirm"'), 5, "Unknown intent 'afirm'", 7,
    ),
    "nlupp: another domain": (
        "nlupp", "data/zoo/fold0.json", put('"feeding"', '"loan"'), 1, "Unknown intent 'loan'", 7,
    ),
    "nlupp: no text": ("nlupp", "data/library/fold0.json", put('"text": "purple"', '"txt": "purple"'), 11, "'text'", 7),
    "nlupp: cut off": ("nlupp", "data/library/fold0.json", cut(' {"text": "on Fri'), 10, "The JSON breaks off", 6),
    "mix: unknown tag": ("mixsnips", "train.txt", put("ferns B-plant", "ferns X-plant"), 1, "Unknown tag 'X-plant'", 6),
    "mix: no tag": ("mixsnips", "train.txt", put("the O\nferns", "the\nferns"), 1, "no pair of a token and a tag", 6),
    "mix: no intents": ("mixsnips", "train.txt", put("\nWaterPlant\n", "\n"), 1, "does not end with", 6),
    "mix: an intent twice": (
        "mixsnips", "train.txt", put("WaterPlant#FeedPet", "FeedPet#FeedPet"), 19, "name one twice", 6,
    ),
    "star: not JSON": ("star", "dialogues/2.json", cut('"complete"'), 12, "not JSON", 2),
    "star: no dialogue": ("star", "dialogues/2.json", lambda raw: b"[]", 1, "no Events", 2),
    "star: unknown task": (
        "star", "dialogues/10.json", put('"Task": "kite_repair"},\n', '"Task": "kite_eat"},\n'), 1,
        "Unknown task 'kite_eat'", 2,
    ),
    "star: nobody speaks": (
        "star", "dialogues/2.json", lambda raw: raw.replace(b'"utter"', b'"mutter"'), 1, "The user says nothing", 2,
    ),
    "sgd: unknown intent": (
        "sgd", "test/dialogues_001.json", put('"active_intent": "GetTide"', '"active_intent": "GetWet"'), 2,
        "Unknown intent 'Tides_1.GetWet'", 2,
    ),
    "sgd: no frames": ("sgd", "test/dialogues_001.json", put('"frames"', '"frmes"'), 2, "'frames'", 2),
    "sgd: no dialogue": ("sgd", "test/dialogues_001.json", put("[\n", "[3,\n"), 1, "no dialogue", 3),
    "sgd: a dialogue twice": ("sgd", "test/dialogues_001.json", put("1_00001", "1_00000"), 5, "read already", 2),
    "canard: no rewrite": ("canard", "train.json", put('"Rewrite": "Who', '"Rewite": "Who'), 24, "'Rewrite'", 3),
    "treccast: no rewrite": (
        "treccast", "2020_manual_evaluation_topics_v1.0.json", put('"manual_rewritten_utterance": "What', '"m": "What'),
        17, "'82_1'", 2,
    ),
    "disfl_qa: no pair": ("disfl_qa", "train.json", put('"original": "Who', '"orginal": "Who'), 6, "'original'", 3),
    "tiage: unknown mark": ("tiage", "anno_train.json", put('"-1"', '"2"'), 3, "Unknown mark '2'", 3),
    "multidogo: no text": ("multidogo", "train.tsv", put("i rent boats", " "), 11, "The text is empty", 3),
    "gecor: no text": ("gecor", "CamRest676_annotated.json", put('"transcript"', '"text"'), 2, "'transcript'", 2),
    "rasa: not YAML": ("rasa_nlu", "data/more.yml", put("nlu:", "nlu: ["), 2, "not YAML", 5),
    "calm: no steps": ("calm_e2e", "e2e_tests/repair.yml", put("steps", "stps"), 2, "'steps'", 3),
    "sgd: cut off": ("sgd", "test/dialogues_001.json", cut("back to rafts"), 5, "The JSON breaks off here", 2),
}  # fmt: skip


@pytest.mark.row("D7")
@pytest.mark.parametrize("case", ROWS)
def test_a_row_that_cannot_be_read_is_counted_shown_and_left_out(
    case: str, source: Any, imported: Any
) -> None:
    kind, name, spoil, line, cause, rows = ROWS[case]
    path = source(kind) / name
    path.write_bytes(spoil(path.read_bytes()))
    src = path if kind == "hint3" else path.parents[len(Path(name).parts) - 1]
    report, found = imported(kind, src)
    assert report.left_out == 1
    row = report.bad_rows[0]
    assert (row.file, row.line) == (str(path), line)
    assert cause in row.cause
    assert len(found) == report.conversations == rows
    assert sum(load_dataset(report.out).roles[name] is not None for name in found) == rows


@pytest.mark.row("D7")
def test_the_first_twenty_are_shown_and_all_are_counted(source: Any, imported: Any) -> None:
    folder = source("banking77")
    with (folder / "train.csv").open("a", encoding="utf-8") as stream:
        stream.write("a row without a label\n" * 30)
    report, found = imported("banking77", folder)
    assert (report.left_out, len(report.bad_rows), len(found)) == (30, 20, 12)


# kind, file, content, part of the message, part of the place
FILES: dict[str, tuple[str, str, Spoil, str, str]] = {
    "banking77: a column missing": (
        "banking77", "train.csv", put("category", "kind"), "The column 'category' is missing", "train.csv:1",
    ),
    "banking77: JSON": ("banking77", "train.csv", lambda raw: b'[["a", "b"]]', "The column 'text'", "train.csv:1"),
    "banking77: empty": ("banking77", "train.csv", lambda raw: b"", "The column 'text' is missing", "train.csv"),
    "banking77: no rows": (
        "banking77", "train.csv", lambda raw: b"text,category\n", "'train' has no readable row", "train.csv",
    ),
    "hint3: a column missing": ("hint3", "train/soapbot_train.csv", put("label", "intent"), "'label' is missing", ":1"),
    "clinc150: a list": ("clinc150", "data_small.json", lambda raw: b"[]", "holds no JSON object", "data_small"),
    "clinc150: another object": (
        "clinc150", "data_small.json", lambda raw: b'{"a": 1}', "No part of CLINC150 is there", "clinc150",
    ),
    "nlupp: an object": ("nlupp", "data/zoo/fold0.json", lambda raw: b"{}", "holds no JSON list", "zoo/fold0.json:1"),
    "nlupp: the ontology cut off": (
        "nlupp", "data/ontology.json", cut('"slots"'), "is not JSON", "ontology.json:11",
    ),
    "nlupp: another ontology": ("nlupp", "data/ontology.json", lambda raw: b'{"intents": {}}', "lacks", "ontology"),
    "mixsnips: CSV": ("mixsnips", "train.txt", lambda raw: b"a,b\nc,d\n", "no readable row; 1 were", "train.txt:1"),
    "star: no tasks": ("star", "tasks/kite_rent/kite_rent.json", lambda raw: b"[]", "no replies", "kite_rent.json"),
    "sgd: the schema cut off": ("sgd", "train/schema.json", cut('"intents"'), "is not JSON", "schema.json:7"),
    "sgd: another schema": ("sgd", "train/schema.json", lambda raw: b'[{"a": 1}]', "no list of services", "schema"),
    "sgd: an object": ("sgd", "train/dialogues_001.json", lambda raw: b"{}", "holds no JSON list", "001.json:1"),
    "not UTF-8": ("clinc150", "data_small.json", lambda raw: b"\xff\xfe", "The file is not UTF-8", "data_small"),
}  # fmt: skip


@pytest.mark.parametrize("case", FILES)
def test_a_file_of_another_kind_is_refused(case: str, source: Any, imported: Any, tmp_path: Path) -> None:
    kind, name, spoil, message, where = FILES[case]
    path = source(kind) / name
    path.write_bytes(spoil(path.read_bytes()))
    src = path if kind == "hint3" else path.parents[len(Path(name).parts) - 1]
    with pytest.raises(DatasetError) as caught:
        imported(kind, src)
    assert message in caught.value.message
    assert where in caught.value.where
    assert caught.value.remedy
    assert not (tmp_path / "made").exists()


TRAIN, TEST = FIXTURES / "banking77" / "train.csv", FIXTURES / "banking77" / "test.csv"

CALLS: dict[str, tuple[dict[str, Any], str]] = {
    "a split twice": ({"splits": [("test", TEST), ("test", TRAIN)]}, "'test' is named twice"),
    "an unknown split": ({"splits": [("trian", TRAIN)]}, "Unknown split 'trian'"),
    "no such file": ({"splits": [("train", TRAIN / "nowhere")]}, "There is no "),
    "one file for two splits": ({"splits": [("train", TRAIN), ("test", TRAIN)]}, "are the same rows"),
    "dev beside dev_a": ({"splits": [("dev", TEST), ("dev_a", TRAIN)]}, "beside dev_a"),
    "nothing": ({}, "Nothing to import is named"),
    "a folder without parts": ({"src": FIXTURES}, "No part of BANKING77 is there"),
    "a share": ({"splits": [("train", TRAIN)], "dev_share": 1.0}, "The share 1"),
    "an unknown kind": ({"kind": "banking"}, "Unknown kind 'banking'"),
}


@pytest.mark.parametrize("case", CALLS)
def test_a_call_that_makes_no_sense_is_refused(case: str, imported: Any, tmp_path: Path) -> None:
    options, message = CALLS[case]
    with pytest.raises(DatasetError) as caught:
        imported(**({"kind": "banking77"} | options))
    assert message in caught.value.message
    assert caught.value.remedy
    assert not (tmp_path / "made").exists()


def test_several_bots_are_not_mixed(source: Any, imported: Any) -> None:
    folder = source("hint3") / "train"
    (folder / "soupbot_train.csv").write_bytes((folder / "soapbot_train.csv").read_bytes())
    with pytest.raises(DatasetError, match=r"2 files \*\.csv.*each is another bot"):
        imported("hint3", folder)


def test_a_dataset_is_not_overwritten_unless_told(imported: Any, tmp_path: Path) -> None:
    imported("banking77", splits=[("train", TRAIN)])
    with pytest.raises(DatasetError, match="holds a dataset already"):
        imported("banking77", splits=[("train", TEST)])
    report, _ = imported("banking77", splits=[("train", TEST)], replace=True)
    assert report.conversations == 2
    with pytest.raises(DatasetError, match="is a file"):
        imported("banking77", splits=[("train", TEST)], out=TRAIN)
