"""Dividing conversations into roles, with those that share their words kept together (D4)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from jazzmine_dspy.datasets._similar import delexicalise
from jazzmine_dspy.datasets.schema import LabelledConversation, Role
from jazzmine_dspy.datasets.split import assign_roles

_OWN_WORDS = 4
"""Words that a message of a longer conversation must have to tie it to another; everybody says "yes please"."""

_LARGEST = 0.02
"""Share of the conversations that are tied together at most: past it, dividing evenly comes first."""


def divide(
    conversations: Sequence[LabelledConversation],
    *,
    seed: int,
    fractions: Mapping[Role, float],
    fixed: Mapping[str, Role] | None = None,
) -> dict[str, Role]:
    """Give each conversation a role, as :func:`assign_roles` does, and the same role to those that share words.

    Conversations are tied where a message of their users has the same words in any order; digits, case,
    punctuation and repetition do not count. In conversations of several messages short ones tie nothing.
    Conversations with a fixed role keep it and are tied to nothing.

    Raises:
        DatasetError: a share is negative, the sum is not 1, or ``fixed`` names an unknown conversation or role.

    Example:
        >>> said = ["Where is order 12?", "where is order 345", "hello there", "a cake please"]
        >>> chats = [LabelledConversation(id=f"c{i}", turns=[{"role": "user", "text": text}])
        ...          for i, text in enumerate(said)]
        >>> roles = divide(chats, seed=1, fractions={"train": 0.5, "test": 0.5})
        >>> roles["c0"] == roles["c1"]
        True
    """
    fixed = fixed or {}
    groups = _tied([conversation for conversation in conversations if conversation.id not in fixed])
    groups += [[conversation] for conversation in conversations if conversation.id in fixed]
    roles = assign_roles([_merged(group) for group in groups], seed=seed, fractions=fractions, fixed=fixed)
    found = {conversation.id: roles[group[0].id] for group in groups for conversation in group}
    return {conversation.id: found[conversation.id] for conversation in conversations}


def _tied(conversations: Sequence[LabelledConversation]) -> list[list[LabelledConversation]]:
    speakers: dict[str, list[int]] = {}
    for number, conversation in enumerate(conversations):
        said = {_words(turn.text) for turn in conversation.turns if turn.role == "user"}
        for words in said:
            if len(conversation.turns) == 1 or len(words) >= _OWN_WORDS:
                speakers.setdefault(" ".join(words), []).append(number)
    largest = max(2, int(_LARGEST * len(conversations)))
    group_of = list(range(len(conversations)))
    members = {number: [number] for number in group_of}
    # What few say ties first: a phrase that many say would use up the room for the others.
    for _, numbers in sorted(speakers.items(), key=lambda item: (len(item[1]), item[0])):
        for number in numbers[1:]:
            one, other = sorted((group_of[numbers[0]], group_of[number]))
            if one != other and len(members[one]) + len(members[other]) <= largest:
                for moved in members[other]:
                    group_of[moved] = one
                members[one] += members.pop(other)
    return [[conversations[number] for number in sorted(group)] for group in members.values()]


def _words(text: str) -> tuple[str, ...]:
    return tuple(sorted(set(delexicalise(text).split())))


def _merged(group: Sequence[LabelledConversation]) -> LabelledConversation:
    """One conversation that stands for a group, with the labels of all."""
    if len(group) == 1:
        return group[0]
    turns = tuple(turn for conversation in group for turn in conversation.turns)
    return LabelledConversation(id=group[0].id, turns=turns)
