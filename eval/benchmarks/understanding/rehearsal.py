"""A suite's turns one by one: each after the expected conversation, whatever a program would have made of that.

All of them can be asked about at once, every system gets the same turns, and a request is the same each time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from jazzmine_dspy.datasets.schema import Example
from jazzmine_dspy.eval.suite import Suite, SuiteConversation, SuiteTurnResult, run_suite
from jazzmine_dspy.eval.suite.driver import ExpectedState
from jazzmine_dspy.eval.suite.model import SuiteTurn
from jazzmine_dspy.models.commands import COMMANDS, Command, StartFlow
from jazzmine_dspy.models.decision import Enhancement, Selection, TurnDecision
from jazzmine_dspy.models.labels import Labels
from jazzmine_dspy.models.registry import FlowRegistry
from jazzmine_dspy.models.turn import Turn
from jazzmine_dspy.program.turn import TurnProgram


@dataclass(frozen=True)
class Staged:
    """One turn of a suite as a program gets it. ``natural``: commands alone led to it, from the first turn on."""

    conversation: SuiteConversation
    number: int
    turn: Turn
    opening: bool
    natural: bool

    @property
    def key(self) -> str:
        """The conversation's id and the turn's number: unique in a suite."""
        return f"{self.conversation.id}/{self.number}"

    @property
    def example(self) -> Example:
        """The turn without labels: what is right is for the runtime to judge."""
        return Example(
            conversation_id=self.conversation.id,
            turn_id=str(self.number),
            turn=self.turn,
            labels=Labels(),
            role="test",
            line=self.conversation.line,
        )


def decided(turn: Turn, commands: Sequence[Command]) -> TurnDecision:
    """A decision that is nothing but its commands."""
    starts = [each.flow for each in commands if isinstance(each, StartFlow)]
    return TurnDecision(
        enhancement=Enhancement(enhanced_query=turn.text),
        selection=Selection(flows=starts),
        commands=list(commands),
    )


class _Script(TurnProgram):
    """Answers each turn of one conversation with what is written for it, and keeps the turns."""

    def __init__(self, flows: FlowRegistry, lines: Sequence[Callable[[Turn], TurnDecision]]) -> None:
        super().__init__(flows)
        self.lines, self.turns = list(lines), list[Turn]()

    async def adecide(self, turn: Turn, **_: Any) -> TurnDecision:
        self.turns.append(turn)
        return self.lines[len(self.turns) - 1](turn)


def _hold(
    suite: Suite, conversation: SuiteConversation, lines: Sequence[Callable[[Turn], TurnDecision]]
) -> tuple[list[Turn], tuple[SuiteTurnResult, ...]]:
    full = suite.registries[conversation.registry]
    # Values are not said back: recorded answers were given to histories without them.
    habits: dict[str, Any] = {
        **full.habits,
        "texts": {"en": {**full.habits.get("texts", {}).get("en", {}), "stored": ""}},
    }
    flows = FlowRegistry(full, out_of_scope_share=full.out_of_scope_share, **habits)
    script = _Script(flows, lines)
    alone = Suite(suite.path, {conversation.registry: flows}, (conversation,), suite.unseen)
    held = run_suite(alone, script, turns=True).conversations[0].turns
    if len(script.turns) != len(held):
        raise RuntimeError(f"{conversation.id}: {len(held)} messages made {len(script.turns)} turns")
    return script.turns, held


def _lines(suite: Suite, conversation: SuiteConversation) -> list[Callable[[Turn], TurnDecision]]:
    gold = ExpectedState(suite.registries[conversation.registry])
    made = [follow(gold, turn) for turn in conversation.turns]
    return [lambda turn, said=said: decided(turn, said) for said in made]  # type: ignore[misc]


def staged(suite: Suite) -> list[Staged]:
    """All turns of a suite, each with the expected state and conversation before it."""
    found: list[Staged] = []
    for conversation in suite.conversations:
        turns, held = _hold(suite, conversation, _lines(suite, conversation))
        natural = True
        for turn, result in zip(turns, held, strict=True):
            found.append(Staged(conversation, result.number, turn, turn.flow is None, natural))
            natural = natural and not result.wrong
    return found


def judged(
    suite: Suite, turns: Sequence[Staged], decisions: Mapping[str, TurnDecision | None]
) -> dict[str, bool]:
    """Whether the state after each decision is the expected one, by key; a turn without a decision is wrong."""
    found: dict[str, bool] = {}
    for each in turns:
        decision = decisions.get(each.key)
        if decision is None:
            found[each.key] = False
            continue
        short = each.conversation.model_copy(update={"turns": each.conversation.turns[: each.number]})
        before = _lines(suite, short)[: each.number - 1]
        _, held = _hold(suite, short, [*before, lambda _, decision=decision: decision])  # type: ignore[misc]
        found[each.key] = not held[-1].wrong
    return found


def follow(gold: ExpectedState, turn: SuiteTurn) -> list[Command]:
    """Take what a turn expects, and give commands that may lead there.

    They carry a conversation on as naturally as can be; whether they lead to the expected state is for the runtime to
    say, which puts it in place where they do not. So a wrong guess costs nothing but the wording of a reply.
    """
    before = deepcopy(_state(gold))
    gold.follow(turn.expect)
    if "commands" in turn.expect.model_fields_set:
        return list(turn.expect.commands)
    made = _told(before, _state(gold), turn)
    return [COMMANDS.validate_python(each) for each in made]


def _state(gold: ExpectedState) -> dict[str, Any]:
    return {
        "flow": gold.flow, "status": gold.status, "awaiting": gold.awaiting, "slots": dict(gold.slots),
        "paused": gold.paused, "offered": gold.offered,
    }  # fmt: skip


def _told(was: Mapping[str, Any], now: Mapping[str, Any], turn: SuiteTurn) -> list[dict[str, Any]]:
    expect, made = turn.expect, list[dict[str, Any]]()
    if "handoff" in expect.next:
        return [{"type": "handoff"}]
    if was["status"] == "awaiting_confirmation" and was["flow"] in expect.ran:
        made.append({"type": "affirm"})
    made += _left(was, now, expect.ran)
    same = now["flow"] == was["flow"]
    if now["flow"] is not None and not same:
        back = now["flow"] in was["paused"]
        made.append({"type": "resume_flow" if back else "start_flow", "flow": now["flow"]})
    if now["flow"] is not None:
        held = was["slots"] if same else {}
        if same and held and not now["slots"]:
            return [{"type": "restart"}]
        if now["flow"] not in was["paused"]:
            made += _values(held, now["slots"])
    if made:
        return made
    if "clarify" in expect.next:
        return [{"type": "clarify"}]
    if was["status"] == "awaiting_confirmation" and now["status"] == "in_flow":
        return [{"type": "deny"}]
    if was["awaiting"] and same and now["awaiting"] != was["awaiting"]:
        return [{"type": "skip_slot", "name": was["awaiting"]}]
    if was["awaiting"] and "reask" in expect.next:
        return [{"type": "set_slot", "name": was["awaiting"], "value": turn.user}]
    return [{"type": "ask" if "answer" in expect.next and now["flow"] else "chitchat"}]


def _left(was: Mapping[str, Any], now: Mapping[str, Any], ran: tuple[str, ...]) -> list[dict[str, Any]]:
    alive = {now["flow"], *now["paused"], *ran}
    gone = [name for name in (was["flow"], *was["paused"]) if name is not None and name not in alive]
    return [{"type": "cancel_flow", "flow": name} for name in gone]


def _values(held: Mapping[str, Any], now: Mapping[str, Any]) -> list[dict[str, Any]]:
    made: list[dict[str, Any]] = [{"type": "clear_slot", "name": name} for name in held if name not in now]
    for name, value in now.items():
        if name not in held:
            made.append({"type": "set_slot", "name": name, "value": value})
        elif held[name] != value:
            made.append({"type": "correct_slot", "name": name, "value": value})
    return made
