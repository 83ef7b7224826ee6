"""Counts of a dataset, by role."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from jazzmine_dspy.datasets.load import Dataset
from jazzmine_dspy.datasets.schema import ROLES, LabelledConversation, Labels, Role
from jazzmine_dspy.models.base import Value


class RoleStats(Value):
    """Counts of one role. Turns are the users' messages; lengths are means over them.

    ``labelled`` counts, for each label, the turns that have it. Names stand by falling count.
    """

    conversations: int
    turns: int
    labelled: dict[str, int]
    flows: dict[str, int]
    commands: dict[str, int]
    tags: dict[str, int]
    sentiment: dict[str, int]
    turns_per_conversation: float
    words_per_turn: float
    characters_per_turn: float


class DatasetStats(Value):
    """Counts of a dataset: all of it, and each role that has conversations."""

    name: str
    fingerprint: str
    total: RoleStats
    roles: dict[Role, RoleStats]

    def to_json(self) -> dict[str, Any]:
        """The counts as JSON data."""
        return self.model_dump(mode="json")


def dataset_stats(dataset: Dataset) -> DatasetStats:
    """Count what a dataset holds. The test part is counted, its texts are not shown."""
    roles: dict[Role, RoleStats] = {}
    for role in ROLES:
        held = [c for c in dataset.conversations if dataset.roles[c.id] == role]
        if held:
            roles[role] = _count(held)
    return DatasetStats(
        name=dataset.name, fingerprint=dataset.fingerprint, total=_count(dataset.conversations), roles=roles
    )


def _count(conversations: Sequence[LabelledConversation]) -> RoleStats:
    turns = [turn for conversation in conversations for turn in conversation.turns if turn.role == "user"]
    labels = [turn.labels for turn in turns if turn.labels is not None]
    scores = [label.sentiment for label in labels if label.sentiment is not None]
    return RoleStats(
        conversations=len(conversations),
        turns=len(turns),
        labelled={
            name: sum(getattr(label, name) is not None for label in labels) for name in Labels.model_fields
        },
        flows=_falling(name for label in labels for name in label.flows or ()),
        commands=_falling(command.type for label in labels for command in label.commands or ()),
        tags=_falling(tag for turn in turns for tag in turn.tags),
        sentiment={f"{score:g}": n for score, n in sorted(Counter(scores).items())},
        turns_per_conversation=_mean([sum(t.role == "user" for t in c.turns) for c in conversations]),
        words_per_turn=_mean([len(turn.text.split()) for turn in turns]),
        characters_per_turn=_mean([len(turn.text) for turn in turns]),
    )


def _falling(names: Iterable[str]) -> dict[str, int]:
    return dict(sorted(Counter(names).items(), key=lambda pair: (-pair[1], pair[0])))


def _mean(numbers: Sequence[int]) -> float:
    return round(sum(numbers) / len(numbers), 3) if numbers else 0.0
