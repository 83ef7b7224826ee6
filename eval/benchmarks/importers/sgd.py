"""SGD: dialogues over services; a schema of services with intents and slots, and JSON lists of dialogues."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from importers.labels import slot_command
from importers.source import PublicReader, named_files, source
from jazzmine_dspy.datasets.importers.source_reader import BadRowError, Part
from jazzmine_dspy.datasets.schema import LabelledConversation, LabelledTurn, StateBefore
from jazzmine_dspy.models import commands as c
from jazzmine_dspy.models.base import FrozenMap
from jazzmine_dspy.models.errors import DatasetError
from jazzmine_dspy.models.flows import Flow, Slot
from jazzmine_dspy.models.labels import Labels
from jazzmine_dspy.models.messages import MessageRole
from jazzmine_dspy.models.turn import Confirming, ConversationStatus

_SCHEMA = "schema.json"
_NONE = "NONE"
_ANY = "dontcare"
_FAREWELL = {"THANK_YOU", "GOODBYE"}

Values = dict[str, Any]


def layout(src: Path) -> dict[str, Path]:
    """The folders ``train``, ``dev`` and ``test``; a folder of dialogues alone is for training."""
    return named_files("")(src) or {"train": src}


@source(
    title="Schema-Guided Dialogue",
    source="github.com/google-research-datasets/dstc8-schema-guided-dialogue",
    licence="CC BY-SA 4.0",
    derived=(
        "One conversation for each dialogue.",
        "One flow for each intent of each service, named SERVICE.INTENT, with the schema's descriptions; required "
        "and optional slots as the schema has them: those with listed values as choices, or as yes or no where the "
        "values are True and False, all others as texts.",
        "before: the active intent of the user's turn before, the slot that the system asked for, the values held, "
        "and the confirmation that is open; the values that the system proposes in it count as held.",
        "flows: the intent that became active with the message; empty where it stayed.",
        "Commands: affirm and deny of an open confirmation; the start of a flow, with all the values that the "
        "dialogue's state gives its slots; values set, corrected, taken back, and skipped (dontcare); ask for each "
        "slot that the user asks about; small talk for mere thanks and farewells.",
        "A value is written as in the message where the state lists several spellings.",
    ),
    left_out=(
        "Values of slots that the active intent does not have, such as a result that was chosen, until an intent that "
        "has them starts; a message that only sets such values, or asks for other results, has no commands.",
        "Which flows are paused or finished; the date of a dialogue; rewrites, sentiments and intents.",
        "No message is out of scope: an empty list of flows means that the running intent goes on, or none.",
    ),
    layout=layout,
)
def sgd(reader: PublicReader) -> Sequence[Flow]:
    """Read folders of dialogues, each with its schema; services of the same name are the same service."""
    flows = flows_of(reader)
    for part in reader.parts:
        read_dialogues(reader, part, part.path, flows, prefix="sgd")
    note_unlabelled(reader)
    return list(flows.values())


def flows_of(reader: PublicReader) -> dict[str, Flow]:
    """The flows of the schemas beside the parts, by name.

    Raises:
        DatasetError: there is no schema, or two define a flow differently.
    """
    paths = {path: None for part in reader.parts if (path := reader.near(_SCHEMA, part=part))}
    if not paths:
        paths[reader.required(_SCHEMA)] = None
    flows: dict[str, Flow] = {}
    for path in paths:
        for flow in schema_flows(path, reader):
            if flows.setdefault(flow.name, flow) != flow:
                raise DatasetError(
                    f"The schemas define {flow.name!r} differently",
                    where=str(path),
                    remedy="Import parts of one version of the schema.",
                )
    return flows


def read_dialogues(
    reader: PublicReader,
    part: Part,
    folder: Path,
    flows: Mapping[str, Flow],
    *,
    prefix: str,
    translate: Callable[[list[Any]], list[Any]] = list,
) -> None:
    """Add the dialogues of a folder, or of one file, to a part.

    Args:
        reader: Opens the files.
        part: Takes the conversations.
        folder: The folder or the file.
        flows: The flows of the schema, by name.
        prefix: Begins the id of each conversation.
        translate: Brings the turns of a dialogue into the form of SGD.
    """
    names: set[str] = set()
    files = [folder]
    if folder.is_dir():
        files = sorted(file for file in folder.glob("*.json") if file.name != _SCHEMA)
    for path in files:
        for number, data in reader.items(path):
            with reader.row(path, number):
                name = str(data["dialogue_id"])
                if name in names:
                    raise BadRowError(f"The dialogue {name!r} was read already")
                turns = tuple(map(_Dialogue(flows).turn, translate(data["turns"])))
                if not any(turn.role is MessageRole.USER for turn in turns):
                    raise BadRowError("The user says nothing")
                reader.add(part, LabelledConversation(id=f"{prefix}-{part.name}-{name}", turns=turns))
                names.add(name)


def note_unlabelled(reader: PublicReader) -> None:
    """Note the number of messages that have labels, but no commands."""
    labels = [
        turn.labels
        for conversations in reader.conversations.values()
        for conversation in conversations
        for turn in conversation.turns
        if turn.labels
    ]
    unlabelled = sum(each.commands is None for each in labels)
    reader.notes.append(
        f"Messages without the label commands, since no command says what they do: {unlabelled}."
    )


# --- the schema ------------------------------------------------------------------------------------


def schema_flows(path: Path, reader: PublicReader) -> list[Flow]:
    """A flow for each intent of each service of a schema, named SERVICE.INTENT."""
    return [_flow(service, intent) for service in reader.document(path) for intent in service["intents"]]


def _flow(service: dict[str, Any], intent: dict[str, Any]) -> Flow:
    slots = {slot["name"]: slot for slot in service["slots"]}
    required, optional = list(intent["required_slots"]), list(intent["optional_slots"])
    return Flow(
        name=f"{service['service_name']}.{intent['name']}",
        description=intent["description"],
        category=service["service_name"],
        slots=tuple(_slot(slots[name], name in required) for name in (*required, *optional)),
    )


def _slot(slot: dict[str, Any], required: bool) -> Slot:
    options = tuple(slot["possible_values"]) if slot["is_categorical"] else ()
    if set(options) == {"True", "False"}:
        kind, options = "boolean", ()
    else:
        kind = "choice" if options else "text"
    return Slot(
        name=slot["name"], type=kind, description=slot["description"], required=required, options=options
    )


# --- the dialogues ---------------------------------------------------------------------------------


class _Dialogue:
    def __init__(self, flows: Mapping[str, Flow]) -> None:
        self._flows = flows
        self._flow: Flow | None = None
        self._active: dict[str, str] = {}
        self._held: dict[str, Values] = {}
        """What each service's state held after the user's last message; a value of None is any."""
        self._spelled: dict[str, Mapping[str, Sequence[str]]] = {}
        """The spellings that each state listed: the same value may be listed by another one a turn later."""
        self._awaiting: str | None = None
        self._proposed: Values = {}
        self._confirming = False

    def turn(self, turn: Mapping[str, Any]) -> LabelledTurn:
        """A message, the user's with its state and labels; goes on to the state after it."""
        if turn["speaker"] == "USER":
            return self._user(turn["utterance"], turn["frames"])
        if turn["speaker"] != "SYSTEM":
            raise BadRowError(f"Unknown speaker {turn['speaker']!r}")
        self._system(turn["frames"])
        return LabelledTurn(role=MessageRole.ASSISTANT, text=turn["utterance"])

    def _system(self, frames: Sequence[Mapping[str, Any]]) -> None:
        """Take in what the system asks and proposes."""
        self._awaiting, self._proposed, self._confirming = None, {}, False
        if self._flow is None:
            return
        for frame in frames:
            if frame["service"] != self._flow.category:
                continue
            for action in frame["actions"]:
                slot = self._flow.slot(action["slot"])
                if action["act"] == "REQUEST" and slot is not None and self._awaiting is None:
                    self._awaiting = slot.name
                elif action["act"] == "CONFIRM":
                    self._confirming = True
                    said = action.get("canonical_values") or action["values"]
                    if slot is not None and said:
                        listed = said if slot.type != "text" else action["values"]
                        self._proposed[slot.name] = _value(slot, listed, "")

    def _user(self, text: str, frames: Sequence[Mapping[str, Any]]) -> LabelledTurn:
        """The user's message with its state and labels; goes on to the state after it."""
        before, held = self._before()
        frame = self._main(frames)
        flow = self._flow_of(frame)
        started = flow is not None and (self._flow is None or flow.name != self._flow.name)
        acts = {action["act"] for item in frames for action in item["actions"]}
        commands: list[c.Command] = []
        if self._confirming:
            commands += [c.Affirm()] if "AFFIRM" in acts else [c.Deny()] if "NEGATE" in acts else []
        complete = True
        for item in frames:
            if item is not frame and self._flow is not None and item["service"] == self._flow.category:
                changes, all_covered = self._changes(item, self._flow, held, text)
                commands += changes
                complete &= all_covered
        if flow is not None:
            commands += [c.StartFlow(flow=flow.name)] if started else []
            changes, all_covered = self._changes(frame, flow, {} if started else held, text)
            commands += changes
            complete &= all_covered or started
        changed = [command.name for command in commands if isinstance(command, c.CorrectSlot)]
        if changed and isinstance(commands[0], c.Deny):
            # A refusal names the slot that changes with it.
            commands[0] = c.Deny(slot=changed[0])
        requested = [a["slot"] for a in frame["actions"] if a["act"] == "REQUEST" and a["slot"]]
        commands += [c.Ask(topic=slot.replace("_", " ")) for slot in dict.fromkeys(requested)]
        chosen = any(action["act"] == "SELECT" for action in frame["actions"])
        complete &= "REQUEST_ALTS" not in acts and not (chosen and not commands)
        if not commands and acts and acts <= _FAREWELL:
            commands = [c.ChitChat()]
        self._go_on(frames, flow, text)
        labels = Labels(
            flows=(flow.name,) if flow is not None and started else (),
            commands=tuple(commands) if complete else None,
        )
        return LabelledTurn(role=MessageRole.USER, text=text, before=before, labels=labels)

    def _before(self) -> tuple[StateBefore, Values]:
        flow = self._flow
        if flow is None:
            return StateBefore(), {}
        state = self._held.get(flow.category, {})
        held = {slot.name: state[slot.name] for slot in flow.slots if slot.name in state}
        held = held | {name: value for name, value in self._proposed.items() if name not in held}
        shown = {name: value for name, value in held.items() if value is not None}
        awaiting = self._awaiting if self._awaiting not in shown else None
        if self._confirming:
            status = ConversationStatus.AWAITING_CONFIRMATION
        else:
            status = ConversationStatus.COLLECTING_SLOTS if awaiting else ConversationStatus.IN_FLOW
        return StateBefore(
            status=status,
            flow=flow.name,
            awaiting=awaiting,
            slots=FrozenMap.of(shown),
            confirming=Confirming(flow=flow.name) if self._confirming else None,
        ), held

    def _main(self, frames: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
        """The frame that the message is about: where an intent became active, else that of the running flow."""
        if not frames:
            raise BadRowError("A message of the user has no frame")
        for frame in frames:
            intent = frame["state"]["active_intent"]
            if intent not in (_NONE, self._active.get(frame["service"])):
                return frame
        own = [frame for frame in frames if self._flow and frame["service"] == self._flow.category]
        return own[0] if own else frames[0]

    def _flow_of(self, frame: Mapping[str, Any]) -> Flow | None:
        intent = frame["state"]["active_intent"]
        if intent == _NONE:
            return None
        name = f"{frame['service']}.{intent}"
        if name not in self._flows:
            raise BadRowError(f"Unknown intent {name!r}: the schema has none such")
        return self._flows[name]

    def _changes(
        self, frame: Mapping[str, Any], flow: Flow, held: Values, text: str
    ) -> tuple[list[c.Command], bool]:
        """Commands for a frame's new values, and whether they tell all of it."""
        found: list[c.Command] = []
        given: Mapping[str, list[str]] = frame["state"]["slot_values"]
        for name, values in given.items():
            slot = flow.slot(name)
            if slot is None or (name in held and self._same(frame, name, held[name], values)):
                continue
            found.append(slot_command(name, _value(slot, values, text), held))
        gone = [name for name in held if name not in given and name not in self._proposed]
        found += [c.ClearSlot(name=name) for name in gone if held[name] is not None]
        known = self._held.get(frame["service"], {})
        outside = {name: values for name, values in given.items() if flow.slot(name) is None}
        return found, all(
            name in known and self._same(frame, name, known[name], values) for name, values in outside.items()
        )

    def _go_on(self, frames: Sequence[Mapping[str, Any]], flow: Flow | None, text: str) -> None:
        for frame in frames:
            service, state = frame["service"], frame["state"]
            known = {
                slot.name: slot
                for item in self._flows.values()
                if item.category == service
                for slot in item.slots
            }
            before = self._held.get(service, {})
            self._active[service] = state["active_intent"]
            self._held[service] = {}
            for name, values in state["slot_values"].items():
                slot = known.get(name) or Slot(name=name, type="text")
                # What was proposed keeps the spelling in which the turn before showed it as held.
                old = before.get(name, self._proposed.get(name))
                same = (name in before or name in self._proposed) and self._same(frame, name, old, values)
                self._held[service][name] = old if same else _value(slot, values, text)
            self._spelled[service] = state["slot_values"]
        self._flow = flow
        self._awaiting, self._proposed, self._confirming = None, {}, False

    def _same(self, frame: Mapping[str, Any], name: str, held: Any, values: Sequence[str]) -> bool:
        """Whether a value that is held is still the one that the state lists."""
        if held is None:
            return _ANY in values
        earlier = self._spelled.get(frame["service"], {}).get(name, ())
        known = {spelling.casefold() for spelling in (str(held), *earlier)}
        return not known.isdisjoint(value.casefold() for value in values)


def _value(slot: Slot, values: Sequence[str], text: str) -> Any:
    """The longest spelling that was said, else the first; None where any value will do."""
    said = [value for value in values if value.casefold() in text.casefold()]
    value = max(said, key=len) if said else values[0]
    if value == _ANY:
        return None
    return value == "True" if slot.type == "boolean" and value in ("True", "False") else value
