"""How a turn is shown to the language model, and which names its slots have there and in the answers.

Texts from outside stand in JSON quotation marks, on one line each.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from jazzmine_dspy.models import (
    BaseCommand,
    Command,
    Flow,
    FlowRegistry,
    HistoryMessage,
    Slot,
    Turn,
)
from jazzmine_dspy.models.base import FrozenMap, thaw
from jazzmine_dspy.models.commands import KINDS
from jazzmine_dspy.models.history import MAX_SUMMARIES, split_episode, summary_lines, trim_to_current_episode
from jazzmine_dspy.program.recall_query import recent
from jazzmine_dspy.signatures.answers import ALIASES, CommandAnswer
from jazzmine_dspy.signatures.schema import Addressed


class Named(NamedTuple):
    """A flow under the name that stands before its slots: "" for the running one, else its letter or its own name."""

    label: str
    flow: Flow
    held: FrozenMap


class Addresses:
    """The flows of a call, each once: the running one, paused ones, those that start, and those behind letters.

    Args:
        turn: Gives the running flow, the paused ones, and what they hold.
        registry: The flows by name.
        lettered: Names of the flows that may start, in the order of their letters.
        starting: Flows that are known to start.

    Example:
        >>> slots = [{"name": "order_id", "type": "text"}]
        >>> flows = [{"name": name, "description": name, "slots": slots} for name in ("track", "cancel")]
        >>> called = Addresses(Turn(text="4471", flow="track"), FlowRegistry(flows), ["cancel"])
        >>> [slot.address for slot in called.slots]
        ['order_id', 'A.order_id']
        >>> called.read(CommandAnswer(type="set_slot", name="A.order_id", value="4471"))
        SetSlot(type='set_slot', name='order_id', flow='cancel', value='4471')
    """

    def __init__(
        self, turn: Turn, registry: FlowRegistry, lettered: Sequence[str] = (), starting: Iterable[str] = ()
    ) -> None:
        self._turn = turn
        self.letters = dict(zip(ALIASES, lettered, strict=False))
        labels = {turn.flow: ""} if turn.flow else {}
        for name in (*reversed(turn.paused), *starting):
            # A flow may be named as a letter is.
            labels.setdefault(name, f"{name}_" if name in self.letters else name)
        for letter, name in self.letters.items():
            labels.setdefault(name, letter)
        self.flows = [
            Named(label, registry[n], self._held(n)) for n, label in labels.items() if n in registry
        ]

    def _held(self, name: str) -> FrozenMap:
        return (
            self._turn.slots
            if name == self._turn.flow
            else FrozenMap.of(self._turn.paused_slots.get(name, {}))
        )

    def state_of(self, name: str) -> str:
        """What a flow does that stands behind no letter."""
        return "running" if name == self._turn.flow else "paused" if name in self._turn.paused else "starts"

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
        kind, name, turn = KINDS[answer.type], answer.name, self._turn
        own = [each.slot for each in self.slots if each.flow is None]
        if "name" not in kind.slot_fields:
            if name is not None and kind.flow_fields:
                labels = {each.label: each.flow.name for each in self.flows if each.label}
                name = {**labels, **self.letters}.get(name.strip(), name)
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
        flow = self.letters.get(flow.upper(), flow)
        whose = [
            each for each in self.slots if (each.flow or self._turn.flow, each.slot.name) == (flow, slot)
        ]
        alike = [each for each in self.slots if each.slot.name == said]
        return whose[0] if whose else alike[0] if len(alike) == 1 else None

    def written(self, commands: Iterable[Command]) -> list[Any]:
        """Labelled commands as an answer gives them: a value behind a flow that opens is that flow's."""
        opened: str | None = None
        addresses = {(each.flow or self._turn.flow, each.slot.name): each.address for each in self.slots}
        own = [each.slot for each in self.slots if each.flow is None]
        letters = {name: letter for letter, name in self.letters.items()}
        answers: list[Any] = []
        for command in commands:
            if command.order == "opens":
                opened = command.opens(self._turn)
            if not command.understood:
                wanted = getattr(command, "flows", (getattr(command, "flow", None),))
                answers += [letters[name] for name in wanted if name in letters]
            if not (command.understood or command.lm_listed):
                continue
            answer = command.as_answer()
            if command.lm_may_name:
                named = getattr(command, (*command.slot_fields, *command.flow_fields)[0])
                answer |= {"name": named} if named in command.names(self._turn, own) else {}
            elif "name" in answer:
                name = str(command.slot_name)
                answer["name"] = addresses.get((command.owner or opened or self._turn.flow, name), name)
            answers.append(CommandAnswer.model_validate(answer).written())
        return answers


_SHOWN, _SHOWN_LAST = 120, 480
"""Characters of an earlier message, and of the last one, which the message answers."""

_SHOWN_EXAMPLE = 60
_ROOM, _ROOM_ALONE = 480, 3200
"""Characters of conditions, descriptions of slots and examples together, those of the likeliest flows first; and where
flows alone are chosen."""

_LEAST = 40
"""Characters that a text is cut to at least; where there is less room it is left out."""

_WORDS = 2
"""Words for a flow, of its category and keywords, that its name and condition do not say."""

_EFFECTS = 300
"""Characters of a flow's effects, where flows alone are chosen."""

CUT = " … "
"""Stands where a text was cut."""

_HELD = 160
"""Characters of a value that is held: it may be asked for whole, such as an address."""

_BREAKS = {ord(letter): f"\\u{ord(letter):04x}" for letter in "\x85\u2028\u2029"}
"""Line breaks that JSON leaves as they are."""


def quoted(text: str, limit: int = _SHOWN) -> str:
    """A text as data: quotation marks around it, no line breaks in it, cut in the middle where it is too long."""
    if len(text) > limit:
        half = limit // 2
        text = f"{text[:half]}{CUT}{text[-half:]}"
    return json.dumps(text, ensure_ascii=False).translate(_BREAKS)


def situation(turn: Turn, currency: str = "") -> str:
    """The state before the message, in one line. A question that stands in the history is not put once more.

    Args:
        currency: Of amounts that name none, if a value in play is an amount.
    """
    parts = []
    if turn.flow:
        parts.append(f"running {turn.flow}")
    if turn.awaiting:
        parts.append(f"asked for {turn.awaiting}")
    if turn.confirming:
        asked = any(turn.confirming.action in each.text for each in turn.history[-1:])
        parts.append("asked yes or no" if asked else f"asked yes or no: {quoted(turn.confirming.action)}")
    if turn.clarifying:
        parts.append("asked which: " + " or ".join(one_line(name, 64) for name in turn.clarifying))
    if turn.offering:
        parts.append(f"asked whether to go back to {one_line(turn.offering, 64)}")
    if turn.slots:
        parts.append(f"known {_held(turn.slots.as_dict())}")
    if turn.paused:
        aside = turn.paused_slots.as_dict()
        shown = [f"{name} ({_held(aside[name])})" if aside.get(name) else name for name in turn.paused]
        parts.append("paused " + ", ".join(shown))
    said = " ".join([*(each.text for each in turn.history), *map(str, turn.slots.as_dict().values())]).lower()
    if unsaid := [each.name for each in turn.entities[-3:] if each.name.lower().split()[-1] not in said]:
        parts.append("talked about " + ", ".join(quoted(name, 60) for name in unsaid))
    if episodes := recent(turn.episode_summaries):
        parts.append("in earlier episodes: " + ", ".join(quoted(text) for text in episodes))
    if turn.date:
        parts.append(f"today {turn.date:%A %Y-%m-%d}")
    parts += [f"currency {currency}"] if currency else []
    return "; ".join(parts) or "nothing running"


def _held(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={_value(value, _HELD)}" for name, value in values.items())


def _value(value: Any, limit: int) -> str:
    """A value as it would be answered: numbers, booleans and lists as JSON, a long one as a cut text."""
    if isinstance(value, str):
        return quoted(value, limit)
    shown = json.dumps(thaw(value), ensure_ascii=False).translate(_BREAKS)
    return shown if len(shown) <= limit else quoted(shown, limit)


def last_messages(turn: Turn, last: int) -> str:
    """The newest messages of the history, one a line."""
    return _messages(turn.history[-last:] if last else ())


def current_episode(turn: Turn, user_turns: int) -> str:
    """The history from the last change of topic on, one message a line, after a short line for each message before.

    If the turn has summaries of earlier episodes, the situation shows these instead of the messages of earlier topics.

    Args:
        user_turns: Turns of the user that are shown at most, with the replies between them.
    """
    shown, before = split_episode(turn.history, user_turns)
    hidden = len(turn.history) - len(trim_to_current_episode(turn.history)) if turn.episode_summaries else 0
    lines = [*(() if hidden else turn.history_summaries), *summary_lines(before[hidden:])][-MAX_SUMMARIES:]
    parts = [*(f"earlier: {quoted(line)}" for line in lines), _messages(shown)]
    return "\n".join(filter(None, parts))


def _messages(messages: Sequence[HistoryMessage]) -> str:
    limits = [*[_SHOWN] * (len(messages) - 1), _SHOWN_LAST]
    return "\n".join(
        f"{each.role}: {quoted(each.text, limit)}" for each, limit in zip(messages, limits, strict=False)
    )


def context_snippets(turn: Turn) -> str:
    """Facts given for this turn, numbered from 1."""
    return "\n".join(
        f"{number}. {quoted(text, 400)}" for number, text in enumerate(turn.explicit_context, start=1)
    )


def message(turn: Turn, enhanced: str | None = None) -> str:
    """The message, and the rewrite beside it where that says more."""
    shown = quoted(turn.text, len(turn.text))
    return f"{shown} (that is: {quoted(enhanced, 600)})" if enhanced and enhanced != turn.text else shown


class _Room:
    """Characters that are left for texts: one that there is no room for is cut, and those behind it are left out."""

    def __init__(self, characters: int) -> None:
        self._left = characters

    def take(self, text: str) -> str:
        """A text on one line, as far as there is room for it."""
        text = one_line(text, self._left) if self._left >= _LEAST else ""
        self._left -= len(text)
        return text


def flows_offered(
    addresses: Addresses,
    likely: Mapping[str, Sequence[str]],
    *,
    slots: bool = True,
    effects: bool = False,
) -> str:
    """The flows of a call, one a line, with their slots in brackets: what runs, what is paused, what may start.

    What is likely to start is described, as far as there is room, and so are the running flow's slots. Of other flows
    that may start the slots are named alone.

    Args:
        addresses: The flows, those that may start with the likeliest first.
        likely: Flows that may well start, with their examples that are nearest to the message.
        slots: Show the slots, and flows that are not behind letters.
        effects: Show descriptions beside conditions, effects and examples, as where flows alone are chosen.
    """
    room = _Room(_ROOM_ALONE if effects else _ROOM)
    heads, tails = [], []
    shown = [each for each in addresses.flows if slots or each.label in addresses.letters]
    for label, flow, _ in shown:
        letter = label in addresses.letters
        head = f"{label if letter else addresses.state_of(flow.name)} {one_line(flow.name, 64)}"
        if flow.name in likely:
            both = effects and flow.condition
            text = room.take(
                f"{flow.description} When: {flow.condition}" if both else flow.condition or flow.description
            )
            known = f"{flow.name} {text}".lower()
            unsaid = [word for word in (flow.category, *flow.keywords) if word and word.lower() not in known][
                :_WORDS
            ]
            head += f" [{one_line(', '.join(unsaid), 80)}]" if unsaid else ""
            head += f": {text}" if text else ""
        if effects and flow.desired_effects:
            head += " Effect: " + one_line(" ".join(flow.desired_effects), _EFFECTS)
        heads.append(head)
    for label, flow, _ in shown:
        brief = label in addresses.letters and flow.name not in likely
        named = [
            one_line(slot.name, 64)
            if brief
            else _shown_slot(slot, "" if label else room.take(slot.description))
            for slot in flow.slots
        ]
        tails.append(f" ({'; '.join(named)})" if named and slots else "")
    for number, (_, flow, _) in enumerate(shown if effects else ()):
        said = quoted(likely[flow.name][0], _SHOWN_EXAMPLE) if likely.get(flow.name) else ""
        tails[number] += f" Said: {said}" if said and room.take(said) == said else ""
    return "\n".join(map("".join, zip(heads, tails, strict=True))) or "none"


def _shown_slot(slot: Slot, about: str) -> str:
    """A slot with its options, or its type, and what is said of it."""
    form = one_line("|".join(slot.options), 300) if slot.options else slot.kind.prompt_text(slot)
    parts = (one_line(slot.name, 64), "" if form == "text" else form, f"- {about}" if about else "")
    return " ".join(filter(None, parts))


def one_line(text: str, limit: int) -> str:
    """An author's text on one line, cut at the end where it is too long."""
    text = " ".join(text.split())
    return text if len(text) <= limit else text[: max(0, limit - 1)].rstrip() + "…"
