"""The rows of the table: which part of which source is held apart, and in which files it lies."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from routing import formats, mixed, parts, say
from routing.parts import Row

BOTS = ("curekart", "powerplay11", "sofmattress")
HELD = 0.2
"""Share of BANKING77 and of a bot's messages that is held apart."""
UNWANTED = 300
"""Messages of other domains in a test part: each wants a flow that the registry lacks."""
DRAWS = 3
"""Draws of HINT3's test part, which is small."""
FOLDS = 4
QUICK = 0.1


@dataclass(frozen=True)
class Case:
    """Parts of one source, ready for the importers.

    Args:
        row: The table's row; several cases of one row are pooled.
        kind: Name of the source in :data:`importers.SOURCES`.
        splits: Files or folders of the parts.
        src: The source's own folder, where parts share files of it.
        counts: What the table's notes say of the source, by name.
        groups: The group of each test message, by :func:`routing.parts.key` of its text, where there are groups.
        peers: Whether the other systems are measured on it as well: they choose one flow for one message.
    """

    row: str
    kind: str
    splits: Mapping[str, Path]
    src: Path | None = None
    counts: Mapping[str, int] = field(default_factory=dict)
    groups: Mapping[str, str] = field(default_factory=dict)
    peers: bool = True


@dataclass(frozen=True)
class Place:
    """Where to read from and to write to, and how much of it."""

    data: Path
    work: Path
    seed: int
    quick: bool = False

    def of(self, rows: list[Row]) -> list[Row]:
        """All training rows, or of a quick run a tenth of each label's, three at least."""
        if not self.quick:
            return rows
        least = {label: max(3, round(len(found) * QUICK)) for label, found in parts.by_label(rows).items()}
        kept = parts.drawn(parts.by_label(rows), least, self.seed)
        return [row for number, row in enumerate(rows) if number in kept]


def banking77(place: Place) -> list[Case]:
    """A fifth of each category is held apart."""
    return [_banking(place, "banking77", None)]


def banking77_10(place: Place) -> list[Case]:
    """The same test part; ten messages a category for training."""
    return [_banking(place, "banking77-10", 10)]


def _banking(place: Place, row: str, each: int | None) -> Case:
    source = place.data / "banking77"
    rows = formats.read_csv(source / "train.csv", formats.BANKING)
    held = parts.hold(rows, parts.shares(rows, QUICK / 2 if place.quick else HELD), place.seed)
    train = place.of(held.train) if each is None else parts.few(held.train, each, place.seed)
    folder = place.work / row
    return Case(
        row,
        "banking77",
        {
            "train": formats.write_csv(folder / "train.csv", formats.BANKING, train),
            "test": formats.write_csv(folder / "test.csv", formats.BANKING, held.test),
        },
        counts={"published": len(rows)},
    )


def clinc150(place: Place) -> list[Case]:
    """Nine of ten domains, 20 of the 70 messages an intent held apart; all 200 out-of-scope messages for the test.

    300 messages of the other domain join them.
    """
    return [_clinc(place, "clinc150", 0)]


def clinc150_oos(place: Place) -> list[Case]:
    """The same, with 100 of the out-of-scope messages for training."""
    return [_clinc(place, "clinc150-oos", 100)]


def clinc150_short(place: Place) -> list[Case]:
    """The same with four domains, and ten messages an intent held apart."""
    return [_clinc(place, "clinc150-short", 100, domains=4, each=10)]


def _clinc(place: Place, row: str, known: int, *, domains: int = 9, each: int = 20) -> Case:
    source = place.data / "clinc150"
    file = source / "data_small_no_test.json"
    named = json.loads((source / "domains.json").read_text("utf-8"))
    inside = parts.drawn({"domains": sorted(named)}, {"domains": domains}, place.seed)
    intents = {intent for name in inside for intent in named[name]}
    every = formats.read_clinc(file, "train", "val")
    rows = [one for one in every if one.label in intents]
    held = parts.hold(rows, dict.fromkeys(parts.by_label(rows), 3 if place.quick else each), place.seed)
    nothing = formats.read_clinc(file, "oos_train", "oos_val")
    apart = parts.hold(nothing, {"oos": len(nothing) - known}, place.seed)
    far = _unwanted([one for one in every if one.label not in intents], UNWANTED, place.seed)
    folder = place.work / row
    _made(folder).joinpath("domains.json").write_text(
        json.dumps({name: named[name] for name in named if name in inside}), "utf-8"
    )
    return Case(
        row,
        "clinc150",
        {
            "train": formats.write_clinc(
                folder / "data_small.json", train=place.of(held.train), oos_train=apart.train
            ),
            "test": formats.write_clinc(
                folder / "data_test.json", test=held.test, oos_test=[*apart.test, *far]
            ),
        },
        groups={parts.key(row.text): "out of scope" for row in apart.test}
        | {parts.key(row.text): "other domains" for row in far}
        | {parts.key(row.text): "" for row in held.test},
    )


def _unwanted(rows: list[Row], count: int, seed: int) -> list[Row]:
    """So many of the messages, as messages that want no flow."""
    chosen = random.Random(f"{seed}:unwanted").sample(rows, min(count, len(rows)))
    return [Row(row.text, "oos") for row in chosen]


def banking77_open(place: Place) -> list[Case]:
    """Ten messages a category for training; a fifth of the categories, and other domains, are out of scope."""
    banking = formats.read_csv(place.data / "banking77" / "train.csv", formats.BANKING)
    file = place.data / "clinc150"
    named = json.loads((file / "domains.json").read_text("utf-8"))
    money = {intent for name in ("banking", "credit_cards") for intent in named.get(name, ())}
    others = formats.read_clinc(file / "data_small_no_test.json", "train", "val")
    apart = parts.left_out((row.label for row in banking), HELD, place.seed)
    near = _unwanted([row for row in banking if row.label in apart], UNWANTED // 2, place.seed)
    far = _unwanted([row for row in others if row.label not in money], UNWANTED // 2, place.seed)
    rows = [row for row in banking if row.label not in apart]
    held = parts.hold(rows, dict.fromkeys(parts.by_label(rows), 10), place.seed)
    folder = place.work / "banking77-open"
    return [
        Case(
            "banking77-open",
            # The format in which a message may be out of scope.
            "clinc150",
            {
                "train": formats.write_clinc(
                    folder / "data_small.json", train=parts.few(held.train, 10, place.seed)
                ),
                "test": formats.write_clinc(
                    folder / "data_test.json", test=held.test, oos_test=[*near, *far]
                ),
            },
            groups={parts.key(row.text): "left-out intents" for row in near}
            | {parts.key(row.text): "other domains" for row in far}
            | {parts.key(row.text): "" for row in held.test},
        )
    ]


def hint3(place: Place) -> list[Case]:
    """A bot's messages; a fifth of its intents is kept from training, and other bots' messages join the test.

    The published test part has messages that no intent is meant for; the training part has none, so these two stand
    for them: messages that are near to the bot's business, and such as are far from it.
    """
    draws = range(1 if place.quick else DRAWS)
    return [_bot(place, bot, draw) for bot in BOTS for draw in draws]


def _bot(place: Place, bot: str, draw: int) -> Case:
    folder = place.data / "hint3" / "v2" / "train"
    rows, others = list[Row](), list[Row]()
    for name in BOTS:
        found = formats.read_csv(folder / f"{name}_train.csv", formats.HINT3)
        (rows if name == bot else others).extend(found)
    seed = place.seed + draw
    apart = parts.left_out((row.label for row in rows), HELD, seed)
    inside = [row for row in rows if row.label not in apart]
    near = [row for row in rows if row.label in apart]
    held = parts.hold(inside, parts.shares(inside, HELD), seed)
    said = {parts.key(row.text) for row in rows}
    far = [row for row in others if parts.key(row.text) not in said]
    far = random.Random(f"{seed}:far").sample(far, min(len(far), len(held.test)))
    groups = {parts.key(row.text): "left-out intents" for row in near}
    groups |= {parts.key(row.text): "other bots" for row in far}
    groups |= {parts.key(row.text): "" for row in inside}
    test = [*held.test, *(Row(row.text, formats.NOTHING_FITS) for row in (*near, *far))]
    made = place.work / f"hint3-{bot}-{draw}"
    return Case(
        f"hint3-{bot}",
        "hint3",
        {
            "train": formats.write_csv(made / f"{bot}_train.csv", formats.HINT3, held.train),
            "test": formats.write_csv(made / f"{bot}_test.csv", formats.HINT3, test),
        },
        groups=groups,
    )


def mixsnips(place: Place) -> list[Case]:
    """Four disjoint test parts of 110 messages.

    There is no row for MixATIS: its dev part is joined from so few requests that most intents would be left without any
    for training.
    """
    messages = mixed.read(place.data / "mixsnips_clean" / "dev.txt")
    groups = mixed.components(messages)
    say(f"mixsnips: {len(messages)} messages, {groups[0]} of them hang together by shared requests")
    made = mixed.folds(messages, 110, 1 if place.quick else FOLDS, place.seed)
    cases = []
    for number, fold in enumerate(made):
        say(
            f"mixsnips {number + 1}: {len(fold.test)} messages of {len(mixed.requests(fold.test))} requests apart; of "
            f"the others {fold.cut} are cut and {fold.dropped} dropped; requests on both sides: "
            f"{len(mixed.shared(fold.train, fold.test))}"
        )
        folder = place.work / f"mixsnips-{number}"
        splits = {
            "train": mixed.write(folder / "train.txt", fold.train[:400] if place.quick else fold.train),
            "test": mixed.write(folder / "test.txt", fold.test),
        }
        cases.append(Case("mixsnips", "mixsnips", splits, peers=False))
    return cases


def nlupp(place: Place) -> list[Case]:
    """Two of each domain's ten folds are held apart."""
    source = place.data / "nlupp" / "data"
    work = place.work / "nlupp"
    shutil.copy(source / "ontology.json", _made(work))
    for domain in ("banking", "hotels"):
        files = sorted((source / domain).glob("fold*.json"))
        apart = parts.drawn({domain: files}, {domain: 2}, place.seed)
        formats.copied((file for file in files if file in apart), work / "test" / domain)
        formats.copied((file for file in files if file not in apart), work / "train" / domain)
    return [Case("nlupp", "nlupp", {"train": work / "train", "test": work / "test"}, peers=False)]


def star(place: Place) -> list[Case]:
    """A quarter of the dialogues of each kind (one task or several, helpful or not) is held apart."""
    source = place.data / "star"
    kinds: dict[str, list[Path]] = {}
    for file in sorted((source / "dialogues").glob("*.json")):
        told = json.loads(file.read_text("utf-8"))["Scenario"]
        kinds.setdefault(f"{told['Happy']} {told['MultiTask']}", []).append(file)
    apart = parts.drawn(kinds, {name: len(files) // 4 for name, files in kinds.items()}, place.seed)
    work = place.work / "star"
    splits = {
        "train": formats.copied(
            (f for files in kinds.values() for f in files if f not in apart), work / "train"
        ),
        "test": formats.copied(apart, work / "test"),
    }
    return [Case("star", "star", splits, src=source, peers=False)]


def sgd(place: Place) -> list[Case]:
    """A quarter of the dialogues is held apart; the schema is the registry."""
    source = place.data / "sgd" / "dev"
    dialogues = [
        item
        for file in sorted(source.glob("dialogues_*.json"))
        for item in json.loads(file.read_text("utf-8"))
    ]
    names = [item["dialogue_id"] for item in dialogues]
    apart = parts.drawn({"sgd": names}, {"sgd": len(names) // 4}, place.seed)
    splits = {}
    for part, test in (("train", False), ("test", True)):
        folder = _made(place.work / "sgd" / part)
        held = [item for item in dialogues if (item["dialogue_id"] in apart) == test]
        (folder / "dialogues_001.json").write_text(json.dumps(held), "utf-8")
        shutil.copy(source / "schema.json", folder)
        splits[part] = folder
    return [Case("sgd", "sgd", splits, peers=False)]


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder


SETS: dict[str, Callable[[Place], list[Case]]] = {
    "banking77": banking77,
    "banking77-10": banking77_10,
    "clinc150": clinc150,
    "clinc150-oos": clinc150_oos,
    "clinc150-short": clinc150_short,
    "banking77-open": banking77_open,
    "hint3": hint3,
    "mixsnips": mixsnips,
    "nlupp": nlupp,
    "star": star,
    "sgd": sgd,
}
"""What can be measured, by the name that ``--only`` takes."""

QUICKEST = ("clinc150-short", "banking77-open", "sgd")
"""What ``--short`` measures, in ten minutes: in scope, and out of it by 300 messages or more."""
