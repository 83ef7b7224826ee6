"""Whole conversations of a labelled dataset, held with the program's own state."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from dataclasses import dataclass
from typing import Any

from jazzmine_dspy.datasets import Dataset
from jazzmine_dspy.datasets.replay import Replay
from jazzmine_dspy.datasets.schema import LabelledConversation, Role, StateBefore
from jazzmine_dspy.eval.intervals import Metric
from jazzmine_dspy.eval.suite.driver import Progress, run_suite
from jazzmine_dspy.eval.suite.model import Expect, Suite, SuiteConversation, SuiteTurn
from jazzmine_dspy.eval.suite.result import SuiteResult, SuiteTurnResult
from jazzmine_dspy.models.errors import InputError
from jazzmine_dspy.program.turn import TurnProgram

_NO_DAY = dt.date(2026, 1, 1)
"""Day of conversations that name none."""


@dataclass(frozen=True)
class Replayed:
    """What came of a replay.

    Attributes:
        own: The conversations with the program's own state: a turn suffers from what went wrong before it.
        apart: The same turns, each from the state that the labels lead to.
        left_out: Conversations, or turns to their end, that cannot be replayed, and why.
    """

    own: SuiteResult
    apart: SuiteResult
    left_out: tuple[str, ...]

    @property
    def first_errors(self) -> dict[str, int]:
        """What was wrong first, over conversations: ``flow``, ``slots``, ``paused``, ``status`` or ``error``."""
        found = Counter(turn.wrong[0].field.partition(".")[0] for turn in self._firsts())
        return dict(found.most_common())

    @property
    def first_error_at(self) -> dict[int, int]:
        """At which turn conversations go wrong, from 1: how many of them."""
        return dict(sorted(Counter(turn.number for turn in self._firsts()).items()))

    @property
    def cost(self) -> dict[str, Any]:
        """The turns after a first error: how many, and the share of them right with the own state and apart.

        The difference is what errors cost the turns that follow them.
        """
        own = apart = n = 0
        for mine, theirs in zip(self.own.conversations, self.apart.conversations, strict=True):
            for one, other in zip(mine.turns, theirs.turns, strict=True):
                if mine.first_error is not None and one.number > mine.first_error:
                    n, own, apart = n + 1, own + (not one.wrong), apart + (not other.wrong)
        return {
            "turns": n,
            "right": round(own / n, 4) if n else None,
            "right_apart": round(apart / n, 4) if n else None,
        }

    def in_words(self) -> str:
        """One line: how many conversations are right, how many end right, and what errors cost."""
        shares, cost = self.own.shares(), self.cost
        right, ends = (_told(shares[name]) for name in ("conversations", "ends_right"))
        line = (
            f"{len(self.own.conversations)} conversations with the program's own state: all turns right {right}, "
            f"end right {ends}"
        )
        if not cost["turns"]:
            return line
        return (
            f"{line}; of the {cost['turns']} turns after a first error {cost['right']:.1%} are right, "
            f"and {cost['right_apart']:.1%} if each gets the labelled state"
        )

    def to_json(self) -> dict[str, Any]:
        """All of it as JSON data."""
        own = self.own.to_json()
        return {
            "conversations": own["n"],
            "turns": own["turns"],
            "shares": own["shares"],
            "first_errors": self.first_errors,
            "first_error_at": {str(number): count for number, count in self.first_error_at.items()},
            "after_first_error": self.cost,
            "left_out": list(self.left_out),
            "wrong": [
                {"id": each["id"], "first_error": each["first_error"], "ends_right": each["ends_right"]}
                | {"at_first": [one for one in each["wrong"] if one["turn"] == each["first_error"]]}
                for each in own["conversations"]
                if not each["right"]
            ],
        }

    def _firsts(self) -> list[SuiteTurnResult]:
        return [
            each.turns[each.first_error - 1]
            for each in self.own.conversations
            if each.first_error is not None
        ]


def _told(share: Metric) -> str:
    return f"{share.value:.1%}" + ("" if share.low is None else f" [{share.low:.1%}, {share.high:.1%}]")


def replay_dataset(
    dataset: Dataset,
    role: Role,
    program: TurnProgram,
    *,
    progress: Progress | None = None,
    deadline: float | None = 60.0,
) -> Replayed:
    """Hold the conversations of a part with the real runtime, and judge the state after each turn.

    The user says what the dataset has; the assistant answers for itself. Right is the state that the labelled
    commands lead to, by the same machine: running flow, its values, what is paused and what is awaited. A
    conversation in which the given states do not follow from the labels is held as far as they do.

    Args:
        role: The part. The test part has to be opened; a program has seen the conversations of ``train``.
        progress: Called with the number of conversations done and of all; each is held twice.
        deadline: Seconds for a decision.

    Raises:
        DatasetError: the part is empty, or the test part closed.
        InputError: no conversation of the part can be replayed: their turns have no labels of commands.
        Awaiting: answers of a deferred language model are not there yet.
    """
    # A test part that nobody opened is refused here.
    dataset.examples(role)
    suite, left_out = suite_of(dataset, role)
    if not suite.conversations:
        raise InputError(
            "No conversation can be replayed",
            where=left_out[0] if left_out else f"{dataset.path}, {role}",
            remedy="Label the commands of every turn; a replay carries them out.",
        )
    half = len(suite.conversations)

    def step(add: int) -> Progress | None:
        return None if progress is None else (lambda done, _: progress(done + add, 2 * half))

    own = run_suite(suite, program, progress=step(0), deadline=deadline)
    return Replayed(
        own, run_suite(suite, program, turns=True, progress=step(half), deadline=deadline), tuple(left_out)
    )


def suite_of(dataset: Dataset, role: Role) -> tuple[Suite, list[str]]:
    """The conversations of a part as a suite, and what is left out of it."""
    left_out: list[str] = []
    held = [
        _held(conversation, dataset, left_out)
        for conversation in dataset.conversations
        if dataset.roles[conversation.id] == role
    ]
    return Suite(
        dataset.path, {dataset.name: dataset.flows}, tuple(one for one in held if one is not None)
    ), left_out


def _held(
    conversation: LabelledConversation, dataset: Dataset, left_out: list[str]
) -> SuiteConversation | None:
    said = [
        (conversation.turn_id(index), turn)
        for index, turn in enumerate(conversation.turns)
        if turn.role == "user"
    ]
    turns: list[SuiteTurn] = []
    follows: StateBefore | None = None
    for name, turn in said:
        given = turn.before
        stated = (given.flow, given.slots, given.paused)
        if follows is not None and (follows.flow, follows.slots, follows.paused) != stated:
            left_out.append(f"{conversation.id}/{name} to its end: its state does not follow from the labels")
            break
        if turn.date not in (None, conversation.date):
            left_out.append(f"{conversation.id}/{name} to its end: it continues on another day")
            break
        if turn.labels is None or turn.labels.commands is None:
            left_out.append(f"{conversation.id}/{name} to its end: its commands are not labelled")
            break
        replay = Replay(dataset.flows, turn.before)
        replay.say(turn)
        follows = replay.before
        turns.append(SuiteTurn(user=turn.text, expect=_expect(follows)))
    if not turns:
        return None
    first = said[0][1].before
    return SuiteConversation(
        id=conversation.id,
        kind="replay",
        date=conversation.date or _NO_DAY,
        locale=conversation.locale,
        turns=tuple(turns),
        registry=dataset.name,
        start=None if first == StateBefore() else _expect(first),
    )


def _expect(state: StateBefore) -> Expect:
    held: dict[str, Any] = {"slots": state.slots.as_dict()} if state.flow is not None else {}
    return Expect(flow=state.flow, status=state.status.value, paused=state.paused, **held)
