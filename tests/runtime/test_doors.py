"""What comes in: texts are cleaned or refused, conversations are noted, history is as long as a turn sees it."""

from __future__ import annotations

from typing import Any

import pytest

from jazzmine_dspy.memory.errors import ConflictError
from jazzmine_dspy.memory.messages import InMemoryMessageStore, SqlMessageStore
from jazzmine_dspy.memory.working import InMemoryWorkingMemoryStore
from jazzmine_dspy.models import Enhancement, Message, Selection, TurnDecision
from jazzmine_dspy.models.errors import InputError
from jazzmine_dspy.runtime import Runtime


@pytest.mark.row("P2", "U3")
async def test_the_history_reaches_back_over_eight_turns_of_the_user(make_chat: Any, by_hand: Any) -> None:
    program, messages = by_hand(), InMemoryMessageStore()
    chat = make_chat(Runtime(program, messages=messages))
    for number in range(12):
        await chat(f"text {number}", message_id=f"m{number}")
    await messages.flag_message("m9")
    await chat("last")
    texts = [message.text for message in program.turns[-1].history if message.role == "user"]
    assert texts == [f"text {number}" for number in (3, 4, 5, 6, 7, 8, 10, 11)]
    assert program.turns[-1].history[-1].role == "assistant"
    assert program.turns[-1].history_summaries[:2] == (
        "user: text 0",
        "assistant: I see. What can I do for you?",
    )
    assert "user: text 2" in program.turns[-1].history_summaries


@pytest.mark.row("P2", "U3")
async def test_few_turns_with_many_replies_are_read_in_full(make_chat: Any, by_hand: Any) -> None:
    program, messages = by_hand(), InMemoryMessageStore()
    chat = make_chat(Runtime(program, messages=messages))
    system = Message(
        id="s", conversation_id="c1", user_id="u1", role="system", original_content="Be brief.", timestamp=0
    )
    await messages.store_message(system)
    for number in range(5):
        await chat(f"text {number}")
        for part in range(6):
            await chat.runtime.record_reply("c1", f"part {part} of {number}")
    await chat("last")
    texts = [message.text for message in program.turns[-1].history]
    assert texts[:2] == ["Be brief.", "text 0"]
    assert len(texts) == 1 + 5 * 8


@pytest.mark.row("P2")
async def test_a_message_of_the_system_is_seen_however_long_the_conversation(
    make_chat: Any, by_hand: Any
) -> None:
    program, messages = by_hand(), InMemoryMessageStore()
    chat = make_chat(Runtime(program, messages=messages))
    system = Message(
        id="s", conversation_id="c1", user_id="u1", role="system", original_content="Be brief.", timestamp=0
    )
    await messages.store_message(system)
    for number in range(40):
        await chat(f"text {number}")
    assert program.turns[-1].history[0].text == "Be brief."


@pytest.mark.row("G5")
async def test_a_text_is_understood_and_stored_clean(make_chat: Any, by_hand: Any) -> None:
    program, messages = by_hand(), InMemoryMessageStore()
    chat = make_chat(Runtime(program, messages=messages))
    outcome = await chat("Cafe\u0301\r\nat\x00 8\u202e", message_id="m1", explicit_context=["a\x07b", "  "])
    turn = program.turns[-1]
    assert (turn.text, turn.explicit_context) == ("Caf\u00e9\nat 8", ("ab",))
    stored = await messages.get_message("m1")
    assert stored is not None
    assert (stored.original_content, stored.explicit_context) == ("Caf\u00e9\nat 8", ["ab"])
    again = await chat("Cafe\u0301\r\nat\x00 8\u202e", message_id="m1")
    assert again.repeated
    assert again.reply == outcome.reply


@pytest.mark.row("G5")
@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"text": "\ud800"}, "half of a surrogate pair.*character 1"),
        ({"text": "\x00\x07"}, "text is empty"),
        ({"text": "hi", "explicit_context": ["x"] * 51}, r"51 texts.*explicit_context"),
        ({"text": "hi", "episode_summaries": ["ok", "\udfff"]}, r"episode_summaries\[1\]"),
        ({"text": "hi", "explicit_context": "abc"}, "explicit_context must be a list, not str"),
        ({"text": "hi", "episode_summaries": b"abc"}, "episode_summaries must be a list, not bytes"),
        ({"text": "hi", "explicit_context": 5}, "explicit_context must be a list, not int"),
        ({"text": "hi", "message_id": ""}, "message_id cannot be used"),
    ],
)
async def test_what_no_turn_can_be_made_of_is_refused_and_leaves_nothing(
    chat: Any, given: dict[str, Any], told: str
) -> None:
    text = given.pop("text")
    with pytest.raises(InputError, match=told):
        await chat(text, **given)
    assert await chat.runtime.working_memory.get("c1") is None
    assert await chat.runtime.messages.get_conversation("c1") is None


@pytest.mark.row("G5")
async def test_no_id_is_empty(chat: Any) -> None:
    runtime = chat.runtime
    with pytest.raises(InputError, match="user_id cannot be used"):
        await runtime.process(conversation_id="c1", user_id="", text="hello")
    assert await runtime.working_memory.get("c1") is None
    await chat("hello")
    with pytest.raises(InputError, match="message_id cannot be used"):
        await runtime.record_reply("c1", "hi", message_id="")


@pytest.mark.row("G2")
@pytest.mark.parametrize(
    "time", [1_700_000_000_000.0, float("nan"), float("inf"), -float("inf"), None, "now"]
)
async def test_a_clock_that_gives_no_unix_time_is_named(make_chat: Any, by_hand: Any, time: Any) -> None:
    times = [time]
    chat = make_chat(Runtime(by_hand(), clock=lambda: times[0]))
    with pytest.raises(InputError, match=r"clock gives .*not a Unix time in seconds.*clock.*time\.time"):
        await chat("hello")
    assert await chat.runtime.working_memory.get("c1") is None
    assert await chat.runtime.messages.get_conversation("c1") is None
    times[0] = 1_700_000_000.0
    assert not (await chat("hello", message_id="m1")).repeated


@pytest.mark.row("G5")
async def test_a_reply_is_cleaned_and_bounded(chat: Any) -> None:
    await chat("hello")
    reply = await chat.runtime.record_reply("c1", "All\x00 done.")
    assert reply.original_content == "All done."
    with pytest.raises(InputError, match="reply"):
        await chat.runtime.record_reply("c1", "x" * 100_001)


@pytest.mark.row("M6")
async def test_a_conversation_is_noted_and_is_its_users_alone(chat: Any) -> None:
    await chat("hello")
    noted = await chat.runtime.messages.get_conversation("c1")
    assert noted is not None
    assert (noted.id, noted.user_id) == ("c1", "u1")
    with pytest.raises(ConflictError, match="c1"):
        await chat.runtime.process(conversation_id="c1", user_id="somebody else", text="hello")


@pytest.mark.row("M2")
async def test_the_outcome_says_where_a_topic_begins(make_chat: Any, by_hand: Any) -> None:
    program = by_hand()
    for text, continues in (("a", True), ("b", False), ("c", True)):
        found = Enhancement(enhanced_query=text, is_continuation=continues)
        program.table[text] = TurnDecision(enhancement=found, selection=Selection())
    chat = make_chat(Runtime(program))
    outcomes = [await chat(text, message_id=text) for text in "abc"]
    assert [(one.episode_id, one.new_episode) for one in outcomes] == [(0, False), (1, True), (1, False)]
    again = await chat("b", message_id="b")
    assert (again.repeated, again.episode_id, again.new_episode) == (True, 1, False)


async def test_a_whole_conversation_lives_in_a_database_and_goes_on(
    make_chat: Any, by_hand: Any, tmp_path: Any
) -> None:
    url, memory = f"sqlite:///{tmp_path}/talk.db", InMemoryWorkingMemoryStore()
    first = SqlMessageStore(url)
    chat = make_chat(Runtime(by_hand(), messages=first, working_memory=memory))
    await chat("one", message_id="m1")
    await first.close()
    second = SqlMessageStore(url)
    program = by_hand()
    chat = make_chat(Runtime(program, messages=second, working_memory=memory))
    await chat("two", message_id="m2")
    assert [message.text for message in program.turns[-1].history if message.role == "user"] == ["one"]
    assert (await chat("one", message_id="m1")).repeated
    trace = (await second.get_turn_traces_by_conversation_id("c1"))[0]
    assert (trace.user_id, trace.turn_number) == ("u1", 1)
    await second.close()


@pytest.mark.row("M6")
async def test_a_message_that_was_deleted_does_not_come_back_with_the_next_turn(chat: Any) -> None:
    messages, memory = chat.runtime.messages, chat.runtime.working_memory
    await chat("hello", message_id="m1")
    state = await memory.get("c1")
    assert state is not None
    assert state.outbox == []
    assert await messages.delete_message("m1")
    await chat("hello again", message_id="m2")
    assert await messages.get_message("m1") is None
    assert await messages.get_message("m2") is not None
