"""CLINC150: one of 150 intents, or none; a JSON object with lists of [text, intent] for each part."""

from __future__ import annotations

from pathlib import Path

from jazzmine_dspy.datasets.importers.intake import BadRowError, Intake
from jazzmine_dspy.datasets.importers.kinds import importer
from jazzmine_dspy.datasets.importers.source import (
    Gathered,
    PartName,
    Source,
    label_flows,
    of_label,
    single,
    unseen,
)
from jazzmine_dspy.datasets.schema import LabelledConversation
from jazzmine_dspy.models.errors import DatasetError

_KEYS: dict[PartName, tuple[str, str]] = {
    "train": ("train", "oos_train"),
    "dev": ("val", "oos_val"),
    "dev_a": ("val", "oos_val"),
    "dev_b": ("val", "oos_val"),
    "test": ("test", "oos_test"),
}
_NOTHING_FITS = "oos"
_FILES = ("data_full.json", "data_small.json", "data_imbalanced.json", "data_oos_plus.json")


def layout(src: Path) -> dict[PartName, Path]:
    """All parts that one file holds."""
    path = _one(src)
    held = Intake().members(path)
    names: tuple[PartName, ...] = ("train", "dev", "test")
    return {name: path for name in names if any(held.get(key) for key in _KEYS[name])}


def _one(src: Path) -> Path:
    if not src.is_dir():
        return src
    folder = src / "data" if (src / "data").is_dir() else src
    files = sorted(path for path in folder.glob("data_*.json"))
    if len(files) != 1:
        raise DatasetError(
            f"The folder has {len(files)} files data_*.json",
            where=str(folder),
            remedy=f"Name the one that you mean, such as {_FILES[1]}.",
        )
    return files[0]


@importer(
    "clinc150",
    title="CLINC150",
    source="github.com/clinc/oos-eval (data)",
    licence="CC BY 3.0",
    derived=(
        "One conversation of one message for each pair; the message's flow and its intent are the pair's intent.",
        "The intent oos means that no flow is meant: flows is empty, and the intent out_of_scope.",
        "One flow for each intent; its description is the intent as words, its category the domain, where "
        "domains.json lies near.",
    ),
    left_out=("No slots, commands, rewrites or sentiments, which the source does not label.",),
    layout=layout,
    # Its messages out of scope were collected apart, so their number says nothing of a share: a fifth is assumed.
    out_of_scope_share=0.2,
    many_in_one=True,
)
def clinc150(source: Source, intake: Intake) -> Gathered:
    """Read the lists of each part; with ``domains.json`` near them, an intent that is not in it is a fault."""
    domains = _domains(source, intake)
    conversations: dict[PartName, list[LabelledConversation]] = {}
    seen: dict[PartName, set[str]] = {}
    files: dict[Path, dict[str, list[tuple[int, object]]]] = {}
    for part in source.parts:
        path = _one(part.path)
        if path not in files:  # read once: what is broken in it counts once
            files[path] = intake.members(path)
        held = files[path]
        keys = _KEYS[part.name]
        if not any(key in held for key in keys):
            raise DatasetError(
                f"The file holds neither {keys[0]!r} nor {keys[1]!r}",
                where=str(path),
                remedy=f"Name a file that has the part {part.name!r}; this one has: {', '.join(held) or 'none'}.",
            )
        rows = conversations.setdefault(part.name, [])
        labels = seen.setdefault(part.name, set())
        for key in keys:
            for number, (line, row) in enumerate(held.get(key, ()), start=1):
                with intake.row(path, line):
                    text, label = _pair(row, domains)
                    nothing = label == _NOTHING_FITS
                    name = f"clinc150-{part.name}-{'oos-' * key.startswith('oos')}{number:05d}"
                    rows.append(single(name, text, of_label(None if nothing else label)))
                    labels.update(() if nothing else (label,))
    return Gathered(label_flows(domains or set().union(*seen.values()), domains), conversations, unseen(seen))


def _pair(row: object, known: dict[str, str]) -> tuple[str, str]:
    if not isinstance(row, list) or len(row) != 2 or not all(isinstance(item, str) for item in row):
        raise BadRowError("The row is no pair of a text and an intent")
    text, label = row
    if not label or (known and label not in known and label != _NOTHING_FITS):
        raise BadRowError(f"Unknown intent {label!r}: domains.json has none such" if label else "No intent")
    return text, label


def _domains(source: Source, intake: Intake) -> dict[str, str]:
    path = source.beside("domains.json", "data")
    if path is None:
        return {}
    return {str(name): domain for domain, held in intake.members(path).items() for _, name in held}
