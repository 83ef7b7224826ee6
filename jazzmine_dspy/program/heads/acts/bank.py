"""The phrase bank: ordinary messages of each act, and the situations in which they are said. Read only where wanted."""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import lru_cache
from importlib.resources import files
from typing import NamedTuple

from jazzmine_dspy.models.base import freeze
from jazzmine_dspy.models.flows import Flow
from jazzmine_dspy.models.messages import MessageRole
from jazzmine_dspy.models.slots import Slot
from jazzmine_dspy.models.turn import Confirming, ConversationStatus, HistoryMessage, Turn

FILE = "phrases.txt"
TASK = "task"
"""Name of the flow that runs where a phrase is said in one."""

COPIES = 3
"""Situations in which each phrase is shown."""


class Phrase(NamedTuple):
    """A message, what it does, and where it is said."""

    text: str
    acts: tuple[str, ...]
    places: tuple[str, ...]


class Said(NamedTuple):
    """A phrase in a situation: a turn, the running task's slots, and the acts."""

    turn: Turn
    flow: Flow | None
    acts: tuple[str, ...]
    group: str


SAID: dict[str, tuple[str, ...]] = {
    "confirm": (
        "A table for two on Friday at 19:00. Shall I book it?", "Transfer 250.00 EUR to Ben. Is that right?",
        "Cancel booking 71004. Shall I go ahead?", "Your new address is 4 Mill Lane. Is that correct?",
        "Order three large boxes by express. Shall I send the order?", "Close the account. Do you really want that?",
        "Move the visit to 12 May at 10:30. Do you confirm?", "A parcel with the lamp goes back. Is that all right?",
    ),
    "offer": (
        "That is done. Shall we go back to your booking?", "Shall we go on with the transfer?",
        "Done. Do you want to go back to your complaint?", "Would you like to finish the order now?",
    ),
    "running": (
        "All right, I won't. What should be different?", "I have noted that.", "You want the second of May.",
        "I have put 12 Mill Lane.", "So that is four people.", "I can't answer that here.",
    ),
    "said": (
        "Your parcel arrives tomorrow.", "Done. Is there anything else?", "The transfer is on its way.",
        "Hello, how can I help you?", "You can find that on our website.", "All right, I've dropped it.",
        "I can't help with that here.", "The appointment is booked for Tuesday at nine.",
    ),
    "slot:text": (
        "What is it about?", "What happened?", "Who is it for?", "What is the name?", "Where shall it go?",
        "What does it look like?", "What is the address?", "What would you like to write on it?", "From which city?",
    ),
    "slot:id": (
        "What is the booking number?", "Which order is it?", "What is your customer number?",
        "Which contract? The number has five digits.", "That is no order number. Which one is it?",
    ),
    "slot:number": ("For how many people?", "How many would you like?", "How many pieces are missing?"),
    "slot:money": ("How much do you want to send?", "What was the amount?", "Up to which price?"),
    "slot:date": ("On which day?", "When do you want to come?", "When did you buy it?", "From which date?"),
    "slot:time": ("At what time?", "When shall we call you?", "What time suits you?"),
    "slot:duration": ("For how long?", "How long have you had it?", "How long will you stay?"),
    "slot:phone": ("On which number can we reach you?", "What is your phone number?"),
    "slot:email": ("Which email address shall I use?", "Where shall we send the confirmation?"),
    "slot:boolean": (
        "Do you want insurance with it?", "Have you restarted it?", "With breakfast?", "Is it still in its box?",
        "Shall we ring the bell?", "Are you at home now?",
    ),
    "slot:choice": (
        "Small, medium or large?", "Standard or express?", "Which colour: red, blue or green?",
        "By card, cash or transfer?", "Single or double?",
    ),
    "slot:list": ("What may we bring?", "Which items are missing?", "What would you like to order?"),
}  # fmt: skip
"""What the assistant has said before, by situation. No place "start": nothing was said there."""

_OPTIONS = (
    "small",
    "medium",
    "large",
    "standard",
    "express",
    "red",
    "blue",
    "green",
    "card",
    "cash",
    "single",
    "double",
)
_ANY_SLOT = tuple(name for name in SAID if name.startswith("slot:"))
_PLACES = {
    "slot:any": _ANY_SLOT,
    "running": ("slot:any", "slot:any", "confirm", "running"),
    "any": ("slot:any", "slot:any", "confirm", "said", "start", "running"),
    "paused": ("paused said", "paused running", "paused slot"),
}
_HELD = {
    "day": ("date", "2031-05-05"), "hour": ("time", "17:00"), "people": ("number", 2), "sum": ("money", "20.00 EUR"),
    "mail": ("email", "ann@old.example"), "note": ("text", "ring twice"), "size": ("choice", "medium"),
}  # fmt: skip


@lru_cache(maxsize=1)
def phrases() -> tuple[Phrase, ...]:
    """All phrases, in the order of the file.

    Example:
        >>> len(phrases()) > 900, phrases()[0].acts
        (True, ('affirm',))
    """
    found: list[Phrase] = []
    acts: tuple[str, ...] = ()
    places: tuple[str, ...] = ()
    for line in files(__package__).joinpath(FILE).read_text("utf-8").splitlines():
        if line.startswith("= "):
            named, _, where = line[2:].partition(" | ")
            acts, places = tuple(named.split("+")), tuple(where.split())
        elif line.strip() and not line.startswith("#"):
            found.append(Phrase(line.strip(), acts, places))
    return tuple(found)


def shown(bank: Sequence[Phrase] | None = None, copies: int = COPIES) -> list[Said]:
    """Every phrase in some of its situations, the same ones each time."""
    found = []
    for number, phrase in enumerate(phrases() if bank is None else bank):
        dice = random.Random(f"{number} {phrase.text}")
        for _ in range(copies):
            found.append(_show(phrase, dice))
    return found


def _show(phrase: Phrase, dice: random.Random) -> Said:
    places = [place for place in phrase.places if place != "paused"] or ["paused"]
    place = dice.choice(places)
    while place in _PLACES:
        place = dice.choice(_PLACES[place])
    paused = ("other",) if "paused" in phrase.places or place == "offer" or dice.random() < 0.12 else ()
    place = place.removeprefix("paused ")
    place = dice.choice(_ANY_SLOT) if place == "slot" else place
    said = dice.choice(SAID[place]) if place in SAID else ""
    history = (HistoryMessage(role=MessageRole.ASSISTANT, text=said),) if said else ()
    if place in ("start", "said", "offer"):
        return Said(Turn(text=phrase.text, history=history, paused=paused), None, phrase.acts, phrase.text)
    kept = {name: held for name, held in _HELD.items() if dice.random() < 0.5}
    kind = place.partition(":")[2]
    slots = [_slot(name, kind) for name, (kind, _) in kept.items()]
    asked = _slot("asked", kind) if kind else None
    flow = Flow(name=TASK, description="A task.", slots=(*([asked] if asked else []), *slots))
    status = {"confirm": ConversationStatus.AWAITING_CONFIRMATION, "running": ConversationStatus.IN_FLOW}
    turn = Turn(
        text=phrase.text,
        status=status.get(place, ConversationStatus.COLLECTING_SLOTS),
        flow=TASK,
        awaiting="asked" if asked else None,
        slots=freeze({name: value for name, (_, value) in kept.items()}),
        confirming=Confirming(flow=TASK, action=said) if place == "confirm" else None,
        paused=paused,
        history=history,
    )
    return Said(turn, flow, phrase.acts, phrase.text)


def _slot(name: str, kind: str) -> Slot:
    if kind == "id":
        return Slot(name=name, type="text", pattern=r"[A-Z]{0,2} ?\d{4,6}")
    return Slot(name=name, type=kind, options=_OPTIONS if kind == "choice" else ())
