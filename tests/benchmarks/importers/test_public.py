"""The public data, where it is at hand: counts as its own documentation states them."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from jazzmine_dspy.datasets import check_dataset, load_dataset

DATA = Path(__file__).resolve().parents[4] / "shared" / "data"

pytestmark = [
    pytest.mark.row("D5"),
    pytest.mark.skipif(not (DATA / "manifest.json").is_file(), reason="the public data is not at hand"),
]


def counts(found: dict[str, Any], what: Any) -> Counter[Any]:
    turns = [turn for data in found.values() for turn in data["turns"] if turn["role"] == "user"]
    return Counter(what(turn) for turn in turns)


def scopes(turn: dict[str, Any]) -> bool:
    return bool(turn["labels"]["flows"])


def test_banking77_has_10003_queries_of_77_intents(imported: Any) -> None:
    report, _ = imported("banking77", DATA / "banking77")
    assert (report.conversations, report.flows, report.left_out) == (10_003, 77, 0)


def test_clinc150_has_150_intents_and_what_is_out_of_scope(imported: Any) -> None:
    report, found = imported("clinc150", DATA / "clinc150")
    assert (report.flows, report.left_out) == (150, 0)
    assert report.roles["train"] == 7_600
    assert report.roles["dev_a"] + report.roles["dev_b"] == 3_100
    assert counts(found, scopes) == {True: 10_500, False: 200}
    assert len({flow.category for flow in load_dataset(report.out).flows.values()}) == 10


def test_hint3_has_1398_queries_of_three_bots(imported: Any, tmp_path: Path) -> None:
    total = 0
    for number, bot in enumerate(("curekart", "powerplay11", "sofmattress")):
        path = DATA / "hint3" / "v2" / "train" / f"{bot}_train.csv"
        report, _ = imported("hint3", path, out=tmp_path / str(number))
        assert (report.flows, report.left_out) == ([28, 57, 21][number], 0)
        total += report.conversations
    assert total == 1_398


def test_nlupp_has_1542_examples_with_1014_of_several_intents(imported: Any) -> None:
    report, found = imported("nlupp", DATA / "nlupp")
    assert (report.conversations, report.left_out) == (1_542, 0)

    def several(turn: dict[str, Any]) -> bool:
        return len(turn["labels"]["flows"]) + len(turn.get("tags", ())) > 1

    assert counts(found, several)[True] == 1_014
    ontology = json.loads((DATA / "nlupp" / "data" / "ontology.json").read_text("utf-8"))
    assert report.flows == len(ontology["intents"]) - 9
    assert check_dataset(report.out).ok


@pytest.mark.parametrize(("kind", "rows"), [("mixsnips", 2_198), ("mixatis", 759)])
def test_mixed_requests(kind: str, rows: int, imported: Any) -> None:
    report, found = imported(kind, splits=[("train", DATA / f"{kind}_clean" / "dev.txt")])
    assert (report.conversations, report.left_out) == (rows, 0)
    sizes = counts(found, lambda turn: len(turn["labels"]["flows"]))
    assert set(sizes) == {1, 2, 3}
    assert check_dataset(report.out).ok


def test_star_has_1423_messages_over_24_flows(imported: Any) -> None:
    report, found = imported("star", DATA / "star")
    assert (report.conversations, report.turns, report.flows, report.left_out) == (144, 1_423, 24, 0)
    tags = counts(found, lambda turn: tuple(turn.get("tags", ())))
    assert tags["switch", "return"] > 50
    assert 0 < tags["out_of_scope",] <= 17
    begun = counts(found, lambda turn: tuple((turn.get("labels") or {}).get("flows", ())))
    assert len({flow for flows in begun for flow in flows}) >= 20


def test_sgd_has_324_dialogues_over_30_intents(imported: Any) -> None:
    report, found = imported("sgd", splits=[("train", DATA / "sgd" / "dev")])
    assert (report.conversations, report.turns, report.flows, report.left_out) == (324, 2_248, 30, 0)
    checked = check_dataset(report.out)
    # What is left are messages such as "that is all, thanks", which several dialogues have word for word.
    assert {problem.message[:13] for problem in checked.errors} <= {"The same text"}
    assert not [problem for problem in checked.problems if ".labels." in problem.field]
    assert counts(found, scopes)[True] > 600


# kind, SRC or the part train, conversations, messages of users, flows, rows left out
COUNTS: dict[str, tuple[str, str, str, int, int, int, int]] = {
    "CANARD": ("canard", "train", "canard/dev_subset.json", 123, 861, 0, 0),
    "TREC CAsT": ("treccast", "", "treccast", 75, 479 + 216, 0, 0),
    "Disfl-QA": ("disfl_qa", "train", "disfl_qa/dev.json", 1_000, 1_000, 0, 0),
    "GECOR": ("gecor", "train", "gecor_camrest676/CamRest676_annotated_dev.json", 540, 2_205, 1, 0),
    # Of 5,882 messages four are empty.
    "MultiDoGO airline": ("multidogo", "train", "multidogo/turn_level/airline/dev.tsv", 240, 1_966, 4, 0),
    "MultiDoGO fastfood": ("multidogo", "train", "multidogo/turn_level/fastfood/dev.tsv", 223, 1_932, 7, 1),
    "MultiDoGO insurance": ("multidogo", "train", "multidogo/turn_level/insurance/dev.tsv", 232, 1_980, 3, 3),
    "SGD-X v1": ("sgd_x", "", "sgd/sgd_x/data/v1", 324, 2_248, 30, 0),
    "SGD-X v5": ("sgd_x", "", "sgd/sgd_x/data/v5", 324, 2_248, 30, 0),
    "TIAGE": ("tiage", "", "tiage", 400, 3_119, 0, 0),
}


@pytest.mark.parametrize("case", COUNTS)
def test_counts_of_dialogues_and_messages(case: str, imported: Any) -> None:
    kind, part, name, conversations, turns, flows, left_out = COUNTS[case]
    path = DATA / name
    if not path.exists():
        pytest.skip(f"there is no {name} in the public data at hand")
    report, _ = imported(kind, None if part else path, splits=[(part, path)] if part else [])
    assert (report.conversations, report.turns, report.flows, report.left_out) == (
        conversations, turns, flows, left_out,
    )  # fmt: skip
    # What else the check finds are messages that several dialogues have word for word.
    assert {problem.message[:13] for problem in check_dataset(report.out).errors} <= {"The same text"}


def test_multiwoz22s_schema_has_eleven_intents() -> None:
    path = DATA / "multiwoz22" / "schema.json"
    if not path.is_file():
        pytest.skip("there is no multiwoz22/schema.json in the public data at hand")
    from importers.sgd import schema_flows
    from importers.source import PublicReader

    flows = schema_flows(path, PublicReader([]))
    assert (len(flows), len({flow.category for flow in flows})) == (11, 8)
    assert {"hotel.find_hotel", "hotel.book_hotel"} <= {flow.name for flow in flows}


def test_tiage_has_1198_changes_of_the_topic_in_the_source(imported: Any) -> None:
    """Half of them are the user's; the other half are the other speaker's."""
    _, found = imported("tiage", DATA / "tiage")
    shifts = counts(found, lambda turn: (turn.get("labels") or {}).get("is_continuation"))
    assert 0.4 * 1_198 < shifts[False] < 0.6 * 1_198
