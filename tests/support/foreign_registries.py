"""Registries that no program was compiled for, cut from public data, with messages that want a flow of theirs or none.

Labels are halved by their own hash: what is chosen is chosen on the half ``dev``, what is shown is measured on the
half ``final``. No label and no message is in both.
"""

from __future__ import annotations

import csv
import hashlib
import json
import os
import random
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Literal, NamedTuple

Half = Literal["dev", "final"]

DATA = Path(os.environ.get("JAZZMINE_DATA", Path(__file__).resolve().parents[3] / "shared" / "data"))
MISSING = next(
    (
        f"no public data in {DATA / name}"
        for name in ("clinc150", "banking77", "hint3/v2/train", "nlupp/data", "sgd/dev")
        if not (DATA / name).is_dir()
    ),
    "",
)
"""Why nothing can be cut; empty where all is there."""

SIZES = {
    "clinc150": (10, 6, 3), "banking77": (9, 5), "curekart": (7,), "powerplay11": (8,), "sofmattress": (5,),
    "nlupp": (4,), "sgd": (2,),
}  # fmt: skip
"""Flows of each of the ten registries, by what they are cut from."""
OFF_TOPIC, HELD_OUT = 30, 6

_ACTS = {"yes", "no", "maybe", "cancel", "repeat"}
_CHAT = {"GREETINGS_DAY", "THANKS", "APPRECIATION", "CRITICISM", "FEEDBACK", "CHAT_WITH_AN_AGENT", "CHAT_WITH_AGENT",
         "START_OVER", "CAPABILITIES"}  # fmt: skip
_MONEY = {"clinc/banking", "clinc/credit_cards", "banking77", "powerplay11"}
_SHOPS = {
    "curekart",
    "sofmattress",
    "powerplay11",
    "clinc/home",
    "clinc/small_talk",
    "clinc/kitchen_and_dining",
}
_NEAR: dict[str, set[str]] = {
    "banking77": _MONEY,
    "powerplay11": _MONEY | _SHOPS,
    "curekart": _SHOPS,
    "sofmattress": _SHOPS,
    "nlupp": {"clinc/travel", "clinc/kitchen_and_dining", "nlupp"},
    "sgd": {"sgd", *_MONEY, "clinc/travel", "clinc/home", "clinc/utility"},
}
"""What may talk of the same things, so that its messages are not surely off topic."""


class Flow(NamedTuple):
    """A flow as a user would write it, and messages that want it."""

    name: str
    description: str
    examples: list[str]
    held_out: list[str]


class Case(NamedTuple):
    """A registry with messages: each in scope with its flow; those off topic want none."""

    name: str
    flows: list[Flow]
    off_topic: list[str]

    @property
    def registry(self) -> list[dict[str, Any]]:
        """As ``load(..., flows=…)`` takes it."""
        return [
            {"name": flow.name, "description": flow.description, "examples": flow.examples}
            for flow in self.flows
        ]

    @property
    def in_scope(self) -> list[tuple[str, str]]:
        """Messages with the flow that they want."""
        return [(text, flow.name) for flow in self.flows for text in flow.held_out]


class _Label(NamedTuple):
    description: str
    texts: list[str]


def cases(half: Half, seed: int) -> list[Case]:
    """Ten registries of two to ten flows, with 30 messages off topic each and six or fewer in scope for each flow."""
    sources = _sources()
    made = []
    for source, sizes in SIZES.items():
        for place, size in enumerate(sizes):
            chance = random.Random(f"{half} {seed} {source} {place}")
            pools = {name: held for name, held in sources.items() if name.split("/")[0] == _folder(source)}
            if source == "clinc150":  # the first one of three domains, the others of one
                domains = 1 if place else 3
                large = sorted(
                    name for name, held in pools.items() if domains * len(_usable(held, half)) >= size
                )
                pools = {name: pools[name] for name in chance.sample(large, domains)}
            made.append(_case(f"{source} {place}", source, size, pools, sources, half, chance))
    return made


def _case(
    name: str,
    source: str,
    size: int,
    pools: dict[str, dict[str, _Label]],
    sources: dict[str, dict[str, _Label]],
    half: Half,
    chance: random.Random,
) -> Case:
    labels = {label: held for pool in pools.values() for label, held in _usable(pool, half).items()}
    chosen = chance.sample(sorted(labels), size)
    flows = []
    for label in chosen:
        taught = chance.randint(5, 8)
        texts = chance.sample(labels[label].texts, min(taught + HELD_OUT, len(labels[label].texts)))
        flows.append(Flow(label.lower(), labels[label].description, texts[:taught], texts[taught:]))
    near = {*pools, *_NEAR.get(source, ())}
    near |= {"banking77", *_MONEY} if near & _MONEY else set()
    others = {other: held for other, held in sources.items() if other not in near}
    clinc = [
        text for other, held in others.items() if other.startswith("clinc/") for text in _all(held, half)
    ]
    rest = [
        text for other, held in others.items() if not other.startswith("clinc/") for text in _all(held, half)
    ]
    third = OFF_TOPIC // 3
    off = [
        *chance.sample(_out_of_scope(half), third),
        *chance.sample(sorted(set(clinc)), third),
        *chance.sample(sorted(set(rest)), third),
    ]
    return Case(name, flows, off)


def _usable(pool: dict[str, _Label], half: Half) -> dict[str, _Label]:
    """Labels of a half with texts enough to teach a flow and to ask for it."""
    return {label: held for label, held in pool.items() if _half(label) == half and len(held.texts) >= 9}


def _folder(source: str) -> str:
    return "clinc" if source == "clinc150" else source


def _half(text: str) -> Half:
    return "dev" if hashlib.sha256(text.encode()).digest()[0] % 2 else "final"


def _all(labels: dict[str, _Label], half: Half) -> Iterable[str]:
    return (text for label, held in labels.items() if _half(label) == half for text in held.texts)


def _sources() -> dict[str, dict[str, _Label]]:
    """Labels with their texts, by where they are from."""
    readers: list[Callable[[], dict[str, dict[str, _Label]]]] = [_clinc, _banking, _hint3, _nlupp, _sgd]
    return {name: held for reader in readers for name, held in reader().items()}


def _grouped(rows: Iterable[tuple[str, str]]) -> dict[str, _Label]:
    texts: dict[str, dict[str, None]] = {}
    for text, label in rows:
        if text.strip():
            texts.setdefault(label, {})[text.strip()] = None
    return {label: _Label(_plain(label), list(held)) for label, held in sorted(texts.items())}


def _plain(label: str) -> str:
    return label.replace("_", " ").lower().capitalize() + "."


def _clinc() -> dict[str, dict[str, _Label]]:
    data = json.loads((DATA / "clinc150" / "data_small_no_test.json").read_text("utf-8"))
    domains = json.loads((DATA / "clinc150" / "domains.json").read_text("utf-8"))
    labels = _grouped((text, label) for part in ("train", "val") for text, label in data[part])
    return {
        f"clinc/{domain}": {name: labels[name] for name in sorted(set(names) - _ACTS)}
        for domain, names in domains.items()
    }


def _out_of_scope(half: Half) -> list[str]:
    data = json.loads((DATA / "clinc150" / "data_small_no_test.json").read_text("utf-8"))
    return [text for text, _ in data["oos_train" if half == "dev" else "oos_val"]]


def _rows(path: Path, text: str, label: str) -> Iterable[tuple[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        yield from ((row[text], row[label]) for row in csv.DictReader(file))


def _banking() -> dict[str, dict[str, _Label]]:
    return {"banking77": _grouped(_rows(DATA / "banking77" / "train.csv", "text", "category"))}


def _hint3() -> dict[str, dict[str, _Label]]:
    found = {}
    for bot in ("curekart", "powerplay11", "sofmattress"):
        rows = _rows(DATA / "hint3" / "v2" / "train" / f"{bot}_train.csv", "sentence", "label")
        found[bot] = _grouped(row for row in rows if row[1] not in _CHAT)
    return found


def _nlupp() -> dict[str, dict[str, _Label]]:
    """Hotels: messages with one topic, whatever else is asked of it."""
    folder = DATA / "nlupp" / "data"
    about = json.loads((folder / "ontology.json").read_text("utf-8"))["intents"]
    topics = {name for name, held in about.items() if held["domain"] == ["hotels"]}
    rows = []
    for number in range(10):
        for row in json.loads((folder / "hotels" / f"fold{number}.json").read_text("utf-8")):
            if len(named := topics.intersection(row.get("intents", ()))) == 1:
                rows.append((row["text"], named.pop()))
    return {"nlupp": _grouped(rows)}


def _sgd() -> dict[str, dict[str, _Label]]:
    """Messages that name an intent anew; its description is the schema's."""
    schema = json.loads((DATA / "sgd" / "dev" / "schema.json").read_text("utf-8"))
    about = {(service["service_name"], intent["name"]): intent["description"]
             for service in schema for intent in service["intents"]}  # fmt: skip
    texts: dict[str, dict[str, None]] = {}
    described = {}
    for path in sorted((DATA / "sgd" / "dev").glob("dialogues_*.json")):
        for dialogue in json.loads(path.read_text("utf-8")):
            for turn in dialogue["turns"]:
                acts = {action["act"] for frame in turn["frames"] for action in frame["actions"]}
                if turn["speaker"] == "USER" and "INFORM_INTENT" in acts and len(turn["frames"]) == 1:
                    frame = turn["frames"][0]
                    intent = frame["state"]["active_intent"]
                    # Two services find movies: to a user that is one flow.
                    described.setdefault(intent, about[frame["service"], intent])
                    texts.setdefault(intent, {})[turn["utterance"]] = None
    return {"sgd": {name: _Label(described[name] + ".", list(held)) for name, held in sorted(texts.items())}}
