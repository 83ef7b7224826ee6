"""Conversations with a rewrite, or a mark of the topic, for each message: GECOR, CANARD, TREC CAsT, Disfl-QA, TIAGE."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from importers.labels import assistant, running, single, slot_command, user
from importers.source import PublicReader, named_files, one_part, source
from jazzmine_dspy.datasets.importers.source_reader import BadRowError
from jazzmine_dspy.datasets.schema import LabelledConversation, LabelledTurn, StateBefore
from jazzmine_dspy.models.commands import Ask, Command, StartFlow
from jazzmine_dspy.models.flows import Flow, Slot
from jazzmine_dspy.models.labels import Labels
from jazzmine_dspy.models.turn import EntityView

FLOW = "find_restaurant"
_SLOTS = {"food": "Kind of food", "area": "Part of town", "pricerange": "Price range"}
_ANY = "dontcare"
_VARIANTS = ("transcript_with_ellipsis", "transcript_with_coreference")


def _gecor_layout(src: Path) -> dict[str, Path]:
    """The source has one file: all dialogues are for training."""
    return {"train": src / "CamRest676_annotated.json" if src.is_dir() else src}


@source(
    title="GECOR (CamRest676)",
    source="github.com/terryqj0107/GECOR",
    licence="CC BY 4.0",
    derived=(
        "One conversation for each dialogue. A message is its variant with an ellipsis or with a coreference: of two "
        "the first in even turns, the second in odd ones; without any it is the transcript. enhanced is the complete "
        "message.",
        f"One flow, {FLOW}, with the slots food, area and pricerange as texts; it starts with the first value.",
        "before: the flow once it has started, and its values. Commands: values set, corrected or skipped (dontcare), "
        "and ask for each requested slot.",
    ),
    left_out=(
        "Messages without any of these commands have no commands: the source does not label yes, no and thanks.",
        "A value that a state no longer lists; sentiments and intents.",
    ),
    layout=_gecor_layout,
)
def gecor(reader: PublicReader) -> Sequence[Flow]:
    """Read lists of dialogues."""
    for part in reader.parts:
        for number, data in reader.items(part.path):
            with reader.row(part.path, number):
                turns: list[LabelledTurn] = []
                values: dict[str, str] = {}
                for item in data["dial"]:
                    turns.append(_gecor_turn(item["usr"], item["turn"], values))
                    turns += [assistant(item["sys"]["sent"])] if item["sys"]["sent"].strip() else []
                name = f"gecor-{part.name}-{data['dialogue_id']}"
                reader.add(part, LabelledConversation(id=name, turns=tuple(turns)))
    slots = tuple(
        Slot(name=name, type="text", description=text, required=False) for name, text in _SLOTS.items()
    )
    return [Flow(name=FLOW, description="Find a restaurant.", slots=slots)]


def _gecor_turn(item: Mapping[str, Any], number: int, values: dict[str, str]) -> LabelledTurn:
    """A message with its labels; adds its values to those of the dialogue."""
    variants = [item[name] for name in _VARIANTS if item[name].strip()]
    text = variants[number % len(variants)] if variants else item["transcript"]
    given = {value for act in item["slu"] if act["act"] == "inform" for value in map(tuple, act["slots"])}
    asked = [value for act in item["slu"] if act["act"] == "request" for _, value in act["slots"]]
    new = {name: value for name, value in sorted(given) if name in _SLOTS and values.get(name) != value}
    current = {name: value for name, value in values.items() if value != _ANY}
    before = running(FLOW if values else None, current)
    commands: list[Command] = [StartFlow(flow=FLOW)] if new and not values else []
    commands += [slot_command(name, None if value == _ANY else value, current) for name, value in new.items()]
    commands += [Ask(topic=slot) for slot in dict.fromkeys(asked) if slot != _ANY]
    flows = (FLOW,) if new and not values else ()
    values.update(new)
    enhanced = item["transcript_complete"].strip()
    return user(text, before, enhanced=enhanced, flows=flows, commands=tuple(commands) or None)


@source(
    title="CANARD",
    source="github.com/aagohary/canard (data/release)",
    licence="CC BY-SA 4.0",
    derived=(
        "One conversation for each QuAC dialogue; a question is a message, its rewrite the label enhanced, and the "
        "answers between are the assistant's messages.",
        "before.entities: the title of the page, with the section's title as its attribute.",
    ),
    left_out=("No flows, commands, intents or sentiments: the source labels rewrites alone.",),
    layout=named_files(".json"),
)
def canard(reader: PublicReader) -> Sequence[Flow]:
    """Read lists of questions with their history."""
    for part in reader.parts:
        chats: dict[str, list[LabelledTurn]] = {}
        for number, item in reader.items(part.path):
            with reader.row(part.path, number):
                title, section, *history = item["History"]
                before = StateBefore(entities=(EntityView(name=title, attributes=(section,)),))
                question = user(item["Question"], before, enhanced=item["Rewrite"])
                turns = chats.setdefault(item["QuAC_dialog_id"], [])
                turns += [assistant(history[-1]), question] if turns and history else [question]
        for name, turns in chats.items():
            reader.add(part, LabelledConversation(id=f"canard-{part.name}-{name}", turns=tuple(turns)))
    return []


_RESOLVED = "evaluation_topics_annotated_resolved_v1.0.tsv"


@source(
    title="TREC CAsT",
    source="github.com/daltonj/treccastweb",
    licence="MIT",
    derived=(
        "One conversation for each topic; its questions are the messages.",
        "enhanced: the manual rewrite, of 2020 from the topic, of 2019 from the file of resolved questions.",
    ),
    left_out=(
        "The answers: the source names documents, so the assistant says nothing.",
        "No flows, commands, intents or sentiments, which the source does not label.",
    ),
    layout=one_part(),
)
def treccast(reader: PublicReader) -> Sequence[Flow]:
    """Read files of topics, of 2019 with the file of resolved questions near them."""
    path = reader.near(_RESOLVED)
    pairs = (line.partition("\t") for _, line in reader.lines(path)) if path else ()
    resolved = {number: text.strip() for number, _, text in pairs}
    for part in reader.parts:
        for path in sorted(part.path.glob("*topics*.json")) if part.path.is_dir() else [part.path]:
            for number, topic in reader.items(path):
                with reader.row(path, number):
                    turns = tuple(
                        user(
                            item["raw_utterance"],
                            enhanced=item.get("manual_rewritten_utterance")
                            or resolved[f"{topic['number']}_{item['number']}"],
                        )
                        for item in topic["turn"]
                    )
                    reader.add(
                        part, LabelledConversation(id=f"treccast-{part.name}-{topic['number']}", turns=turns)
                    )
    return []


@source(
    title="Disfl-QA",
    source="github.com/google-research-datasets/Disfl-QA",
    licence="CC BY 4.0",
    derived=(
        "One conversation of one message for each pair: the disfluent question, and as enhanced the original.",
    ),
    left_out=("No flows, commands, intents or sentiments, which the source does not label.",),
    layout=named_files(".json"),
)
def disfl_qa(reader: PublicReader) -> Sequence[Flow]:
    """Read objects of pairs by the id of their question in SQuAD."""
    for part in reader.parts:
        for number, (name, pair) in reader.items(part.path):
            with reader.row(part.path, number):
                labels = Labels(enhanced=pair["original"].strip())
                reader.add(part, single(f"disfl_qa-{part.name}-{name}", pair["disfluent"].strip(), labels))
    return []


_CONTINUES = {"0": True, "1": False}
_FIRST = "-1"


def _tiage_layout(src: Path) -> dict[str, Path]:
    """The files ``anno_train.json``, ``anno_dev.json`` and ``anno_test.json``, which may lie in a folder each."""
    if src.is_file():
        return {"train": src}
    names: tuple[str, ...] = ("train", "dev", "test")
    files = {name: [src / f"anno_{name}.json", src / name / f"anno_{name}.json"] for name in names}
    return {name: path for name, paths in files.items() for path in paths if path.is_file()}


@source(
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
    layout=_tiage_layout,
)
def tiage(reader: PublicReader) -> Sequence[Flow]:
    """Read objects of dialogues. One with a message that cannot be read is left out, since its speakers are unknown."""
    for part in reader.parts:
        for number, (name, rows) in reader.items(part.path):
            with reader.row(part.path, number):
                turns = []
                for place, (text, mark) in enumerate(rows):
                    if mark not in (*_CONTINUES, _FIRST):
                        raise BadRowError(f"Unknown mark {mark!r}")
                    labels: dict[str, Any] = (
                        {"is_continuation": _CONTINUES[mark]} if mark in _CONTINUES else {}
                    )
                    turns.append(assistant(text) if place % 2 else user(text, **labels))
                reader.add(part, LabelledConversation(id=f"tiage-{part.name}-{name}", turns=tuple(turns)))
    return []
