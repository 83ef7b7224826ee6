"""Roles of conversations: divided by conversation, stratified, seeded, locked by a hash; and turns that are alike."""

from __future__ import annotations

import json
import math
import random
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from jazzmine_dspy.datasets.schema import ROLES, SPLITS_FILE, LabelledConversation, Role
from jazzmine_dspy.models.base import sha256
from jazzmine_dspy.models.errors import DatasetError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

LIKENESS = 90.0
"""Likeness from which two texts are near-duplicates, in [0, 100]; 100 for the same words in any order."""

_BLOCK = 500
"""Texts that are compared with all others at a time, so that memory grows with their number alone."""


def delexicalise(text: str) -> str:
    """Lower case, each run of digits as ``#``, no punctuation; what is left of templates then looks alike.

    Example:
        >>> delexicalise("Where's order 4471?!")
        'wheres order #'
    """
    lowered = re.sub(r"\d+", "#", text.casefold())
    plain = " ".join(re.sub(r"[^\w#\s]", " ", re.sub(r"['\u2019`]", "", lowered)).split())
    return plain or " ".join(text.split())


def near_duplicates(texts: Sequence[str]) -> list[list[int]]:
    """For each delexicalised text the numbers of the others that are nearly the same, the most alike first.

    Likeness is by the edit distance of the words in sorted order.

    Example:
        >>> near_duplicates(["where is order #", "is order # where", "a cake please"])
        [[1], [0], []]
    """
    found = []
    for number, row in enumerate(_likeness(texts, texts, LIKENESS)):
        alike = sorted(row.nonzero()[0].tolist(), key=lambda other: (-row[other], other))
        found.append([other for other in alike if other != number])
    return found


def nearest(queries: Sequence[str], texts: Sequence[str]) -> list[int]:
    """For each query the number of the text that is most alike."""
    lowered = [text.casefold() for text in texts]
    return [int(row.argmax()) for row in _likeness([query.casefold() for query in queries], lowered)]


def _likeness(
    queries: Sequence[str], texts: Sequence[str], least: float = 0.0
) -> Iterator[NDArray[np.float32]]:
    """The likeness of each query to all texts, in [0, 100]; 0 below ``least``."""
    from rapidfuzz import fuzz, process

    queries, texts = ([" ".join(sorted(text.split())) for text in each] for each in (queries, texts))
    for start in range(0, len(queries), _BLOCK):
        yield from process.cdist(
            queries[start : start + _BLOCK], texts, scorer=fuzz.ratio, score_cutoff=least
        )


_OWN_WORDS = 4
"""Words that a message of a longer conversation must have to tie it to another; everybody says "yes please"."""

_LARGEST = 0.02
"""Share of the conversations that are tied together at most: past it, dividing evenly comes first."""

FRACTIONS: dict[Role, float] = {"train": 0.5, "dev_a": 0.15, "dev_b": 0.15, "test": 0.2}
"""Shares of the conversations, where none are given and they are many or very few."""

_TEST = 10
"""Conversations of the test part, where no shares are given: fewer give no interval."""

_DIVISIBLE = 30
"""Conversations from which as many lie in the test part."""


def default_fractions(conversations: int) -> dict[Role, float]:
    """Shares of the roles where none are given: from 30 conversations on, ten or more are the test part.

    Example:
        >>> round(default_fractions(40)["test"] * 40), round(default_fractions(200)["test"] * 200)
        (10, 40)
    """
    test = max(FRACTIONS["test"], _TEST / conversations) if conversations >= _DIVISIBLE else FRACTIONS["test"]
    return {**FRACTIONS, "train": FRACTIONS["train"] - (test - FRACTIONS["test"]), "test": test}


def assign_roles(
    conversations: Sequence[LabelledConversation],
    *,
    seed: int = 0,
    fractions: Mapping[Role, float] | None = None,
    fixed: Mapping[str, Role] | None = None,
) -> dict[str, Role]:
    """Give each conversation a role, so that each role holds its share of every flow and command kind.

    The rarest flow or kind is dealt out first, each time to the role that lacks it most (iterative
    stratification). A flow of two conversations or more has one of them in train, if there is a train. The order of
    the conversations does not matter.

    Args:
        fractions: Shares of the conversations that are not fixed; they add up to 1. None takes half for train and a
            fifth for test, and from 30 conversations on at least ten for test.
        fixed: Roles decided already, by conversation id; all conversations may be named.

    Returns:
        Roles by conversation id, in the order of the conversations.

    Raises:
        DatasetError: a share is negative, the sum is not 1, or ``fixed`` names an unknown conversation
            or role.

    Example:
        >>> turns = [{"role": "user", "text": "hi"}]
        >>> chats = [LabelledConversation(id=f"c{i}", turns=turns) for i in range(20)]
        >>> Counter(assign_roles(chats, seed=1).values())
        Counter({'train': 10, 'test': 4, 'dev_a': 3, 'dev_b': 3})
    """
    fixed = dict(fixed or {})
    free = sorted((c for c in conversations if c.id not in fixed), key=lambda conversation: conversation.id)
    least = _TEST if fractions is None and len(free) >= _DIVISIBLE else 1
    fractions = default_fractions(len(free)) if fractions is None else fractions
    if unknown := [role for role in fractions if role not in ROLES]:
        raise DatasetError(
            f"Unknown role {unknown[0]!r}", where="fractions", remedy=f"Use: {', '.join(ROLES)}."
        )
    if min(fractions.values(), default=0.0) < 0 or not math.isclose(
        sum(fractions.values()), 1.0, abs_tol=1e-6
    ):
        raise DatasetError(
            f"The shares of the roles are {', '.join(f'{share:g}' for share in fractions.values())}",
            where="fractions",
            remedy="Give shares from 0 to 1 that add up to 1.",
        )
    _check_fixed(fixed, {conversation.id for conversation in conversations})
    random.Random(seed).shuffle(free)
    features = {conversation.id: strata(conversation) for conversation in free}
    shares = {role: share for role, share in fractions.items() if share > 0}
    dealt = _deal(features, shares, {role: least if role == "test" else 1 for role in shares})
    return {c.id: fixed[c.id] if c.id in fixed else dealt[c.id] for c in conversations}


def divide(
    conversations: Sequence[LabelledConversation],
    *,
    seed: int,
    fractions: Mapping[Role, float] | None = None,
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
        texts = [delexicalise(turn.text) for turn in conversation.turns if turn.role == "user"]
        for words in {tuple(sorted(set(text.split()))) for text in texts}:
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


def _merged(group: Sequence[LabelledConversation]) -> LabelledConversation:
    """One conversation that stands for a group, with the labels of all."""
    return LabelledConversation(
        id=group[0].id, turns=tuple(turn for conversation in group for turn in conversation.turns)
    )


def strata(conversation: LabelledConversation) -> frozenset[str]:
    """What a conversation's labels hold, as ``flow:NAME`` and ``command:KIND``."""
    labels = [turn.labels for turn in conversation.turns if turn.labels is not None]
    flows = {f"flow:{name}" for each in labels for name in each.flows or ()}
    return frozenset(
        flows | {f"command:{command.type}" for each in labels for command in each.commands or ()}
    )


def _check_fixed(fixed: Mapping[str, Role], known: set[str]) -> None:
    for name, role in fixed.items():
        if name not in known:
            raise DatasetError(
                f"Unknown conversation {name!r}", where="fixed roles", remedy="Correct the id."
            )
        if role not in ROLES:
            raise DatasetError(
                f"Unknown role {role!r}",
                where=f"fixed roles, {name}",
                remedy=f"Use one of: {', '.join(ROLES)}.",
            )


def _deal(
    features: Mapping[str, frozenset[str]], shares: Mapping[Role, float], least: Mapping[Role, int]
) -> dict[str, Role]:
    size = {role: share * len(features) for role, share in shares.items()}
    totals = Counter(feature for held in features.values() for feature in held)
    want = {role: {feature: share * n for feature, n in totals.items()} for role, share in shares.items()}
    left = dict(features)
    dealt: dict[str, Role] = {}

    def give(name: str, feature: str | None) -> None:
        role = max(size, key=lambda r: (want[r][feature] if feature else 0.0, size[r]))
        dealt[name] = role
        size[role] -= 1
        for held in left.pop(name):
            want[role][held] -= 1

    while remaining := Counter(feature for held in left.values() for feature in held):
        rarest = min(remaining, key=lambda feature: (remaining[feature], feature))
        for name in [name for name, held in left.items() if rarest in held]:
            give(name, rarest)
    for name in list(left):
        give(name, None)
    _fill(dealt, least)
    _teach_each_flow(dealt, features, least)
    return dealt


def _fill(dealt: dict[str, Role], least: Mapping[Role, int]) -> None:
    """Each role that was asked for has its least number, as long as another has more conversations than its own."""
    for role, number in least.items():
        while (counts := Counter(dealt.values()))[role] < number:
            largest, count = max(counts.items(), key=lambda item: item[1], default=(role, 0))
            if count <= least.get(largest, 1):
                break
            dealt[next(name for name, held in dealt.items() if held == largest)] = role


def _teach_each_flow(
    dealt: dict[str, Role], features: Mapping[str, frozenset[str]], least: Mapping[Role, int]
) -> None:
    """Every flow of two conversations or more has one in train, where there is a train: nobody learns it elsewhere.

    The one that moves is from the role that has most of the flow; the same number goes back where that takes no flow
    from train, so that the shares stay.
    """
    if "train" not in dealt.values():
        return
    count = Counter(feature for held in features.values() for feature in held if feature.startswith("flow:"))

    def taught() -> Counter[str]:
        return Counter(f for name, role in dealt.items() if role == "train" for f in features[name])

    for flow in sorted(feature for feature, number in count.items() if number > 1):
        if taught()[flow]:
            continue
        having = [name for name in dealt if flow in features[name]]
        held, sizes = Counter(dealt[name] for name in having), Counter(dealt.values())
        moved = max(having, key=lambda name: (sizes[dealt[name]] > least[dealt[name]], held[dealt[name]]))
        role, dealt[moved] = dealt[moved], "train"
        known = taught()
        spare = (
            name for name in dealt if name != moved and dealt[name] == "train"
            and all(known[f] > 1 for f in features[name] if count[f] > 1)
        )  # fmt: skip
        if (back := next(spare, None)) is None and role not in dealt.values():
            others = Counter(r for r in dealt.values() if r != "train").most_common(1)
            back = next(
                (name for name in dealt if others and others[0][1] > 1 and dealt[name] == others[0][0]), None
            )
        if back is not None:
            dealt[back] = role


def group(roles: Mapping[str, Role]) -> dict[Role, list[str]]:
    """Ids by role, all four roles, ids sorted: the form that is stored and hashed."""
    return {role: sorted(name for name, held in roles.items() if held == role) for role in ROLES}


def roles_hash(roles: Mapping[Role, Iterable[str]]) -> str:
    """SHA-256 over the ids of each role; the order of ids does not matter.

    Example:
        >>> roles_hash({"train": ["b", "a"]}) == roles_hash({"train": ["a", "b"], "test": []})
        True
    """
    return sha256({role: sorted(roles.get(role, ())) for role in ROLES})


def write_splits(
    folder: str | Path, roles: Mapping[str, Role], *, seed: int = 0, replace: bool = False
) -> Path:
    """Write ``splits.json`` with its lock.

    Args:
        folder: The dataset.
        roles: Roles by conversation id, from :func:`assign_roles` or decided by hand.
        seed: Kept in the file, for whoever repeats the split.
        replace: Also write where other splits exist already.

    Returns:
        The file written.

    Raises:
        DatasetError: other splits exist and ``replace`` is False, a role is unknown, or the file cannot be
            written.
    """
    path = Path(folder) / SPLITS_FILE
    _check_fixed(roles, set(roles))
    grouped = group(roles)
    text = json.dumps(
        {"seed": seed, "roles": grouped, "sha256": roles_hash(grouped)}, indent=1, ensure_ascii=False
    )
    try:
        if not replace and path.exists() and path.read_text("utf-8") != text + "\n":
            raise DatasetError(
                "The splits are locked: other roles are in force",
                where=str(path),
                remedy="Keep them, or say --replace and do not compare with earlier scores.",
            )
        path.write_text(text + "\n", "utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise DatasetError(
            f"Cannot write the splits: {error}",
            where=str(path),
            remedy="Name a dataset folder that can be written.",
        ) from error
    return path
