"""What the trained network reads of a turn: acts, starts and values, and all commands without rules about English."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from importlib.resources import files
from typing import Any, NamedTuple

import numpy as np

from jazzmine_dspy.models import Command, Enhancement, Selection, Slot, Turn
from jazzmine_dspy.models.commands import COMMANDS, CorrectSlot, SetSlot, SlotValue
from jazzmine_dspy.models.errors import JazzmineError
from jazzmine_dspy.models.slots import call_type
from jazzmine_dspy.program.decider import NOTHING_FOUND, Decided, record
from jazzmine_dspy.program.heads._blend import log_odds, sigmoid
from jazzmine_dspy.program.heads.acts.free_texts import is_name
from jazzmine_dspy.program.heads.acts.model import shipped_head
from jazzmine_dspy.program.heads.acts.readings import free_text, place_of, values_in, whole_value
from jazzmine_dspy.program.ports import HeadInput
from jazzmine_dspy.program.reader.network import ACTS, CANCEL, OPS, ORDER, RESUME, START, Array, Card, Logits
from jazzmine_dspy.program.state import CANDIDATES, TurnState

FILE = "pool.json"
READER = "reader"
"""Source of what the trained network reads, in records."""
_BESIDE = ("ask", "repeat", "restart", "handoff")
_ALONE = ("out_of_scope", "chitchat")
_SECOND = 0.25
"""Least probability of a second flow that starts."""
_LEAST_GIVEN, _LEAST_TOLD, _LEAST_COUNTED = 0.95, 0.7, 0.2
"""Least probability that a message has a value for a slot: of a running flow, and of any date or boolean; of a flow
that starts; and of a number or an amount of this one by rules. Chosen on six registries that it had not seen."""
_LONGEST = 25
"""Most tokens of a value."""


def second_reading(state: TurnState) -> Decided | None:
    """The reader's own answer, without rules about English; None if it cannot read the turn. It enhances nothing."""
    logits = state.read()
    if logits is None:
        return None
    reading = _Reader(state, logits).reading()
    acts = reading.commands or reading.starts or reading.clarify
    confidence = reading.certainty if acts else min(reading.certainty, NOTHING_FOUND)
    made = record(READER, confidence)
    return Decided(
        enhancement=Enhancement(enhanced_query=state.turn.text),
        selection=Selection(
            flows=reading.starts,
            candidates=[(one.name, one.score) for one in state.recalled[:CANDIDATES]],
            clarify=reading.clarify,
            reason="the reader selected it",
        ),
        commands=reading.commands,
        confidence={"turn": confidence},
        records={"select": made, "understand": made},
    )


def pooled_acts(state: TurnState, given: HeadInput, shares: dict[str, float]) -> dict[str, float]:
    """Pool the probability of each act by the package's head with that of the reader: a weighted sum of log-odds.

    What both hold for unlikely stays so. What labels add to the log-odds of the package's head counts in full. ``python
    tools/acts_weights.py --pool`` fits the weights, on conversations that taught neither of the two.

    Args:
        state: The turn.
        given: What the head of acts sees of it.
        shares: The probabilities by the head; those of acts that the reader does not know stay.
    """
    logits, package = state.read(), shipped_head(state.bindings.embedder)
    if logits is None or package is None:
        return shares
    before = package.probabilities(given)
    both = {act: (odds, float(log_odds(before[act]))) for act, odds in acts_odds(logits, state.turn).items()}
    return shares | {
        act: float(sigmoid(np.dot(pool_weights()[act], each) + log_odds(shares[act]) - each[1]))
        for act, each in both.items()
    }


@lru_cache(maxsize=1)
def pool_weights() -> dict[str, list[float]]:
    """The weights of the reader and of the rest: for each act, and with an offset for a start ("idle", "busy")."""
    return dict(json.loads(files(__package__).joinpath(FILE).read_text("utf-8")))


def acts_odds(logits: Logits, turn: Turn) -> dict[str, float]:
    """The reader's log-odds of acts, by the names of the head of acts, which calls a pause "nothing".

    "clarify" is none of them. An act is absent if the state leaves no room for it.
    """
    odds = {
        act.replace("pause", "nothing"): float(logits.acts[at])
        for at, act in enumerate(ACTS)
        if act != "clarify"
    }
    flows = {card.flow: at for at, card in enumerate(logits.cards) if card.kind == "flow"}
    slots = {
        card.slot: at
        for at, card in enumerate(logits.cards)
        if card.kind == "slot" and card.flow == turn.flow
    }
    paused = [flows[name] for name in turn.paused if name in flows]
    left = [*paused, *([flows[turn.flow]] if turn.flow in flows else [])]
    filled = [at for name, at in slots.items() if name in turn.slots.names]
    empty = [at for name, at in slots.items() if name not in turn.slots.names]
    awaited = [at for name, at in slots.items() if name == turn.awaiting]
    given = log_odds(logits.shares("given") + logits.shares("add") + logits.shares("remove"))
    scored = (
        ("cancel_flow", left, logits.flow[:, CANCEL]),
        ("resume_flow", paused, logits.flow[:, RESUME]),
        ("skip", awaited, log_odds(logits.shares("skip"))),
        ("value", empty, given),
        ("correct", filled, given),
        ("clear", filled, log_odds(logits.shares("clear"))),
    )
    return odds | {act: float(scores[rows].max()) for act, rows, scores in scored if rows}


def start_shares(logits: Logits, running: str | None) -> tuple[dict[str, float], float]:
    """The probability that a message starts each flow but the running one, and that it starts none."""
    rows = {
        card.flow: at for at, card in enumerate(logits.cards) if card.kind == "flow" and card.flow != running
    }
    odds = np.array([logits.none, *logits.flow[list(rows.values()), START]])
    raised = np.exp(odds - odds.max())
    none, *shares = (raised / raised.sum()).tolist()
    return dict(zip(rows, shares, strict=True)), none


def read_values(state: TurnState, flow: str, by_rules: Mapping[str, Any]) -> Iterator[tuple[Slot, Any]]:
    """Read the values of a flow that starts, without choices.

    Yields values that the rules lack, and None for a number or an amount that the reader takes for none of the slot.

    Args:
        state: The turn.
        flow: The flow.
        by_rules: The values that rules read; no value is read for two slots.
    """
    logits = state.read()
    if logits is None:
        return
    shares = logits.shares("given")
    own = [
        (row, card)
        for row in np.argsort(-shares).tolist()
        if (card := logits.cards[row]).kind == "slot" and card.flow == flow and card.type != "choice"
    ]
    slots = {slot.name: slot for slot in state.registry[flow].slots}
    # What stands behind the tokens that it reads, it cannot deny.
    whole = max(end for _, end in logits.offsets) >= len(state.turn.text.rstrip())
    denied = {
        card.slot
        for row, card in own
        if whole and card.type in ("number", "money") and shares[row] < _LEAST_COUNTED
    } & set(by_rules)
    yield from ((slots[name], None) for name in denied)
    texts = [str(value) for name, value in by_rules.items() if name not in denied]
    reader = _Reader(state, logits)
    for row, card in own:
        slot = slots[card.slot]
        sure = slot.kind.dated or slot.type == "boolean"
        if card.slot in by_rules or shares[row] < (_LEAST_GIVEN if sure else _LEAST_TOLD):
            continue
        value = reader.value(row, card, slot)
        # If an item is another slot's value, the reader has cut the list wrongly. A number may count items: "4 menus".
        others = [each for each in slots.values() if each.name in by_rules and each.type != "number"]
        cut_wrongly = any(
            item in texts or any(by_rules[each.name] == whole_value(each, item, state.at) for each in others)
            for item in (value if isinstance(value, list) else ())
        )
        if value is not None and not cut_wrongly and (slot.type == "boolean" or str(value) not in texts):
            texts.append(str(value))
            yield slot, value


def read_option(state: TurnState, flow: str, slot: str) -> tuple[str, float, float]:
    """Read a choice: its likeliest option, how likely the message gives the slot a value, and how likely this one."""
    logits = state.read()
    if logits is None:
        return "", 0.0, 0.0
    own = [at for at, each in enumerate(logits.cards) if each.option and each[2:4] == (flow, slot)]
    row = next((at for at, each in enumerate(logits.cards) if each[2:5] == (flow, slot, "")), None)
    if row is None or not own:
        return "", 0.0, 0.0
    odds = np.exp(logits.option[own] - logits.option[own].max())
    best = int(odds.argmax())
    return logits.cards[own[best]].option, float(logits.shares("given")[row]), float(1.0 / odds.sum())


def read_texts(state: TurnState, commands: Sequence[Command]) -> list[Command]:
    """Return the commands with the texts and lists of the running flow that the reader reads.

    It replaces the awaited value if rules found none, or took the message from its beginning on, and adds values of
    empty slots. An open confirmation, a start and a cancellation stay as they are.
    """
    turn, result, slot = state.turn, list(commands), state.awaited
    stays = state.selected or turn.confirming or any(each.type == "cancel_flow" for each in result)
    if state.running is None or stays or (logits := state.read()) is None:
        return result
    free = [each.name for each in state.running.slots if each.type in ("text", "list") and not each.pattern]
    values = {each.name: each.value for each in result if isinstance(each, SlotValue)}
    taken = "" if slot is None else str(values.get(slot.name, ""))
    if slot is not None and slot.name in free and free_text(turn.text).startswith(taken):
        own = (slot.name, "")
        row = next(at for at, card in enumerate(logits.cards) if card.flow == turn.flow and card[3:5] == own)
        value = _Reader(state, logits).value(row, logits.cards[row], slot)
        if value is not None and logits.shares("given")[row] >= _LEAST_GIVEN:
            kind = CorrectSlot if slot.name in turn.slots.names else SetSlot
            heard = kind(name=slot.name, value=value)
            shorter = len(str(heard.value)) < len(taken or turn.text) and not is_name(turn.text)
            if shorter and heard.value not in values.values():
                rest = [each for each in result if each.type not in _ALONE and each.slot_name != slot.name]
                result = [heard, *rest]
    known = {turn.awaiting, *turn.slots.names, *(each.slot_name for each in result)}
    for at in np.flatnonzero(logits.shares("given") >= _LEAST_GIVEN).tolist():
        card = logits.cards[at]
        if card.kind == "slot" and card.flow == turn.flow and card.slot in free and card.slot not in known:
            other = state.running.slot(card.slot)
            assert other is not None, "cards are of the registry"
            value = _Reader(state, logits).value(at, card, other)
            if value is not None and value not in values.values():
                result.append(SetSlot(name=other.name, value=value))
    return result


class _Reading(NamedTuple):
    """What the network makes of a turn.

    Args:
        starts: The flows that start, at most three, in the order of the message.
        clarify: The flows to choose from; empty if it is clear.
        commands: The other commands.
        certainty: Probability of the least certain of its choices, from 0.5 or less to 1.
    """

    starts: list[str]
    clarify: list[str]
    commands: tuple[Command, ...]
    certainty: float


class _Reader:
    """Makes the reading of a turn from what the heads say."""

    def __init__(self, state: TurnState, logits: Logits) -> None:
        self._state, self._logits = state, logits
        self._flows = {card.flow: at for at, card in enumerate(logits.cards) if card.kind == "flow"}
        self._certainty = 1.0

    def reading(self) -> _Reading:
        turn, acts = (
            self._state.turn,
            {act for at, act in enumerate(ACTS) if self._holds(self._logits.acts[at])},
        )
        cancels = [
            name
            for name in (turn.flow, *turn.paused)
            if name in self._flows and self._holds(self._logits.flow[self._flows[name], CANCEL])
        ]
        made: list[dict[str, Any]] = [
            {"type": "cancel_flow", "flow": None if name == turn.flow else name} for name in cancels
        ]
        if turn.flow is not None and turn.flow not in cancels:
            made += self._values(turn.flow)
        if turn.confirming is not None and "affirm" in acts:
            made.append({"type": "affirm"})
        elif turn.confirming is not None and "deny" in acts and not cancels:
            made.append({"type": "deny"})
        for name in [
            name
            for name in turn.paused
            if name in self._flows and self._holds(self._logits.flow[self._flows[name], RESUME])
        ][:1]:
            made += [{"type": "resume_flow", "flow": name}, *self._values(name)]
        starts = self._starts()
        for name in starts:
            made += self._values(name)
        # A value names its flow where another flow in play has such a slot.
        in_play = [self._state.registry[name] for name in {turn.flow or "", *starts} if name in self._flows]
        for each in made:
            if (
                "flow" in each
                and "name" in each
                and sum(flow.slot(each["name"]) is not None for flow in in_play) < 2
            ):
                del each["flow"]
        made += [
            {"type": act} | ({"topic": turn.text} if act == "ask" else {}) for act in _BESIDE if act in acts
        ]
        made += [{"type": act} for act in _ALONE if act in acts and not (made or starts)]
        clarify = self._ranked()[:2] if "clarify" in acts and not (made or starts) else []
        return _Reading(starts, clarify, tuple(_valid(made)), self._certainty)

    def _holds(self, odds: float) -> bool:
        """Whether something is more likely than not."""
        self._certainty = min(self._certainty, 1.0 / (1.0 + math.exp(-abs(float(odds)))))
        return bool(odds > 0)

    def _starts(self) -> list[str]:
        closed = {*self._state.hidden, self._state.turn.flow}
        names = [name for name in self._flows if name not in closed]
        rows = [self._flows[name] for name in names]
        odds = np.array([self._logits.none, *self._logits.flow[rows, START]])
        shares = np.exp(odds - odds.max())
        shares /= shares.sum()
        best = int(shares.argmax())
        self._certainty = min(self._certainty, float(shares[best]))
        if best == 0:
            return []
        chosen = [
            name
            for place, (name, row) in enumerate(zip(names, rows, strict=True), 1)
            if place == best or (shares[place] > _SECOND and self._logits.flow[row, START] > 0)
        ]
        return sorted(chosen, key=lambda name: -float(self._logits.flow[self._flows[name], ORDER]))[:3]

    def _ranked(self) -> list[str]:
        open_flows = [name for name in self._flows if name not in self._state.hidden]
        return sorted(open_flows, key=lambda name: -float(self._logits.flow[self._flows[name], START]))

    def _values(self, flow: str) -> list[dict[str, Any]]:
        turn = self._state.turn
        held = turn.slots if flow == turn.flow else None
        made: list[dict[str, Any]] = []
        for row, card in enumerate(self._logits.cards):
            if card.kind != "slot" or card.flow != flow:
                continue
            odds = self._logits.op[row]
            best = int(odds.argmax())
            self._certainty = min(self._certainty, float(1.0 / np.exp(odds - odds[best]).sum()))
            op, slot = OPS[best], self._state.registry[flow].slot(card.slot)
            assert slot is not None, "cards are of the registry"
            if op in ("skip", "clear"):
                made.append({"type": f"{op}_slot", "name": slot.name, "flow": flow})
            elif op in ("given", "add", "remove") and (value := self.value(row, card, slot)) is not None:
                old = held.get(slot.name) if held is not None else None
                if slot.type == "list" and op != "given" and isinstance(old, list | tuple):
                    value = _edited(old, value, add=op == "add")
                made.append({"type": "set_slot", "name": slot.name, "value": value, "flow": flow})
        return made

    def value(self, row: int, card: Card, slot: Slot) -> Any:
        """The value of a slot; None if it cannot be read."""
        logits, text, at = self._logits, self._state.turn.text, self._state.at
        if slot.type == "boolean":
            return bool(logits.truth[row] > 0)
        if slot.type == "choice":
            own = [n for n, each in enumerate(logits.cards) if each.option and each[2:4] == card[2:4]]
            return logits.cards[max(own, key=lambda n: float(logits.option[n]))].option if own else None
        spans = logits.spans[:, row, :-1]
        if not spans.shape[-1]:
            return None
        if slot.type == "list" and (items := self._items(spans)):
            return call_type(slot, "normalize", items, None, at)
        # The likeliest run of at most 25 tokens, in characters.
        scores = spans[0][:, None] + spans[1][None, :]
        every = np.ones((len(scores), len(scores)), bool)
        within = np.triu(every) & ~np.triu(every, _LONGEST)
        first, last = divmod(int(np.where(within, scores, -np.inf).argmax()), len(scores))
        begin, end = logits.offsets[first][0], logits.offsets[last][1]
        if slot.type in ("text", "list"):
            value: Any = text[begin:end] if slot.type == "text" else [text[begin:end]]
            return call_type(slot, "normalize", value, None, at)
        values = values_in(slot, text, at)
        near = [each for each in values if begin - 1 <= place_of(slot, each, text, at) < end]
        if near:
            return near[-1]
        return values[0] if values else call_type(slot, "parse", text[begin:end], None, at)

    def _items(self, spans: Array) -> list[str]:
        offsets, text, items = self._logits.offsets, self._state.turn.text, list[str]()
        begins, insides = spans[2] > 0, spans[3] > 0
        for place in np.flatnonzero(begins):
            last = int(place)
            while last + 1 < len(begins) and insides[last + 1] and not begins[last + 1]:
                last += 1
            items.append(text[offsets[place][0] : offsets[last][1]])
        return items


def _edited(old: Sequence[str], items: Sequence[str], *, add: bool) -> list[str]:
    if add:
        return [*old, *items]
    gone = {item.lower() for item in items}
    return [item for item in old if item.lower() not in gone]


def _valid(made: Sequence[dict[str, Any]]) -> Iterator[Command]:
    for each in made:
        try:
            yield COMMANDS.validate_python(each)
        except (ValueError, JazzmineError):
            continue
