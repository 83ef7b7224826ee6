"""NLU++: several intents in one message, acts among them, and slots with values; an ontology and JSON folds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from importers.labels import single
from importers.source import PublicReader, one_part, source
from jazzmine_dspy.datasets.importers.source_reader import BadRowError
from jazzmine_dspy.datasets.schema import LabelledConversation
from jazzmine_dspy.models.commands import ChitChat, Command, Handoff, Repeat, SetSlot, StartFlow
from jazzmine_dspy.models.flows import Flow, Slot
from jazzmine_dspy.models.labels import Labels

ACTS = (
    "affirm", "deny", "dont_know", "acknowledge", "greet", "end_call", "handoff", "thank", "repeat",
)  # fmt: skip
"""Intents that answer or steer the talk; all others say what the message is about, and become flows."""

_SMALL_TALK = {"acknowledge", "greet", "end_call", "thank"}
_UNPLACED = {"affirm", "deny", "dont_know"}
"""Acts whose command hangs on the question before, which the source does not show."""

_GENERAL = "general"
_NUMBERS = {"number", "people", "adults", "kids", "rooms"}


@dataclass(frozen=True)
class _Ontology:
    intents: Mapping[str, Mapping[str, Any]]
    slots: Mapping[str, Mapping[str, Any]]

    @property
    def domains(self) -> list[str]:
        named = {name for item in self.intents.values() for name in item["domain"]}
        return sorted(named - {_GENERAL})

    def of(self, domains: set[str]) -> tuple[list[str], list[str]]:
        """Intents and slots of some domains and of all domains in common, in the ontology's order."""
        wanted = domains | {_GENERAL}
        return (
            [name for name, item in self.intents.items() if wanted & set(item["domain"])],
            [name for name, item in self.slots.items() if wanted & set(item["domain"])],
        )


@source(
    title="NLU++",
    source="github.com/PolyAI-LDN/task-specific-datasets (nlupp)",
    licence="CC BY 4.0",
    derived=(
        "One conversation of one message for each example; its flows are its intents, acts aside, in their order.",
        f"The intents {', '.join(ACTS)} are acts: they are kept as tags of the form act:NAME, and are no flows.",
        "One flow for each other intent of the domains imported; its description is the ontology's question. Each flow "
        "has the slots of its domain and the general ones, as texts or numbers that may be missing: the source ties "
        "slots to domains, not to intents.",
        "Commands: the start of each flow, then the values; handoff and repeat; small talk where nothing else is said. "
        "A value is the words of the message, a count the source's number.",
    ),
    left_out=(
        "Messages with affirm, deny or dont_know, and values without any flow, have no commands: what they "
        "answer is not in the source.",
        "Normalised dates and times: the source does not say on which day a message was written.",
        "No message is out of scope: an empty list of flows means that only an act or a value was said.",
        "No rewrites or sentiments, which the source does not label.",
    ),
    layout=one_part("data"),
)
def nlupp(reader: PublicReader) -> Sequence[Flow]:
    """Read folds; ``ontology.json`` near them lists the intents and slots of each domain."""
    data = reader.document(reader.required("ontology.json", "data"))
    ontology = _Ontology(data["intents"], data["slots"])
    domains: set[str] = set()
    for part in reader.parts:
        files = [part.path]
        if part.path.is_dir():
            files = sorted(
                (file for file in part.path.rglob("*.json") if file.name != "ontology.json"),
                key=lambda file: (file.parent.name, len(file.stem), file.stem),
            )
        for file in files:
            rows = list(reader.items(file))
            own = _domains(file, rows, ontology)
            domains |= own
            intents, slots = ontology.of(own)
            for number, item in rows:
                with reader.row(file, number):
                    name = f"nlupp-{part.name}-{file.parent.name}-{file.stem}-{number:04d}"
                    reader.add(part, _conversation(name, item, intents, slots))
    return _flows(ontology, domains)


def _domains(file: Path, rows: Sequence[tuple[int, Any]], ontology: _Ontology) -> set[str]:
    if file.resolve().parent.name in ontology.domains:
        return {file.resolve().parent.name}
    said = {name for _, row in rows if isinstance(row, dict) for name in row.get("intents") or ()}
    said &= set(ontology.intents)
    fitting = [name for name in ontology.domains if said <= set(ontology.of({name})[0])]
    return {fitting[0]} if len(fitting) == 1 else set(ontology.domains)


def _conversation(name: str, item: Any, intents: Sequence[str], slots: Sequence[str]) -> LabelledConversation:
    said = item.get("intents") or []
    held = item.get("slots") or {}
    for what, labels, known in (("intent", said, intents), ("slot", held, slots)):
        unknown = [label for label in labels if label not in known]
        if unknown:
            raise BadRowError(f"Unknown {what} {unknown[0]!r} in this domain")
    acts = [label for label in said if label in ACTS]
    flows = tuple(dict.fromkeys(label for label in said if label not in ACTS))
    values = [SetSlot(name=slot, value=_value(slot, value)) for slot, value in held.items()]
    made = Labels(flows=flows, commands=_commands(acts, flows, values))
    return single(name, item["text"], made, tuple(f"act:{act}" for act in acts))


def _value(slot: str, held: Mapping[str, Any]) -> Any:
    value = held.get("value")
    if slot in _NUMBERS and isinstance(value, int | float) and not isinstance(value, bool):
        return value
    return str(held["text"])


def _commands(
    acts: Sequence[str], flows: Sequence[str], values: Sequence[SetSlot]
) -> tuple[Command, ...] | None:
    if set(acts) & _UNPLACED or (values and not flows):
        return None
    commands: list[Command] = [StartFlow(flow=flow) for flow in flows]
    commands += values
    commands += [Handoff()] * ("handoff" in acts) + [Repeat()] * ("repeat" in acts)
    if not commands and set(acts) & _SMALL_TALK:
        return (ChitChat(),)
    return tuple(commands) if commands else None


def _flows(ontology: _Ontology, domains: set[str]) -> list[Flow]:
    intents, slots = ontology.of(domains)
    flows = []
    for intent in intents:
        own = set(ontology.intents[intent]["domain"])
        held = tuple(
            Slot(
                name=slot,
                type="number" if slot in _NUMBERS else "text",
                description=ontology.slots[slot]["description"],
                required=False,
            )
            for slot in slots
            if own & {_GENERAL} or set(ontology.slots[slot]["domain"]) & (own | {_GENERAL})
        )
        if intent not in ACTS:
            flows.append(
                Flow(
                    name=intent,
                    description=ontology.intents[intent]["description"],
                    category=", ".join(sorted(own)),
                    slots=held,
                )
            )
    return flows
