"""Flows for labels of which nothing but the name is known."""

from __future__ import annotations

import re
from collections.abc import Iterable

from jazzmine_dspy.models.flows import Flow


def words(label: str) -> str:
    """A label as words, which is the only description that some sources have.

    Example:
        >>> words("card_arrival"), words("AddToPlaylist"), words("RETURN_ORDER")
        ('Card arrival', 'Add to playlist', 'Return order')
    """
    apart = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", label)
    plain = " ".join(re.sub(r"[_\-./]+", " ", apart).split()).lower()
    return plain[:1].upper() + plain[1:] or label


def label_flows(labels: Iterable[str]) -> list[Flow]:
    """A flow for each label, sorted by name; its description is the label as words."""
    return [Flow(name=label, description=words(label)) for label in sorted(set(labels))]
