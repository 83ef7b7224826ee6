"""Importing a source into a dataset folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from jazzmine_dspy.datasets.importers import writer
from jazzmine_dspy.datasets.importers.importer import IMPORTERS, Importer
from jazzmine_dspy.datasets.importers.source_reader import PARTS, BadRow, Part, PartName, SourceReader
from jazzmine_dspy.datasets.schema import FLOWS_FILE, ROLES, Role
from jazzmine_dspy.datasets.split import FRACTIONS, divide
from jazzmine_dspy.models.base import Value
from jazzmine_dspy.models.errors import DatasetError
from jazzmine_dspy.models.flows import Flow
from jazzmine_dspy.models.registry import FlowRegistry

DEV_SHARE = 0.2
"""Share of the training part that becomes dev_a and dev_b, half each, where the source has no dev part."""


class ImportReport(Value):
    """What an import made, and what it left out.

    Args:
        roles: Conversations by role.
        turns, labelled_turns: Messages of users in all, and those with labels.
        left_out: Rows that could not be read; ``bad_rows`` are the first 20.
        notes: What was decided on the way.
    """

    kind: str
    out: str
    seed: int
    conversations: int
    roles: dict[Role, int]
    turns: int
    labelled_turns: int
    flows: int
    left_out: int
    bad_rows: tuple[BadRow, ...]
    notes: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """The report as JSON data."""
        return self.model_dump(mode="json")


def import_dataset(
    kind: str,
    src: str | Path | None = None,
    *,
    out: str | Path,
    splits: Sequence[tuple[str, str | Path]] = (),
    seed: int = 0,
    dev_share: float = DEV_SHARE,
    examples: int = 0,
    replace: bool = False,
    columns: Mapping[str, str] = MappingProxyType({}),
    encoding: str | None = None,
    flows: str | Path | None = None,
) -> ImportReport:
    """Import a public dataset in its original format into a dataset folder.

    Args:
        kind: One of :data:`IMPORTERS`.
        src: The source's file or folder, as published; its parts are found by the source's own layout.
        out: Folder to write ``card.md``, ``flows.yaml``, ``conversations.jsonl`` and ``splits.json`` to.
        splits: Names (``train``, ``dev``, ``dev_a``, ``dev_b``, ``test``) and files or folders that hold these parts;
            they take the place of what ``src`` has under the name.
        seed: Of the division of dev, or of train where there is no dev part. The same input and seed give
            the same bytes.
        dev_share: Share of train that is divided between dev_a and dev_b where there is no dev part.
        examples: Training messages that each flow takes over as its examples, first ones first.
        replace: Also write where a dataset is already.
        columns: Columns of a table of one's own, by what they hold; see ``docs/guide/datasets-import.md``.
        encoding: Of such a table; told by the file where None.
        flows: The ``flows.yaml`` that its labels speak of, copied as it is; that in ``out`` where None.

    Raises:
        DatasetError: the kind or a name is unknown, a name is given twice, a file is of another kind, a part has
            no readable row, or the folder cannot be written. A row that cannot be read is left out and counted.
    """
    if kind not in IMPORTERS:
        known = ", ".join(IMPORTERS)
        raise DatasetError(f"Unknown kind {kind!r}", where="KIND", remedy=f"Use one of: {known}.")
    importer = IMPORTERS[kind]
    if not 0 <= dev_share < 1:
        raise DatasetError(
            f"The share {dev_share:g} is not from 0 to below 1", where="dev_share", remedy="Give such as 0.2."
        )
    folder = Path(out)
    listed = _flows(importer, folder, flows, own=bool(columns) or encoding is not None)
    writer.claim(folder, replace=replace, flows=listed)
    source = None if src is None else _existing(Path(src), "SRC")
    parts = _parts(importer, source, splits)
    reader = SourceReader(parts, source, columns=columns, encoding=encoding, flows=listed)
    read = importer.read(reader)
    _check_complete(reader)
    roles = _roles(reader, seed, dev_share, whole=importer.own and len(parts) == 1 and not splits)
    conversations = [c for part in parts for c in reader.conversations[part.name]]
    registry = FlowRegistry(
        _with_examples(read, reader, roles, examples), out_of_scope_share=importer.out_of_scope_share
    )
    writer.write_folder(
        folder,
        card=writer.card(importer, reader, roles=roles, flows=len(registry)),
        flows=registry if listed is None else listed.read_bytes(),
        conversations=conversations,
        roles=roles,
        seed=seed,
    )
    turns = [turn for conversation in conversations for turn in conversation.turns if turn.role == "user"]
    return ImportReport(
        kind=importer.name,
        out=str(folder),
        seed=seed,
        conversations=len(conversations),
        roles={role: list(roles.values()).count(role) for role in ROLES},
        turns=len(turns),
        labelled_turns=sum(turn.labels is not None for turn in turns),
        flows=len(registry),
        left_out=reader.left_out,
        bad_rows=tuple(reader.bad_rows),
        notes=tuple(reader.notes),
    )


def _flows(importer: Importer, out: Path, flows: str | Path | None, *, own: bool) -> Path | None:
    """The file of the flows that a table speaks of; None where they are made from its labels."""
    if not importer.own:
        if flows is not None or own:
            tables = ", ".join(name for name, each in IMPORTERS.items() if each.own)
            raise DatasetError(
                f"{importer.name} takes no map, encoding or flows",
                where="KIND",
                remedy=f"Leave them out, or import a table of your own: {tables}.",
            )
        return None
    if flows is not None:
        path = _existing(Path(flows), "--flows")
        return path / FLOWS_FILE if path.is_dir() else path
    return out / FLOWS_FILE if (out / FLOWS_FILE).is_file() else None


def _existing(path: Path, where: str) -> Path:
    if not path.exists():
        raise DatasetError(f"There is no {path}", where=where, remedy="Name a file or folder of the source.")
    return path


def _parts(importer: Importer, src: Path | None, splits: Sequence[tuple[str, str | Path]]) -> list[Part]:
    named: dict[PartName, Path] = {}
    for name, path in splits:
        where = f"--split {name}"
        if name not in PARTS:
            raise DatasetError(f"Unknown split {name!r}", where=where, remedy=f"Use: {', '.join(PARTS)}.")
        part: PartName = name
        if part in named:
            raise DatasetError(f"The split {name!r} is named twice", where=where, remedy="Name it once.")
        named[part] = _existing(Path(path), where)
    if "dev" in named and {"dev_a", "dev_b"} & set(named):
        raise DatasetError(
            "The split 'dev' is named beside dev_a or dev_b",
            where="--split dev",
            remedy="Name dev, which is divided into both, or these two.",
        )
    parts = {**(_layout(importer, src, named) if src is not None else {}), **named}
    if not parts:
        where = str(src) if src is not None else "SRC"
        raise DatasetError(
            f"No part of {importer.title} is there" if src else "Nothing to import is named",
            where=where,
            remedy="Name the source's folder, or its parts: --split train=PATH.",
        )
    seen: dict[tuple[str, Path], PartName] = {}
    for part, path in parts.items():
        rows = _rows(importer, part, path)
        if rows in seen:
            raise DatasetError(
                f"The splits {seen[rows]!r} and {part!r} are the same rows",
                where=str(path),
                remedy="Name other files; dev alone is divided into dev_a and dev_b.",
            )
        seen[rows] = part
    return [Part(name, parts[name]) for name in PARTS if name in parts]


def _layout(importer: Importer, src: Path, named: Mapping[PartName, Path]) -> dict[PartName, Path]:
    """What the source's layout adds to the parts that were named."""
    try:
        parts = importer.layout(src)
    except DatasetError:
        if not named:
            raise
        return {}
    if {"dev_a", "dev_b"} & set(named):
        parts.pop("dev", None)
    taken = {_rows(importer, name, path) for name, path in named.items()}
    return {name: path for name, path in parts.items() if _rows(importer, name, path) not in taken}


def _rows(importer: Importer, name: PartName, path: Path) -> tuple[str, Path]:
    """What a part reads: a file, and where a file holds several parts, which of them."""
    return (name.partition("_")[0] if importer.many_in_one else "", path.resolve())


def _check_complete(reader: SourceReader) -> None:
    for part in reader.parts:
        if not reader.conversations[part.name]:
            first = reader.bad_rows[0] if reader.bad_rows else None
            cause = f"; {reader.left_out} were left out, the first: {first.cause}" if first else ""
            raise DatasetError(
                f"The split {part.name!r} has no readable row{cause}",
                where=f"{first.file}:{first.line}" if first else str(part.path),
                remedy="Correct the rows, or what --map says of their columns; or name a file of this kind."
                if first
                else "Name a file of this kind that has rows.",
            )


def _roles(reader: SourceReader, seed: int, dev_share: float, *, whole: bool) -> dict[str, Role]:
    """The role of each conversation, and notes on how it was decided.

    Args:
        reader: Its conversations, by part; takes the notes.
        seed: Of the divisions.
        dev_share: Share of train that becomes dev_a and dev_b where there is no dev part.
        whole: Divide the one part among all four roles.
    """
    if whole:
        reader.notes.append(
            f"The conversations were divided with seed {seed}; `datasets split --replace` divides them anew."
        )
        return divide(reader.conversations[reader.parts[0].name], seed=seed, fractions=FRACTIONS)
    roles: dict[str, Role] = {}
    names = {part.name for part in reader.parts}
    halved = (
        "by conversation, stratified by flows and commands, conversations that share a message kept together as far "
        "as the shares allow"
    )
    for name, conversations in reader.conversations.items():
        if name == "dev":
            roles |= divide(conversations, seed=seed, fractions={"dev_a": 0.5, "dev_b": 0.5})
            reader.notes.append(
                f"The dev part was divided into dev_a and dev_b, half each, with seed {seed}, {halved}."
            )
        elif name == "train" and dev_share and not names & {"dev", "dev_a", "dev_b"}:
            half = dev_share / 2
            shares: dict[Role, float] = {"train": 1 - dev_share, "dev_a": half, "dev_b": half}
            roles |= divide(conversations, seed=seed, fractions=shares)
            listed = ", ".join(f"{role} {share:g}" for role, share in shares.items())
            reader.notes.append(
                f"There is no dev part: train was divided ({listed}) with seed {seed}, {halved}."
            )
        else:
            roles |= dict.fromkeys((c.id for c in conversations), name)
    reader.notes += [f"There is no {name} part." for name in ("train", "test") if name not in names]
    return roles


def _with_examples(
    flows: Sequence[Flow], reader: SourceReader, roles: Mapping[str, Role], most: int
) -> list[Flow]:
    """The flows with some of the training messages as their examples, the first ones first."""
    if most <= 0:
        return list(flows)
    texts: dict[str, list[str]] = {}
    for conversation in (c for part in reader.conversations.values() for c in part):
        for turn in conversation.turns if roles[conversation.id] == "train" else ():
            if turn.labels is not None and turn.labels.flows and len(turn.labels.flows) == 1:
                examples = texts.setdefault(turn.labels.flows[0], [])
                if len(examples) < most and turn.text not in examples:
                    examples.append(turn.text)
    return [flow.model_copy(update={"examples": tuple(texts.get(flow.name, ()))}) for flow in flows]
