"""What `make bench-routing` measures with: parts held apart, shares, and the table."""

from __future__ import annotations

import csv
import doctest
import importlib
import json
import random
from pathlib import Path
from typing import Any

import pytest

from jazzmine_dspy.datasets.schema import Example
from jazzmine_dspy.eval.evaluation import Evaluation, TurnResult
from jazzmine_dspy.eval.metrics import score_turn
from jazzmine_dspy.models.decision import Enhancement, Selection, TurnDecision
from jazzmine_dspy.models.errors import InputError
from jazzmine_dspy.models.labels import Labels
from jazzmine_dspy.models.turn import Turn
from routing_sources import source  # puts the modules of the benchmark on the path

figures, formats, mixed, parts, sets, sharing = (
    importlib.import_module(f"routing.{name}")
    for name in ("figures", "formats", "mixed", "parts", "sets", "sharing")
)
marked_block = importlib.import_module("marked_block")
SOURCES = importlib.import_module("importers").SOURCES
Row, Judged = parts.Row, sharing.Judged

ROWS = [Row(f"message {number} of {label}", label) for label in "abc" for number in range(10)]


@pytest.mark.parametrize("name", ["catalogue", "figures", "parts", "sharing"])
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
def messages(tmp_path: Path) -> list[Any]:
    path = tmp_path / "dev.txt"
    path.write_text("\n\n".join(MIXED) + "\n\n", "utf-8")
    return mixed.read(path)


def test_messages_are_cut_where_they_were_joined(messages: list[Any]) -> None:
    assert [request.text for request in messages[0].requests] == [
        "play a song",
        "book a table",
        "rain or shine today",
    ]
    assert [request.join for request in messages[0].requests] == [(), ("and", "then"), (",",)]
    assert len(messages[2].requests) == 1  # the connector is inside a value
    assert [message.block() for message in messages] == MIXED


def test_requests_of_the_test_part_leave_the_training_messages(messages: list[Any]) -> None:
    left = messages[0].without({"book a table"})
    assert left is not None
    assert left.block() == block("play a song , rain or shine today", "Play#Weather")
    first = messages[0].without({"play a song"})
    assert first is not None
    assert first.block() == block("book a table , rain or shine today", "Book#Weather")
    assert messages[4].without({"rain or shine today"}) is None
    assert messages[3].without({"this"}) is None  # whose intent it is can't be told
    assert messages[3].without({"song"}) == messages[3]


def test_folds_share_no_request(messages: list[Any]) -> None:
    made = mixed.folds(messages, 1, 5, 2)
    assert sorted(message.block() for fold in made for message in fold.test) == sorted(MIXED)
    for fold in made:
        asked = {request.text for message in fold.test for request in message.requests}
        assert not asked & {request.text for message in fold.train for request in message.requests}
        assert not mixed.shared(fold.train, fold.test)
        assert len(fold.train) + len(fold.test) + fold.dropped == len(messages)
        whole = {message.block() for message in messages}
        assert fold.cut == sum(message.block() not in whole for message in fold.train)
    assert made == mixed.folds(messages, 1, 5, 2)


def test_a_request_is_the_same_in_another_dress_and_inside_another(tmp_path: Path) -> None:
    path = tmp_path / "dev.txt"
    rows = [
        block("Book a table in Rome .", "Book"),
        block("play a song and book a table in rome", "Play#Book"),
        block("please book a table in rome for my aunt", "Book"),
        block("book a table", "Book"),
    ]
    path.write_text("\n\n".join(rows) + "\n\n", "utf-8")
    first, second, third, fourth = mixed.read(path)
    assert mixed.shared([second, third, fourth], [first]) == {"book a table in rome"}
    (fold,) = [fold for fold in mixed.folds([first, second, third, fourth], 1, 4, 0) if fold.test == [first]]
    assert [message.block() for message in fold.train] == [block("play a song", "Play"), rows[3]]
    assert (fold.cut, fold.dropped) == (1, 1)


def test_messages_hang_together_by_their_requests(messages: list[Any]) -> None:
    assert mixed.components(messages) == [3, 1, 1]  # the first two and the last share requests


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("banking77", {"train": 32, "test": 8}),
        ("banking77-10", {"train": 20, "test": 8}),
        ("clinc150", {"train": 30, "test": 240}),
        ("clinc150-oos", {"train": 130, "test": 140}),
        ("clinc150-short", {"train": 150, "test": 120}),
        ("banking77-open", {"train": 10, "test": 100}),
    ],
)
def test_parts_survive_the_import(name: str, expected: dict[str, int], tmp_path: Path) -> None:
    place = sets.Place(source(tmp_path / "data"), tmp_path / "work", 17)
    [case] = sets.SETS[name](place)
    report = SOURCES[case.kind].convert(
        case.src, out=tmp_path / "made", splits=list(case.splits.items()), dev_share=0
    )
    assert {role: count for role, count in report.roles.items() if count} == expected
    assert not report.left_out
    again = sets.SETS[name](sets.Place(place.data, tmp_path / "again", 17))[0]
    for part, path in case.splits.items():
        assert again.splits[part].read_bytes() == path.read_bytes()


def test_messages_of_other_domains_are_out_of_scope(tmp_path: Path) -> None:
    data = source(tmp_path / "data")
    (data / "clinc150" / "domains.json").write_text('{"a": ["hum"], "b": ["sing"]}', "utf-8")
    place = sets.Place(data, tmp_path / "work", 17)
    case = sets._clinc(place, "clinc150-oos", 100, domains=1)
    learnt, asked = (json.loads(case.splits[part].read_text("utf-8")) for part in ("train", "test"))
    [inside] = {label for _, label in learnt["train"]}
    assert {label for _, label in asked["test"]} == {inside}
    assert len(asked["oos_test"]) == 135  # all 35 of the other intent
    groups = [case.groups[parts.key(text)] for text, _ in asked["oos_test"]]
    assert (groups.count("out of scope"), groups.count("other domains")) == (100, 35)


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
    def head(wrong: int) -> list[Any]:
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


def metric(value: float, low: float = 0.0, high: float = 1.0) -> dict[str, float]:
    return {"value": value, "low": low, "high": high, "n": 100}


def document() -> dict[str, Any]:
    row = {
        "row": "clinc150", "system": figures.OURS, "n": 100, "seconds": 12.0, "head_bytes": 2_500_000,
        "metrics": {"in_scope_accuracy": metric(0.97, 0.96, 0.98), "out_of_scope_recall": metric(0.7, 0.6, 0.79)},
        "latency_ms": {"p50": 4.0, "p95": 9.0}, "counts": {"training": 7500},
    }  # fmt: skip
    peer = row | {"system": "semantic-router", "head_bytes": 0}
    about = {"seeds": [17], "cores": 2, "load": 1.0, "minutes": 3.0, "runs": 1, "quick": False}
    return {"rows": figures.ordered([peer, row]), "about": about, "share": []}


def test_the_table_says_what_is_missed() -> None:
    text = figures.block(document())
    head = next(line for line in text.splitlines() if line.startswith("| set "))
    assert head == "| set | measured | this project | semantic-router |"
    (line,) = (line for line in text.splitlines() if "97.0% [96.0, 98.0]" in line)
    about, measures, ours, peer = (cell.strip() for cell in line.strip("|").split("|"))
    assert about.startswith(
        "**CLINC150 small, none out of scope in training**<br>7,500 to learn from, 100 asked<br>"
    )
    assert about.endswith("<br>target 96.0% / 80.0%: out of scope missed by 10.0 points")
    assert measures == "in scope<br>out of scope<br>p50 / p95 ms<br>training s<br>head MB"
    assert ours == "97.0% [96.0, 98.0]<br>70.0% [60.0, 79.0]<br>4.0 / 9.0<br>12<br>2.5"
    assert peer == "97.0% [96.0, 98.0]<br>70.0% [60.0, 79.0]<br>4.0 / 9.0<br>12<br>-"
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
        "flows20": {"n": 50, "catalogues": 2, "alone": metric(0.95), "among": metric(0.90)},
        "registries": {"n": 70, "catalogues": 5, "alone": metric(0.92), "among": metric(0.905)},
        "share": [
            {"row": "clinc150", "quality": 0.97, "harder": 3.0, "sent": 0.08, "loss": 0.004},
            {"row": "clinc150", "quality": 0.97, "harder": 1.0, "sent": 0.08, "loss": 0.006},
        ],
        "recall": {
            "points": 100_000, "p50_ms": 2.0, "p99_ms": 11.0, "n": 1000, "target_ms": 10.0, "target_met": False,
        },
    }  # fmt: skip
    lines = figures.further(held).splitlines()
    assert "missed by 3.0 points" in next(line for line in lines if "2 catalogues of 20" in line)
    assert next(line for line in lines if "5 catalogues" in line).endswith("1.5 points between them.")
    shares = figures.shares(held).splitlines()
    assert shares[-3:] == [
        "| set | 97% | 97%, errors x 3 |",
        "|---|---|---|",
        "| CLINC150 small, none out of scope in training | 8.0%, 0.6 points: missed | 8.0%, 0.4 points: met |",
    ]
    assert "10 % at 0.5 points" in shares[0]
    assert "\n".join(shares) in figures.block(held)
    assert next(line for line in lines if "100,000 points" in line).endswith("missed.")


def test_the_block_is_replaced_between_its_markers() -> None:
    text = "a\n<!-- routing -->\nold\n<!-- /routing -->\nb\n"
    assert marked_block.filled(text, "new", "routing") == "a\n<!-- routing -->\nnew\n<!-- /routing -->\nb\n"
    for lacking in ("no markers", "<!-- routing -->\nnot closed", "<!-- /routing --><!-- routing -->"):
        with pytest.raises(InputError, match="no place for the table"):
            marked_block.filled(lacking, "new", "routing")


def test_counts_of_the_run_stand_in_the_notes() -> None:
    counts = {"training": 9, "flows": 1000, "silent": 600, "fillers": 300, "wrong": 50, "elsewhere": 20}
    row = document()["rows"][0] | {"row": "flows1000", "counts": counts}
    line = next(line for line in figures.further({"rows": [row]}).splitlines() if "alone" in line)
    assert "600 of the 1,000 flows" in line
    assert "300 of these are fillers" in line
    assert "20 of the 50 wrong answers" in line


def test_a_system_that_could_not_be_measured_says_why() -> None:
    held = document()
    held["rows"][1] = {"row": "clinc150", "system": "semantic-router", "skipped": "too few rows"}
    head, _, row = figures.table(held).splitlines()
    assert row.endswith(" | not measured: too few rows |")
    assert row.count("|") == head.count("|")


def test_every_set_has_its_row() -> None:
    rows = {name for name in sets.SETS if name != "hint3"} | {f"hint3-{bot}" for bot in sets.BOTS}
    assert rows <= set(figures.SPECS)


def test_a_message_is_counted_in_the_group_that_it_has_in_each_draw() -> None:
    """An intent may be left out in one draw and learnt in the next."""
    ours = importlib.import_module("routing.ours")

    def decided(text: str, right: bool) -> TurnResult:
        turn, labels = Turn(text=text), Labels(flows=())
        decision = TurnDecision(
            enhancement=Enhancement(enhanced_query=text), selection=Selection(flows=[] if right else ["a"])
        )
        example = Example(conversation_id="c", turn_id="t", turn=turn, labels=labels, role="test", line=1)
        return TurnResult(example, decision, None, score_turn(decision, labels, turn))

    draws = [
        Evaluation((decided("pay it", True), decided("eat it", False))),
        Evaluation((decided("pay it", False),)),
    ]
    named = [{parts.key("pay it"): "left out", parts.key("eat it"): "other"}, {parts.key("pay it"): ""}]
    found = ours.grouped(draws, named, 0)
    assert {name: (each.n, each.metrics["flow_set_exact"].value) for name, each in found.items()} == {
        "left out": (1, 1.0),
        "other": (1, 0.0),
    }
