"""The conversations that a compiled program has seen, by its manifest."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jazzmine_dspy.datasets.load import Dataset
from jazzmine_dspy.datasets.schema import Role


def seen_conversations(manifest: Mapping[str, Any]) -> frozenset[str]:
    """Ids of the conversations that a program was trained on: those of train, and of dev where it was refitted.

    Example:
        >>> roles = {"a": "train", "b": "dev_b", "c": "test"}
        >>> sorted(seen_conversations({"dataset": {"roles": roles}, "recipe": {"refit": True}}))
        ['a', 'b']
        >>> sorted(seen_conversations({"dataset": {"roles": roles}}))
        ['a']
    """
    refitted = bool((manifest.get("recipe") or {}).get("refit"))
    parts = ("train", "dev_a", "dev_b") if refitted else ("train",)
    return frozenset(name for name, role in _roles(manifest).items() if role in parts)


def describe_exposure(manifest: Mapping[str, Any], dataset: Dataset, role: Role) -> str:
    """A sentence on what a program has seen of a part; empty where the part is unchanged and unseen.

    Also empty for a dataset with another name, whose ids are of other conversations.
    """
    compiled = manifest.get("dataset") or {}
    if compiled.get("name") != dataset.name:
        return ""
    now = {each.id for each in dataset.conversations if dataset.roles[each.id] == role}
    then = {name for name, part in _roles(manifest).items() if part == role}
    seen = len(now & seen_conversations(manifest))
    remarks = []
    if seen:
        remarks.append(
            f"the program has learnt from {seen} of the {len(now)} conversations of {role}: figures flatter it"
        )
    if now != then:
        remarks.append(
            f"{role} is another part than when the program was compiled: {len(now - then)} conversations are new, "
            f"{len(then - now)} are gone"
        )
    elif not seen and compiled.get("fingerprint") != dataset.fingerprint:
        remarks.append("turns or labels of the dataset have changed since the program was compiled")
    return "; ".join(remarks)


def _roles(manifest: Mapping[str, Any]) -> dict[str, str]:
    return dict((manifest.get("dataset") or {}).get("roles") or {})
