"""What a compiled program has seen of a dataset, by its manifest."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jazzmine_dspy.datasets.load import Dataset
from jazzmine_dspy.datasets.schema import Role


def learnt_from(manifest: Mapping[str, Any]) -> frozenset[str]:
    """The conversations that a program has learnt from, by id: those of train, and of dev where it was fitted again.

    Example:
        >>> roles = {"a": "train", "b": "dev_b", "c": "test"}
        >>> sorted(learnt_from({"dataset": {"roles": roles}, "recipe": {"refit": True}}))
        ['a', 'b']
        >>> sorted(learnt_from({"dataset": {"roles": roles}}))
        ['a']
    """
    again = bool((manifest.get("recipe") or {}).get("refit"))
    parts = ("train", "dev_a", "dev_b") if again else ("train",)
    return frozenset(name for name, role in _roles(manifest).items() if role in parts)


def seen_of(manifest: Mapping[str, Any], dataset: Dataset, role: Role) -> str:
    """What there is to say of figures of a part, in a sentence; empty where the part is as it was and not learnt from.

    Nothing is said of a dataset with another name: the ids of its conversations are others'.
    """
    held = manifest.get("dataset") or {}
    if held.get("name") != dataset.name:
        return ""
    now = {each.id for each in dataset.conversations if dataset.roles[each.id] == role}
    then = {name for name, part in _roles(manifest).items() if part == role}
    learnt = len(now & learnt_from(manifest))
    said = []
    if learnt:
        said.append(
            f"the program has learnt from {learnt} of the {len(now)} conversations of {role}: figures flatter it"
        )
    if now != then:
        said.append(
            f"{role} is another part than when the program was compiled: {len(now - then)} conversations are new, "
            f"{len(then - now)} are gone"
        )
    elif not learnt and held.get("fingerprint") != dataset.fingerprint:
        said.append("turns or labels of the dataset have changed since the program was compiled")
    return "; ".join(said)


def _roles(manifest: Mapping[str, Any]) -> dict[str, str]:
    return dict((manifest.get("dataset") or {}).get("roles") or {})
