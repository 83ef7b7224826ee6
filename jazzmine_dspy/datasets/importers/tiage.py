"""TIAGE: small talk in which each message goes on with the topic or changes it; a JSON object of dialogues."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jazzmine_dspy.datasets.importers.importer import assistant, importer, user
from jazzmine_dspy.datasets.importers.source_reader import BadRowError, PartName, SourceReader
from jazzmine_dspy.datasets.schema import LabelledConversation
from jazzmine_dspy.models.flows import Flow

_CONTINUES = {"0": True, "1": False}
_FIRST = "-1"


def layout(src: Path) -> dict[PartName, Path]:
    """The files ``anno_train.json``, ``anno_dev.json`` and ``anno_test.json``, which may lie in a folder each."""
    if src.is_file():
        return {"train": src}
    names: tuple[PartName, ...] = ("train", "dev", "test")
    files = {name: [src / f"anno_{name}.json", src / name / f"anno_{name}.json"] for name in names}
    return {name: path for name, paths in files.items() for path in paths if path.is_file()}


@importer(
    "tiage",
    title="TIAGE",
    source="github.com/HuiyuanXie/tiage (data/personachat/anno)",
    licence="MIT",
    derived=(
        "One conversation for each dialogue. Its two speakers take turns: the first is the user, the other the "
        "assistant.",
        "is_continuation of the user's messages: false where the source marks a change of the topic.",
    ),
    left_out=(
        "The marks of the assistant's messages, and one for the first message: nothing is before it.",
        "No flows, commands, rewrites, intents or sentiments, which the source does not label.",
    ),
    layout=layout,
)
def tiage(reader: SourceReader) -> Sequence[Flow]:
    """Read objects of dialogues. One with a message that cannot be read is left out, since its speakers are unknown."""
    for part in reader.parts:
        path = part.path / f"anno_{part.name.partition('_')[0]}.json" if part.path.is_dir() else part.path
        for name, rows in reader.members(path).items():
            with reader.row(path, rows[0][0]):
                turns = []
                for number, (_, (text, mark)) in enumerate(rows):
                    if mark not in (*_CONTINUES, _FIRST):
                        raise BadRowError(f"Unknown mark {mark!r}")
                    labels: dict[str, Any] = (
                        {"is_continuation": _CONTINUES[mark]} if mark in _CONTINUES else {}
                    )
                    turns.append(assistant(text) if number % 2 else user(text, **labels))
                reader.add(part, LabelledConversation(id=f"tiage-{part.name}-{name}", turns=tuple(turns)))
    return []
