"""Confidence of a turn without a language model: the probability that its commands are right.

One gate applies to the whole turn: below it the next decider decides.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from importlib.resources import files
from typing import Annotated, Any

from pydantic import AfterValidator, Field

from jazzmine_dspy.models import (
    UNDERSTOOD,
    Command,
    Flow,
    FlowRegistry,
    Slot,
    StageRecord,
    Turn,
    TurnDecision,
)
from jazzmine_dspy.models.base import Value, frozen_dict
from jazzmine_dspy.models.language import words
from jazzmine_dspy.models.text import plain
from jazzmine_dspy.program.ports import HeadPort

FILE = "turn_confidence.json"


_KINDS = (*UNDERSTOOD, "start_flow", "clarify")
_FILLERS = words(
    "a an the of for to in on at is it i my me we you your be with this that as by and please thanks thank ok okay "
    "well um uh oh so just it's its i'm im hi hello hey yes yeah yep sure no nope right correct great good perfect "
    "fine go ahead do sounds would like want need i'd id make let's lets can could will about around from"
)
_MEASURES = words(
    "monday tuesday wednesday thursday friday saturday sunday mon tue wed thu fri sat sun january february march "
    "april may june july august september october november december jan feb mar apr jun jul aug sep sept oct nov dec "
    "tomorrow today tonight next am pm o'clock noon half past quarter week day days weeks hours hour minutes one two "
    "three four five six seven eight nine ten dollar dollars pound pounds euro euros usd eur gbp first second "
    "third"
)
"""Words of typed values: they count as explained if a typed value was read."""
_WITHOUT_FORM = ("text", "list")


class TurnConfidence(Value):
    """A small calibrated model of "this turn's commands are right", and the gate that was set on it.

    Args:
        factors: The factors of :func:`features` by name; 0 for other features.
        offset: Log-odds if all features are 0.
        gate: Least probability to decide a turn locally; over 1 if no probability is high enough.
        reason: How the gate was set, for people.
        flows: The flows that could be chosen in training; empty for any flows.
    """

    factors: Annotated[dict[str, float], AfterValidator(frozen_dict)] = Field(default={})
    offset: float = 0.0
    gate: float = 1.01
    reason: str = ""
    flows: Annotated[tuple[str, ...], Field(exclude_if=lambda names: not names)] = ()

    def probability(self, features: Mapping[str, float]) -> float:
        """The probability that all commands of a decision are right, from 0 to 1, by its :func:`features`."""
        odds = self.offset + sum(
            features[name] * factor for name, factor in self.factors.items() if name in features
        )
        return 1.0 / (1.0 + math.exp(-max(-30.0, min(30.0, odds))))


@lru_cache(maxsize=1)
def shipped() -> tuple[TurnConfidence, str]:
    """Return the model of the package, and the fingerprint of the head of acts that it was fitted for.

    Example:
        >>> 0.5 < shipped()[0].gate < 1.0
        True
    """
    data = json.loads(files(__package__).joinpath(FILE).read_text("utf-8"))
    return TurnConfidence.model_validate(data["turn_confidence"]), data["head"]


def features(
    turn: Turn,
    registry: FlowRegistry,
    commands: Sequence[Command],
    candidates: Sequence[tuple[str, float]],
    record: StageRecord,
) -> dict[str, float]:
    """Return features of a decision without a language model that predict whether it is right, scaled to about 1.

    They cover the confidence of the head, the commands, the state, the other words of the message, and for a new flow
    the score of recall and its missing slots.

    Args:
        turn: The turn.
        registry: The flows.
        commands: The commands of the decision.
        candidates: The candidates of its selection.
        record: The record of the commands.
    """
    kinds = {command.type for command in commands}
    ruled, agreement = record.source == "rule", record.agreement or 0.0
    confidence = min(max(record.confidence, 0.005), 0.995)
    running = registry.get(turn.flow or "")
    awaited = running.slot(turn.awaiting) if running is not None and turn.awaiting else None
    started = [
        flow for c in commands if c.type == "start_flow" and (flow := registry.get(c.flow)) is not None
    ]
    opened = [flow for c in commands if (flow := registry.get(c.opens(turn) or "")) is not None]
    slot_names = {str(c.slot_name) for c in commands if c.order == "value"}
    known = {slot.name: slot for flow in (*reversed(opened), running) if flow for slot in flow.slots}
    slots = [known[name] for name in slot_names if name in known]
    left = math.log1p(len(_unexplained_words(turn, commands, [*started, *opened], awaited, slots)))
    length = len(turn.text.split())
    # Between marks that a space follows.
    parts = sum(bool(part.strip()) for part in re.split(r"[.!?;,] |\n", turn.text))
    result = {
        "ruled": float(ruled),
        "head": 0.0 if ruled else math.log(confidence / (1.0 - confidence)),
        "agrees": max(0.0, agreement),
        "differs": max(0.0, -agreement),
        "left": left,
        "left of a yes": left * (kinds == {"affirm"}),
        "left of a start": left * bool(started) * turn.begun,
        "parts": float(min(4, max(0, parts - 1))),
        "long": float(length > 8),
        "short": float(length <= 3),
        "nothing": float(not commands),
        "several": float(len(commands) > 1),
        "confirming": float(turn.confirming is not None),
        "awaiting": float(awaited is not None),
        "offering": float(turn.offering is not None),
        "question": float("?" in turn.text and not started and "ask" not in kinds),
        "recall": candidates[0][1] * bool(opened) if candidates else 0.0,
        "another is near": next((score for name, score in candidates if name != turn.flow), 0.0)
        * (not opened),
        "awaited is typed": float(
            awaited is not None
            and awaited.name in slot_names
            and awaited.type not in (*_WITHOUT_FORM, "boolean")
        ),
        "free text": float(any(slot.type in _WITHOUT_FORM for slot in slots)),
        "lacking": float(sum(slot.name not in slot_names for flow in started for slot in flow.slots)),
        "deny alone": float([c.type for c in commands] == ["deny"]),
    }
    return {**result, **{kind: float(kind in kinds) for kind in _KINDS}}


def features_of(turn: Turn, registry: FlowRegistry, decision: TurnDecision) -> dict[str, float]:
    """Return the :func:`features` of a decision."""
    record = decision.stages["understand"]
    return features(turn, registry, decision.commands, decision.selection.candidates, record)


def in_force(fitted: TurnConfidence | None, head: HeadPort[Any] | None) -> TurnConfidence | None:
    """Return the confidence model of the compiled program, or else of the package.

    None if neither fits the head of the commands.

    Args:
        fitted: The model in the policy of the program.
        head: The head of the commands in use.
    """
    if fitted is not None:
        return fitted
    default, fitted_for = shipped()
    return default if head is not None and head.fingerprint == fitted_for else None


def _unexplained_words(
    turn: Turn, commands: Sequence[Command], flows: list[Flow], awaited: Slot | None, slots: list[Slot]
) -> list[str]:
    """Return words of the message that no value, flow, slot or polite phrase explains."""
    values = [getattr(c, "value", None) for c in commands if c.order == "value"]
    value_words = {word for value in values for word in plain(" ".join(_texts(value))).split()}
    names = [slot.name.replace("_", " ") for slot in [*([awaited] if awaited else []), *slots]]
    names += [" ".join([flow.name.replace("_", " "), flow.description, *flow.keywords]) for flow in flows]
    stems = {word[:5] for name in names for word in plain(name).split()}
    typed = any(slot.type not in _WITHOUT_FORM for slot in slots)
    return [
        word
        for word in plain(turn.text).split()
        if word not in value_words
        and word not in _FILLERS
        and word[:5] not in stems
        and not (typed and (word in _MEASURES or any(letter.isdigit() for letter in word)))
    ]


def _texts(value: object) -> list[str]:
    return [str(each) for each in value] if isinstance(value, list | tuple) else [str(value)]
