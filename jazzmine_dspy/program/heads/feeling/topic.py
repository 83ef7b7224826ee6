"""Whether a message leaves the topic: what its commands do, after what was said, and how the message begins."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from jazzmine_dspy.models import Command, MessageRole, Turn
from jazzmine_dspy.program.heads.feeling.linear import Linear, fit_linear
from jazzmine_dspy.program.ports import Floats

_KINDS = (
    "start_flow", "resume_flow", "out_of_scope", "ask", "clarify", "chitchat", "cancel_flow", "handoff", "repeat",
    "restart", "set_slot", "correct_slot", "affirm", "deny", "skip_slot", "clear_slot",
)  # fmt: skip
_LEAVES = ("start_flow", "resume_flow", "out_of_scope", "ask", "clarify", "chitchat")
_UPPER, _MEANING = 8.0, 0.7
_TURNS_AWAY = re.compile(
    r"\b(?:also|another (?:thing|question|matter)|next|something else|by the way|btw|different|separate(?:ly)?|"
    r"now (?:then|for|what)|one more thing|while i|meanwhile|back to|where were we|new (?:topic|question)|other)\b",
    re.IGNORECASE,
)
_STAYS = re.compile(
    r"^\W*(?:no|yes|yeah|and|but|hold on|wait|sorry|actually|make|instead|the)\b", re.IGNORECASE
)


def row_of(turn: Turn, commands: Sequence[Command], message: Floats, asked: Floats | None) -> Floats:
    """A turn as numbers.

    Args:
        turn: The message and its state.
        commands: What was decided.
        message, asked: Features of the message, and of the assistant's last; None where it said nothing.
    """
    kinds = {command.type for command in commands}
    text = turn.text
    said = next((one.text for one in reversed(turn.history) if one.role is MessageRole.ASSISTANT), "")
    users = [one.text for one in turn.history if one.role is MessageRole.USER]
    idle = turn.load == "idle"
    state = [
        idle, bool(turn.paused), turn.awaiting is not None, turn.confirming is not None, bool(turn.clarifying),
        idle and said.rstrip().endswith("?"), idle and " or " in said and "?" in said, len(users) == 1,
        len(users) == 1 and len(users[0].split()) <= 3, bool(_TURNS_AWAY.search(text)), bool(_STAYS.search(text)),
        len(text.split()) <= 4, len(text.split()) > 10, "?" in text, turn.offering is not None, not kinds,
    ]  # fmt: skip
    acts = [kind in kinds for kind in _KINDS]
    leaves = [kind in kinds for kind in _LEAVES]
    both = np.outer(np.array(leaves, float), np.array(state, float)).ravel()
    near = 0.0 if asked is None else float(message @ asked) / (_UPPER * _UPPER)
    alike = [near, near * any(leaves[:2]), 1.0]
    parts: list[Floats] = [
        np.array([*state, *acts], float),
        both,
        np.array(alike),
        message / _UPPER * _MEANING,
    ]
    return np.concatenate(parts).astype(np.float32)


class Topic(NamedTuple):
    """The model of "leaves the topic", and from which probability on it holds."""

    model: Linear
    least: float

    def leaves(self, row: Floats) -> bool:
        """Whether the message leaves the topic."""
        return bool(self.model.probabilities(row[None])[0, 0] >= self.least)


def fit_topic(rows: Floats, left: Sequence[bool], groups: Sequence[str], start: Topic | None = None) -> Topic:
    """Fit the head on labelled turns.

    Args:
        rows: Of :func:`row_of`, of turns with a history.
        left: Whether each leaves the topic.
        groups: Rows of one group are left out together.
        start: Weights to stay near to.
    """
    right = np.asarray(left, bool)[:, None]
    model, shares = fit_linear(rows, right, groups, np.ones(len(rows)), start.model if start else None)
    if start is not None and right.sum() < 20:
        return Topic(model, start.least)
    grid = np.arange(0.2, 0.8, 0.025)
    return Topic(model, float(max(grid, key=lambda least: _f1(shares[:, 0] >= least, right[:, 0]))))


def _f1(said: NDArray[np.bool_], right: NDArray[np.bool_]) -> float:
    return float(2.0 * np.sum(said & right) / max(1, said.sum() + right.sum()))
