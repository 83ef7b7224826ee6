"""The cards of a registry (flows, slots, options) with what the state says of each, and the texts of a turn."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

KINDS = ("flow", "slot", "option")
TYPES = (
    "",
    "text",
    "number",
    "money",
    "date",
    "time",
    "duration",
    "phone",
    "email",
    "boolean",
    "choice",
    "list",
)
FLAGS = ("running", "paused", "offered", "finished", "awaited", "filled", "required", "confirmed", "free")


@dataclass(frozen=True)
class Card:
    """One thing that a message may be about.

    Args:
        kind: ``flow``, ``slot`` or ``option``.
        key: ``flow``, ``flow.slot`` or ``flow.slot=option``.
        text: What the encoder reads.
        flow, slot: Places of the owners in their lists, -1 where there is none; random vectors stand for them.
        type: Slot type of a slot or of an option's slot.
    """

    kind: str
    key: str
    text: str
    flow: int
    slot: int
    type: str
    required: bool = True


def spoken(name: str) -> str:
    """A name as words.

    Example:
        >>> spoken("book_vetVisit")
        'book vet visit'
    """
    words = "".join(f" {letter.lower()}" if letter.isupper() else letter for letter in name)
    return " ".join(words.replace("_", " ").replace("-", " ").split())


def cards_of(flows: Mapping[str, Mapping[str, Any]], rng: random.Random | None = None) -> list[Card]:
    """The cards of a registry.

    Args:
        flows: Definitions by name.
        rng: Renames and shortens some of the texts, for training; None for none.
    """
    cards: list[Card] = []
    n_slots = 0
    for place, (name, flow) in enumerate(flows.items()):
        text = f"{spoken(name)}: {flow.get('description', '')} {flow.get('condition', '')}"
        if rng is not None and (chance := rng.random()) < 0.45:
            text = (
                f"{flow.get('description', '')} {flow.get('condition', '')}" if chance < 0.2 else
                f"{spoken(name)}: {flow.get('description', '')}" if chance < 0.35 else
                f"{rng.choice('abcdefgh')}{rng.randint(1, 99)}: {flow.get('description', '')}"
            )  # fmt: skip
        cards.append(Card("flow", name, text, place, -1, ""))
        for slot in flow.get("slots") or []:
            key, kind = f"{name}.{slot['name']}", slot["type"]
            text = f"{spoken(slot['name'])}: {slot.get('description', '')}"
            if rng is not None and rng.random() < 0.3:
                text = rng.choice(
                    [spoken(slot["name"]), slot.get("description") or text, slot.get("ask") or text]
                )
            cards.append(Card("slot", key, text, place, n_slots, kind, bool(slot.get("required", True))))
            for option in slot.get("options") or []:
                cards.append(Card("option", f"{key}={option}", spoken(str(option)), place, n_slots, kind))
            n_slots += 1
    return cards


_WORD = re.compile(r"[^\W_]+")
_EMPTY = frozenset((
    "a", "an", "the", "of", "for", "to", "in", "on", "at", "is", "it", "i", "my", "me", "we", "you", "your", "be",
    "with", "and", "or", "by", "this", "that",
))  # fmt: skip


def stems(text: str) -> frozenset[str]:
    """The words of a text, by their first five letters, without the commonest."""
    return frozenset(word[:5] for word in _WORD.findall(text.lower()) if word not in _EMPTY)


def overlap_of(cards: Sequence[Card], text: str) -> list[float]:
    """Share of each card's words that a message has; of flows and slots the words before the colon count."""
    said = stems(text)
    shares = []
    for card in cards:
        own = stems(card.text.partition(":")[0])
        shares.append(len(own & said) / len(own) if own else 0.0)
    return shares


def flags_of(cards: Sequence[Card], state: Mapping[str, Any]) -> list[list[int]]:
    """The flags of each card.

    Args:
        cards: The cards.
        state: ``flow``, ``awaiting``, ``filled``, ``paused``, ``offering``, ``finished`` (a name), ``confirming``.
    """
    flow, awaiting = state.get("flow"), state.get("awaiting")
    rows = []
    for card in cards:
        owner, _, rest = card.key.partition(".")
        slot = rest.partition("=")[0]
        runs = owner == flow
        awaited = runs and bool(slot) and slot == awaiting
        filled = runs and bool(slot) and slot in state.get("filled", ())
        rows.append([
            runs,
            owner in state.get("paused", ()),
            owner == state.get("offering"),
            owner == state.get("finished"),
            awaited,
            filled,
            card.kind == "slot" and card.required,
            runs and bool(state.get("confirming")),
            runs and card.kind == "slot" and not filled and not awaited,
        ])  # fmt: skip
    return [[int(flag) for flag in row] for row in rows]


def state_flags(state: Mapping[str, Any]) -> list[int]:
    """What the state as a whole is: runs, asks, confirms, offers, has paused, has finished, is empty."""
    return [
        int(bool(state.get("flow"))),
        int(bool(state.get("awaiting"))),
        int(bool(state.get("confirming"))),
        int(bool(state.get("offering"))),
        int(bool(state.get("paused"))),
        int(bool(state.get("finished"))),
        int(not state.get("flow") and not state.get("paused")),
    ]
