"""The things that a message names: orders by number, values of slots, and noun phrases. Pure, without a model.

Dates, times, amounts, phone numbers and email addresses are no things. What the conversation is about is named too
where the message goes on with it without its name: "who pays the postage on that?" is about the bath towels.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from jazzmine_dspy.models import Command, Entity, Flow, FlowRegistry, Slot, SlotValue, Turn
from jazzmine_dspy.models.base import thaw
from jazzmine_dspy.models.language import words
from jazzmine_dspy.program.heads.acts.readings import values_in

_NUMBER = re.compile(r"[_ ](?:id|no|nr|num|number|ref|reference|code)$", re.IGNORECASE)
"""The end of the name of a slot that holds the number of a thing: "order_id"."""

_NO_THING = re.compile(
    r"[$\u00a2\u00a3\u00a5\u20a0-\u20cf]\s?\d[\d.,]*|"
    r"(?<![\d.,])\d[\d.,]*+\s?(?:[$\u00a2\u00a3\u00a5\u20a0-\u20cf%](?!\s?\d)|"
    r"(?:pounds?|quid|dollars?|bucks|euros?|cents?|pence|gbp|usd|eur)\b)|"
    r"(?<!\w)(?:\+\d|0\d{2,4}\s)[\d\s()-]*\d|"
    r"\b(?:since|year) (?:19|20)\d\d\b|\b(?:postcode|zip(?: code)?)(?: is)? \d+",
    re.IGNORECASE,
)
"""Amounts, phone numbers, years and postcodes, whose digits number no thing."""

_WORD = re.compile(r"[^\W_]+(?:['\u2019&-][^\W_]+)*")
_OPENS = words("the my our your this that these those another his her their")
_LONGEST, _LONGEST_VALUE = 3, 8
_ENDS = words(
    "a an and or but if so because than then as at by for from in into of off on onto out over to under up with "
    "without about after before since until till is isnt isn't was wasnt wasn't are aren't were weren't be been has "
    "hasn't have haven't had do does did doesn't didn't will won't would can can't cannot could should may might must "
    "i i'm im i've ive you u we they he she it me us them him who which what where when why how that this these those "
    "the my our your his her their no not never just only also too still again already yet now today tomorrow tonight "
    "yesterday please pls thanks there here back away ago came comes come arrived arrives got get gets went goes go "
    "says said say needs need needed looks look want wants wanted ordered bought sent send made make gave give keeps "
    "keep works work left cheaper turned makes stopped stops broke breaks arrive instead anyway though while"
)
_DULL = words(
    "order orders parcel parcels package packages delivery deliveries refund refunds account accounts item items thing "
    "things stuff one ones other others same first second third last next latest previous new old wrong right best "
    "way time times day days date week weeks weekend month months year years hour hours minute minutes morning evening "
    "afternoon night moment while rest half whole lot bit kind sort type number numbers code details detail name names "
    "address addresses email emails mail phone invoice invoices bill bills receipt price prices money cost costs total "
    "amount payment payments card people person man woman guy guys somebody someone anyone human agent assistant "
    "manager help question questions problem problems trouble issue issues matter reason reasons change changes choice "
    "options option case fact end start beginning top bottom side sides page website site app list form message "
    "messages link chat bot robot service shop store company team office policy rules door house home work job "
    "appointment booking bookings reservation reservations flow request requests ticket tickets subscription plan "
    "monday tuesday wednesday thursday friday saturday sunday january february march april may june july august "
    "september october november december mistake fault pleasure fuss hassle info information answer idea chance use"
)
_REFERS = re.compile(
    r"\b(?:it|its|it's|they|them|that|this|those|these|the (?:same|first|second|last|other|latter)|both|one)\b",
    re.IGNORECASE,
)
_GOES_ON = frozenset({"affirm", "set_slot", "skip_slot", "clear_slot", "deny", "cancel_flow", "ask"})
"""Kinds of commands whose message is about the thing of the running task, named or not."""

_POINTS = frozenset({"start_flow", "correct_slot"})
"""The same, where the message also has a word such as "it"."""


def entities_of(turn: Turn, registry: FlowRegistry, commands: Sequence[Command]) -> list[Entity]:
    """The things that a message names or goes on with, in the order of the message.

    Args:
        turn: The message and its state.
        registry: The flows; slots that end in a number's word ("order_id") say what numbers stand for.
        commands: What the message comes to; values of text and list slots are things.

    Example:
        >>> registry = FlowRegistry([{"name": "track", "description": "Track an order.", "slots": [
        ...     {"name": "order_id", "type": "text", "pattern": r"\\d{4}", "description": "The number"}]}])
        >>> [each.name for each in entities_of(Turn(text="has order #5519 left with the blue kettle?"), registry, [])]
        ['Order 5519', 'blue kettle']
    """
    opened = (command.opens(turn) for command in commands if command.order == "opens")
    tasks = {name: registry[name] for name in (turn.flow, *opened) if name is not None and name in registry}
    names = [*_numbered(turn, registry, tasks), *_values(tasks, commands)]
    # Things of the conversation that the message names again by their last word: "the kettle".
    said = {match[0].casefold() for match in _WORD.finditer(turn.text)}
    ends = {each.name: each.name.casefold().split()[-1] for each in turn.entities if each.name.strip()}
    names += [name for name, end in ends.items() if end in said and end not in _DULL]
    names += [phrase for phrase in noun_phrases(turn.text) if " " in phrase]
    names += _referred(turn, commands, names)
    once: dict[str, str] = {}
    for name in names:
        once.setdefault(name.casefold(), name)
    # Of two phrases the longer one: "kettle" within "blue kettle" is the same thing.
    return [
        Entity(name=name)
        for key, name in once.items()
        if not any(
            len(key) < len(other) and re.search(rf"(?<!\w){re.escape(key)}(?!\w)", other) for other in once
        )
    ]


def kind_of_number(slot: Slot) -> str | None:
    """What a slot's number is of: "Order" for "order_id"; None where the slot holds no number of a thing."""
    if slot.type != "text" or not slot.pattern:
        return None
    kind = _NUMBER.sub("", slot.name)
    return kind.replace("_", " ").capitalize() if kind != slot.name and kind else None


def _numbered(turn: Turn, registry: FlowRegistry, tasks: Mapping[str, Flow]) -> Iterator[str]:
    """Numbered things by kind and number. What two kinds could have is of the flow in play, or of the first flow."""
    seen: set[str] = set()
    text = _NO_THING.sub(" ... ", turn.text)
    forms: set[tuple[str, str]] = set()
    for flow in (*tasks.values(), *registry.values()):
        for slot in flow.slots:
            kind = kind_of_number(slot)
            if kind is None or (kind, slot.pattern or "") in forms:
                continue
            forms.add((kind, slot.pattern or ""))
            for value in values_in(slot, text):
                if str(value).casefold() not in seen:
                    seen.add(str(value).casefold())
                    yield f"{kind} {value}"


def _values(tasks: Mapping[str, Flow], commands: Sequence[Command]) -> Iterator[str]:
    """Values of text and list slots, in their words."""
    slots = {slot.name: slot for flow in tasks.values() for slot in flow.slots}
    for command in commands:
        slot = slots.get(command.slot_name or "") if isinstance(command, SlotValue) else None
        if slot is None or not isinstance(command, SlotValue) or slot.type not in ("text", "list"):
            continue
        value = thaw(command.value)
        kind = kind_of_number(slot)
        for each in value if isinstance(value, list) else [value]:
            if kind is not None:
                yield f"{kind} {each}"
            elif isinstance(each, str) and 0 < len(each.split()) <= _LONGEST_VALUE:
                yield each


def noun_phrases(text: str) -> Iterator[str]:
    """Noun phrases behind an article or possessive, up to a word that ends them."""
    found = list(_WORD.finditer(text))
    for place, match in enumerate(found):
        if match[0].lower() not in _OPENS:
            continue
        chunk: list[re.Match[str]] = []
        for following in found[place + 1 : place + 1 + _LONGEST]:
            before = chunk[-1].end() if chunk else match.end()
            if text[before : following.start()].strip() or following[0].lower() in _ENDS:
                break
            chunk.append(following)
        while chunk and (chunk[0][0].lower() in _DULL or chunk[0][0].isdigit()):
            chunk = chunk[1:]
        if chunk and chunk[-1][0].lower() not in _DULL and not chunk[-1][0][0].isdigit():
            yield text[chunk[0].start() : chunk[-1].end()]


def _referred(turn: Turn, commands: Sequence[Command], named: Sequence[str]) -> list[str]:
    """What the conversation is about, where the message goes on with it: what the running task holds, else the last."""
    kinds = {command.type for command in commands}
    points = _REFERS.search(turn.text) is not None
    if not (kinds & _GOES_ON or (points and (kinds & _POINTS or not kinds))):
        return []
    held = [str(value).casefold() for value in thaw(turn.slots).values()]
    # A number may be held without its kind: "4471" of "Order 4471".
    keys = {each.name: each.name.casefold() for each in turn.entities}
    of_task = [name for name, key in keys.items() if key in held or key.split()[-1] in held]
    if of_task:
        return of_task
    return [turn.entities[-1].name] if turn.entities and not named else []
