"""The reader's training data: no trade and no message of a set that measures anything."""

from __future__ import annotations

import importlib
import json
import random
import re
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tools"))
domains_module = importlib.import_module("reader.domains")
draw = importlib.import_module("reader.draw")
written = importlib.import_module("reader.written")

SGD = frozenset(
    {
        "alarm", "banks", "buses", "calendar", "events", "flights", "homes", "hotels", "media", "messaging", "movies",
        "music", "payment", "rentalcars", "restaurants", "ridesharing", "services", "trains", "travel", "weather",
    }
)  # fmt: skip
LONG = 8
"""Words from which on two writers do not say the same by chance."""


def _words(text: str) -> tuple[str, ...]:
    return tuple(re.findall(r"[a-z0-9']+", text.lower()))


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _strings(each)


def _files() -> Iterator[Path]:
    for folder in ("eval/suites", "datasets"):
        for path in sorted((ROOT / folder).rglob("*")):
            apart = "practice" in path.parts or "sgd-services" in path.parts
            if not apart and (path.name.endswith(".conversations.yaml") or path.suffix == ".jsonl"):
                yield path


def _pairs() -> list[dict[str, str]]:
    return [row for rows in written.by_domain(written.PAIRS).values() for row in rows]


def _whole() -> list[dict[str, Any]]:
    return [row for rows in written.by_domain(written.WHOLE).values() for row in rows]


def _conversations() -> dict[str, list[str]]:
    """The messages of each business whose conversations are written, for the reader or for the pool."""
    said: dict[str, list[str]] = {}
    folders = (domains_module.ARCHIVE.parent, domains_module.ARCHIVE.parents[1] / "weights")
    for path in (path for folder in folders for path in sorted(folder.glob("*conversations.tar.xz"))):
        with tarfile.open(path) as archive:
            for each in archive.getmembers():
                name, _, kind = Path(each.name).name.partition(".")
                if kind == "conversations.yaml":
                    rows = yaml.load(archive.extractfile(each), Loader=domains_module.LOADER)  # type: ignore[arg-type]
                    assert name not in said, "no business stands in two archives"
                    said[name] = [turn["user"] for row in rows for turn in row["turns"]]
    return said


@pytest.fixture(scope="module")
def domains() -> list[Any]:
    return list(domains_module.load_domains())


def test_no_trade_is_one_of_a_registry_that_measures(domains: list[Any]) -> None:
    measured = {
        path.name.partition(".")[0] for path in (ROOT / "eval" / "suites").rglob("*.conversations.yaml")
    }
    assert {"library", "pet_boarding", "vet", "bank"} <= measured
    assert {each.name for each in domains} & (measured | SGD | {"support"}) == set()
    assert len({each.name for each in domains}) == len(domains)


def test_no_long_wording_is_a_message_of_a_measured_set(domains: list[Any]) -> None:
    said = {_words(text) for each in domains for text in _strings(each.say)}
    said |= {_words(each[kind]) for each in _pairs() for kind in ("none", "wish")}
    said |= {_words(each["text"]) for each in _whole()}
    conversations = _conversations()
    assert conversations.keys() <= {each.name for each in domains}
    assert sum(map(len, conversations.values())) > 19_000
    said |= {_words(each) for messages in conversations.values() for each in messages}
    measured: dict[tuple[str, ...], Path] = {}
    for path in _files():
        text = path.read_text("utf-8")
        rows = (
            yaml.load(text, Loader=domains_module.LOADER)
            if path.suffix == ".yaml"
            else [json.loads(line) for line in text.splitlines() if line.strip()]
        )
        measured |= {_words(each): path for each in _strings(rows)}
    assert len(measured) > 8_000
    long = {words for words in said if len(words) >= LONG}
    assert len(long) > 10_000
    assert {" ".join(words): measured[words].name for words in long & measured.keys()} == {}


def test_a_pair_is_a_request_and_a_mention_of_a_task_of_an_invented_business(domains: list[Any]) -> None:
    flows = {each.name: set(each.flows) for each in domains}
    pairs = _pairs()
    assert {each["domain"] for each in pairs} == flows.keys()
    assert [each for each in pairs if each["flow"] not in flows[each["domain"]]] == []
    assert [
        each for each in pairs if each["none"] == each["wish"] or not each["none"] or not each["wish"]
    ] == []


def test_a_whole_message_holds_its_values(domains: list[Any]) -> None:
    rng = random.Random(0)
    drawers = {each.name: draw.Drawer(each, rng) for each in domains}
    rows = _whole()
    assert len(rows) > 7_000
    assert {each["domain"] for each in rows} == drawers.keys()
    for row in rows:
        drawn = written.whole_turn(drawers[row["domain"]], row, rng)
        assert drawn.text.lower() == row["text"].lower()
        assert (drawn.starts == [row["flow"]]) == (row["kind"] == "open")
        labels = {key.partition(".")[2]: label for key, label in drawn.slots.items()}
        assert labels.keys() == row["values"].keys()
        for name, value in row["values"].items():
            slot = drawers[row["domain"]].domain.slot(row["flow"], name)
            if slot["type"] == "boolean":
                assert labels[name].truth is value
            elif slot["type"] == "choice":
                assert labels[name].option == value
                assert value in map(str, slot["options"])
            else:
                pieces = value if isinstance(value, list) else [value]
                assert [row["text"][first:last] for first, last in labels[name].spans] == pieces


def test_a_piece_is_found_as_a_word_before_it_is_found_within_one() -> None:
    assert written.place("a cat on the at mat, at 5", "at") == (13, 15)
    assert written.place("flat5", "5") == (4, 5)
