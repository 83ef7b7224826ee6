"""A catalogue of 1,000 flows from all registries at hand, and smaller ones of its flows for the same requests."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from importers.labels import single

from jazzmine_dspy.datasets.importers.writer import words
from jazzmine_dspy.datasets.schema import LabelledConversation, Role
from jazzmine_dspy.datasets.split import divide, write_splits
from jazzmine_dspy.models.labels import Labels
from jazzmine_dspy.models.registry import FlowRegistry
from routing import formats, parts
from routing.parts import Row
from routing.sets import BOTS, HELD, Place

FLOWS = 1000
EXAMPLES = 40
"""Messages a flow for training, at most."""
ASKED = {"banking77": 13, "clinc150": 7}
"""Messages a flow held apart; of the bots' a fifth."""
FILLERS = ("canard", "cast20", "cast19", "tiage")
"""Sources whose flows are no tasks."""


class Catalogue(NamedTuple):
    """Flows with their descriptions, and the messages of those that have some, as (text, flow)."""

    flows: Mapping[str, str]
    train: list[Row]
    test: list[Row]

    @property
    def asked(self) -> list[str]:
        """Flows that have messages."""
        return sorted({row.label for row in self.test} & {row.label for row in self.train})

    @property
    def counts(self) -> dict[str, int]:
        """What the table's note says of it: all flows, those that have no message, and of these the fillers."""
        silent = self.flows.keys() - set(self.asked)
        fillers = sum(source(name) in FILLERS for name in silent)
        return {"flows": len(self.flows), "silent": len(silent), "fillers": fillers}

    def of(self, names: Iterable[str]) -> Catalogue:
        """Some of the flows, with their messages."""
        kept = set(names)
        return Catalogue(
            {name: text for name, text in self.flows.items() if name in kept},
            [row for row in self.train if row.label in kept],
            [row for row in self.test if row.label in kept],
        )


def source(flow: str) -> str:
    """Where a flow is from.

    Example:
        >>> source("banking77.card_arrival")
        'banking77'
    """
    return flow.partition(".")[0]


def assembled(place: Place) -> Catalogue:
    """BANKING77, CLINC150 and three bots with messages; SGD, MultiWOZ, ABCD, NLU++ and STAR by descriptions alone.

    What is then missing is filled up with the first lines of dialogues (CANARD, CAsT, TIAGE), which are no tasks and
    easier to tell apart: a catalogue of 1,000 real tasks would be harder.
    """
    train, test, flows = list[Row](), list[Row](), dict[str, str]()
    for name, rows, sizes in _messages(place):
        held = parts.hold(rows, sizes, place.seed)
        kept = parts.few(held.train, 5 if place.quick else EXAMPLES, place.seed)
        train += [Row(row.text, f"{name}.{row.label}") for row in kept]
        test += [Row(row.text, f"{name}.{row.label}") for row in held.test]
        flows |= {f"{name}.{row.label}": words(row.label) for row in rows}
    for name, text in _described(place.data):
        if len(flows) < FLOWS:
            flows.setdefault(name[:128], text[:600])
    # Sources share a few messages word for word: asked in one, they would be known from the other.
    known = {parts.key(row.text) for row in train}
    asked: dict[str, Row] = {}
    for row in test:
        if parts.key(row.text) not in known:
            asked.setdefault(parts.key(row.text), row)
    return Catalogue(flows, train, list(asked.values()))


def twenties(catalogue: Catalogue, count: int, seed: int) -> Iterator[Catalogue]:
    """Catalogues of 20 flows that have messages, drawn by seed."""
    chance = random.Random(seed)
    for _ in range(count):
        yield catalogue.of(chance.sample(catalogue.asked, min(20, len(catalogue.asked))))


def registries(catalogue: Catalogue) -> Iterator[Catalogue]:
    """Each source's flows that have messages, alone: an assistant before its catalogue grew."""
    for name in sorted({source(flow) for flow in catalogue.asked}):
        yield catalogue.of(flow for flow in catalogue.asked if source(flow) == name)


def _messages(place: Place) -> Iterator[tuple[str, list[Row], dict[str, int]]]:
    banking = formats.read_csv(place.data / "banking77" / "train.csv", formats.BANKING)
    clinc = formats.read_clinc(place.data / "clinc150" / "data_small_no_test.json", "train", "val")
    for name, rows in (("banking77", banking), ("clinc150", clinc)):
        yield name, rows, dict.fromkeys(parts.by_label(rows), ASKED[name])
    for bot in BOTS:
        rows = formats.read_csv(place.data / "hint3" / "v2" / "train" / f"{bot}_train.csv", formats.HINT3)
        yield bot, rows, parts.shares(rows, HELD)


def _described(data: Path) -> Iterator[tuple[str, str]]:
    def held(*path: str) -> Any:
        return json.loads(data.joinpath(*path).read_text("utf-8"))

    for name, path in (
        ("sgd", ("sgd", "dev", "schema.json")),
        ("sgd-x1", ("sgd", "sgd_x", "data", "v1", "dev", "schema.json")),
        ("sgd-x5", ("sgd", "sgd_x", "data", "v5", "dev", "schema.json")),
        ("multiwoz", ("multiwoz22", "schema.json")),
    ):
        for service in held(*path):
            for intent in service["intents"]:
                about = f"{words(intent['name'])}. {intent['description']}"
                yield f"{name}.{service['service_name']}.{intent['name']}", about
    for flow, told in held("abcd", "guidelines.json").items():
        for name, step in told["subflows"].items():
            about = " ".join(step.get("instructions") or ())[:150]
            yield f"abcd.{flow}.{name}", f"{flow}: {name}. {about}"
    for name, told in held("nlupp", "data", "ontology.json")["intents"].items():
        yield f"nlupp.{name}", f"{words(name)}. {told['description']}"
    for folder in sorted((data / "star" / "tasks").iterdir()):
        yield f"star.{folder.name}", words(folder.name)
    seen = set()
    for row in held("canard", "dev_subset.json"):
        if row["QuAC_dialog_id"] not in seen:
            seen.add(row["QuAC_dialog_id"])
            yield f"canard.{row['QuAC_dialog_id']}", f"{' '.join(row['History'][:2])}. {row['Rewrite']}"
    for topic in held("treccast", "2020_manual_evaluation_topics_v1.0.json"):
        yield f"cast20.{topic['number']}", topic["turn"][0]["manual_rewritten_utterance"]
    topics: dict[str, str] = {}
    lines = (
        (data / "treccast" / "evaluation_topics_annotated_resolved_v1.0.tsv").read_text("utf-8").splitlines()
    )
    for line in lines:
        number, text = line.split("\t")[:2]
        topics.setdefault(number.partition("_")[0], text)
    yield from ((f"cast19.{number}", text) for number, text in topics.items())
    for number, dialogue in held("tiage", "anno_train.json").items():
        yield f"tiage.{number}", next(text for text, _ in dialogue if len(text) > 10)


def write(folder: Path, catalogue: Catalogue, seed: int) -> Path:
    """A dataset folder of one-message conversations."""
    import yaml

    folder.mkdir(parents=True, exist_ok=True)
    conversations, roles = list[LabelledConversation](), dict[str, Role]()
    for part, rows in (("train", catalogue.train), ("test", catalogue.test)):
        made = [
            single(f"{part}-{number:05d}", row.text, Labels(flows=(row.label,), intent=row.label))
            for number, row in enumerate(rows)
        ]
        conversations += made
        if part == "test":
            roles |= dict.fromkeys((each.id for each in made), "test")
        else:
            roles |= divide(made, seed=seed, fractions={"train": 0.8, "dev_a": 0.1, "dev_b": 0.1})
    registry = FlowRegistry([{"name": name, "description": text} for name, text in catalogue.flows.items()])
    dumper: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    held = {"out_of_scope_share": 0.0, "flows": registry.to_json()}
    told = yaml.dump(held, Dumper=dumper, sort_keys=False, allow_unicode=True)
    (folder / "flows.yaml").write_text(told, "utf-8")
    lines = (each.model_dump_json(exclude_defaults=True, exclude_none=True) for each in conversations)
    (folder / "conversations.jsonl").write_text("".join(f"{line}\n" for line in lines), "utf-8")
    write_splits(folder, roles, seed=seed)
    return folder
