"""The points that a registry's flows come to, and how they are written."""

from __future__ import annotations

import functools
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from jazzmine_dspy.memory.procedural import _sparse, jazzmine_layout
from jazzmine_dspy.memory.procedural.engine import Engine, Layout, StoredPoint
from jazzmine_dspy.memory.procedural.points import Point, points_of
from jazzmine_dspy.models.base import canonical_json, sha256

if TYPE_CHECKING:
    from jazzmine_dspy.models.flows import Flow
    from jazzmine_dspy.models.ports import Embedder
    from jazzmine_dspy.models.registry import FlowRegistry

MANIFEST = "description"
"""Kind of a flow's first point, which tells of the flow; it is written after the others."""

SHORT = 8
"""Characters of an id by which a manifest names a point."""

_BATCH = 64
_VERSION = 2
"""To be raised when the same flows are stored in another way."""

_NAMESPACE = uuid.UUID("0c6e3bb3-2f7e-5b0f-8a51-7f1d6a1f7e55")

Stored = Mapping[str, Mapping[str, Any]]
"""Payloads by point id."""


class Place(NamedTuple):
    """Where an agent's flows are kept: our own collection, and jazzmine's where both share one memory."""

    engine: Engine
    own: Layout
    theirs: Layout | None
    embedder: Embedder


class Wanted(NamedTuple):
    """A point that should be there."""

    id: str
    flow: str
    text: str
    payload: dict[str, Any]


def wanted_points(
    registry: FlowRegistry, agent_id: str, embedder: str, examples: Iterable[tuple[str, str, str]] = ()
) -> dict[str, Wanted]:
    """The points of all flows by id, in the order of their texts. The same content gives the same ones everywhere.

    Args:
        registry: The flows.
        agent_id: Whose flows these are.
        embedder: Fingerprint of the embedding model.
        examples: Further ones, as (text, flow, id of the conversation that it stems from).

    Raises:
        FlowError: an example names an unknown flow.
    """
    made = made_with(embedder)
    by_flow: dict[str, dict[str, Point]] = {}
    for point in points_of(registry, examples):
        by_flow.setdefault(point.flow, {})[_id(agent_id, registry[point.flow], point, made)] = point
    wanted: dict[str, Wanted] = {}
    for name, points in by_flow.items():
        content = [made, registry[name].checksum(), sorted(points)]
        for point_id, point in points.items():
            payload: dict[str, Any] = {
                "agent_id": agent_id,
                "flow_name": name,
                "kind": point.kind,
                "text": point.text,
                "conversation": point.conversation,
                "checksum": made,
            }
            if point.kind == MANIFEST:
                told = _told(registry[name], agent_id)
                payload |= {**told, "embedder": embedder, "checksum": sha256(content)}
                # By which recall tells which examples are not there.
                payload["texts"] = [each[:SHORT] for each in sorted(points) if each != point_id]
            wanted[point_id] = Wanted(point_id, name, point.text, payload)
    return wanted


@functools.lru_cache(maxsize=64)
def made_with(embedder: str) -> str:
    """What the texts' points hold of the model that made them, out of its fingerprint."""
    return sha256([_VERSION, _sparse.FINGERPRINT, embedder])[:16]


def is_of(payload: Mapping[str, Any], embedder: str) -> bool:
    """Whether a point of our own collection was made with this model."""
    if payload.get("kind") == MANIFEST:
        return payload.get("embedder") == embedder
    return payload.get("checksum") == made_with(embedder)


def _id(agent_id: str, flow: Flow, point: Point, made: str) -> str:
    if point.kind == MANIFEST:
        return flow.id_for(agent_id)
    # Of another model it is another point: until all are there, the old ones are what is recalled.
    named = [agent_id, flow.name, point.kind, point.text, point.conversation, made]
    return str(uuid.uuid5(_NAMESPACE, canonical_json(named)))


def _told(flow: Flow, agent_id: str) -> dict[str, Any]:
    return {
        "flow_id": flow.id_for(agent_id),
        "flow_type": jazzmine_layout.flow_type(flow),
        "content": flow.checksum(),
        "description": flow.description,
        "condition": flow.condition,
        "desired_effects": list(flow.desired_effects),
    }


def write(place: Place, layout: Layout, points: Sequence[tuple[str, str, Mapping[str, Any]]]) -> None:
    """Embed and write points, given as (id, text, payload); in jazzmine's collection with its kind of words."""
    if not points:
        return
    texts = [text for _, text, _ in points]
    vectors = place.embedder.embed(texts)
    is_own = layout == place.own
    words = _sparse.documents(texts) if is_own else jazzmine_layout.words(place.embedder, texts)
    place.engine.upsert(
        layout,
        [
            StoredPoint(point_id, vectors[number], words[number], payload)
            for number, (point_id, _, payload) in enumerate(points)
        ],
    )


def batches(items: Sequence[Any]) -> Iterator[Any]:
    """Parts of what is to be written, 64 at most."""
    for start in range(0, len(items), _BATCH):
        yield items[start : start + _BATCH]
