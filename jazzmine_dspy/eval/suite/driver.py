"""Holding a suite's conversations with the real runtime, over stores in this process."""

from __future__ import annotations

import datetime as dt
import itertools
import time
from collections.abc import Callable

from jazzmine_dspy.eval.suite.expected_state import ExpectedState
from jazzmine_dspy.eval.suite.judge import Mismatch, ObservedTurn, mismatches
from jazzmine_dspy.eval.suite.model import Suite, SuiteConversation, SuiteTurn
from jazzmine_dspy.eval.suite.result import ConversationResult, SuiteResult, SuiteTurnResult
from jazzmine_dspy.models.awaiting import Awaiting, AwaitingGroup, conversation_scope
from jazzmine_dspy.models.errors import format_error
from jazzmine_dspy.models.registry import FlowRegistry, reading_context
from jazzmine_dspy.program.deadline import outside_loop, run_interruptible
from jazzmine_dspy.program.turn import TurnProgram
from jazzmine_dspy.runtime import Runtime

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
        name = conversation.registry
        if name not in runtimes:
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
            gathered.add(awaiting)
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
            done = await runtime.finish_action(key, {"status": "ok"})
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
