"""Writing an imported dataset: card, flows, conversations and splits."""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from jazzmine_dspy.datasets.importers.intake import Intake
from jazzmine_dspy.datasets.importers.kinds import Kind
from jazzmine_dspy.datasets.importers.source import Part
from jazzmine_dspy.datasets.schema import (
    CONVERSATIONS_FILE,
    FLOWS_FILE,
    ROLES,
    SPLITS_FILE,
    LabelledConversation,
    Role,
    StateBefore,
)
from jazzmine_dspy.datasets.split import write_splits
from jazzmine_dspy.models.errors import DatasetError
from jazzmine_dspy.models.registry import FlowRegistry

CARD_FILE = "card.md"
_FEW = 3
"""Files that the card names one by one; of more it gives their number."""

FILES = (CARD_FILE, FLOWS_FILE, CONVERSATIONS_FILE, SPLITS_FILE)


def claim(out: Path, *, replace: bool, kept: Path | None = None) -> None:
    """Make sure that a dataset may be written to a folder, before any work is done.

    Args:
        kept: A file that stays as it is, and so may be there.

    Raises:
        DatasetError: it is a file, or holds a dataset that is not to be replaced.
    """
    if out.exists() and not out.is_dir():
        raise DatasetError("The folder to write to is a file", where=str(out), remedy="Name another --out.")
    held = [name for name in FILES if (out / name).exists() and out / name != kept]
    if held and not replace:
        raise DatasetError(
            f"The folder holds a dataset already: {', '.join(held)}",
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
        if held := dumped["before"].pop("paused_slots", None):
            dumped["before"]["paused"] = [
                {"flow": name, "slots": held[name]} if name in held else name for name in turn.before.paused
            ]
        for name, empty in (
            ("before", turn.before == StateBefore() and not (idle and turn.role == "user" and len(said) > 1)),
            ("tags", not turn.tags),
            ("id", not turn.id),
        ):
            if empty:
                del dumped[name]
    return json.dumps(data, ensure_ascii=False)


def card(
    kind: Kind,
    *,
    parts: Sequence[Part],
    roles: Mapping[str, Role],
    flows: int,
    intake: Intake,
    notes: Sequence[str],
) -> str:
    """The card: where the texts are from, under which licence, what the labels are made from and what not."""
    counts = {role: sum(held == role for held in roles.values()) for role in ROLES}
    lines = [
        f"# {kind.title}, imported",
        "",
        f"{len(roles)} conversations, {flows} flows. Made by `jazzmine-dspy datasets import {kind.name}`; no text "
        "and no label was written for it.",
        "",
        f"Source: {kind.source}. Licence stated there: {kind.licence}. It holds for the texts in this folder too: "
        "read it before passing them on.",
        "",
        "| file read | SHA-256 |",
        "|---|---|",
        *(f"| {name} | `{digest}` |" for name, digest in _files(parts, intake.opened)),
        "",
        "| role | conversations |",
        "|---|---|",
        *(f"| {role} | {count} |" for role, count in counts.items() if count),
        "",
        "## What the labels are made from",
        "",
        *(f"- {text}" for text in kind.derived),
        "",
        "## What is not there",
        "",
        *(f"- {text}" for text in kind.left_out),
        "- Flows have no examples unless they were asked for; the training part has them all.",
        "",
        "## This import",
        "",
        *(f"- {text}" for text in notes),
        f"- Rows that could not be read and were left out: {intake.left_out}.",
        "",
    ]
    return "\n".join(lines)


def _files(parts: Sequence[Part], opened: Mapping[Path, str]) -> list[tuple[str, str]]:
    """Each file with its hash; of a folder of many, their number and a hash over all."""
    found: list[tuple[str, str]] = []
    shared = dict(opened)
    for part in parts:
        if part.path.is_dir():
            inside = {path: shared.pop(path) for path in list(shared) if path.is_relative_to(part.path)}
            found += _hashes(part.name, part.path, inside)
        elif part.path in shared:
            names = ", ".join(other.name for other in parts if other.path == part.path)
            found.append((f"{names}: {part.path.name}", shared.pop(part.path)))
    folders: dict[Path, dict[Path, str]] = {}
    for path, digest in shared.items():
        top = path.parent.parent if len(shared) > _FEW else path.parent
        folders.setdefault(top, {})[path] = digest
    for top, inside in folders.items():
        found += _hashes("shared", top, inside)
    return found


def _hashes(name: str, folder: Path, inside: Mapping[Path, str]) -> list[tuple[str, str]]:
    if len(inside) <= _FEW:
        return [(f"{name}: {path.name}", digest) for path, digest in inside.items()]
    told = sorted((path.relative_to(folder).as_posix(), digest) for path, digest in inside.items())
    total = hashlib.sha256(json.dumps(told).encode()).hexdigest()
    return [(f"{name}: {len(inside)} files in {folder.name}, one hash over all", total)]
