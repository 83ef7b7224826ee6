"""P2, U3: what a turn remembers letter for letter, and the lines that stand for the rest."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jazzmine_dspy.models import HistoryMessage, Message, MessageRole
from jazzmine_dspy.models.history import (
    MAX_SUMMARIES,
    MAX_SUMMARY,
    episode_line,
    episode_lines,
    prune,
    split_episode,
)

ROLES = ("user", "assistant", "colleague_assistant", "system")


def said(*roles: Any, text: str = "{role} {n}") -> list[HistoryMessage]:
    return [HistoryMessage(role=role, text=text.format(role=role, n=n)) for n, role in enumerate(roles)]


def stored(role: Any, text: str, **fields: Any) -> Message:
    return Message(
        id=text or "m",
        conversation_id="c",
        user_id="u",
        role=role,
        original_content=text,
        timestamp=1,
        **fields,
    )


def line(text: str, role: Any = "user") -> str:
    """The summary of a text that is no longer kept."""
    (found,) = prune(said(role, text=text.replace("{", "{{")), user_turns=0, at_least=0)[1]
    return found


@pytest.mark.row("P2", "U3")
def test_eight_turns_of_the_user_are_kept_with_the_replies_between_them() -> None:
    messages = said(*("user", "assistant", "colleague_assistant") * 12)
    kept, summaries = prune(messages)
    assert kept == tuple(messages[12:])
    assert sum(message.role == "user" for message in kept) == 8
    assert summaries == tuple(f"{message.role.value}: {message.text}" for message in messages[:12])


@pytest.mark.row("P2")
def test_ten_messages_are_kept_where_eight_turns_are_fewer() -> None:
    messages = said(*["user"] * 15)
    assert prune(messages)[0] == tuple(messages[5:])
    assert prune(messages, user_turns=3, at_least=0)[0] == tuple(messages[12:])
    assert prune(messages, user_turns=0, at_least=0)[0] == ()
    # A user who has said less than that is remembered whole.
    talk = said("user", *["assistant"] * 30)
    assert prune(talk) == (tuple(talk), ())
    assert prune([]) == ((), ())


@pytest.mark.row("P2")
def test_messages_of_the_system_stay_in_their_place() -> None:
    messages = said("system", *["user"] * 4, "system", *["user"] * 12)
    kept, summaries = prune(messages)
    assert [message.text for message in kept[:3]] == ["system 0", "system 5", "user 8"]
    assert summaries == ("user: user 1", "user: user 2", "user: user 3", "user: user 4", "user: user 6",
                         "user: user 7")  # fmt: skip


@pytest.mark.row("P2", "E2")
def test_stored_messages_are_pruned_alike_and_flagged_ones_are_nowhere() -> None:
    messages = [stored("user", f"number {n}", is_flagged=n in (1, 9)) for n in range(14)]
    kept, summaries = prune(messages)
    assert [message.original_content for message in kept] == [
        f"number {n}" for n in (2, 3, 4, 5, 6, 7, 8, 10, 11, 12, 13)
    ][1:]
    assert summaries == ("user: number 0", "user: number 2")
    assert all(isinstance(message, Message) for message in kept)


@pytest.mark.row("P2")
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Where is my parcel? It was due on Monday.", "user: Where is my parcel?"),
        ("Hi. I want a refund for my order. Now!", "user: Hi. I want a refund for my order."),
        ("It cost 3.50 euros at the shop", "user: It cost 3.50 euros at the shop"),
        ('She said "give me a refund." Then she left.', 'user: She said "give me a refund."'),
        ("two\n\nlines and\tspaces", "user: two lines and spaces"),
        ("我想取消我昨天下的那个订单，谢谢你们。还有一个问题。", "user: 我想取消我昨天下的那个订单，谢谢你们。"),  # noqa: RUF001
        ("x" * 113, "user: " + "x" * 113),
        ("x" * 200, "user: " + "x" * 113 + "…"),
        ("word " * 60, "user: " + "word " * 21 + "word…"),
        ("a " * 56 + "b and more", "user: " + "a " * 56 + "b…"),
        ("y " + "x" * 200, "user: y…"),
        ("y" * 111 + "👩\u200d🚀" * 9, "user: " + "y" * 111 + "…"),
        ("y" * 112 + "e\u0301" * 9, "user: " + "y" * 112 + "…"),
    ],
)  # fmt: skip
def test_a_line_is_the_first_sentence_cut_between_words(text: str, expected: str) -> None:
    assert line(text) == expected
    assert len(expected) <= MAX_SUMMARY


@pytest.mark.row("P2")
def test_of_many_lines_the_newest_stay_and_the_rest_is_counted() -> None:
    _, summaries = prune(said(*["user"] * 57))
    assert summaries[0] == "(27 earlier messages are left out)"
    assert summaries[1:] == tuple(f"user: user {n}" for n in range(27, 47))
    assert len(prune(said(*["user"] * 30))[1]) == MAX_SUMMARIES
    empty = [HistoryMessage(role=MessageRole.ASSISTANT, text=" \n"), *said(*["user"] * 10)]
    assert prune(empty)[1] == ()


TALKS = st.lists(
    st.builds(HistoryMessage, role=st.sampled_from(ROLES), text=st.text(max_size=300)), max_size=60
)


@pytest.mark.row("P2", "U3")
@given(TALKS, st.integers(0, 12), st.integers(0, 20))
def test_nothing_gets_lost_and_enough_is_kept(talk: list[Any], user_turns: int, at_least: int) -> None:
    kept, summaries = prune(talk, user_turns=user_turns, at_least=at_least)
    system = [message for message in talk if message.role == "system"]
    newest = talk[len(talk) - at_least :] if at_least < len(talk) else talk
    assert [message for message in kept if message.role == "system"] == system
    assert list(kept[len(kept) - len(newest) :]) == newest
    users = [message for message in talk if message.role == "user"]
    assert sum(message.role == "user" for message in kept) >= min(user_turns, len(users))
    # In order, and every message that is not kept has its line, is counted, or is empty.
    rest = iter(talk)
    assert all(any(message is other for other in rest) for message in kept)
    counted = int(summaries[0][1:].split()[0]) if summaries and summaries[0].startswith("(") else 0
    lines = len(summaries) - bool(counted)
    told = [message for message in talk if message.text.split()]
    held = [message for message in kept if message.text.split()]
    assert lines + counted == len(told) - len(held)
    assert lines <= MAX_SUMMARIES
    assert all(len(one) <= MAX_SUMMARY and len(one.splitlines()) <= 1 for one in summaries)
    assert prune(kept, user_turns=user_turns, at_least=at_least)[0] == kept


@pytest.mark.row("E3")
@given(st.lists(st.tuples(st.sampled_from(ROLES), st.booleans()), max_size=30), st.integers(1, 12))
def test_a_prompt_shows_one_episode_and_no_message_twice(talk: list[tuple[Any, bool]], window: int) -> None:
    history = [
        HistoryMessage(role=role, text=f"text {number}", is_continuation=same)
        for number, (role, same) in enumerate(talk)
    ]
    shown, before = split_episode(history, window)
    assert [each for each in history if each in shown or each in before] == history
    assert {each.role for each in shown if each in before} <= {MessageRole.SYSTEM}
    users = [each for each in shown if each.role is MessageRole.USER]
    assert len(users) <= window
    assert all(each.is_continuation for each in users[1:])


@pytest.mark.row("E3")
def test_an_episode_is_summed_up_by_its_first_wish() -> None:
    wish = HistoryMessage(role="user", text="do that again for 7", enhanced="Refund order 7 too. Now.")
    assert episode_line([*said("user", "assistant", text="hi"), wish]) == "Refund order 7 too."
    assert episode_line(said("user", text="hi")) == "hi"
    assert episode_line(said("assistant", text="Shall I go on with it?")) == ""
    assert len(episode_line(said("user", text="word " * 100))) <= MAX_SUMMARY
    kept = HistoryMessage(role="user", text="where is my parcel now", is_continuation=False)
    # The current episode has no line, nor one whose messages are the assistant's alone.
    assert episode_lines([wish, kept, kept, wish]) == ("Refund order 7 too.", "where is my parcel now")
    assert episode_lines([*said("assistant"), kept]) == ()
    assert episode_lines([]) == ()
