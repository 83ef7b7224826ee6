"""SGD as a dataset to compile on: dialogues of some services teach, turns about services that these lack are the test.

``python eval/benchmarks/sgd_services.py --out datasets/sgd-services`` writes the folder that
``eval/recipes/sgd.toml`` names. SGD's own labels hold conventions that no prompt of this project states, such as a
start for each intent that becomes active, with every value that the state then has. The dialogues are read from the
published folders ``train`` and ``dev``; nothing is downloaded. No dialogue of SGD is part of the repository; what was
answered in a run holds values, and the instruction a few words, of its turns.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import tarfile
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parent))

from importers import SOURCES

from jazzmine_dspy.datasets import load_dataset
from jazzmine_dspy.datasets.importers import ImportReport
from jazzmine_dspy.datasets.load import CARD_FILE, draw
from jazzmine_dspy.datasets.schema import CONVERSATIONS_FILE, Example
from jazzmine_dspy.datasets.split import delexicalise
from jazzmine_dspy.models.errors import JazzmineError

ROOT = Path(__file__).resolve().parents[2]
DATA = Path(os.environ.get("JAZZMINE_DATA", ROOT.parent / "shared" / "data"))
SEED = 17
SIZES = {"train": 40, "dev": 20}
"""Dialogues to learn from and to choose by, both of SGD's train part."""
TURNS = 120

_OWN_WORDS = 4
"""From this many words on a message that stands in two parts is a leak."""
_ARCHIVE = "training.tar.xz"

_CARD = """
## What was drawn

`eval/benchmarks/sgd_services.py` drew the dialogues with seed {seed}. train, dev_a and dev_b are of SGD's train part
and share no message of four words with another part. The test part has labels on {n} turns of SGD's dev part: turns
with commands about services that SGD's train part lacks.
"""

Dialogue = dict[str, Any]


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the dataset; exit code 0, also where the data is missing (a line says so), 2 where it cannot be written."""
    options = _options(arguments)
    dev = options.dev or options.data / "sgd" / "dev"
    train = options.train or options.data / "sgd" / "train"
    try:
        with tempfile.TemporaryDirectory(prefix="sgd-services-") as made:
            if not train.is_dir() and (options.data / _ARCHIVE).is_file() and options.train is None:
                train = unpacked(options.data / _ARCHIVE, Path(made))
            for folder in (train, dev):
                if not (folder / "schema.json").is_file():
                    print(
                        f"skipped: there is no {folder / 'schema.json'}; name the folder, or set JAZZMINE_DATA"
                    )
                    return 0
            report = write(
                train, dev, options.out, work=Path(made), seed=options.seed, replace=options.replace
            )
    except JazzmineError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(f"{report.out}: {report.conversations} dialogues, {report.turns} turns, {report.flows} flows")
    return 0


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python eval/benchmarks/sgd_services.py", description="SGD to compile on."
    )
    parser.add_argument("--out", type=Path, required=True, help="folder to write the dataset to")
    parser.add_argument("--data", type=Path, default=DATA, help="folder of the public data (JAZZMINE_DATA)")
    parser.add_argument(
        "--train", type=Path, help=f"SGD's folder train; else DATA/sgd/train or DATA/{_ARCHIVE}"
    )
    parser.add_argument("--dev", type=Path, help="SGD's folder dev; else DATA/sgd/dev")
    parser.add_argument("--seed", type=int, default=SEED, help="of all draws")
    parser.add_argument("--replace", action="store_true", help="overwrite a dataset in the folder")
    return parser.parse_args(arguments)


def unpacked(archive: Path, folder: Path) -> Path:
    """SGD's train part from the archive of larger data."""
    with tarfile.open(archive) as stream:
        for member in stream:
            if member.isfile() and member.name.removeprefix("./").startswith("sgd/train/"):
                stream.extract(member, folder, filter="data")
    return folder / "sgd" / "train"


def write(
    train: Path, dev: Path, out: Path, *, work: Path, seed: int = SEED, sizes: Mapping[str, int] = SIZES,
    turns: int = TURNS, replace: bool = False,
) -> ImportReport:  # fmt: skip
    """Write the dataset.

    Args:
        train: SGD's train part: dialogues and ``schema.json``.
        dev: SGD's dev part.
        out: Folder of the dataset.
        work: Folder for what is written on the way.
        seed: Of all draws.
        sizes: Numbers of dialogues for train, and for dev_a and dev_b together.
        turns: Number of test turns.
        replace: Whether a dataset in the folder is overwritten.

    Raises:
        DatasetError: a part has nothing to draw from, or the folder cannot be written.
    """
    taught, unseen = list(_dialogues(train)), list(_dialogues(dev))
    known = {service for dialogue in taught for service in dialogue["services"]}
    schema = {each["service_name"]: each for folder in (train, dev) for each in _json(folder / "schema.json")}
    whole = _part(work / "whole", [d for d in unseen if set(d["services"]) - known], schema)
    SOURCES["sgd"].convert(None, out=work / "imported", splits=[("test", whole)], replace=True)
    tested = {example.key for example in _tested(work / "imported", known, turns, seed)}
    names = {key.partition("/")[0].removeprefix("sgd-test-") for key in tested}
    parts = {"test": [dialogue for dialogue in unseen if dialogue["dialogue_id"] in names]}
    said = {text for dialogue in parts["test"] for text in _messages(dialogue)}
    random.Random(seed).shuffle(taught)
    for name, size in sizes.items():
        parts[name] = list(_apart(taught, size, said))
    # Flows that no dialogue is about would only make the choice longer.
    used = {service for part in parts.values() for dialogue in part for service in dialogue["services"]}
    services = {name: schema[name] for name in schema if name in used}
    splits = [(name, _part(work / name, parts[name], services)) for name in ("train", "dev", "test")]
    report = SOURCES["sgd"].convert(None, out=out, splits=splits, seed=seed, replace=replace)
    _leave_labels(out / CONVERSATIONS_FILE, tested)
    with (out / CARD_FILE).open("a", encoding="utf-8") as card:
        card.write(_CARD.format(n=len(tested), seed=seed))
    return report


def _json(path: Path) -> Any:
    return json.loads(path.read_text("utf-8"))


def _dialogues(folder: Path) -> Iterator[Dialogue]:
    for file in sorted(folder.glob("dialogues_*.json")):
        yield from _json(file)


def _part(folder: Path, dialogues: Sequence[Dialogue], services: Mapping[str, Any]) -> Path:
    """A folder as SGD has one for each part."""
    folder.mkdir(parents=True)
    (folder / "dialogues_001.json").write_text(json.dumps(dialogues), "utf-8")
    (folder / "schema.json").write_text(json.dumps(list(services.values())), "utf-8")
    return folder


def _tested(imported: Path, known: Iterable[str], size: int, seed: int) -> list[Example]:
    """Turns with commands that are about a service which the train part lacks."""
    dataset = load_dataset(imported)
    dataset.open_test("draw the test turns", imported)
    found = [
        example
        for example in dataset.examples("test")
        if example.labels.commands
        and not {name.partition(".")[0] for name in _flows(example)} & set(known)
        and _flows(example)
    ]
    return draw(found, size, seed)


def _flows(example: Example) -> list[str]:
    return [name for name in (example.turn.flow, *(example.labels.flows or ())) if name]


def _messages(dialogue: Dialogue) -> Iterator[str]:
    """The user's messages that tie a dialogue to another: those that not everybody says."""
    for turn in dialogue["turns"]:
        text = delexicalise(turn["utterance"])
        if turn["speaker"] == "USER" and len([word for word in text.split() if word != "#"]) >= _OWN_WORDS:
            yield text


def _apart(dialogues: list[Dialogue], size: int, said: set[str]) -> Iterator[Dialogue]:
    """The next dialogues that share no message with those drawn before; they are taken from the list."""
    left = size
    while left and dialogues:
        dialogue = dialogues.pop()
        messages = set(_messages(dialogue))
        if messages.isdisjoint(said):
            said |= messages
            left -= 1
            yield dialogue


def _leave_labels(path: Path, tested: set[str]) -> None:
    """Remove the labels of the test part's other turns, so that no score counts them."""
    lines = []
    for line in path.read_text("utf-8").splitlines():
        conversation = json.loads(line)
        number = 0
        for turn in conversation["turns"]:
            number += turn["role"] == "user"
            key = f"{conversation['id']}/{turn.get('id') or f't{number}'}"
            if conversation["id"].startswith("sgd-test-") and key not in tested:
                turn.pop("labels", None)
        lines.append(json.dumps(conversation, ensure_ascii=False) + "\n")
    path.write_text("".join(lines), "utf-8", newline="\n")


if __name__ == "__main__":
    sys.exit(main())
