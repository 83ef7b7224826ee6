"""What is, beside what is expected; and what came of a suite: shares with intervals, and first errors."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from jazzmine_dspy.eval.equality import command_keys, value_key
from jazzmine_dspy.eval.feedback import describe_commands
from jazzmine_dspy.eval.intervals import Metric, summarise
from jazzmine_dspy.eval.metrics import TurnScores, mean
from jazzmine_dspy.eval.suite.model import Expect, Suite, SuiteConversation, SuiteTurn, one_of
from jazzmine_dspy.memory.working import WorkingMemory
from jazzmine_dspy.models.commands import Command
from jazzmine_dspy.models.flows import Flow
from jazzmine_dspy.models.slots import ReadingContext, call_type
from jazzmine_dspy.models.turn import Turn


@dataclass(frozen=True)
class ObservedTurn:
    """What a turn left behind: the state after it, and what was done in it."""

    flow: str | None
    status: str
    awaiting: str | None
    slots: dict[str, Any]
    paused: tuple[str, ...]
    ran: tuple[str, ...] = ()
    next: tuple[str, ...] = ()
    reply: str = ""
    commands: tuple[Command, ...] = ()

    @classmethod
    def of(cls, state: WorkingMemory, **done: Any) -> ObservedTurn:
        """The state as expectations speak of it, and what was done."""
        running = state.active_flow
        return cls(
            flow=running.flow_name if running else None,
            status=state.status.value,
            awaiting=running.awaiting if running and state.status.value == "collecting_slots" else None,
            slots=dict(running.values) if running else {},
            paused=tuple(flow.flow_name for flow in state.paused),
            **done,
        )


@dataclass(frozen=True)
class Mismatch:
    """One thing that is not as expected; both sides as texts."""

    field: str
    expected: str
    actual: str


def mismatches(
    expect: Expect, seen: ObservedTurn, flows: Mapping[str, Flow], at: ReadingContext, before: Turn
) -> list[Mismatch]:
    """All that is not as expected, in the order of the keys.

    Args:
        flows: By name; values are compared in the normal form of their slots.
        before: The state before the turn, for commands that leave their flow open.
    """
    given = expect.model_fields_set
    found = [
        Mismatch(field, _words_of(getattr(expect, field)), _words_of(getattr(seen, field)))
        for field in ("flow", "status", "awaiting", "paused", "ran")
        if field in given and getattr(expect, field) != getattr(seen, field)
    ]
    if "slots" in given:
        found += _slots(expect, seen, flows, at)
    if "next" in given and not set(expect.next) & set(seen.next):
        found.append(Mismatch("next", " or ".join(expect.next), _words_of(seen.next)))
    missing = [text for text in expect.reply if text.casefold() not in seen.reply.casefold()]
    found += [Mismatch("reply", f"… {text} …", seen.reply) for text in missing]
    if "commands" in given and command_keys(expect.commands, before) != command_keys(seen.commands, before):
        found.append(
            Mismatch("commands", describe_commands(expect.commands), describe_commands(seen.commands))
        )
    return found


def _slots(
    expect: Expect, seen: ObservedTurn, flows: Mapping[str, Flow], at: ReadingContext
) -> Iterator[Mismatch]:
    flow = flows.get(seen.flow or "")
    for name in dict.fromkeys([*expect.slots, *seen.slots]):
        wanted = one_of(expect.slots[name]) if name in expect.slots else []
        held = [seen.slots[name]] if name in seen.slots else []
        right = {_key(flow, name, value, at) for value in wanted}
        if (not held and not wanted) or any(_key(flow, name, value, at) in right for value in held):
            continue
        told = " or ".join(map(_words_of, wanted)) or "none"
        yield Mismatch(f"slots.{name}", told, _words_of(held[0]) if held else "none")


def _key(flow: Flow | None, name: str, value: Any, at: ReadingContext) -> Hashable:
    slot = flow.slot(name) if flow else None
    return value_key(call_type(slot, "normalize", value, value, at) if slot else value)


def _words_of(value: Any) -> str:
    if value is None or value == () or value == []:
        return "none"
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


@dataclass(frozen=True)
class SuiteTurnResult:
    """One turn: what was seen after it (None where it raised), and what is not as expected.

    ``number`` counts from 1, ``opening`` says that no flow should be running before it, ``latency_ms`` is the turn's
    time with its stores.
    """

    number: int
    turn: SuiteTurn
    seen: ObservedTurn | None
    wrong: tuple[Mismatch, ...]
    opening: bool
    degraded: bool
    latency_ms: float


@dataclass(frozen=True)
class ConversationResult:
    """One conversation; right where all its turns are."""

    conversation: SuiteConversation
    turns: tuple[SuiteTurnResult, ...]

    @property
    def right(self) -> bool:
        """Whether every turn is as expected."""
        return self.first_error is None

    @property
    def first_error(self) -> int | None:
        """The number of the first wrong turn, from 1."""
        return next((turn.number for turn in self.turns if turn.wrong), None)

    @property
    def ends_right(self) -> bool:
        """Whether the last turn is as expected, whatever went wrong before."""
        return not self.turns[-1].wrong

    def diff(self) -> str:
        """Expected and actual of each wrong turn, for people; "" where all is right."""
        lines: list[str] = []
        for turn in self.turns:
            if not turn.wrong:
                continue
            first = "   <- first error" if turn.number == self.first_error else ""
            line = f"turn {turn.number} (line {turn.turn.line}): {turn.turn.user!r}{first}"
            lines += [f"{self.conversation.id}, {line}"]
            width = max(len(each.field) for each in turn.wrong)
            for each in turn.wrong:
                lines.append(f"    {each.field:{width}}  expected {each.expected}  |  actual {each.actual}")
            if turn.seen is not None:
                lines.append(f"    understood: {describe_commands(turn.seen.commands)}")
        return "\n".join(lines)


@dataclass(frozen=True)
class SuiteResult:
    """All conversations. ``restored`` says that turns were judged one by one."""

    suite: Suite
    conversations: tuple[ConversationResult, ...]
    restored: bool = False

    @property
    def ok(self) -> bool:
        """Whether every turn of every conversation is as expected."""
        return all(each.right for each in self.conversations)

    @property
    def share(self) -> float:
        """The share of conversations with all turns right."""
        return sum(each.right for each in self.conversations) / len(self.conversations)

    def diff(self) -> str:
        """Expected and actual of all wrong turns, for people."""
        return "\n".join(filter(None, (each.diff() for each in self.conversations)))

    def shares(self) -> dict[str, Metric]:
        """Shares with 95 % intervals by conversation: ``conversations``, ``ends_right``, ``turns``, ``turns/opening``,
        ``turns/mid_form``, ``after_first_error``, and of each kind and registry ``conversations/…`` and ``turns/…``."""
        rows: list[TurnScores] = []
        clusters: list[str] = []
        for each in self.conversations:
            about = each.conversation
            groups = ("", f"/kind/{about.kind}", f"/registry/{about.registry}")
            whole = {f"conversations{group}": mean(each.right) for group in groups}
            rows.append({**whole, "ends_right": mean(each.ends_right)})
            clusters.append(about.id)
            for turn in each.turns:
                right = mean(not turn.wrong)
                names = [f"turns{group}" for group in groups]
                names.append("turns/opening" if turn.opening else "turns/mid_form")
                if each.first_error is not None and turn.number > each.first_error:
                    names.append("after_first_error")
                rows.append(dict.fromkeys(names, right))
                clusters.append(about.id)
        return summarise(rows, clusters)

    def to_json(self) -> dict[str, Any]:
        """Everything that ``jazzmine-dspy test --json`` prints of it."""
        return {
            "n": len(self.conversations),
            "turns": sum(len(each.turns) for each in self.conversations),
            "right": sum(each.right for each in self.conversations),
            "degraded": sum(turn.degraded for each in self.conversations for turn in each.turns),
            "restored": self.restored,
            "shares": {
                name: {**share.to_json(), "conversations": share.clusters}
                for name, share in self.shares().items()
            },
            "conversations": [
                {
                    "id": each.conversation.id,
                    "kind": each.conversation.kind,
                    "registry": each.conversation.registry,
                    "right": each.right,
                    "first_error": each.first_error,
                    "ends_right": each.ends_right,
                    "wrong": [
                        {"turn": turn.number, "line": turn.turn.line, "field": one.field}
                        | {"expected": one.expected, "actual": one.actual}
                        for turn in each.turns
                        for one in turn.wrong
                    ],
                }
                for each in self.conversations
            ],
        }
