"""How a turn is shown to the language model, and which names its slots have there and in the answers.

Texts from outside stand in JSON quotation marks, on one line each.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from jazzmine_dspy.models import (
    UNDERSTOOD,
    BaseCommand,
    Command,
    Flow,
    FlowRegistry,
    HistoryMessage,
    ReadingContext,
    Slot,
    Turn,
)
from jazzmine_dspy.models.base import FrozenMap, thaw
from jazzmine_dspy.models.history import MAX_SUMMARIES, split_episode, summary_lines
from jazzmine_dspy.program.ports import Recalled
from jazzmine_dspy.program.recall_query import recent
from jazzmine_dspy.signatures.answers import ALIASES, CommandAnswer
from jazzmine_dspy.signatures.schema import Addressed


class Named(NamedTuple):
    """A flow under the name that stands before its slots: "" for the running one, else its letter or its own name."""

    label: str
    flow: Flow
    held: FrozenMap


class Addresses:
    """The flows of a call, each once: the running one, those behind letters, paused ones, and those that start.

    Args:
        turn: Gives the running flow, the paused ones, and what they hold.
        registry: The flows by name.
        lettered: Names of the flows that the prompt offers, in the order of their letters.
        starting: Flows that are known to start.

    Example:
        >>> slots = [{"name": "order_id", "type": "text"}]
        >>> flows = [{"name": name, "description": name, "slots": slots} for name in ("track", "cancel")]
        >>> called = Addresses(Turn(text="4471", flow="track"), FlowRegistry(flows), ["track", "cancel"])
        >>> [slot.address for slot in called.slots]
        ['order_id', 'B.order_id']
        >>> called.read(CommandAnswer(type="set_slot", name="B.order_id", value="4471"))
        SetSlot(type='set_slot', name='order_id', flow='cancel', value='4471')
    """

    def __init__(
        self, turn: Turn, registry: FlowRegistry, lettered: Sequence[str] = (), starting: Iterable[str] = ()
    ) -> None:
        self._turn = turn
        self._letters = dict(zip(ALIASES, lettered, strict=False))
        labels = {turn.flow: ""} if turn.flow else {}
        for letter, name in self._letters.items():
            labels.setdefault(name, letter)
        for name in (*reversed(turn.paused), *starting):
            # A flow may be named as a letter is.
            labels.setdefault(name, f"{name}_" if name in self._letters else name)
        self.flows = [
            Named(label, registry[n], self._held(n)) for n, label in labels.items() if n in registry
        ]

    def _held(self, name: str) -> FrozenMap:
        return (
            self._turn.slots
            if name == self._turn.flow
            else FrozenMap.of(self._turn.paused_slots.get(name, {}))
        )

    @functools.cached_property
    def slots(self) -> list[Addressed]:
        """All slots, the running flow's first."""
        slots: list[Addressed] = []
        for label, flow, held in self.flows:
            prefix, owner = (f"{label}.", flow.name) if label else ("", None)
            slots += [
                Addressed(prefix + slot.name, slot, owner, slot.name in held.names) for slot in flow.slots
            ]
        return slots

    def read(self, answer: CommandAnswer) -> BaseCommand | None:
        """The command that an answer means; None where it names nothing of the call, or the state forbids it."""
        kind, name, turn = UNDERSTOOD[answer.type], answer.name, self._turn
        own = [each.slot for each in self.slots if each.flow is None]
        if "name" not in kind.slot_fields:
            if name is not None and kind.flow_fields:
                labels = {each.label: each.flow.name for each in self.flows if each.label}
                name = {**labels, **self._letters}.get(name.strip(), name)
            elif name is not None and (found := self._found(name)) is not None:
                name = found.slot.name if found.flow is None else None
            return kind.read(name, answer.value, turn, own)
        if name is None:
            return kind.read(None, answer.value, turn, own)
        found = self._found(name)
        if found is None:
            # Of several tasks with a slot of that name the commands before it, and what starts, say whose it is.
            alike = [each.slot for each in self.slots if each.slot.name == name.strip()][:1]
            return kind.read(name.strip(), answer.value, turn, alike) if alike else None
        if found.flow is None:
            return kind.read(found.slot.name, answer.value, turn, own)
        aside = turn.model_copy(update={"slots": self._held(found.flow), "awaiting": None})
        meant = kind.read(found.slot.name, answer.value, aside, [found.slot])
        return None if meant is None else meant.model_copy(update={"flow": found.flow})

    def _found(self, name: str) -> Addressed | None:
        """The slot of an address; of a flow's letter or name and the slot's; or of a name that one flow alone has."""
        said = name.strip()
        named = {each.address: each for each in self.slots}
        if said in named:
            return named[said]
        flow, _, slot = said.partition(".")
        flow = self._letters.get(flow.upper(), flow)
        whose = [
            each for each in self.slots if (each.flow or self._turn.flow, each.slot.name) == (flow, slot)
        ]
        alike = [each for each in self.slots if each.slot.name == said]
        return whose[0] if whose else alike[0] if len(alike) == 1 else None

    def written(self, commands: Iterable[Command]) -> list[dict[str, Any]]:
        """Labelled commands as an answer gives them: a value behind a flow that opens is that flow's."""
        opened: str | None = None
        addresses = {(each.flow or self._turn.flow, each.slot.name): each.address for each in self.slots}
        answers: list[dict[str, Any]] = []
        for command in commands:
            if command.order == "opens":
                opened = command.opens(self._turn)
            if not command.understood:
                continue
            answer = command.as_answer()
            if "name" in command.slot_fields:
                name = str(command.slot_name)
                answer["name"] = addresses.get((command.owner or opened or self._turn.flow, name), name)
            elif command.lm_may_name:
                given = getattr(command, (*command.slot_fields, *command.flow_fields)[0])
                answer |= {"name": given} if given and given != self._turn.flow else {}
            answers.append(answer)
        return answers


_SHOWN = 160
_SHOWN_LONG, _SHOWN_SHORT = 300, 120
"""Characters of a flow's condition and effects, alone and where one prompt asks for everything."""

_SHOWN_EXAMPLE = 60
_ROOM_LONG, _ROOM_SHORT = 3200, 480
"""Characters of all flows offered, above which no more examples are added: about 800 and 120 tokens."""

MESSAGE_SHOWN = 1200
"""Characters of the message in the brief wording; the full one shows it whole."""

CUT = " … "
"""Stands where a text was cut."""

_HELD, _HELD_IN_FULL = 40, 160
"""Characters of a value that is held; in the full wording a value may be asked for whole, such as an address."""

_PLAIN = ("text", "boolean")
"""Types whose example would tell nothing of their form."""

_BREAKS = {ord(letter): f"\\u{ord(letter):04x}" for letter in "\x85\u2028\u2029"}
"""Line breaks that JSON leaves as they are."""


def quoted(text: str, limit: int = _SHOWN) -> str:
    """A text as data: quotation marks around it, no line breaks in it, cut in the middle where it is too long."""
    if len(text) > limit:
        half = limit // 2
        text = f"{text[:half]}{CUT}{text[-half:]}"
    return json.dumps(text, ensure_ascii=False).translate(_BREAKS)


def situation(turn: Turn, at: ReadingContext | None = None) -> str:
    """The state before the message, in one line.

    Args:
        at: In the full wording, where and when the message is said: what paused flows hold, and the currency, are
            shown as well.
    """
    parts = []
    if turn.flow:
        parts.append(f"running {turn.flow}")
    if turn.awaiting:
        parts.append(f"asked for {turn.awaiting}")
    if turn.confirming:
        parts.append(f"asked yes or no: {quoted(turn.confirming.action)}")
    if turn.clarifying:
        parts.append("asked which: " + " or ".join(one_line(name, 64) for name in turn.clarifying))
    if turn.offering:
        parts.append(f"asked whether to go back to {one_line(turn.offering, 64)}")
    if turn.slots:
        limit = _HELD if at is None else _HELD_IN_FULL
        parts.append(f"known {_held(turn.slots.as_dict(), limit)}")
    if turn.paused:
        aside = turn.paused_slots.as_dict() if at is not None else {}
        shown = [
            f"{name} ({_held(aside[name], _HELD_IN_FULL)})" if aside.get(name) else name
            for name in turn.paused
        ]
        parts.append("paused " + ", ".join(shown))
    if turn.entities:
        parts.append("talked about " + ", ".join(quoted(entity.name, 60) for entity in turn.entities[-3:]))
    if episodes := recent(turn.episode_summaries):
        parts.append("in earlier episodes: " + ", ".join(quoted(text) for text in episodes))
    if turn.date:
        parts.append(f"today {turn.date:%A %Y-%m-%d}")
    if at is not None and at.currency:
        parts.append(f"amounts are in {at.currency} where no currency is said")
    return "; ".join(parts) or "nothing running"


def _held(values: Mapping[str, Any], limit: int = _HELD) -> str:
    return ", ".join(f"{name}={_value(value, limit)}" for name, value in values.items())


def _value(value: Any, limit: int) -> str:
    """A value as it would be answered: numbers, booleans and lists as JSON, a long one as a cut text."""
    if isinstance(value, str):
        return quoted(value, limit)
    shown = json.dumps(thaw(value), ensure_ascii=False).translate(_BREAKS)
    return shown if len(shown) <= limit else quoted(shown, limit)


def last_messages(turn: Turn, last: int, limit: int = _SHOWN) -> str:
    """The newest messages of the history, one a line."""
    return _messages(turn.history[-last:] if last else (), limit)


def current_episode(turn: Turn, user_turns: int, limit: int = _SHOWN) -> str:
    """The history from the last change of topic on, one message a line, after a short line for each message before.

    Args:
        user_turns: Turns of the user that are shown at most, with the replies between them.
        limit: Characters of a message.
    """
    shown, before = split_episode(turn.history, user_turns)
    lines = [*turn.history_summaries, *summary_lines(before)][-MAX_SUMMARIES:]
    parts = [*(f"earlier: {quoted(line)}" for line in lines), _messages(shown, limit)]
    return "\n".join(filter(None, parts))


def _messages(messages: Sequence[HistoryMessage], limit: int) -> str:
    return "\n".join(f"{message.role}: {quoted(message.text, limit)}" for message in messages)


def context_snippets(turn: Turn) -> str:
    """Facts given for this turn, numbered from 1."""
    return "\n".join(
        f"{number}. {quoted(text, 400)}" for number, text in enumerate(turn.explicit_context, start=1)
    )


def message(turn: Turn, enhanced: str | None = None, limit: int = MESSAGE_SHOWN) -> str:
    """The message, cut in the middle if it is longer than ``limit``, and the rewrite beside it where that says more."""
    shown = quoted(turn.text, limit)
    return f"{shown} (that is: {quoted(enhanced, 600)})" if enhanced and enhanced != turn.text else shown


def flows_offered(
    registry: FlowRegistry,
    candidates: Sequence[Recalled],
    *,
    effects: bool = True,
    examples: int | None = None,
    described: bool = False,
    turn: Turn | None = None,
) -> str:
    """The candidates behind their letters, one a line: name, category, keywords, condition, effects, and examples.

    Args:
        candidates: Best first; as many as there are letters.
        effects: Show effects too, and more of the rest.
        examples: How many of the examples that are nearest to the message are shown of each candidate; by default 2
            with effects. Without them, one each as long as all lines together stay short.
        described: Show the description next to the condition.
        turn: In the full wording, the turn: as with ``described``, and what runs already is shown too.
    """
    lines: list[str] = []
    offered = list(zip(ALIASES, candidates, strict=False))
    for letter, candidate in offered:
        flow = registry[candidate.name]
        text = one_line(flow.condition or flow.description, _SHOWN_LONG if effects else _SHOWN_SHORT)
        room = _SHOWN_LONG - len(text)
        if (described or turn is not None) and flow.condition and flow.description:
            text = f"{one_line(flow.description, _SHOWN_LONG)} When: {text}"
            room = room if described else _SHOWN_LONG - len(text)
        if effects and flow.desired_effects:
            text += " Effect: " + one_line(" ".join(flow.desired_effects), room)
        about = "; ".join(filter(None, (flow.category, ", ".join(flow.keywords[: 6 if effects else 3]))))
        about = f" ({one_line(about, 80)})" if about else ""
        state = ""
        if turn is not None and flow.name in (turn.flow, *turn.paused):
            state = " [running]" if flow.name == turn.flow else " [paused]"
        lines.append(f"{letter} {one_line(flow.name, 64)}{state}{about}: {text}")
    most = (2 if effects else 1) if examples is None else examples
    room = _ROOM_LONG if effects else _ROOM_SHORT
    for number, (_, candidate) in enumerate(offered):
        said = "; ".join(quoted(text, _SHOWN_EXAMPLE) for text in candidate.near[:most])
        if said and sum(map(len, lines)) + len(said) <= room:
            lines[number] += f" Said: {said}"
    return "\n".join(lines) or "none"


def one_line(text: str, limit: int) -> str:
    """An author's text on one line, cut at the end where it is too long."""
    text = " ".join(text.split())
    return text if len(text) <= limit else text[: max(0, limit - 1)].rstrip() + "…"


def slots_offered(slots: Sequence[Slot]) -> str:
    """Slots with type and choices, in one line."""
    shown = []
    for slot in slots:
        options = f" ({one_line('|'.join(slot.options), 300)})" if slot.options else ""
        shown.append(f"{one_line(slot.name, 64)} {slot.kind.prompt_text(slot)}{options}")
    return "; ".join(shown) or "none"


def slots_by_flow(addresses: Addresses) -> str:
    """Slots under their flows, each with the name that answers give it, type, form, options and description."""
    lines = []
    for label, flow, held in addresses.flows:
        if not flow.slots:
            continue
        whose = one_line(flow.name, 64) + (" [running]" if not label else "")
        lines.append(f"{label} {whose}:" if label not in ("", flow.name) else f"{whose}:")
        for slot in flow.slots:
            name = one_line(f"{label}.{slot.name}" if label else slot.name, 130)
            known = ", held" if slot.name in held.names else ""
            about = f": {one_line(slot.description, 160)}" if slot.description else ""
            lines.append(f"- {name} ({_form(slot)}{known}){about}")
    return "\n".join(lines) or "none"


def _form(slot: Slot) -> str:
    """The type with an example, and what narrows it."""
    if slot.options:
        return f"{slot.type}: {one_line(' | '.join(slot.options), 600)}"
    parts = [str(slot.type) if slot.type in _PLAIN else f"{slot.type}, such as {slot.kind.example}"]
    parts += [f"pattern {one_line(slot.pattern, 80)}"] if slot.pattern else []
    for word, bound in (("from", slot.min), ("up to", slot.max)):
        if bound is not None:
            parts.append(f"{word} {f'{bound:g}' if isinstance(bound, float) else one_line(str(bound), 40)}")
    return ", ".join(parts)
