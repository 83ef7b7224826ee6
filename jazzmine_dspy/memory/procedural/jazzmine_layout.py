"""The collection in which jazzmine keeps its flows: one point for each, under jazzmine's ids, keys and checksums.

Written as ``jazzmine.core.flows`` and its ``sync_registry`` write it, so that either side skips what the other has
written. Both must use the same embedding model: the dense vectors are its, and the sparse ones count its tokens.
"""

from __future__ import annotations

import functools
import hashlib
import json
import uuid
from collections import Counter
from collections.abc import Collection, Sequence
from typing import Any

from jazzmine_dspy.memory.errors import ConflictError
from jazzmine_dspy.memory.procedural.engine import CollectionSpec, Engine, Filter, SparseVector
from jazzmine_dspy.memory.procedural.points import FlowPoint, flow_type
from jazzmine_dspy.memory.procedural.sync import Sync, stored_points
from jazzmine_dspy.models.base import log
from jazzmine_dspy.models.flows import Flow
from jazzmine_dspy.models.registry import FlowRegistry


def spec(prefix: str, size: int) -> CollectionSpec:
    """Jazzmine's collection, with the payload indexes that it makes."""
    return CollectionSpec(f"{prefix}_flows", size, indexed=("flow_id", "agent_id", "flow_name", "flow_type"))


def flow_id(name: str) -> str:
    """The id that jazzmine gives a flow. It is the same for every agent.

    Example:
        >>> flow_id("track_order")
        '6ccdc85a-88f3-5fb9-8818-43f28d73da31'
    """
    return str(uuid.uuid5(uuid.NAMESPACE_DNS, name))


def embedding_text(flow: Flow) -> str:
    """What jazzmine embeds: of a composite flow neither its parts nor its effects.

    Example:
        >>> embedding_text(Flow(name="a", description="Do a.", examples=["do a", "a now"], desired_effects=["done"]))
        'Do a. | do a | a now | done'
    """
    effects = flow.desired_effects if flow.kind == "flow" else ()
    parts = (flow.description, flow.condition, *flow.examples, *effects)
    return " | ".join(part.strip() for part in parts if part.strip())


def checksum(flow: Flow) -> str:
    """Jazzmine's checksum of the same flow, 16 hex digits. Parts of a composite flow do not count."""
    content: dict[str, Any] = {
        "type": flow_type(flow),
        "name": flow.name,
        "description": flow.description,
        "condition": flow.condition,
        "examples": list(flow.examples),
        "priority": [flow.priority, 0],
    }
    if flow.kind == "flow":
        content |= {"desired_effects": list(flow.desired_effects), "tools": list(flow.tools)}
    if flow.kind == "conditional":
        content["condition_expr"] = flow.condition_expr
    return hashlib.sha256(json.dumps(content, sort_keys=True, ensure_ascii=True).encode()).hexdigest()[:16]


def payload(flow: Flow, agent_id: str, point_id: str) -> dict[str, Any]:
    """A point's payload: jazzmine's keys and no others."""
    return {
        "flow_id": point_id,
        "flow_name": flow.name,
        "flow_type": flow_type(flow),
        "description": flow.description,
        "condition": flow.condition,
        "agent_id": agent_id,
        "desired_effects": list(flow.desired_effects) if flow.kind == "flow" else [],
        "checksum": checksum(flow),
    }


def words(embedder: Any, texts: Sequence[str]) -> list[SparseVector]:
    """Sparse vectors as jazzmine's compiled memory makes them: how often each token of the embedding model occurs.

    Args:
        embedder: One with ``token_ids(text)``, as fastembed's models have here. Of others the vectors are empty, and
            jazzmine finds the points through the dense vector alone; a warning says so.
        texts: What is embedded.
    """
    if (token_ids := getattr(embedder, "token_ids", None)) is None:
        log.warning("the embedder has no token_ids, so jazzmine's search by words will not find these flows")
        return [([], []) for _ in texts]
    counted = (sorted(Counter(token_ids(text)).items()) for text in texts)
    return [([token for token, _ in each], [float(count) for _, count in each]) for each in counted]


def sync_of(
    engine: Engine,
    collection: CollectionSpec,
    registry: FlowRegistry,
    agent_id: str,
    embedder: Any,
    other_model: Collection[str],
) -> Sync:
    """What a sync of jazzmine's collection has to do.

    Args:
        engine: Stores the points.
        collection: Jazzmine's.
        registry: The flows.
        agent_id: Agent that the flows belong to.
        embedder: Gives vectors and tokens.
        other_model: Names of flows that were embedded with another model; they are written again.

    Raises:
        ConflictError: Another agent has a flow of the same name: jazzmine's ids are of names alone.
        MemoryUnavailableError: The engine does not answer.
    """
    stored = stored_points(engine, collection, agent_id)
    # A flow that jazzmine was given an id of its own for keeps it: jazzmine knows it by no other.
    ids = {
        str(payload.get("flow_name")): point_id for point_id, payload in sorted(stored.items(), reverse=True)
    }
    ids |= {name: flow_id(name) for name in registry if flow_id(name) in stored or name not in ids}
    new = [ids[name] for name in registry if ids[name] not in stored]
    for _, other in engine.scroll(collection, Filter({"flow_id": new})) if new else ():
        if other.get("agent_id") != agent_id:
            raise ConflictError(
                f"Agent {other.get('agent_id')!r} has a flow {other.get('flow_name')!r} of the same name, and "
                "jazzmine's layout keeps one flow for each name",
                where=f"collection {collection.name!r}",
                remedy="Give one of the agents another prefix, or rename the flow.",
            )
    known = {
        point_id: {**each, "checksum": ""} if each.get("flow_name") in other_model else each
        for point_id, each in stored.items()
    }
    wanted = {
        ids[name]: FlowPoint(embedding_text(flow), name, "", "", payload(flow, agent_id, ids[name]))
        for name, flow in registry.items()
    }
    return Sync(collection, known, wanted, functools.partial(words, embedder))
