"""Values alone: the right slot is given, and what is read for it in the message is compared with the right value.

Read is what the program reads where it knows the slot: by the slot's type, else what the message refers to or moves,
else the option of a choice that it means.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from jazzmine_dspy.artifacts import bind_recall
from jazzmine_dspy.datasets.schema import Example
from jazzmine_dspy.eval.equality import value_key
from jazzmine_dspy.eval.intervals import summarise
from jazzmine_dspy.eval.metrics import TurnScores, mean
from jazzmine_dspy.eval.suite import Suite
from jazzmine_dspy.eval.suite.driver import ExpectedState
from jazzmine_dspy.eval.suite.model import one_of
from jazzmine_dspy.models.commands import ResumeFlow, SlotValue, StartFlow
from jazzmine_dspy.models.flows import Flow
from jazzmine_dspy.models.registry import FlowRegistry, reading_context
from jazzmine_dspy.models.slots import ReadingContext, Slot, call_type, pattern_matches
from jazzmine_dspy.models.turn import Turn
from jazzmine_dspy.program.heads import options
from jazzmine_dspy.program.heads.acts.readings import part_value
from jazzmine_dspy.program.heads.acts.referred import changed_part, referred_value, tried_value
from jazzmine_dspy.program.local.understanding import LIKELY_TOLD
from jazzmine_dspy.program.ports import EmbedderPort
from jazzmine_dspy.program.turn import TurnProgram
from understanding.figures import Figure, figure
from understanding.ground import Ground
from understanding.rehearsal import follow, staged

SECTION = "values alone, right slot given"
GROUPS: dict[str, tuple[tuple[str, ...], float]] = {
    "date, time, duration": (("date", "time", "duration"), 0.95),
    "money, phone, email": (("money", "phone", "email"), 0.98),
    "number": (("number",), 0.95),
    "choice": (("choice",), 0.90),
    "boolean": (("boolean",), 0.90),
}


class Said(NamedTuple):
    """A message and one value in it.

    Args:
        right: Values of which each is right.
        held: What the flow held before: a correction names it too.
        of: "suite" or "test part".
        turn: The turn, for what the message refers to; None where it stands alone.
    """

    conversation: str
    text: str
    slot: Slot
    right: tuple[Any, ...]
    held: tuple[Any, ...]
    at: ReadingContext
    of: str
    turn: Turn | None = None


def reading(slot: Slot, text: str, at: ReadingContext, held: Collection[Any] = ()) -> list[Any]:
    """What the slot's type reads in a message: the value that it is, else those inside it but the one held, else the
    value that a part of it is, as where the program knows the slot.

    Example:
        >>> slot = Slot(name="guests", type="number")
        >>> at = ReadingContext()
        >>> reading(slot, "three", at), reading(slot, "we are 4", at), reading(slot, "not 4 but 5", at, [4])
        ([3], [4], [5])
    """
    if (whole := call_type(slot, "parse", text, None, at)) is not None:
        return [whole]
    inside = pattern_matches(slot, text) if slot.pattern else call_type(slot, "find_values", text, [], at)
    keys = {value_key(call_type(slot, "normalize", value, value, at)): value for value in inside}
    old = {value_key(call_type(slot, "normalize", value, value, at)) for value in held}
    if found := [value for key, value in keys.items() if key not in old] or list(keys.values()):
        return found
    part = part_value(slot, text, at, last=bool(held))
    return [] if part is None else [part]


def meant(said: Said) -> list[Any]:
    """What a message says by another value, by what was said before, or in other words than those of the option."""
    if said.turn is None:
        return []
    told = [changed_part(said.slot, said.text, held, said.at) for held in said.held]
    told += [] if said.held else [referred_value(said.slot, said.turn, said.at, asked=True, starts=True)]
    if said.slot.type == "choice":
        asked = options.texts_of(said.slot, said.text)
        rows = np.asarray(_embedder().features(asked.texts))
        shares = options.shares(options.shipped(), *options.seen(said.slot, said.text, asked, rows, None))
        best = int(shares.argmax())
        if shares[best] >= LIKELY_TOLD and not options.denies(said.slot, said.text, best):
            told.append(said.slot.options[best])
    if not any(value is not None for value in told):
        told.append(tried_value(said.slot, said.text, said.at))
    return [value for value in told if value is not None]


@lru_cache(maxsize=1)
def _embedder() -> EmbedderPort:
    program = TurnProgram(FlowRegistry([]))
    bind_recall(program, "minilm")
    assert program.bindings.embedder is not None
    return program.bindings.embedder


def is_read(said: Said) -> bool:
    """Whether a right value is read, and no other."""
    moved = meant(said) if said.held else []
    found = moved or reading(said.slot, said.text, said.at, said.held) or meant(said)
    normal = {value_key(call_type(said.slot, "normalize", value, value, said.at)) for value in found}
    right = {value_key(call_type(said.slot, "normalize", value, value, said.at)) for value in said.right}
    return len(normal) == 1 and normal <= right


def of_suite(suite: Suite) -> Iterator[Said]:
    """The values that a suite expects of each message."""
    turns = iter(staged(suite))
    for conversation in suite.conversations:
        flows = suite.registries[conversation.registry]
        at = reading_context(flows, conversation.date, conversation.locale)
        gold = ExpectedState(flows)
        for turn, held_turn in zip(conversation.turns, turns, strict=False):
            was, before = gold.flow, dict(gold.slots)
            commands = follow(gold, turn)
            flow = flows.get(gold.flow or "")
            for each in commands:
                slot = flow.slot(each.name) if flow and isinstance(each, SlotValue) else None
                if slot is None or each.name not in turn.expect.slots:
                    continue
                held = before.get(each.name) if was == gold.flow else None
                right = tuple(one_of(turn.expect.slots[each.name]))
                old = () if held is None else (held,)
                yield Said(conversation.id, turn.user, slot, right, old, at, "suite", held_turn.turn)


def of_examples(examples: Iterable[Example], flows: FlowRegistry) -> Iterator[Said]:
    """The values that labels give."""
    for example in examples:
        turn = example.turn
        at = reading_context(flows, turn.date, turn.locale)
        running = flows.get(turn.flow or "")
        for each in example.labels.commands or ():
            if isinstance(each, StartFlow | ResumeFlow):
                running = flows.get(each.flow or (turn.paused[-1] if turn.paused else ""), running)
            elif isinstance(each, SlotValue) and (slot := _slot(flows, each.flow, running, each.name)):
                held = turn.slots.as_dict().get(each.name)
                old = () if held is None else (held,)
                yield Said(
                    example.conversation_id, turn.text, slot, (each.value,), old, at, "test part", turn
                )


def _slot(flows: FlowRegistry, named: str | None, running: Flow | None, name: str) -> Slot | None:
    flow = flows.get(named) if named else running
    return flow.slot(name) if flow else None


def figures(ground: Ground) -> Iterator[Figure]:
    """Shares of values read, by group, and in each by where they are from and by type."""
    said = [*of_suite(ground.unseen), *of_examples(ground.test, ground.dataset.flows)]
    yield from grouped(said)


def grouped(said: Sequence[Said]) -> Iterator[Figure]:
    """The figures of some values."""
    right = [is_read(each) for each in said]
    for group, (kinds, target) in GROUPS.items():
        held = [(each, ok) for each, ok in zip(said, right, strict=True) if each.slot.type in kinds]
        yield _figure(group, held, target)
        for of in ("suite", "test part"):
            yield _figure(f"· {of}", [pair for pair in held if pair[0].of == of])
        for kind in kinds if len(kinds) > 1 else ():
            yield _figure(f"· {kind}", [pair for pair in held if pair[0].slot.type == kind])


def _figure(what: str, held: Sequence[tuple[Said, bool]], target: float | None = None) -> Figure:
    rows: list[TurnScores] = [{"read": mean(ok)} for _, ok in held]
    metric = summarise(rows, [each.conversation for each, _ in held]).get("read")
    return figure(SECTION, what, metric, target=target)
