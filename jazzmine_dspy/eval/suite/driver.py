"""Holding a suite's conversations with the real runtime, over stores in this process."""

from __future__ import annotations

import datetime as dt
import itertools
import time
from collections.abc import Callable, Mapping
from typing import Any

from jazzmine_dspy.datasets.replay import state_of
from jazzmine_dspy.datasets.schema import StateBefore
from jazzmine_dspy.dialogue.flows import next_in_line
from jazzmine_dspy.dialogue.questions import await_slot, pending_question
from jazzmine_dspy.dialogue.texts import Speech
from jazzmine_dspy.eval.suite.model import Expect, Suite, SuiteConversation, SuiteTurn, one_of
from jazzmine_dspy.eval.suite.result import (
    ConversationResult,
    Mismatch,
    ObservedTurn,
    SuiteResult,
    SuiteTurnResult,
    mismatches,
)
from jazzmine_dspy.memory.working import FlowStatus, ProcessedMessage, WorkingMemory
from jazzmine_dspy.models.awaiting import Awaiting, AwaitingGroup, conversation_scope
from jazzmine_dspy.models.base import FrozenMap
from jazzmine_dspy.models.decision import NextStep
from jazzmine_dspy.models.errors import format_error
from jazzmine_dspy.models.flows import Flow
from jazzmine_dspy.models.registry import FlowRegistry, reading_context
from jazzmine_dspy.models.turn import Turn
from jazzmine_dspy.program.deadline import outside_loop, run_interruptible
from jazzmine_dspy.program.turn import TurnProgram
from jazzmine_dspy.runtime import Runtime


class ExpectedState:
    """Follows the expectations of a conversation. What a turn does not say stays as it was.

    Args:
        flows: The flows, by name.
    """

    def __init__(self, flows: Mapping[str, Flow]) -> None:
        self._flows = flows
        self.flow: str | None = None
        self.status = "idle"
        self.awaiting: str | None = None
        self.paused: tuple[str, ...] = ()
        self.offered: str | None = None
        self._held: dict[str, dict[str, Any]] = {}

    @property
    def slots(self) -> dict[str, Any]:
        """The values that the running flow should hold; of several that are right, the first."""
        return self._held.get(self.flow or "", {})

    def follow(self, expect: Expect) -> None:
        """Take what is expected after a turn."""
        given, was = expect.model_fields_set, self.flow
        if "flow" in given:
            self.flow = expect.flow
        elif was in expect.ran or (expect.status == "idle" and "status" in given):
            self.flow = None
        others = tuple(name for name in self.paused if name != self.flow)
        self.paused = expect.paused if "paused" in given else others
        if was is not None and was != self.flow and was not in self.paused:
            self._held.pop(was, None)
        if "slots" in given and self.flow is not None:
            self._held[self.flow] = {name: one_of(value)[0] for name, value in expect.slots.items()}
        if "status" in given:
            self.status = expect.status
        elif self.flow != was or self.flow is None:
            self.status = "collecting_slots" if self.flow else "idle"
        self.awaiting = expect.awaiting if "awaiting" in given else None
        left = (self.flow is None and was is not None) or bool(expect.ran)
        newest = self.paused[-1] if self.flow is None and self.paused else None
        self.offered = newest if left or self.offered == newest else None

    def before(self, text: str) -> Turn:
        """The state as commands are compared over it."""
        return Turn(text=text, flow=self.flow, slots=FrozenMap.of(self.slots), paused=self.paused)

    def put_into(self, state: WorkingMemory) -> str:
        """Bring a conversation into this state; what the assistant should have said last."""
        led = state_of(
            StateBefore(
                flow=self.flow,
                slots=FrozenMap.of(self.slots),
                paused=self.paused,
                paused_slots=FrozenMap.of(
                    {name: held for name in self.paused if (held := self._held.get(name))}
                ),
            ),
            self._flows,
        )
        state.active_flow, state.paused = led.active_flow, led.paused
        state.pending_confirmation, state.action, state.offered_flow = None, None, self.offered
        state.question_counts, state.escalation, state.queue = {}, "", []
        step = self._step(state)
        if state.processed:
            kept = ProcessedMessage(
                message_id=state.processed[-1].message_id, next_step=step, reply=step.text
            )
            state.processed = [*state.processed[:-1], kept]
        return step.text

    def _step(self, state: WorkingMemory) -> NextStep:
        if (running := state.active_flow) is None:
            offer = next_in_line(state, self._flows) if self.offered else None
            return offer or NextStep(kind="none", text=Speech(self._flows).say("idle"))
        flow, speech = self._flows[running.flow_name], Speech(self._flows, state.locale)
        if self.status == "in_flow":
            running.status = FlowStatus.ACTIVE
            return NextStep(kind="reask", flow=flow.name, text=speech.say("denied", flow, running.values))
        if self.awaiting is not None and flow.slot(self.awaiting):
            return await_slot(state, running, flow, self.awaiting, speech, again=False)
        step = pending_question(state, self._flows)
        assert step is not None
        return step


Programs = Callable[[FlowRegistry], TurnProgram]
Progress = Callable[[int, int], None]
_NOON = dt.time(12, tzinfo=dt.UTC)


def run_suite(
    suite: Suite,
    program: TurnProgram | Programs,
    *,
    turns: bool = False,
    progress: Progress | None = None,
    deadline: float | None = 60.0,
) -> SuiteResult:
    """Hold all conversations of a suite, one after another, and judge each turn. Nothing outside this process changes.

    Works in a notebook too, where an event loop runs already.

    Actions are begun and succeed at once. The clock stands at noon of the conversation's date, ids are counted.

    Args:
        program: The program, which is given each registry's flows; or what makes one for a registry.
        turns: Judge turn by turn: after a turn that was wrong the expected state is put in the place of the
            program's own, so that no turn suffers from another.
        progress: Called with the number of conversations done and of all.
        deadline: Seconds for a decision.

    Returns:
        What came of each conversation. A turn that raises is wrong, and says why.

    Raises:
        Awaiting: answers of a deferred language model are not there yet; nothing is judged.
    """

    return outside_loop(
        lambda: run_interruptible(
            _run_suite(suite, program, turns=turns, progress=progress, deadline=deadline)
        )
    )


async def _run_suite(
    suite: Suite,
    program: TurnProgram | Programs,
    *,
    turns: bool = False,
    progress: Progress | None = None,
    deadline: float | None = 60.0,
) -> SuiteResult:
    runtimes: dict[str, Runtime] = {}
    done: list[ConversationResult] = []
    gathered = AwaitingGroup()
    for conversation in suite.conversations:
        if (name := conversation.registry) not in runtimes:
            flows, count = suite.registries[name], itertools.count(1)
            own = program if isinstance(program, TurnProgram) else program(flows)
            other = flows if own.registry.checksum != flows.checksum else None
            noon = dt.datetime.combine(conversation.date, _NOON).timestamp()
            runtimes[name] = Runtime(
                own,
                flows=other,
                deadline=deadline,
                clock=lambda noon=noon: noon,  # type: ignore[misc]
                ids=lambda count=count: f"id-{next(count)}",  # type: ignore[misc]
            )
        try:
            with conversation_scope(conversation.id):
                done.append(await _Held(runtimes[name], conversation, turns).run())
        except Awaiting as awaiting:
            # The others are held as far as they go, so that each is asked about at once.
            gathered.append(awaiting)
            continue
        if progress is not None:
            progress(len(done), len(suite.conversations))
    gathered.check()
    return SuiteResult(suite, tuple(done), turns)


class _Held:
    """One conversation while it is held."""

    def __init__(self, runtime: Runtime, conversation: SuiteConversation, restored: bool) -> None:
        self._runtime, self._conversation, self._restored = runtime, conversation, restored
        self._now = dt.datetime.combine(conversation.date, _NOON)
        self._at = reading_context(runtime.registry, conversation.date, conversation.locale)
        self._gold = ExpectedState(runtime.registry)

    async def run(self) -> ConversationResult:
        if self._conversation.start is not None:
            self._gold.follow(self._conversation.start)
            if reply := await self._restore():
                await self._runtime.record_reply(self._conversation.id, reply)
        judged = [await self._turn(number, turn) for number, turn in enumerate(self._conversation.turns, 1)]
        return ConversationResult(self._conversation, tuple(judged))

    async def _turn(self, number: int, turn: SuiteTurn) -> SuiteTurnResult:
        gold, before = self._gold, self._gold.before(turn.user)
        opening, started = gold.flow is None, time.perf_counter()
        gold.follow(turn.expect)
        wrong: list[Mismatch]
        seen, degraded = None, False
        try:
            seen, degraded = await self._said(turn.user)
            wrong = mismatches(turn.expect, seen, self._runtime.registry, self._at, before)
        except Exception as error:
            # A turn that crashes is wrong; the conversation goes on.
            wrong = [Mismatch("error", "none", format_error(error))]
        spent = (time.perf_counter() - started) * 1000.0
        reply = seen.reply if seen else ""
        if self._restored and wrong:
            reply = await self._restore()
        if reply:
            await self._runtime.record_reply(self._conversation.id, reply)
        return SuiteTurnResult(number, turn, seen, tuple(wrong), opening, degraded, spent)

    async def _said(self, text: str) -> tuple[ObservedTurn, bool]:
        key, runtime = self._conversation.id, self._runtime
        outcome = await runtime.process(
            conversation_id=key, user_id="suite", text=text, now=self._now, locale=self._conversation.locale
        )
        state, step, said = outcome.state, outcome.next, [outcome.reply]
        steps, ran = [step.kind], []
        while step.kind == "run_flow":
            ran.append(str(step.flow))
            await runtime.begin_action(key)
            done = await runtime.finish_action(key)
            state, step = done.state, done.next
            steps.append(step.kind)
            if done.reply not in said[0]:
                said.append(done.reply)
        decision = outcome.decision
        seen = ObservedTurn.of(
            state,
            ran=tuple(ran),
            next=tuple(steps),
            reply=" ".join(filter(None, said)),
            commands=tuple(decision.commands) if decision else (),
        )
        return seen, bool(decision and decision.degraded)

    async def _restore(self) -> str:
        store, key = self._runtime.working_memory, self._conversation.id
        state = await store.get_or_create(key, "suite", self._runtime.agent_id)
        reply = self._gold.put_into(state)
        await store.save(state)
        return reply
