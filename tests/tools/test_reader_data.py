"""The reader's training data: no trade and no message of a set that measures anything."""

from __future__ import annotations

import importlib
import json
import lzma
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tools"))
domains_module = importlib.import_module("reader.domains")

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
    packed = (ROOT / "tools" / "reader" / "pairs.jsonl.xz").read_bytes()
    return [json.loads(line) for line in lzma.decompress(packed).decode().splitlines()]


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
