"""Episodes that a change of topic ends are handed on, and their summaries are seen by later turns."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from jazzmine_dspy import Runtime
from jazzmine_dspy.memory.errors import NotStoredError
from jazzmine_dspy.memory.messages import InMemoryMessageStore, MessageStore, SqlMessageStore
from jazzmine_dspy.models.errors import InputError, MemoryUnavailableError
from jazzmine_dspy.models.messages import Conversation
from jazzmine_dspy.runtime import Episode

ANN: dict[str, Any] = {"conversation_id": "c1", "user_id": "ann"}


@pytest.fixture
def shifting(by_hand: Any, decision: Callable[..., Any]) -> Any:
    """A program that takes each message with "now" in it for another topic."""
    program = by_hand()
    for topic in range(10):
        text = f"now {topic}"
        program.table[text] = decision("chitchat", is_continuation=False)
    return program


async def say(runtime: Runtime, *texts: str) -> Any:
    for text in texts:
        outcome = await runtime.process(**ANN, text=text)
        await runtime.record_reply("c1", f"re: {text}")
    return outcome


@pytest.mark.row("E3")
async def test_an_episode_is_handed_on_with_its_messages_when_it_ends(shifting: Any) -> None:
    ended: list[Episode] = []

    async def note(episode: Episode) -> None:
        ended.append(episode)

    runtime = Runtime(shifting, on_episode=note)
    # The first message begins a topic, and ends none that has messages.
    await say(runtime, "now 1", "more", "now 2", "now 3")
    await runtime.settled()
    assert [(e.conversation_id, e.user_id, e.episode_id) for e in ended] == [
        ("c1", "ann", 1),
        ("c1", "ann", 2),
    ]
    assert [[message.original_content for message in episode.messages] for episode in ended] == [
        ["now 1", "re: now 1", "more", "re: more"],
        ["now 2", "re: now 2"],
    ]


@pytest.mark.row("E3")
async def test_a_long_episode_is_handed_on_whole(shifting: Any) -> None:
    ended: list[Episode] = []

    async def note(episode: Episode) -> None:
        ended.append(episode)

    runtime = Runtime(shifting)
    runtime.on_episode = note
    await say(runtime, "hi", "now 1", *(f"text {number}" for number in range(60)), "now 2")
    await runtime.settled()
    assert [len(episode.messages) for episode in ended] == [2, 122]


@pytest.mark.row("E3")
async def test_a_turn_does_not_wait_for_the_hook(shifting: Any) -> None:
    free, ended = asyncio.Event(), []

    async def slow(episode: Episode) -> None:
        await free.wait()
        ended.append(episode.episode_id)

    runtime = Runtime(shifting, on_episode=slow)
    outcome = await say(runtime, "now 1", "now 2", "more")
    assert (outcome.episode_id, ended) == (2, [])
    free.set()
    await runtime.settled()
    assert ended == [1]


@pytest.mark.row("E3")
async def test_a_hook_that_fails_is_logged_and_degrades_nothing(
    shifting: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async def fails(episode: Episode) -> None:
        raise RuntimeError("sk-secret")

    runtime = Runtime(shifting, on_episode=fails)
    outcome = await say(runtime, "now 1", "now 2")
    await runtime.settled()
    assert outcome.new_episode
    assert not outcome.decision.degraded
    assert "Episode 1 of conversation 'c1' was not passed on: RuntimeError" in caplog.text
    assert "sk-secret" not in caplog.text
    assert not (await say(runtime, "more")).decision.degraded


@pytest.mark.row("E3")
async def test_a_summary_that_the_hook_returns_is_seen_by_later_turns(shifting: Any) -> None:
    async def sum_up(episode: Episode) -> str:
        return f"talked about {episode.messages[0].original_content}\nand more"

    runtime = Runtime(shifting, on_episode=sum_up)
    await say(runtime, "now 1", "now 2")
    await runtime.settled()
    outcome = await say(runtime, "that one")
    assert shifting.turns[-1].episode_summaries == ("talked about now 1 and more",)
    cache = outcome.state.current_turn
    assert cache.retrieved_same_conv_episodes == [
        {"episode_id": 1, "short_summary": "talked about now 1 and more"}
    ]


@pytest.fixture(params=["in process", "sqlite"])
async def messages(request: pytest.FixtureRequest, tmp_path: Any) -> Any:
    store: MessageStore = InMemoryMessageStore()
    if request.param == "sqlite":
        store = SqlMessageStore(f"sqlite:///{tmp_path}/m.db")
    yield store
    await store.close()


@pytest.mark.row("E3")
async def test_summaries_are_kept_by_the_store_in_the_order_of_the_episodes(
    shifting: Any, messages: MessageStore
) -> None:
    runtime = Runtime(shifting, messages=messages)
    await say(runtime, "hi", "now 1", "now 2")
    await messages.update_conversation(
        Conversation(id="c1", user_id="ann", agent_id="", title="Lamps", created_at=0, last_updated_at=0)
    )
    for episode_id, summary in ((2, "under way"), (1, "a draft"), (0, "greeted"), (1, "wanted a lamp")):
        await runtime.record_episode_summary("c1", episode_id, summary)
    # Another worker, whose working memory has lost the conversation.
    later = Runtime(shifting, messages=messages)
    await later.process(**ANN, text="that one", episode_summaries=["from elsewhere"])
    assert shifting.turns[-1].episode_summaries == ("greeted", "wanted a lamp", "from elsewhere")
    kept = await messages.get_conversation("c1")
    assert kept is not None
    assert (kept.title, kept.episode_summaries[2]) == ("Lamps", "under way")
    await messages.update_conversation(kept.model_copy(update={"title": "Lights", "episode_summaries": {}}))
    assert (await messages.get_conversation("c1")).episode_summaries == kept.episode_summaries  # type: ignore[union-attr]


@pytest.mark.row("E3")
async def test_of_many_summaries_the_newest_stay(shifting: Any) -> None:
    runtime = Runtime(shifting)
    await say(runtime, "hi")
    for episode_id in range(60):
        await runtime.record_episode_summary("c1", episode_id, f"topic {episode_id}")
    kept = await runtime.messages.get_conversation("c1")
    assert kept is not None
    assert sorted(kept.episode_summaries) == list(range(10, 60))


@pytest.mark.parametrize(
    ("episode_id", "summary"), [(-1, "x"), (True, "x"), ("1", "x"), (1, ""), (1, "x" * 1001)]
)
async def test_a_summary_that_cannot_be_used_is_refused(shifting: Any, episode_id: Any, summary: str) -> None:
    runtime = Runtime(shifting)
    await say(runtime, "hi")
    with pytest.raises(InputError):
        await runtime.record_episode_summary("c1", episode_id, summary)
    with pytest.raises(NotStoredError):
        await runtime.record_episode_summary("c2", 1, "x")


@pytest.mark.row("E3")
async def test_an_episode_without_a_summary_is_seen_by_its_first_wish(
    shifting: Any, messages: MessageStore, decision: Callable[..., Any]
) -> None:
    shifting.table["now 1"] = decision("chitchat", text="Where is order 4471?", is_continuation=False)
    for text in ("hello", "I want a refund for order 5519. It leaks."):
        shifting.table[text] = decision("chitchat", text=text)
    runtime = Runtime(shifting, messages=messages)
    await say(
        runtime, "hello", "I want a refund for order 5519. It leaks.", "now 1", "more", "now 2", "that one"
    )
    assert shifting.turns[-1].episode_summaries == (
        "I want a refund for order 5519.",
        "Where is order 4471?",
    )
    # A summary that is recorded stands in the place of the line.
    await runtime.record_episode_summary("c1", 1, "asked for the time")
    await say(runtime, "and?")
    assert shifting.turns[-1].episode_summaries == ("I want a refund for order 5519.", "asked for the time")
    assert [message.text for message in shifting.turns[-1].history if not message.is_continuation] == [
        "now 1",
        "now 2",
    ]


@pytest.mark.row("E3", "U3")
async def test_as_many_turns_are_read_as_the_prompts_of_the_program_show(shifting: Any) -> None:
    program = shifting.with_policy(shifting.policy.model_copy(update={"history_window": 50}))
    program.turns, program.table, program.default, program.running = [], {}, shifting.default, 0
    await say(Runtime(program), *(f"text {number}" for number in range(60)))
    users = [message.text for message in program.turns[-1].history if message.role == "user"]
    assert users == [f"text {number}" for number in range(9, 59)]


class Forgetful(InMemoryMessageStore):
    """Does not give conversations."""

    async def get_conversation(self, conversation_id: str) -> Any:
        raise MemoryUnavailableError("The messages do not answer")


@pytest.mark.row("U15")
async def test_summaries_that_cannot_be_read_degrade_the_decision(shifting: Any) -> None:
    outcome = await say(Runtime(shifting, messages=Forgetful()), "now 1", "more")
    assert outcome.decision.context_failures[0].startswith("episode_summaries: MemoryUnavailableError")
