"""MultiDoGO: customers' messages to a service, labelled turn by turn; TSV files of one domain."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from importers.labels import OUT_OF_SCOPE, labels_in, running, slot_command, text_slots, user
from importers.source import PublicReader, named_files, source
from jazzmine_dspy.datasets.importers.source_reader import BadRowError
from jazzmine_dspy.datasets.importers.writer import words
from jazzmine_dspy.datasets.schema import LabelledConversation, LabelledTurn
from jazzmine_dspy.models.commands import ChitChat, Command, StartFlow
from jazzmine_dspy.models.flows import Flow

ACTS = (
    "contentonly", "confirmation", "rejection", "outofdomain", "openinggreeting", "closinggreeting", "thankyou",
)  # fmt: skip
"""Intents that answer or steer the talk; all others are what the customer wants, and become flows."""

_SMALL_TALK = {"openinggreeting", "closinggreeting", "thankyou"}
_COLUMNS = ("conversationId", "utterance", "slot-labels", "intent")


@source(
    title="MultiDoGO, one domain",
    source="github.com/awslabs/multi-domain-goal-oriented-dialogues-dataset",
    licence="CDLA-Permissive 1.0",
    derived=(
        "One conversation for each conversation id, with the customer's messages.",
        f"The intents {', '.join(ACTS)} are kept as tags of the form act:NAME; outofdomain also means the intent "
        "out_of_scope. One flow for each other intent, described by its name as words, with all slots of the domain as "
        "texts that may be missing: the source ties slots to domains, not to intents.",
        "before: the flow that the last such intent started, and the values since. flows: the intents of the message "
        "other than that flow. Commands: their starts, values set or corrected; small talk for "
        "greetings and thanks alone.",
    ),
    left_out=(
        "The agent's messages, which are not in these files.",
        "Messages with confirmation or rejection, and values before any flow, have no commands: what they answer is "
        "not in the files. Which flows are paused or finished; rewrites and sentiments.",
    ),
    layout=named_files(".tsv"),
)
def multidogo(reader: PublicReader) -> Sequence[Flow]:
    """Read TSV files of the turns of one domain."""
    slots: set[str] = set()
    for part in reader.parts:
        chats: dict[str, _Chat] = {}
        for line, (name, text, tags, intent) in reader.csv(
            part.path, [column.casefold() for column in _COLUMNS], "\t"
        ):
            with reader.row(part.path, line):
                chats.setdefault(name, _Chat()).add(text, tags.split(), intent.split("<div>"), slots)
        for name, chat in chats.items():
            if chat.turns:
                reader.add(
                    part, LabelledConversation(id=f"multidogo-{part.name}-{name}", turns=tuple(chat.turns))
                )
    domain = text_slots(slots)
    return [Flow(name=name, description=words(name), slots=domain) for name in sorted(labels_in(reader))]


class _Chat:
    """A conversation, with the flow that runs and its values."""

    def __init__(self) -> None:
        self.turns: list[LabelledTurn] = []
        self._flow: str | None = None
        self._values: dict[str, str] = {}

    def add(self, text: str, tags: Sequence[str], intents: Sequence[str], slots: set[str]) -> None:
        """Add a message; its slots join those of the domain."""
        if not all(intents):
            raise BadRowError("No intent")
        acts = [name for name in intents if name in ACTS]
        new = [name for name in dict.fromkeys(intents) if name not in ACTS and name != self._flow]
        given = _values(text.split(), tags)
        flow = new[-1] if new else self._flow
        current = {} if new else self._values
        commands: list[Command] = [StartFlow(flow=name) for name in new]
        commands += [
            slot_command(name, value, current) for name, value in given.items() if current.get(name) != value
        ]
        if acts and set(acts) <= _SMALL_TALK and not commands:
            commands = [ChitChat()]
        known = commands and not {"confirmation", "rejection"} & set(acts) and (flow or not given)
        intent = new[0] if new else OUT_OF_SCOPE if "outofdomain" in acts else None
        turn = user(
            text,
            running(self._flow, self._values),
            flows=tuple(new),
            intent=intent,
            commands=tuple(commands) if known else None,
        )
        self.turns.append(turn.model_copy(update={"tags": tuple(f"act:{act}" for act in acts)}))
        slots.update(given)
        self._flow, self._values = flow, {**current, **given} if flow else {}


def _values(tokens: Sequence[str], tags: Sequence[str]) -> dict[str, str]:
    """The longest run of words that each slot's tags mark; none where tags and words differ in number."""
    values: dict[str, str] = {}
    runs = (
        groupby(zip(tags, tokens, strict=True), key=lambda pair: pair[0]) if len(tags) == len(tokens) else ()
    )
    for tag, run in runs:
        value = " ".join(token for _, token in run)
        if tag != "O" and len(value) > len(values.get(tag, "")):
            values[tag] = value
    return values
