"""Draws labelled turns from a domain: a state, an act, values and a wording; so labels are exact."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
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
JOINTS = (", ", " and ", ". ", ", and ", " - ", "; ", " ", ", also ")


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
    """One labelled turn. ``unlabelled``: acts of which nothing is known."""

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


@dataclass
class Value:
    """A drawn value: how it is written, and what it means where code or a list says it."""

    surface: str
    option: str | None = None
    truth: bool | None = None
    items: tuple[str, ...] = ()


class Drawer:
    """Draws turns of one domain.

    Args:
        domain: Where flows and wordings come from.
        rng: The source of chance.
    """

    def __init__(self, domain: Domain, rng: random.Random) -> None:
        self.domain, self.rng = domain, rng
        self.flows = list(domain.flows)
        self.with_slots = [name for name in self.flows if domain.slots(name)]
        self.confirmed = [name for name in self.flows if domain.flows[name].get("confirm")]
        self.makers: list[tuple[float, Callable[[], Drawn | None]]] = [
            (22, self.opening), (7, self.not_wanted), (6, self.question), (16, self.answer), (7, self.two_answers),
            (8, self.correction), (3, self.skip), (6, self.yes), (4, self.yes_trap), (4, self.no), (5, self.change),
            (9, self.anytime), (3, self.cancel), (3, self.resume), (3, self.vague), (5, self.two), (4, self.fix),
            (4, self.again), (3, self.same), (2, self.edit_list), (3, self.bound), (2, self.answer_and_question),
        ]  # fmt: skip

    def draw(self) -> Drawn:
        """One turn."""
        weights = [weight for weight, _ in self.makers]
        while True:
            drawn = self.rng.choices([maker for _, maker in self.makers], weights)[0]()
            if drawn is not None and drawn.text.strip():
                return drawn

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

    def _running(self, kind: str, flow: str | None = None, awaited: bool = True, most: float = 0.5) -> Drawn:
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

    def _confirming(self, kind: str, flow: str | None = None) -> Drawn | None:
        if not self.confirmed:
            return None
        flow = flow or self.rng.choice(self.confirmed)
        drawn = self._running(kind, flow, awaited=False)
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
            return self._running(kind)
        return self._confirming(kind) or self._idle(kind)

    def _where_not(self, kind: str, flow: str) -> Drawn:
        """A state in which another flow than this runs, or none."""
        for _ in range(8):
            drawn = self._anywhere(kind) if self.rng.random() < 0.45 else self._idle(kind)
            if drawn.flow != flow and flow not in drawn.paused:
                return drawn
        return self._idle(kind)

    # --- acts ---------------------------------------------------------------------------------------------------------

    def opening(self) -> Drawn | None:
        flow = self.rng.choice(self.flows)
        drawn = self._where_not("opening", flow)
        drawn.starts = [flow]
        wordings = self.domain.wordings(flow, "open") + [
            str(e) for e in self.domain.flows[flow].get("examples") or []
        ]
        self._fill(drawn, self.rng.choice(wordings), flow)
        slots = [slot for slot in self.domain.slots(flow) if f"{flow}.{slot['name']}" not in drawn.slots]
        if slots and self.rng.random() < 0.2:
            slot = self.rng.choice(slots)
            answers = self._answers(flow, slot["name"])
            if answers:
                drawn.text += self.rng.choice(JOINTS)
                self._fill(drawn, self.rng.choice(answers), flow)
        return drawn

    def not_wanted(self) -> Drawn | None:
        flow = self.rng.choice(self.flows)
        drawn = self._where_not("not_wanted", flow)
        wordings = self.domain.wordings(flow, "not_wanted")
        if not wordings:
            return None
        self._fill(drawn, self.rng.choice(wordings), flow)
        drawn.unlabelled = {"chitchat", "deny", "pause", "out_of_scope", "ask"}
        return drawn

    def question(self) -> Drawn | None:
        flow = self.rng.choice(self.flows)
        drawn = self._anywhere("ask") if self.rng.random() < 0.7 else self._running("ask", flow)
        wordings = self.domain.wordings(flow, "ask")
        if not wordings:
            return None
        drawn.acts = {"ask"}
        self._fill(drawn, self.rng.choice(wordings), flow)
        return drawn

    def _answers(self, flow: str, slot: str) -> list[str]:
        said = self.domain.of_slot(flow, slot).get("answer") or []
        return [str(each).replace("{v}", f"{{{slot}}}") for each in said]

    def answer(self) -> Drawn | None:
        drawn = self._running("answer")
        if drawn.flow is None or drawn.awaiting is None:
            return None
        flow, slot = drawn.flow, drawn.awaiting
        answers = self._answers(flow, slot)
        bare = f"{{{slot}}}" + self.rng.choice(["", "", "", ".", " please", "!"])
        wording = bare if not answers or self.rng.random() < 0.4 else self.rng.choice(answers)
        self._boolean_or_fill(drawn, wording, flow, slot)
        return drawn

    def _boolean_or_fill(self, drawn: Drawn, wording: str, flow: str, slot: str) -> None:
        """Whole answers of booleans have no placeholder, so that only the values' own forms tell what they mean."""
        definition = self.domain.slot(flow, slot)
        if definition["type"] == "boolean" and f"{{{slot}}}" not in wording:
            wording = f"{{{slot}}}"
        self._fill(drawn, wording, flow)

    def two_answers(self) -> Drawn | None:
        drawn = self._running("two_answers")
        if drawn.flow is None or drawn.awaiting is None:
            return None
        flow = drawn.flow
        others = [s["name"] for s in self.domain.slots(flow) if s["name"] != drawn.awaiting]
        if not others:
            return None
        chosen = [
            drawn.awaiting,
            *self.rng.sample(others, min(len(others), self.rng.choices([1, 2], [4, 1])[0])),
        ]
        if self.rng.random() < 0.3:
            self.rng.shuffle(chosen)
        for place, slot in enumerate(chosen):
            if place:
                drawn.text += self.rng.choice(JOINTS)
            kind = self.domain.slot(flow, slot)["type"]
            answers = self._answers(flow, slot)
            plain = kind in MADE or slot == drawn.awaiting
            wording = (
                f"{{{slot}}}"
                if not answers or (plain and self.rng.random() < 0.35)
                else self.rng.choice(answers)
            )
            self._boolean_or_fill(drawn, wording, flow, slot)
        return drawn

    def answer_and_question(self) -> Drawn | None:
        drawn = self.answer()
        if drawn is None or drawn.flow is None:
            return None
        asks = self.domain.wordings(self.rng.choice(self.flows), "ask")
        if not asks:
            return None
        drawn.text += self.rng.choice([", ", ". ", " - ", " and "])
        self._fill(drawn, self.rng.choice(asks), drawn.flow)
        drawn.acts, drawn.kind = {"ask"}, "answer_and_question"
        return drawn

    def correction(self) -> Drawn | None:
        flow = self.rng.choice(self.with_slots or self.flows)
        confirmed = self.domain.flows[flow].get("confirm") and self.rng.random() < 0.4
        drawn = (
            self._confirming("correction", flow) if confirmed else self._running("correction", flow, most=1.0)
        )
        if drawn is None or not self.domain.slots(flow):
            return None
        slot = self.rng.choice([s["name"] for s in self.domain.slots(flow)])
        if slot == drawn.awaiting:
            return None
        definition = self.domain.slot(flow, slot)
        drawn.filled.setdefault(slot, self.value(flow, definition).surface)
        said = [
            str(each).replace("{v}", f"{{{slot}}}")
            for each in self.domain.of_slot(flow, slot).get("correct") or []
        ]
        said = [each for each in said if f"{{{slot}}}" in each]
        if not said:
            return None
        self._fill(drawn, self.rng.choice(said), flow)
        if drawn.confirming:
            drawn.unlabelled = {"deny"}
        return drawn

    def skip(self) -> Drawn | None:
        drawn = self._running("skip")
        if drawn.flow is None or drawn.awaiting is None:
            return None
        said = self.domain.of_slot(drawn.flow, drawn.awaiting).get("skip") or []
        if not said:
            return None
        self._fill(drawn, str(self.rng.choice(said)), drawn.flow)
        drawn.slots = {f"{drawn.flow}.{drawn.awaiting}": SlotLabel("skip")}
        return drawn

    def _at_confirm(self, kind: str, wordings: str) -> Drawn | None:
        drawn = self._confirming(kind)
        if drawn is None or drawn.flow is None or not (said := self.domain.wordings(drawn.flow, wordings)):
            return None
        self._fill(drawn, self.rng.choice(said), drawn.flow)
        return drawn

    def yes(self) -> Drawn | None:
        if (drawn := self._at_confirm("yes", "yes")) is not None:
            drawn.acts = {"affirm"}
        return drawn

    def yes_trap(self) -> Drawn | None:
        if (drawn := self._at_confirm("yes_trap", "yes_trap")) is not None:
            drawn.unlabelled = {"deny", "ask", "chitchat", "pause"}
        return drawn

    def no(self) -> Drawn | None:
        if (drawn := self._at_confirm("no", "no")) is not None:
            drawn.acts = {"deny"}
        return drawn

    def change(self) -> Drawn | None:
        if (drawn := self._at_confirm("change", "change")) is not None:
            drawn.unlabelled = {"deny"}
        return drawn

    def anytime(self) -> Drawn | None:
        kinds = ["chitchat", "out_of_scope", "handoff", "repeat", "restart", "pause"]
        kind = self.rng.choices(kinds, [4, 5, 3, 2, 2, 2])[0]
        said = self.domain.anytime.get(kind) or []
        if not said:
            return None
        drawn = self._running(kind) if kind in ("repeat", "restart", "pause") else self._anywhere(kind)
        drawn.acts = {kind}
        if kind == "out_of_scope":
            drawn.unlabelled = {"ask", "chitchat"}
        self._fill(drawn, str(self.rng.choice(said)), drawn.flow or self.flows[0])
        return drawn

    def cancel(self) -> Drawn | None:
        said = self.domain.anytime.get("cancel") or {}
        names = [name for name in said if name in self.domain.flows and said[name]]
        if not names:
            return None
        flow = self.rng.choice(names)
        confirmed = self.domain.flows[flow].get("confirm") and self.rng.random() < 0.3
        drawn = self._confirming("cancel", flow) if confirmed else self._running("cancel", flow)
        if drawn is None:
            return None
        drawn.cancels = [flow]
        drawn.unlabelled = {"deny"}
        self._fill(drawn, str(self.rng.choice(said[flow])), flow)
        return drawn

    def resume(self) -> Drawn | None:
        said = self.domain.anytime.get("resume") or {}
        names = [name for name in said if name in self.domain.flows and said[name]]
        if not names:
            return None
        flow = self.rng.choice(names)
        drawn = self._where_not("resume", flow)
        drawn.paused = [*drawn.paused, flow]
        if drawn.flow is None and self.rng.random() < 0.4:
            drawn.offering = flow
            drawn.assistant = f"Done. Shall we go back to this: {flow.replace('_', ' ')}?"
        drawn.resumes = [flow]
        self._fill(drawn, str(self.rng.choice(said[flow])), flow)
        return drawn

    def vague(self) -> Drawn | None:
        said = self.domain.anytime.get("vague") or []
        if not said:
            return None
        one = self.rng.choice(said)
        drawn = self._idle("vague")
        drawn.acts = {"clarify"}
        self._fill(drawn, one["text"], one["flows"][0])
        return drawn

    def two(self) -> Drawn | None:
        said = self.domain.anytime.get("two") or []
        if said and self.rng.random() < 0.7:
            one = self.rng.choice(said)
            drawn = self._idle("two")
            drawn.starts = list(one["flows"])
            self._fill(drawn, one["text"], one["flows"][0])
            return drawn
        first, second = self.rng.sample(self.flows, 2) if len(self.flows) > 1 else (None, None)
        if first is None or second is None:
            return None
        drawn = self._idle("two")
        drawn.starts = [first, second]
        self._fill(drawn, self.rng.choice(self.domain.wordings(first, "open")), first)
        drawn.text += self.rng.choice(
            [". ", " and also ", ", then ", ". oh and ", " plus ", "\n", ". Another thing: "]
        )
        self._fill(drawn, self.rng.choice(self.domain.wordings(second, "open")), second)
        return drawn if len(drawn.text) < 300 else None

    def fix(self) -> Drawn | None:
        names = [name for name in self.flows if self.domain.wordings(name, "fix")]
        if not names:
            return None
        flow = self.rng.choice(names)
        wording = self.rng.choice(self.domain.wordings(flow, "fix"))
        opens = self.rng.random() < 0.7
        drawn = self._where_not("fix", flow) if opens else self._running("fix", flow, most=0.3)
        drawn.starts = [flow] if opens else []
        self._fill(drawn, wording, flow)
        return drawn

    def again(self) -> Drawn | None:
        names = [name for name in self.flows if self.domain.wordings(name, "again")]
        if not names:
            return None
        flow = self.rng.choice(names)
        drawn = Drawn(self.domain.name, "again", finished=(flow, self._values(flow, 1.0)), starts=[flow])
        drawn.previous = self.rng.choice(["yes", "yes please", "go ahead", ""])
        drawn.assistant = self.rng.choice(
            ["Done.", "That is done. Anything else?", f"Done: {flow.replace('_', ' ')}."]
        )
        self._fill(drawn, self.rng.choice(self.domain.wordings(flow, "again")), flow)
        return drawn

    def same(self) -> Drawn | None:
        pairs = [
            (name, each)
            for name in self.flows
            for each in (self.domain.say.get(name) or {}).get("same") or []
        ]
        if not pairs:
            return None
        flow, one = self.rng.choice(pairs)
        drawn = self._running("same", flow)
        drawn.filled.pop(one["slot"], None)
        drawn.awaiting = one["slot"]
        drawn.assistant = self.domain.slot(flow, one["slot"]).get("ask") or ""
        drawn.finished = (flow, self._values(flow, 1.0))
        self._fill(drawn, one["text"], flow)
        drawn.slots[f"{flow}.{one['slot']}"] = SlotLabel("same")
        return drawn

    def edit_list(self) -> Drawn | None:
        slots = [
            (flow, slot) for flow in self.flows for slot in self.domain.slots(flow) if slot["type"] == "list"
        ]
        if not slots:
            return None
        flow, slot = self.rng.choice(slots)
        op = self.rng.choice(["add", "remove"])
        said = self.domain.of_slot(flow, slot["name"]).get(op) or []
        if not said:
            return None
        drawn = self._running("edit_list", flow, awaited=self.rng.random() < 0.5)
        if drawn.awaiting == slot["name"]:
            return None
        drawn.filled[slot["name"]] = self.value(flow, slot).surface
        self._fill(drawn, str(self.rng.choice(said)).replace("{v}", f"{{{slot['name']}}}"), flow)
        drawn.slots[f"{flow}.{slot['name']}"].op = op
        return drawn

    def bound(self) -> Drawn | None:
        drawn = self._running("bound")
        if drawn.flow is None or drawn.awaiting is None:
            return None
        said = self.domain.of_slot(drawn.flow, drawn.awaiting).get("bound") or []
        if not said:
            return None
        self._fill(drawn, str(self.rng.choice(said)).replace("{v}", f"{{{drawn.awaiting}}}"), drawn.flow)
        return drawn


def _typo(rng: random.Random, text: str) -> str:
    """A text with one letter dropped, doubled or exchanged with its neighbour."""
    places = [i for i in range(1, len(text) - 1) if text[i].isalpha() and text[i + 1].isalpha()]
    if not places:
        return text
    i = rng.choice(places)
    return rng.choice(
        [text[:i] + text[i + 1 :], text[: i + 1] + text[i:], text[:i] + text[i + 1] + text[i] + text[i + 2 :]]
    )
