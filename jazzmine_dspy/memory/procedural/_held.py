"""What memory holds of an agent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

TOLD = ("flow_id", "flow_name", "flow_type", "description", "condition", "agent_id")


class Held(NamedTuple):
    """What memory holds of an agent.

    Args:
        own: Manifests of the flows that were synced here, by name.
        theirs: Payloads of the flows that only jazzmine has written, by name.
        points: Points of all flows of ``own``.
    """

    own: Mapping[str, Mapping[str, Any]]
    theirs: Mapping[str, Mapping[str, Any]]
    points: int

    @property
    def names(self) -> set[str]:
        """Of all flows."""
        return {*self.own, *self.theirs}

    def told(self, name: str) -> dict[str, Any]:
        """A flow as jazzmine's recall tells of it. In a shared memory the id is jazzmine's."""
        held = {**self.own.get(name, {}), **self.theirs.get(name, {})}
        return {key: held.get(key, "") for key in TOLD}
