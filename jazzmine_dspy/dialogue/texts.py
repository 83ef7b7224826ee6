"""How the assistant says things: its texts filled with values, in the user's language, and put together to replies.

The texts are those of the flow that is spoken of (``responses``, ``ask``, ``confirm``), else those of the registry,
else the defaults in ``models/texts.yaml``. They hold in braces the flow's slots, ``{order_id}``, and words of their
own, such as ``{task}``.
"""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from jazzmine_dspy.dialogue.formats import format_value, join_list, spoken
from jazzmine_dspy.models.base import log
from jazzmine_dspy.models.decision import NextStep
from jazzmine_dspy.models.flows import Flow, Slot
from jazzmine_dspy.models.language import is_english
from jazzmine_dspy.models.registry import FlowRegistry, reading_context
from jazzmine_dspy.models.slots import call_type
from jazzmine_dspy.models.templates import FIELD, default_texts, is_result, language_tag

LONGEST_RESULT = 300
"""Characters that a part of a result may have in a text."""

LONGEST_VALUE = 80
"""Characters that a value may have where it is repeated to the user."""

_HELP = {"boolean": "confirm_again", "text": "any_words", "list": "any_words"}
"""The key of what is said of an answer that was not understood, by slot type; for all others an example."""

_EMPTY = "\ufdd0"
"""Stands for a field without a value until the gap around it is closed; no text has this sign."""

_GAP = re.compile(rf"(\s*){_EMPTY}(?:\s*{_EMPTY})*(\s*)([.,;:!?]?)")
_A_TAG = r"<(?:!--.*?--|!doctype\s[^<>]*|/?[a-z]+[1-6]?(?:\s[^<>=]*=[^<>]*|\s*/?))>"
_TAGS = re.compile(rf"(\s?){_A_TAG}(?:\s*{_A_TAG})*(\s*)([.,;:!?]?)", re.IGNORECASE | re.DOTALL)


class Speech:
    """What the assistant says to one user.

    Args:
        flows: The flows, by name; a registry brings its texts, region and currency.
        locale: The user's language, such as ``en`` or ``de-AT``.
        result: The result of the action, for the texts of its end.

    Example:
        >>> flow = Flow(name="book_table", title="a table for tonight", description="Book a table.")
        >>> Speech({}).say("done", flow)
        'Done: a table for tonight.'
    """

    def __init__(self, flows: Mapping[str, Flow], locale: str = "en", result: object = None) -> None:
        texts = flows.texts if isinstance(flows, FlowRegistry) else {}
        parts = language_tag(locale).split("-")
        names = [*("-".join(parts[:end]) for end in range(len(parts), 0, -1)), "en"]
        self._texts = [*(texts[name] for name in dict.fromkeys(names) if name in texts), default_texts()]
        self._at = reading_context(flows, None, locale)
        self._result = result

    def say(
        self,
        key: str,
        flow: Flow | None = None,
        values: Mapping[str, Any] | None = None,
        *,
        task: str = "",
        words: Mapping[str, str] = MappingProxyType({}),
    ) -> str:
        """The text under a key: the flow's own, that of the registry, or the default.

        A text that names a part of the result that there is none of gives way to the next of these.

        Args:
            flow, values: What the text belongs to.
            task: Name of a flow that the registry no longer has.
            words: What the text may name besides slots.
        """
        default = {"task": title(flow) if flow is not None else spoken(task)}
        own = dict(flow.responses).get(key) if flow is not None else None
        filled = None if own is None else self.fill(own, flow, values, words=words, default=default)
        # Texts that all flows share name no slot, so none can stand for a word of theirs.
        shared = (each[key] for each in self._texts if key in each)
        while filled is None:
            filled = self.fill(next(shared, ""), words={**default, **words})
        return filled

    def fill(
        self,
        text: str,
        flow: Flow | None = None,
        values: Mapping[str, Any] | None = None,
        *,
        words: Mapping[str, str] = MappingProxyType({}),
        default: Mapping[str, str] = MappingProxyType({}),
        raw: bool = False,
    ) -> str | None:
        """A text with its names filled in; a name without a value leaves no gap.

        Args:
            words: What the text may name besides slots.
            default: What else it may name; a slot of the same name comes first.
            raw: Leave values in their stored form.

        Returns:
            The text, or None if it names a part of the result that there is none of.
        """
        types = {slot.name: slot.type for slot in flow.slots} if flow is not None else {}
        values, missing = values or {}, []

        def said(field: re.Match[str]) -> str:
            name, form = field[1], "raw" if raw else field[2]
            if name not in words and (name in types or name in values):
                return _isolated(self.value(values.get(name), form or types.get(name, "")), text)
            if name in words or not is_result(name):
                return _isolated({**default, **words}.get(name, ""), text)
            part = self._part_of_result(name, form or "")
            missing.extend([] if part else [name])
            return _isolated(part, text)

        values_said = {field[0]: said(field) for field in FIELD.finditer(text)}
        full = FIELD.sub(lambda field: field[0] if values_said[field[0]].strip() else _EMPTY, text)
        if missing and self._result is not None:
            log.warning("the result has no {%s}: the default text replaces %r", missing[0], text)
        filled = FIELD.sub(lambda field: values_said[field[0]], _GAP.sub(_left_of, full))
        return None if missing else filled.strip()

    def value(self, value: Any, form: str) -> str:
        """Return a value as a reply writes it."""
        if isinstance(value, bool) and form != "raw":
            return self.say("yes_word" if value else "no_word")
        return format_value(value, form, self._at)

    def _part_of_result(self, name: str, form: str) -> str:
        """A part of the result as plain text of at most 300 characters; "" where there is none."""
        part = self._result
        for key in name.split(".")[1:]:
            part = part.get(key) if isinstance(part, Mapping) else None
        return self._plain(part, form, LONGEST_RESULT)

    def _plain(self, value: Any, form: str, longest: int) -> str:
        """A value or a list without tags, cut at a number of characters; "" for anything else."""
        items = value if isinstance(value, list | tuple) else [value]
        if any(isinstance(item, Mapping | list | tuple) for item in items):
            return ""
        plain = [
            _TAGS.sub(lambda tags: _left_of(tags) or " ", html.unescape(item)).strip()
            if isinstance(item, str)
            else item
            for item in items
        ]
        said = self.value(plain if items is value else plain[0], form)
        return said if len(said) <= longest else f"{said[: longest - 1].rsplit(' ', 1)[0]}…"

    def stored(self, flow: Flow, values: Mapping[str, Any], next_slot: str | None) -> str:
        """What to say of values that were stored: each with its slot, without tags and not too long; "" for none.

        Args:
            next_slot: The slot that is asked for next, None for the confirmation: values that the text names are
                left out.
        """
        slot = flow.slot(next_slot or "")
        named = {field[1] for field in FIELD.finditer(f"{slot.ask} {slot.reask}" if slot else flow.confirm)}
        items = [
            self.say("stored_value", flow, words={"slot": slot.title or spoken(slot.name), "value": said})
            for slot in flow.slots
            if slot.name not in named
            and (
                said := self._plain(
                    values.get(slot.name), {"date": "full"}.get(slot.type, slot.type), LONGEST_VALUE
                )
            )
        ]
        return self.say("stored", flow, words={"values": "; ".join(items)}) if items else ""

    def question(
        self,
        flow: Flow,
        slot: Slot,
        values: Mapping[str, Any],
        *,
        again: bool = False,
        why: str = "",
        readings: Sequence[object] = (),
    ) -> str:
        """What to say to get a slot's value, or to get it again.

        Args:
            why: Why the last value was refused; left out if the slot has a ``reask``, unless it has a validator.
            readings: The possible readings of the last value, if it has several.
        """
        if len(readings) > 1:
            return self.say("which_value", flow, values, words={"values": self._choice(slot, readings)})
        if why and (slot.validator or not slot.reask):
            asked = self.question(flow, slot, values, again=bool(slot.reask))
            return f"{self._refusal(flow, slot, values, why)} {asked}".strip()
        words = {"task": title(flow), "slot": self._slot(flow, slot, values)}
        return self.fill(
            (again and slot.reask) or slot.ask, flow, values, default=words
        ) or self.plain_question(flow, slot, values, again=again)

    def plain_question(
        self, flow: Flow, slot: Slot, values: Mapping[str, Any], *, again: bool = False
    ) -> str:
        """The same in words that fit every slot."""
        options = f" ({self._choice(slot, slot.options)})" if slot.options else ""
        return self.say(
            "reask_slot" if again else "ask_slot",
            flow,
            values,
            words={"slot": self._slot(flow, slot, values) + options},
        )

    def helped_question(self, flow: Flow, slot: Slot, values: Mapping[str, Any], *, last: bool) -> str:
        """The question once more, with what would be an answer to it; the last time in words that fit every slot."""
        if last:
            asked = self.plain_question(flow, slot, values, again=True)
            return join(asked, self.say("ask_person", flow, values))
        if slot.options:
            return self.say("which_value", flow, values, words={"values": self._choice(slot, slot.options)})
        # Of an amount without its currency: it is the registry's.
        given = (slot.kind.example.split(" ")[0], slot.min)
        values_in_form = (call_type(slot, "normalize", each, None, self._at) for each in given)
        fitting = (
            v for v in values_in_form if v is not None and not call_type(slot, "check", v, "?", self._at)
        )
        form = "day" if slot.type == "date" and slot.max != "today" and slot.year != "required" else slot.type
        words = {"value": self.value(next(fitting, None), form)}
        key = _HELP.get(slot.type, "example" if words["value"] else "")
        helps = key and not slot.pattern and not slot.validator
        return join(
            self.question(flow, slot, values), self.say(key, flow, values, words=words) if helps else ""
        )

    def _slot(self, flow: Flow, slot: Slot, values: Mapping[str, Any]) -> str:
        return slot.title or self.say("untitled_slot", flow, values, words={"slot": spoken(slot.name)})

    def _choice(self, slot: Slot, values: Sequence[object]) -> str:
        return join_list([self.value(value, slot.type) for value in values], self._at, "or")

    def _refusal(self, flow: Flow, slot: Slot, values: Mapping[str, Any], why: str) -> str:
        """Why a value was refused. The reasons of slot types are English; a validator's are the project's own."""
        if not slot.validator and not is_english(self._at.locale):
            return self.say("invalid", flow, values)
        reason = re.sub(r"\S+", self._day_written_out, why[:1].upper() + why[1:]).strip()
        refusal = self.say("refused", flow, values, words={"reason": reason})
        return refusal.replace(f"{reason}.", reason) if reason.endswith(("?", "!", "…", ".")) else refusal

    def _day_written_out(self, word: re.Match[str]) -> str:
        day = word[0].rstrip(".,;:!?")
        return self.value(day, "date") + word[0][len(day) :]

    def tasks(self, names: Sequence[str], flows: Mapping[str, Flow]) -> str:
        """Flows as words to choose from, such as "track order or cancel order"."""
        return join_list([title(flows[name]) for name in names], self._at, "or")


def title(flow: Flow) -> str:
    """What the user hears of a flow: its title, or its name as words."""
    return flow.title or spoken(flow.name)


def _left_of(gap: re.Match[str]) -> str:
    """What is left around a field without a value, or a tag: the space after it, else that before it, but no mark's."""
    before, after, mark = gap.groups()
    return (after or ("" if mark else before)) + mark


def _isolated(value: str, text: str) -> str:
    """A value from right to left in a text from left to right, marked so that neither disturbs the other's order."""
    return f"\u2068{value}\u2069" if _is_right_to_left(value) and not _is_right_to_left(text) else value


def _is_right_to_left(text: str) -> bool:
    return any(unicodedata.bidirectional(sign) in ("R", "AL") for sign in text)


def join(*texts: str) -> str:
    """Texts as one, without the empty ones.

    Example:
        >>> join("Hello!", "", "What can I do for you?")
        'Hello! What can I do for you?'
    """
    return " ".join(text for text in texts if text)


def compose(
    answers: Sequence[str],
    step: NextStep,
    speech: Speech,
    flow: Flow | None = None,
    values: Mapping[str, Any] | None = None,
) -> NextStep:
    """The step with everything that is said.

    The text of ``run_flow`` is for after the flow has run; until then its ``begun`` is said.

    Args:
        answers: What is said before the step's own text.
        speech: Says what is missing.
        flow, values: What the texts belong to.
    """
    if step.kind == "run_flow":
        # A flow that runs without a yes and says its result may answer the question itself.
        looks_up = flow and not flow.confirm and "{result" in dict(flow.responses).get("done", "")
        answers = [each for each in answers if not looks_up or each != speech.say("ask", flow, values)]
        begun = join(*answers, speech.say("begun", flow, values), step.question)
        return step.model_copy(update={"begun": begun})
    if not (text := join(*answers, step.text)):
        return step.model_copy(update={"text": speech.say("idle"), "question": speech.say("idle")})
    question = step.question if text.endswith(step.question) else ""
    return step.model_copy(update={"text": text, "question": question})
