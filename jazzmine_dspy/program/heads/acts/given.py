"""Values that a message gives, whose slot they are, and in which order they are said."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from jazzmine_dspy.models.agreement import stance
from jazzmine_dspy.models.commands import Command, CorrectSlot, SetSlot
from jazzmine_dspy.models.flows import Flow
from jazzmine_dspy.models.slots import Slot
from jazzmine_dspy.models.text import plain
from jazzmine_dspy.program.denials import undoes
from jazzmine_dspy.program.heads.acts.days import in_held_month, stay_days, without_twins
from jazzmine_dspy.program.heads.acts.free_texts import (
    awaited_items,
    awaited_text,
    is_talk,
    is_telling,
    own_name,
    text_apart,
)
from jazzmine_dspy.program.heads.acts.named import named_texts, texts_in
from jazzmine_dspy.program.heads.acts.questions import (
    LONG,
    conclusion,
    corrects,
    of_others,
    wish_of,
    without_correcting,
    without_mentions,
    without_questions,
    without_talk,
)
from jazzmine_dspy.program.heads.acts.readings import (
    Scene,
    counts_several,
    free_text,
    is_day,
    lone_number,
    meant,
    named_boolean,
    named_number,
    part_value,
    place_of,
    telling,
    values_in,
    whole_value,
)
from jazzmine_dspy.program.heads.acts.referred import changed_part, named_try, referred_value, tried_value
from jazzmine_dspy.program.wishes import parts_of

_OPEN = frozenset(("text", "list", "boolean"))
"""Types of values that a message may be whatever it says."""

_AS_SAID = frozenset(("phone", "email", "text", "number"))
"""Types whose values stand in the message as they are."""

_DEPENDS = re.compile(r"\b(?:only if|depends?|depending|unless|what if)\b", re.IGNORECASE)


class Values:
    """The values of a message, and whose they are."""

    def __init__(
        self, scene: Scene, on: set[str], p: Mapping[str, float], agrees: Callable[[], bool]
    ) -> None:
        self._scene, self._on, self._p, self._agrees = scene, on, p, agrees
        self._text = self._whole = scene.turn.text
        self._moved = False

    def first(self, flow: Flow) -> list[Command]:
        """Values for a flow that starts or is taken up again: said, referred to, or tried, each slot at most one."""
        starting = [self._scene.tasks[name] for name in self._scene.starting]
        text, at = parts_of(self._text, starting).get(flow.name, self._text), self._scene.at
        own = text != self._text
        said = wish_of(text)
        text = without_talk(said)
        found: dict[str, Any] = {}
        taken: list[str] = []
        for slot in sorted(flow.slots, key=telling):
            values = [] if slot.type == "boolean" else values_in(slot, text, at)
            # One value is one slot's: the last digits of a phone number are no order's.
            values = [value for value in values if not any(str(value) in other for other in taken)]
            if not values:
                referred = referred_value(slot, self._scene.turn, at, starts=True)
                values = [] if referred is None else [referred]
            if len(values) == 1:
                found[slot.name] = values[0]
                taken += [str(values[0])] if slot.type in _AS_SAID else []
        found |= stay_days(flow.slots, text, at)
        found |= self._counted(flow, text, found, taken)
        for slot in flow.slots:
            tried = named_try(slot, text, at) if slot.required and slot.name not in found else None
            found |= {} if tried is None else {slot.name: tried}
        if own or len(starting) < 2:
            named = named_texts(flow, said)
            told = texts_in(flow, named.rest, opening=flow.name in self._scene.starting)
            texts = {**told, **named.values}
            found = {**{name: own_name(flow.slot(name), value) for name, value in texts.items()}, **found}
        for slot in flow.slots:
            if slot.type == "boolean" and (yes := named_boolean(slot, text)) is not None:
                found[slot.name] = yes
        return self._all(flow, found, anew=True)

    def _counted(
        self, flow: Flow, text: str, found: Mapping[str, Any], taken: Sequence[str]
    ) -> dict[str, Any]:
        """The one number of a message, where the flow has one slot for it; an amount where it has none for numbers."""
        for kind in ("number", "money"):
            slots = [slot for slot in flow.slots if slot.type == kind and slot.name not in found]
            if slots:
                value = lone_number(slots[0], text, self._scene.at) if len(slots) == 1 else None
                digits = re.sub(r"\D", "", str(value).split(".")[0])
                # By itself: in no longer value of digits in groups.
                alone = re.search(rf"(?<![\w] )(?<!\w){digits}(?! ?\w*\d)(?!\w)", self._text) is not None
                part = any(digits in other for other in taken) and not alone
                return {} if value is None or part else {slots[0].name: value}
        return {}

    def given(self) -> list[Command]:
        """Values for the running flow: the awaited slot first, then what types tell of the others."""
        flow, slot, held = self._scene.running, self._scene.awaited, self._scene.turn.slots
        if flow is None or not (self._on & {"value", "correct", "deny", "affirm", "ask"}):
            return []
        self._text = without_questions(self._text)
        if not self._text.strip():
            return []
        if (meant_for := self._corrected_instead(flow)) is not None:
            return [meant_for]
        found: dict[str, Any] = self._named(flow)
        told = dict(found)
        if not undoes(flow) and (slot is None or not is_telling(slot)):
            self._text = without_mentions(self._text)
        if found and not plain(self._text):
            return self._all(flow, found)
        order = self._order(flow)
        days = stay_days(flow.slots, self._text, self._scene.at)
        taken: list[Any] = [*days.values()]
        for name, day in days.items():
            day = in_held_month(day, self._text, str(held.get(name))) if name in held.names else day
            found |= {name: day} if day != held.get(name) else {}
        for each in order:
            if each.name in found or each.name in days:
                continue
            asked = slot is not None and each.name == slot.name
            if asked:
                value = whole_value(each, self._text, self._scene.at)
                if value is not None and not (self._changes and each.name not in held.names and found):
                    return self._all(flow, {**told, each.name: value} if found == told else found)
            for value in self._typed(each, taken, asked=asked):
                found[each.name] = value
        found |= self._beside(flow, found, taken)
        if found:
            return self._all(flow, found)
        if self._changes:
            return self._changed(flow, order)
        if corrects(self._text):
            counts = [each for each in flow.slots if each.type == "number" and each.name in held.names]
            value = lone_number(counts[0], self._text, self._scene.at) if len(counts) == 1 else None
            if value is not None and value != held.get(counts[0].name):
                return [self._put(counts[0], value)]
        if slot is not None and slot.name not in held.names and "value" in self._on:
            tried = tried_value(slot, self._text, self._scene.at)
            return [] if tried is None else [self._put(slot, tried)]
        return []

    def _named(self, flow: Flow) -> dict[str, Any]:
        """Texts and lists that the message names the slot of; the rest of it is read for the other slots."""
        held, awaited = self._scene.turn.slots, self._scene.awaited
        if awaited is not None and is_telling(awaited):
            return {}
        told, rest = named_texts(flow, self._text)
        both = len(told) > 1
        found: dict[str, Any] = {}
        for name, value in told.items():
            known = held.get(name)
            if isinstance(value, list) and isinstance(known, list | tuple):
                value = [*known, *(one for one in value if one not in known)]
            if value != known and (known is None or isinstance(value, list) or both or self._changes
                                   or corrects(self._text)):  # fmt: skip
                found[name] = value
        if found:
            self._text = rest
        if awaited is not None and isinstance(found.get(awaited.name), list) and plain(rest):
            # The items that it names the slot of, behind those that it just says.
            found[awaited.name] = list(
                dict.fromkeys([*(awaited_items(rest, awaited) or ()), *found[awaited.name]])
            )
        return found

    def _corrected_instead(self, flow: Flow) -> Command | None:
        """The held value that a message is a correction of, while a free text is asked for: "fifty, I mean"."""
        slot, held = self._scene.awaited, self._scene.turn.slots
        if slot is None or not corrects(self._text):
            return None
        if slot.type not in _OPEN and values_in(slot, self._text, self._scene.at):
            return None
        rest = free_text(without_correcting(self._text).partition(",")[0] or without_correcting(self._text))
        values = [
            (each, value)
            for each in flow.slots
            if each.name in held.names and each.type not in _OPEN
            and (value := whole_value(each, rest, self._scene.at)) is not None and value != held.get(each.name)
        ]  # fmt: skip
        return self._put(*values[0]) if len(values) == 1 else None

    @property
    def _changes(self) -> bool:
        return bool(self._on & {"correct", "deny"})

    def _order(self, flow: Flow) -> list[Slot]:
        """Whose value is looked for first: the awaited slot's; where something changes, a filled and named one's."""
        turn, slot = self._scene.turn, self._scene.awaited
        order = sorted(flow.slots, key=lambda each: slot is None or each.name != slot.name)
        if self._changes:
            order.sort(key=lambda each: (each.name not in turn.slots.names, each.type == "choice"))
            if named := meant(turn, order):
                order.sort(key=lambda each: each.name != named)
        return order

    def _typed(self, slot: Slot, taken: list[Any], *, asked: bool) -> list[Any]:
        """The value of a slot that its type reads, or that the message refers to; none where it is not one."""
        known = self._scene.turn.slots.get(slot.name)
        focused = wish_of(self._text)
        read = values_in(slot, focused, self._scene.at)
        if not read and (not asked or slot.pattern or slot.type in _AS_SAID or slot.type == "choice"):
            read = values_in(slot, self._text, self._scene.at)
        values = [value for value in read if value not in taken]
        fresh = [value for value in values if value != known]
        if not asked and self._scene.awaited is not None and len(self._text.split()) > LONG:
            # Long messages name dates and numbers in passing.
            return []
        if known is not None and not asked and not self._may_change(slot):
            return []
        if not asked and slot.type == "date" and of_others(self._text):
            return []
        told = self._referred(slot, known, fresh, asked)
        if told is not None and told not in taken:
            taken.append(told)
            return [told]
        if known is None and not asked and self._is_held(slot, fresh):
            return []
        if len(fresh) > 1 and not (self._changes and (slot.type == "choice" or corrects(self._text))):
            concluded = values_in(slot, conclusion(self._text), self._scene.at) if asked else []
            fresh = [value for value in fresh if value in concluded]
            fresh = fresh if len(fresh) == 1 else values[:1] if asked and slot.pattern else []
        if not fresh or (
            asked and not corrects(self._text) and counts_several(slot, self._text, self._scene.at)
        ):
            return []
        taken += values
        if slot.type == "date" and isinstance(known, str):
            fresh = [in_held_month(value, self._text, known) for value in fresh]
        return [fresh[-1] if self._changes else fresh[0]]

    def _may_change(self, slot: Slot) -> bool:
        """Whether the message changes a value that is held, rather than mention one: by its words or by its act.

        While something else is asked for only words change a value.
        """
        if corrects(self._text):
            return self._changes or slot.type not in ("number", "choice")
        awaited = self._scene.awaited
        if self._changes and (awaited is None or awaited.name in self._scene.turn.slots.names):
            return True
        return (
            slot.type not in ("number", "choice")
            and whole_value(slot, self._text, self._scene.at) is not None
        )

    def _is_held(self, slot: Slot, fresh: Sequence[Any]) -> bool:
        """Whether the only value found is the one that another slot of the type holds."""
        flow, held = self._scene.running, self._scene.turn.slots
        others = (
            [each.name for each in flow.slots if each.type == slot.type and each is not slot] if flow else []
        )
        return bool(fresh) and all(
            value in [held.get(name) for name in others if name in held.names] for value in fresh
        )

    def _beside(self, flow: Flow, found: Mapping[str, Any], taken: Sequence[Any]) -> dict[str, Any]:
        """What no type tells for certain: a number, the message as the awaited value, texts, a named yes."""
        slot, held, at = self._scene.awaited, self._scene.turn.slots, self._scene.at
        more: dict[str, Any] = {}
        counts = [
            each
            for each in flow.slots
            if each.type == "number" and each is not slot and each.name not in held.names
        ]
        if len(counts) == 1 and counts[0].name not in found and not self._changes:
            # While something else is asked for, a number has to be said to be one of the kind.
            value = (lone_number if slot is None else named_number)(counts[0], self._text, at)
            more |= {} if value is None or value in taken else {counts[0].name: value}
        if slot is not None and slot.name not in found and slot.name not in held.names:
            value = self._loose(slot, bool(found or more or self._others(flow, slot)), taken)
            more |= {} if value is None else {slot.name: value}
        for name, value in texts_in(flow, self._text, opening=False).items():
            known = held.get(name)
            if name not in found and name not in more and value != known and (known is None or self._changes):
                more[name] = value
        for each in flow.slots:
            told = named_boolean(each, self._text) if each.type == "boolean" else None
            if told is not None and each is not slot and told != held.get(each.name):
                more[each.name] = told
        return more

    def _changed(self, flow: Flow, order: Sequence[Slot]) -> list[Command]:
        """The filled slot that a part of the message is another value of."""
        held = self._scene.turn.slots
        for slot in order:
            counts = slot.type == "number" and self._scene.awaited is not None and not corrects(self._text)
            if slot.name in held.names and slot.type not in _OPEN and not counts:
                value = part_value(slot, self._text, self._scene.at, last=True)
                if value is not None and value != held.get(slot.name):
                    return self._all(flow, {slot.name: value})
        return []

    def _referred(self, slot: Slot, known: Any, fresh: Sequence[Any], asked: bool) -> Any:
        """The value that the message does not say: the held one with another part, or one of the conversation.

        One held value is put right, and only where the message changes something and says yes to nothing.
        """
        turn, at = self._scene.turn, self._scene.at
        if known is None:
            return None if fresh else referred_value(slot, turn, at, asked=asked)
        surer = any(self._p[act] > max(self._p["correct"], self._p["deny"]) for act in ("affirm", "ask"))
        if not self._changes or surer or self._moved:
            return None
        told = changed_part(slot, self._text, known, at, fresh)
        self._moved = told is not None
        return told

    def _loose(self, slot: Slot, beside: bool, taken: Sequence[Any]) -> Any:
        """The value of a slot whose type does not tell where it ends: the message, unless an act is surer."""
        if slot.type not in _OPEN and self._on & {"value", "correct"}:
            text = wish_of(self._text)
            if len(self._text.split()) > LONG and slot.type in ("number", "money"):
                # One part of a long message that holds a number may tell of anything.
                return lone_number(slot, text, self._scene.at)
            value = part_value(slot, text, self._scene.at, last="correct" in self._on, taken=taken)
            if value in taken or (isinstance(value, int) and is_day(value, taken)):
                return None
            return None if self._counts_another(slot, value) else value
        if slot.pattern or self._on & {"correct", "deny", "ask"} or "value" not in self._on:
            return None
        if slot.type == "boolean":
            if _DEPENDS.search(self._whole):
                return None
            said = stance(re.split(r"[,.;!?\n]", self._text.strip(), maxsplit=1)[0])
            return said.agrees if said.agrees or said.refuses else self._agrees()
        if slot.type == "text" and beside and not self._changes:
            # What stands apart from the other values: "Priya Nair, Thursday at 9".
            return text_apart(self._text)
        if slot.type == "text" and not beside:
            # A bare yes or no, thanks and the like say nothing of what was asked.
            return None if is_talk(self._text) else awaited_text(slot, self._text)
        if slot.type == "list":
            return awaited_items(self._text, slot)
        return None

    def _counts_another(self, slot: Slot, value: Any) -> bool:
        """Whether the word behind an amount is another slot's: of "4 checks", not what each is worth."""
        flow = self._scene.running
        counts = [each for each in flow.slots if each.type == "number" and each is not slot] if flow else []
        said = [named_number(each, self._text, self._scene.at) for each in counts]
        return slot.type == "money" and any(n is not None and str(value).startswith(f"{n}.") for n in said)

    def _others(self, flow: Flow, slot: Slot) -> bool:
        """Whether the message's words give it to another text slot than the awaited one: "to Douglas"."""
        told = texts_in(flow, self._text, opening=False)
        return slot.type == "text" and bool(told) and slot.name not in told

    def _all(self, flow: Flow, found: Mapping[str, Any], *, anew: bool = False) -> list[Command]:
        """By where in the message a value is said, then in the order of the slots.

        The values of a flow that starts are its first ones.
        """
        slots = {slot.name: slot for slot in flow.slots}
        values = without_twins(slots, found, self._scene.turn.slots.names)
        # A list stands where its first item does.
        said = {
            name: values[name][0] if isinstance(values[name], list) and values[name] else values[name]
            for name in slots
            if name in values
        }
        names = sorted(said, key=lambda name: place_of(slots[name], said[name], self._whole, self._scene.at))
        if anew:
            return [SetSlot(name=name, value=found[name]) for name in names]
        return [self._put(slots[name], found[name]) for name in names]

    def _put(self, slot: Slot, value: Any) -> Command:
        held = slot.name in self._scene.turn.slots.names
        return CorrectSlot(name=slot.name, value=value) if held else SetSlot(name=slot.name, value=value)
