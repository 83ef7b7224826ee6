"""MixSNIPS and MixATIS: several requests in one message; a token and its slot tag a line, then the intents."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from importers.labels import labels_in, single, text_slots
from importers.source import PublicReader, named_files, source
from jazzmine_dspy.datasets.importers.source_reader import BadRowError, Part
from jazzmine_dspy.datasets.importers.writer import words
from jazzmine_dspy.models.commands import Command, SetSlot, StartFlow
from jazzmine_dspy.models.flows import Flow
from jazzmine_dspy.models.labels import Labels


class _Message(NamedTuple):
    part: Part
    line: int
    text: str
    intents: tuple[str, ...]
    slots: tuple[tuple[str, str], ...]


def _read(kind: str, reader: PublicReader) -> Sequence[Flow]:
    messages: list[_Message] = []
    for part in reader.parts:
        for line, block in _blocks(reader, part.path):
            with reader.row(part.path, line):
                messages.append(_message(part, line, block))
    owners = _owners(messages)
    unclear = 0
    for message in messages:
        with reader.row(message.part.path, message.line):
            commands = _commands(message, owners)
            unclear += commands is None
            labels = Labels(flows=message.intents, intent=message.intents[0], commands=commands)
            name = f"{kind}-{message.part.name}-{message.line:06d}"
            reader.add(message.part, single(name, message.text, labels))
    flows = [
        Flow(
            name=intent,
            description=words(intent.removeprefix("atis_")),
            slots=text_slots(slot for slot, intents in owners.items() if intent in intents),
        )
        for intent in sorted(labels_in(reader))
    ]
    reader.notes.append(
        f"Messages without the label commands, since their slots' flows are not certain: {unclear}."
    )
    return flows


def _blocks(reader: PublicReader, path: Path) -> Iterator[tuple[int, list[str]]]:
    first, block = 1, list[str]()
    for line, text in [*reader.lines(path), (0, "")]:
        if text.strip():
            first = first if block else line
            block.append(text)
        elif block:
            yield first, block
            block = []


def _message(part: Part, line: int, block: list[str]) -> _Message:
    *tagged, last = (text.split() for text in block)
    if len(last) != 1:
        raise BadRowError("The block does not end with a line of intents")
    if not tagged or any(len(pair) != 2 for pair in tagged):
        raise BadRowError("A line of the block is no pair of a token and a tag")
    intents = tuple(last[0].split("#"))
    if not all(intents) or len(set(intents)) < len(intents):
        raise BadRowError(f"The intents {last[0]!r} name one twice, or none")
    slots: list[tuple[str, str]] = []
    inside = ""
    for token, tag in tagged:
        mark, _, slot = tag.partition("-")
        if tag != "O" and (mark not in ("B", "I") or not slot):
            raise BadRowError(f"Unknown tag {tag!r}")
        if mark == "I" and slot == inside:
            slots[-1] = (slot, f"{slots[-1][1]} {token}")
        elif tag != "O":
            slots.append((slot, token))
        inside = slot
    return _Message(part, line, " ".join(token for token, _ in tagged), intents, tuple(slots))


def _owners(messages: Sequence[_Message]) -> dict[str, set[str]]:
    """The intents that each slot was seen with in messages of one intent: only those say whose it is."""
    owners: dict[str, set[str]] = {}
    for message in messages:
        if len(message.intents) == 1:
            for slot, _ in message.slots:
                owners.setdefault(slot, set()).add(message.intents[0])
    return owners


def _commands(message: _Message, owners: Mapping[str, set[str]]) -> tuple[Command, ...] | None:
    """The commands, where there is one way only to give each slot a flow; the flows follow each other."""
    ways: list[tuple[int, ...]] = [()]
    for slot, _ in message.slots:
        ways = [
            (*way, number)
            for way in ways
            for number in range(way[-1] if way else 0, len(message.intents))
            if message.intents[number] in owners.get(slot, ())
        ]
    if len(ways) != 1:
        return None
    placed = [(number, *slot) for number, slot in zip(ways[0], message.slots, strict=True)]
    if len({(number, slot) for number, slot, _ in placed}) < len(placed):
        return None  # one flow's slot is given twice, and the tags do not say which value counts
    commands: list[Command] = []
    for number, intent in enumerate(message.intents):
        commands.append(StartFlow(flow=intent))
        commands += [SetSlot(name=slot, value=value) for place, slot, value in placed if place == number]
    return tuple(commands)


_DERIVED = (
    "One conversation of one message for each block; its flows are the block's intents, in their order, its intent "
    "the first of them.",
    "One flow for each intent; its description is the intent as words. Its slots are those that messages of this "
    "intent alone are tagged with, as texts that may be missing.",
    "Commands: the start of each flow, followed by the values that the tags mark, where only one way of giving the "
    "slots to the flows is possible and no slot of a flow is marked twice.",
)
_LEFT_OUT = (
    "No message is out of scope: the source has none such.",
    "No rewrites or sentiments, which the source does not label.",
)


@source(
    title="MixSNIPS (clean)",
    source="github.com/LooperXX/AGIF (data/MixSNIPS_clean)",
    licence="GPL-2.0 (the repository's)",
    derived=_DERIVED,
    left_out=_LEFT_OUT,
    layout=named_files(".txt", "MixSNIPS_clean"),
    out_of_scope_share=0.0,
)
def mixsnips(reader: PublicReader) -> Sequence[Flow]:
    """Read MixSNIPS files; they need no other file."""
    return _read("mixsnips", reader)


@source(
    title="MixATIS (clean)",
    source="github.com/LooperXX/AGIF (data/MixATIS_clean)",
    licence="GPL-2.0 (the repository's); ATIS itself was distributed by the LDC",
    derived=_DERIVED,
    left_out=_LEFT_OUT,
    layout=named_files(".txt", "MixATIS_clean"),
    out_of_scope_share=0.0,
)
def mixatis(reader: PublicReader) -> Sequence[Flow]:
    """Read MixATIS files; they need no other file."""
    return _read("mixatis", reader)
