"""Hooks that recall what a turn is shown: besides the stores, within the deadline, and never in the turn's way."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from jazzmine_dspy import Runtime
from jazzmine_dspy.memory.messages import InMemoryMessageStore
from jazzmine_dspy.memory.working import InMemoryWorkingMemoryStore
from jazzmine_dspy.memory.working.prompt import build_prompt_sections
from jazzmine_dspy.models.errors import InputError, MemoryUnavailableError

ANN: dict[str, Any] = {"conversation_id": "c1", "user_id": "ann"}
SECRET = "sk-secret-0123"


def gives(*found: Any) -> Any:
    async def hook(conversation_id: str, user_id: str, message: str) -> Any:
        return found

    return hook


@pytest.mark.row("W9")
async def test_what_hooks_recall_reaches_the_turn_and_its_cache(by_hand: Any) -> None:
    asked: list[tuple[str, ...]] = []

    async def episodes(conversation_id: str, user_id: str, message: str) -> Any:
        asked.append((conversation_id, user_id, message))
        return [
            {"short_summary": "asked for a\nlamp", "conversation_id": "c0", "score": 0.5},
            "wanted a refund",
            " ",
        ]

    async def facts(*ids: str) -> Any:
        asked.append(ids)
        return [{"key": "plan", "value": "gold"}, "Ann is in Rome", {"key": "orders", "value": [5519]}]

    program = by_hand()
    runtime = Runtime(program, episodic_recall=episodes, semantic_recall=facts)
    given = {"explicit_context": ["vip"], "episode_summaries": ["said hello"]}
    outcome = await runtime.process(**ANN, text="that  one", **given)
    assert asked == [("c1", "ann", "that  one")] * 2
    turn, cache = program.turns[-1], outcome.state.current_turn
    assert turn.explicit_context == ("vip", "plan: gold", "Ann is in Rome", "orders: [5519]")
    assert turn.episode_summaries == ("asked for a lamp", "wanted a refund", "said hello")
    assert cache is not None
    assert cache.retrieved_same_conv_episodes == [
        {"short_summary": "wanted a refund"},
        {"short_summary": "said hello"},
    ]
    assert [(e["conversation_id"], e["score"]) for e in cache.retrieved_prev_conv_episodes] == [("c0", 0.5)]
    assert [term["value"] for term in cache.retrieved_semantic_terms] == ["gold", "Ann is in Rome", "[5519]"]
    assert "gold" in build_prompt_sections(outcome.state)["recall"]
    stored = await runtime.messages.get_message(outcome.message_id)
    assert stored is not None
    assert stored.explicit_context == list(turn.explicit_context)
    assert outcome.decision is not None
    assert not outcome.decision.degraded


@pytest.mark.row("W9")
async def test_what_was_recalled_is_replaced_by_the_next_turn(by_hand: Any) -> None:
    found = ["first"]

    async def episodes(*_: str) -> Any:
        return list(found)

    program = by_hand()
    runtime = Runtime(program, episodic_recall=episodes)
    await runtime.process(**ANN, text="one")
    found[:] = []
    outcome = await runtime.process(**ANN, text="two")
    assert [turn.episode_summaries for turn in program.turns] == [("first",), ()]
    assert outcome.state.current_turn is not None
    assert outcome.state.current_turn.episode_short_summaries == []


class Meeting(InMemoryWorkingMemoryStore):
    """Loads a state once a hook has begun."""

    def __init__(self) -> None:
        super().__init__()
        self.loading, self.recalling = asyncio.Event(), asyncio.Event()

    async def get_or_create(self, *args: Any, **options: Any) -> Any:
        self.loading.set()
        await self.recalling.wait()
        return await super().get_or_create(*args, **options)


class Reading(InMemoryMessageStore):
    """Reads the history once the hooks of a turn are at work."""

    def __init__(self, others: asyncio.Barrier) -> None:
        super().__init__()
        self.others = others

    async def get_immediate_context(self, conversation_id: str, n: int, *, exclude: str | None = None) -> Any:
        if exclude is not None:
            await self.others.wait()
        return await super().get_immediate_context(conversation_id, n, exclude=exclude)


@pytest.mark.row("W9")
async def test_hooks_state_and_history_are_loaded_at_the_same_time(by_hand: Any) -> None:
    store, together = Meeting(), asyncio.Barrier(3)

    async def episodes(*_: str) -> Any:
        store.recalling.set()
        await store.loading.wait()
        await together.wait()
        return ["an episode"]

    async def facts(*_: str) -> Any:
        await together.wait()
        return ["a fact"]

    program = by_hand()
    runtime = Runtime(
        program,
        working_memory=store,
        messages=Reading(together),
        episodic_recall=episodes,
        semantic_recall=facts,
        recall_deadline=5.0,
    )
    async with asyncio.timeout(5):
        outcome = await runtime.process(**ANN, text="hi")
    assert outcome.decision is not None
    assert not outcome.decision.degraded
    assert (program.turns[0].episode_summaries, program.turns[0].explicit_context) == (
        ("an episode",),
        ("a fact",),
    )


async def fails(*_: str) -> Any:
    raise ConnectionResetError(f"while sending {SECRET}")


async def is_late(*_: str) -> Any:
    await asyncio.Event().wait()


async def gives_up(*_: str) -> Any:
    raise asyncio.CancelledError


async def gives_text(*_: str) -> Any:
    return SECRET


async def gives_numbers(*_: str) -> Any:
    return [None]


async def gives_too_many(*_: str) -> Any:
    return [f"{SECRET} {number}" for number in range(51)]


def no_coroutine(*_: str) -> Any:
    return [SECRET]


@pytest.mark.row("W9", "U15")
@pytest.mark.parametrize("broken", ["episodic_recall", "semantic_recall"])
@pytest.mark.parametrize(
    ("hook", "cause"),
    [
        (fails, "ConnectionResetError: the connection failed"),
        (is_late, "DeadlineError: No answer within 0.02 s."),
        (gives_up, "CancelledError"),
        (gives_text, "InputError: The hook must return a list, not str"),
        (gives_numbers, "InputError: The hook returned an item without a text"),
        (gives_too_many, "InputError: 51 texts were given"),
        (no_coroutine, "TypeError"),
    ],
)
async def test_a_hook_that_fails_degrades_the_decision_and_nothing_else(
    by_hand: Any, caplog: pytest.LogCaptureFixture, broken: str, hook: Any, cause: str
) -> None:
    program = by_hand()
    hooks = {"episodic_recall": gives("an episode"), "semantic_recall": gives("a fact"), broken: hook}
    runtime = Runtime(program, **hooks, recall_deadline=0.02)
    outcome = await runtime.process(**ANN, text="hi")
    turn, decision = program.turns[0], outcome.decision
    assert decision is not None
    assert decision.degraded
    assert [failure.startswith(f"{broken}: {cause}") for failure in decision.context_failures] == [True]
    kept = (turn.episode_summaries, turn.explicit_context)
    assert kept == (((), ("a fact",)) if broken == "episodic_recall" else (("an episode",), ()))
    assert outcome.reply
    trace = await runtime.messages.get_turn_trace(f"trace-{outcome.message_id}")
    assert trace is not None
    assert trace.errors == list(decision.context_failures)
    again = await runtime.process(**ANN, text="hi", message_id=outcome.message_id)
    assert again.decision == decision
    assert SECRET not in f"{outcome} {trace} {caplog.text}"


@pytest.mark.row("U15")
async def test_hooks_that_refuse_to_end_leave_time_for_the_decision(by_hand: Any) -> None:
    over = asyncio.Event()

    async def stubborn(*_: str) -> Any:
        while not over.is_set():
            try:
                await over.wait()
            except asyncio.CancelledError:
                continue

    seen: list[float] = []
    program = by_hand()

    async def adecide(turn: Any = None, *, deadline: float = 0.0, **_: Any) -> Any:
        seen.append(deadline)
        return program.default

    program.adecide = adecide
    runtime = Runtime(program, episodic_recall=stubborn, semantic_recall=stubborn, deadline=0.2)
    async with asyncio.timeout(5):
        outcome = await runtime.process(**ANN, text="hi")
    over.set()
    assert outcome.decision is not None
    assert len(outcome.decision.context_failures) == 2
    # Both have waited together for half of the deadline.
    assert 0.0 <= seen[0] <= 0.1


class Ailing(InMemoryMessageStore):
    """Reads nothing for a turn: it fails, or is late."""

    late = False

    async def get_immediate_context(self, conversation_id: str, n: int, *, exclude: str | None = None) -> Any:
        if exclude is None:
            return await super().get_immediate_context(conversation_id, n)
        if self.late:
            await asyncio.Event().wait()
        raise MemoryUnavailableError("The messages do not answer")


@pytest.mark.row("U15")
@pytest.mark.parametrize("late", [False, True])
async def test_a_history_that_cannot_be_read_degrades_the_decision(by_hand: Any, late: bool) -> None:
    program, messages = by_hand(), Ailing()
    messages.late = late
    runtime = Runtime(program, messages=messages, deadline=0.04)
    outcome = await runtime.process(**ANN, text="hi")
    assert outcome.decision is not None
    assert outcome.decision.degraded
    cause = outcome.decision.context_failures[0]
    assert cause.startswith("history: MemoryUnavailableError")
    assert ("did not answer within" in cause) == late
    assert outcome.reply


async def test_hooks_of_a_repeated_message_are_let_go_and_of_a_waiting_one_asked_later(chat: Any) -> None:
    asked: list[str] = []

    async def facts(conversation_id: str, user_id: str, message: str) -> Any:
        asked.append(message)
        return [f"about {message}"]

    runtime = Runtime(chat.runtime.program, semantic_recall=facts)
    talk = type(chat)(runtime)
    for text in ("please cancel my order", "4471", "yes!"):
        await talk(text)
    await runtime.begin_action("c1")
    await talk("thanks")
    done = await runtime.finish_action("c1")
    (waited,) = done.drained
    assert waited.route.context is not None
    assert waited.route.context.explicit_context == ("about thanks",)
    assert asked[-1] == "thanks"
    assert len(asyncio.all_tasks()) == 1


@pytest.mark.parametrize("name", ["episodic_recall", "semantic_recall", "on_episode"])
def test_a_hook_that_cannot_be_called_is_refused(by_hand: Any, name: str) -> None:
    with pytest.raises(InputError, match=name):
        Runtime(by_hand(), **{name: "no function"})
