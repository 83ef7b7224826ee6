"""Writing an imported dataset: card, flows, conversations and splits."""

from __future__ import annotations

import hashlib
import json
import re
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from jazzmine_dspy.datasets.importers.source_reader import BadRow, SourceReader
from jazzmine_dspy.datasets.label_checks import catalogue, undated
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
from jazzmine_dspy.datasets.split import divide, write_splits
from jazzmine_dspy.models.base import Value
from jazzmine_dspy.models.errors import DatasetError
from jazzmine_dspy.models.flows import Flow
from jazzmine_dspy.models.registry import FlowRegistry

DEV_SHARE = 0.2
"""Share of the training part that becomes dev_a and dev_b, half each, where the source has no dev part."""

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
            f"The folder already has a dataset: {', '.join(existing)}",
            where=str(out),
            remedy="Name another --out, or use --replace.",
        )


class Provenance(NamedTuple):
    """The facts that the card of an imported dataset states.

    Args:
        title: Of the source.
        source, licence: Where its texts come from, and under which licence.
        command: Made the dataset.
        derived, left_out: What the labels are made from, and what the source does not label.
    """

    title: str
    source: str
    licence: str
    command: str
    derived: tuple[str, ...]
    left_out: tuple[str, ...]


class ImportReport(Value):
    """What an import made, and what it left out.

    Args:
        roles: Conversations by role.
        turns, labelled_turns: Messages of users in all, and those with labels.
        left_out: How many rows could not be read; ``bad_rows`` lists them.
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


def write_dataset(
    out: Path,
    reader: SourceReader,
    flows: Path | Sequence[Flow],
    *,
    kind: str,
    provenance: Provenance,
    seed: int,
    dev_share: float = DEV_SHARE,
    whole: bool = False,
    out_of_scope_share: float | None = None,
) -> ImportReport:
    """Write what a reader read: card, flows, conversations and splits, each file whole or not at all.

    Args:
        out: The folder, checked by :func:`claim`.
        reader: Its conversations, notes, and rows left out.
        flows: The flows; or a file of flows, which is copied as it is.
        kind: Of source, for the report.
        provenance: For the card.
        seed: Of the divisions.
        dev_share: Share of train that becomes dev_a and dev_b where there is no dev part.
        whole: Divide the one part among all four roles.
        out_of_scope_share: Share of messages that no flow serves, as far as the source states it.

    Raises:
        DatasetError: a share is out of range, a part has no readable row, or the folder cannot be written.
    """
    if not 0 <= dev_share < 1:
        raise DatasetError(
            f"The share {dev_share:g} is not from 0 to below 1",
            where="dev_share",
            remedy="Use a share such as 0.2.",
        )
    _check_complete(reader)
    roles = _roles(reader, seed, dev_share, whole=whole)
    if isinstance(flows, Path):
        registry, listed = FlowRegistry.from_yaml(flows), flows.read_bytes()
    else:
        registry = FlowRegistry(flows, out_of_scope_share=out_of_scope_share)
        listed = _yaml(registry).encode()
    conversations = [c for part in reader.parts for c in reader.conversations[part.name]]
    if missing := undated(conversations, catalogue(registry)):
        reader.notes.append(f"{missing}. For a table, name the days with --map date=COLUMN.")
    counts = {role: list(roles.values()).count(role) for role in ROLES}
    lines = "".join(_line(conversation) + "\n" for conversation in conversations)
    try:
        out.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=out, prefix=".import-") as name:
            made = Path(name)
            (made / CARD_FILE).write_text(
                _card(provenance, reader, counts, len(registry)), "utf-8", newline="\n"
            )
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
    turns = [turn for conversation in conversations for turn in conversation.turns if turn.role == "user"]
    return ImportReport(
        kind=kind,
        out=str(out),
        seed=seed,
        conversations=len(conversations),
        roles=counts,
        turns=len(turns),
        labelled_turns=sum(turn.labels is not None for turn in turns),
        flows=len(registry),
        left_out=len(reader.bad_rows),
        bad_rows=tuple(reader.bad_rows),
        notes=tuple(reader.notes),
    )


def words(label: str) -> str:
    """A label as words, which is the only description that some sources have.

    Example:
        >>> words("card_arrival"), words("AddToPlaylist"), words("RETURN_ORDER")
        ('Card arrival', 'Add to playlist', 'Return order')
    """
    apart = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", label)
    plain = " ".join(re.sub(r"[_\-./]+", " ", apart).split()).lower()
    return plain[:1].upper() + plain[1:] or label


def label_flows(labels: Iterable[str]) -> list[Flow]:
    """A flow for each label, sorted by name; its description is the label as words."""
    return [Flow(name=label, description=words(label)) for label in sorted(set(labels))]


def _check_complete(reader: SourceReader) -> None:
    for part in reader.parts:
        if not reader.conversations[part.name]:
            first = reader.bad_rows[0] if reader.bad_rows else None
            cause = f"; {len(reader.bad_rows)} were left out, the first: {first.cause}" if first else ""
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
            f"The conversations were divided with seed {seed}; `datasets split --replace` divides them again."
        )
        return divide(reader.conversations[reader.parts[0].name], seed=seed)
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


def _card(provenance: Provenance, reader: SourceReader, counts: Mapping[Role, int], flows: int) -> str:
    """The card: where the texts are from, under which licence, what the labels are made from and what not."""
    digests = list(reader.opened.values())
    digest = (
        digests[0] if len(digests) == 1 else hashlib.sha256("".join(sorted(digests)).encode()).hexdigest()
    )
    lines = [
        f"# {provenance.title}, imported",
        "",
        f"{sum(counts.values())} conversations, {flows} flows. Made by `{provenance.command}`; no text and no label "
        "was written for it.",
        "",
        f"Source: {provenance.source}. Licence stated there: {provenance.licence}. It holds for the texts in this "
        "folder too: read it before passing them on.",
        "",
        f"Files read: {len(digests)}; SHA-256 {'of it' if len(digests) == 1 else 'over those of all'}: `{digest}`.",
        "",
        "| role | conversations |",
        "|---|---|",
        *(f"| {role} | {count} |" for role, count in counts.items() if count),
        "",
        "## What the labels are made from",
        "",
        *(f"- {text}" for text in provenance.derived),
        "",
        "## What is not there",
        "",
        *(f"- {text}" for text in provenance.left_out),
        "- Flows have no examples but those of `flows.yaml`; the training part has them all.",
        "",
        "## This import",
        "",
        *(f"- {text}" for text in reader.notes),
        f"- Rows that could not be read and were left out: {len(reader.bad_rows)}.",
        "",
    ]
    return "\n".join(lines)
