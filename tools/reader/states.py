"""What is drawn of a domain before a message: values, texts with their labels, and states of a conversation."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from reader.domains import Domain
from reader.surface import MADE, made

ACTS = (
    "affirm",
    "deny",
    "ask",
    "repeat",
    "restart",
    "chitchat",
    "handoff",
    "out_of_scope",
    "clarify",
    "pause",
)
PLACE = re.compile(r"\{([\w.]+)(!?)\}")


@dataclass
class SlotLabel:
    """What a message does to one slot.

    Args:
        op: ``given``, ``skip``, ``add``, ``remove``, ``clear`` or ``same``.
        spans: Where its values stand in the text, in characters.
        option, truth: The value of a choice, of a boolean.
    """

    op: str
    spans: list[tuple[int, int]] = field(default_factory=list)
    option: str | None = None
    truth: bool | None = None


@dataclass
class Drawn:
    """One labelled turn. Nothing is known of its ``unlabelled`` acts, and of its slots unless ``values_known``."""

    domain: str
    kind: str
    text: str = ""
    previous: str = ""
    assistant: str = ""
    flow: str | None = None
    awaiting: str | None = None
    filled: dict[str, str] = field(default_factory=dict)
    paused: list[str] = field(default_factory=list)
    offering: str | None = None
    confirming: bool = False
    finished: tuple[str, dict[str, str]] | None = None
    acts: set[str] = field(default_factory=set)
    unlabelled: set[str] = field(default_factory=set)
    starts: list[str] = field(default_factory=list)
    cancels: list[str] = field(default_factory=list)
    resumes: list[str] = field(default_factory=list)
    slots: dict[str, SlotLabel] = field(default_factory=dict)
    values_known: bool = True


@dataclass
class Value:
    """A drawn value: how it is written, and what it means where code or a list says it."""

    surface: str
    option: str | None = None
    truth: bool | None = None
    items: tuple[str, ...] = ()


class States:
    """Draws values, texts and states of one domain.

    Args:
        domain: Where flows and wordings come from.
        rng: The source of chance.
    """

    def __init__(self, domain: Domain, rng: random.Random) -> None:
        self.domain, self.rng = domain, rng
        self.flows = list(domain.flows)
        self.with_slots = [name for name in self.flows if domain.slots(name)]
        self.confirmed = [name for name in self.flows if domain.flows[name].get("confirm")]

    # --- values -------------------------------------------------------------------------------------------------------

    def value(self, flow: str, slot: dict[str, Any]) -> Value:
        """A value of a slot."""
        kind, said = slot["type"], self.domain.of_slot(flow, slot["name"])
        if kind in MADE:
            return Value(made(self.rng, kind, self.domain.region, self.domain.currency))
        values = said.get("values")
        if kind == "choice":
            option = self.rng.choice(slot["options"])
            forms = [str(each) for each in (values or {}).get(option) or []] + [str(option)]
            return Value(self.rng.choice(forms), option=str(option))
        if kind == "boolean":
            truth = self.rng.random() < 0.55
            return Value(
                str(self.rng.choice((values or {}).get(truth) or ["yes" if truth else "no"])), truth=truth
            )
        texts = [str(each) for each in values or []] or ["it"]
        if kind == "list":
            items = tuple(self.rng.sample(texts, min(len(texts), self.rng.choices([1, 2, 3], [4, 4, 2])[0])))
            joint = self.rng.choice([" and ", ", ", " & "])
            written = ", ".join(items[:-1]) + (joint + items[-1] if len(items) > 1 else items[-1])
            return Value(written, items=items)
        return Value(self.rng.choice(texts))

    def _fill(self, drawn: Drawn, wording: str, flow: str, values: dict[str, Value] | None = None) -> None:
        """Sets the text of a turn from a wording, with the labels of its placeholders."""
        values = {} if values is None else values
        segments: list[tuple[str, str | None, Value | None]] = []
        position = 0
        for match in PLACE.finditer(wording):
            segments.append((wording[position : match.start()], None, None))
            position = match.end()
            owner, _, name = match.group(1).rpartition(".")
            owner = owner or flow
            key = f"{owner}.{name}"
            slot = self.domain.slot(owner, name)
            if match.group(2):
                segments.append((self.value(owner, slot).surface, None, None))
                continue
            value = values.setdefault(key, self.value(owner, slot))
            segments.append((value.surface, key, value))
        segments.append((wording[position:], None, None))
        self._write(drawn, segments)

    def _write(self, drawn: Drawn, segments: Sequence[tuple[str, str | None, Value | None]]) -> None:
        noisy = self.rng.random() < 0.25
        lower = noisy and self.rng.random() < 0.6
        bare = noisy and self.rng.random() < 0.5
        text = drawn.text
        for plain, key, value in segments:
            piece = plain
            if lower:
                piece = piece.lower()
            if bare and key is None:
                piece = re.sub(r"[,.!?']", "", piece)
            if noisy and key is None and len(piece) > 8 and self.rng.random() < 0.5:
                piece = _typo(self.rng, piece)
            start = len(text)
            text += piece
            if key is not None and value is not None:
                self._label(drawn, key, value, piece, start)
        drawn.text = text

    def _label(self, drawn: Drawn, key: str, value: Value, piece: str, start: int) -> None:
        label = drawn.slots.setdefault(key, SlotLabel("given", option=value.option, truth=value.truth))
        if value.items:
            position = 0
            for item in value.items:
                at = piece.lower().find(item.lower(), position)
                if at >= 0:
                    label.spans.append((start + at, start + at + len(item)))
                    position = at + len(item)
        else:
            label.spans.append((start, start + len(piece)))

    # --- states -------------------------------------------------------------------------------------------------------

    def _idle(self, kind: str) -> Drawn:
        drawn = Drawn(self.domain.name, kind)
        chance = self.rng.random()
        if chance < 0.25:
            drawn.previous = self.rng.choice(self.domain.anytime.get("chitchat") or [""])
            drawn.assistant = self.rng.choice(["What can I do for you?", "How can I help?", "Anything else?"])
        elif chance < 0.55:
            flow = self.rng.choice(self.with_slots or self.flows)
            values = self._values(flow, 1.0)
            drawn.finished = (flow, values)
            drawn.assistant = self.rng.choice(
                ["Done.", "That is done. Anything else?", f"Done: {flow.replace('_', ' ')}."]
            )
        return drawn

    def _values(self, flow: str, share: float) -> dict[str, str]:
        return {
            slot["name"]: self.value(flow, slot).surface
            for slot in self.domain.slots(flow)
            if self.rng.random() < share
        }

    def running(self, kind: str, flow: str | None = None, awaited: bool = True, most: float = 0.5) -> Drawn:
        flow = flow or self.rng.choice(self.with_slots or self.flows)
        drawn = Drawn(self.domain.name, kind, flow=flow, filled=self._values(flow, self.rng.random() * most))
        slots = self.domain.slots(flow)
        open_slots = [slot for slot in slots if slot["name"] not in drawn.filled] or slots
        if awaited and open_slots:
            slot = self.rng.choice(open_slots)
            drawn.awaiting = slot["name"]
            drawn.filled.pop(slot["name"], None)
            drawn.assistant = slot.get("ask") or f"What is the {slot['name']}?"
        else:
            drawn.assistant = self.rng.choice(["All right.", "Okay, noted.", ""])
        drawn.previous = PLACE.sub("", self.rng.choice(self.domain.wordings(flow, "open") or [""]))
        if self.rng.random() < 0.2:
            others = [name for name in self.flows if name != flow]
            drawn.paused = [self.rng.choice(others)] if others else []
        return drawn

    def confirming(self, kind: str, flow: str | None = None) -> Drawn | None:
        if not self.confirmed:
            return None
        flow = flow or self.rng.choice(self.confirmed)
        drawn = self.running(kind, flow, awaited=False)
        drawn.filled = self._values(flow, 1.0)
        drawn.confirming = True
        question = self.domain.flows[flow]["confirm"]
        drawn.assistant = PLACE.sub(lambda match: drawn.filled.get(match.group(1), ""), question)
        return drawn

    def _anywhere(self, kind: str) -> Drawn:
        chance = self.rng.random()
        if chance < 0.35:
            return self._idle(kind)
        if chance < 0.8:
            return self.running(kind)
        return self.confirming(kind) or self._idle(kind)

    def where_not(self, kind: str, flow: str) -> Drawn:
        """A state in which another flow than this runs, or none."""
        for _ in range(8):
            drawn = self._anywhere(kind) if self.rng.random() < 0.45 else self._idle(kind)
            if drawn.flow != flow and flow not in drawn.paused:
                return drawn
        return self._idle(kind)


def _typo(rng: random.Random, text: str) -> str:
    """A text with one letter dropped, doubled or exchanged with its neighbour."""
    places = [i for i in range(1, len(text) - 1) if text[i].isalpha() and text[i + 1].isalpha()]
    if not places:
        return text
    i = rng.choice(places)
    return rng.choice(
        [text[:i] + text[i + 1 :], text[: i + 1] + text[i:], text[:i] + text[i + 1] + text[i] + text[i + 2 :]]
    )
