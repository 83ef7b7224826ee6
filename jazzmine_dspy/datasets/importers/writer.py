"""Writing an imported dataset: card, flows, conversations and splits."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from jazzmine_dspy.datasets.importers.importer import Importer
from jazzmine_dspy.datasets.importers.source_reader import SourceReader
from jazzmine_dspy.datasets.load import CARD_FILE
from jazzmine_dspy.datasets.schema import (
    CONVERSATIONS_FILE,
    FLOWS_FILE,
    ROLES,
    SPLITS_FILE,
    LabelledConversation,
    Role,
    StateBefore,
    as_written,
)
from jazzmine_dspy.datasets.split import write_splits
from jazzmine_dspy.models.errors import DatasetError
from jazzmine_dspy.models.registry import FlowRegistry

_FEW = 3
"""Files that the card names one by one; of more it gives their number."""

FILES = (CARD_FILE, FLOWS_FILE, CONVERSATIONS_FILE, SPLITS_FILE)


def claim(out: Path, *, replace: bool, flows: Path | None = None) -> None:
    """Check that a dataset may be written to a folder, before any work is done.

    Args:
        out: The folder.
        replace: Whether a dataset in it may be overwritten.
        flows: The file of flows that the import uses, which may lie in the folder.

    Raises:
        DatasetError: it is a file, or contains a dataset that is not to be replaced.
    """
    if out.exists() and not out.is_dir():
        raise DatasetError("The folder to write to is a file", where=str(out), remedy="Name another --out.")
    existing = [name for name in FILES if (out / name).exists() and out / name != flows]
    if existing and not replace:
        raise DatasetError(
            f"The folder holds a dataset already: {', '.join(existing)}",
            where=str(out),
            remedy="Name another --out, or say --replace.",
        )


def write_folder(
    out: Path,
    *,
    card: str,
    flows: FlowRegistry | bytes,
    conversations: Sequence[LabelledConversation],
    roles: Mapping[str, Role],
    seed: int,
) -> None:
    """Write all four files, each whole or not at all; flows that are bytes are somebody's own file, notes and all.

    Raises:
        DatasetError: the folder cannot be written.
    """
    listed = flows if isinstance(flows, bytes) else _yaml(flows).encode()
    lines = "".join(_line(conversation) + "\n" for conversation in conversations)
    try:
        out.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=out, prefix=".import-") as name:
            made = Path(name)
            (made / CARD_FILE).write_text(card, "utf-8", newline="\n")
            (made / FLOWS_FILE).write_bytes(listed)
            (made / CONVERSATIONS_FILE).write_text(lines, "utf-8", newline="\n")
            write_splits(made, roles, seed=seed)
            for file in FILES:
                (made / file).replace(out / file)
    except OSError as error:
        raise DatasetError(
            f"Cannot write the dataset: {error.strerror}",
            where=str(error.filename or out),
            remedy="Name another --out, or change its rights.",
        ) from error


def _yaml(flows: FlowRegistry) -> str:
    import yaml

    dumper: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    share = flows.out_of_scope_share
    content: dict[str, Any] = {} if share is None else {"out_of_scope_share": share}
    content["flows"] = flows.to_json()
    return str(yaml.dump(content, Dumper=dumper, sort_keys=False, allow_unicode=True, width=110))


def _line(conversation: LabelledConversation) -> str:
    """One line of the file; what says nothing is left out, so that thousands of messages stay readable."""
    data = conversation.model_dump(mode="json", exclude_none=True)
    if conversation.timezone == "UTC":
        del data["timezone"]
    said = [turn for turn in conversation.turns if turn.role == "user"]
    # A conversation that states nothing has its states derived; one that is idle all along says so.
    idle = all(turn.before == StateBefore() for turn in said) and any(
        "before" in t.model_fields_set for t in said
    )
    for turn, dumped in zip(conversation.turns, data["turns"], strict=True):
        dumped["before"] = as_written(dumped["before"])
        for name, empty in (
            ("before", turn.before == StateBefore() and not (idle and turn.role == "user" and len(said) > 1)),
            ("tags", not turn.tags),
            ("id", not turn.id),
        ):
            if empty:
                del dumped[name]
    return json.dumps(data, ensure_ascii=False)


def card(importer: Importer, reader: SourceReader, *, roles: Mapping[str, Role], flows: int) -> str:
    """The card: where the texts are from, under which licence, what the labels are made from and what not.

    Args:
        importer: What read the source.
        reader: The files that it read, and its notes.
        roles: The role of each conversation.
        flows: Number of flows.
    """
    counts = {role: list(roles.values()).count(role) for role in ROLES}
    lines = [
        f"# {importer.title}, imported",
        "",
        f"{len(roles)} conversations, {flows} flows. Made by `jazzmine-dspy datasets import {importer.name}`; no text "
        "and no label was written for it.",
        "",
        f"Source: {importer.source}. Licence stated there: {importer.licence}. It holds for the texts in this folder "
        "too: read it before passing them on.",
        "",
        "| file read | SHA-256 |",
        "|---|---|",
        *(f"| {name} | `{digest}` |" for name, digest in _files(reader.opened)),
        "",
        "| role | conversations |",
        "|---|---|",
        *(f"| {role} | {count} |" for role, count in counts.items() if count),
        "",
        "## What the labels are made from",
        "",
        *(f"- {text}" for text in importer.derived),
        "",
        "## What is not there",
        "",
        *(f"- {text}" for text in importer.left_out),
        "- Flows have no examples unless they were asked for; the training part has them all.",
        "",
        "## This import",
        "",
        *(f"- {text}" for text in reader.notes),
        f"- Rows that could not be read and were left out: {reader.left_out}.",
        "",
    ]
    return "\n".join(lines)


def _files(opened: Mapping[Path, str]) -> Iterator[tuple[str, str]]:
    """Each file with its hash; of a folder of many, their number and a hash over all."""
    files = {path.resolve(): digest for path, digest in opened.items()}
    root = Path(os.path.commonpath([path.parent for path in files]))
    folders: dict[str, dict[str, str]] = {}
    for path, digest in files.items():
        name = path.relative_to(root)
        folders.setdefault(name.parts[0] if len(name.parts) > 1 else "", {})[name.as_posix()] = digest
    for folder, inside in folders.items():
        if len(inside) <= _FEW:
            yield from inside.items()
        else:
            total = hashlib.sha256(json.dumps(sorted(inside.items())).encode()).hexdigest()
            yield f"{len(inside)} files{f' in {folder}' if folder else ''}, one hash over all", total
