"""The searchable points of a registry's flows, the queries of a message, and BM25 for both."""

from __future__ import annotations

import functools
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from jazzmine_dspy.memory.procedural.engine import CollectionSpec, Engine, Point, Query, SparseVector
from jazzmine_dspy.models.base import canonical_json, sha256
from jazzmine_dspy.models.errors import FlowError
from jazzmine_dspy.models.flows import Flow
from jazzmine_dspy.models.ports import Embedder
from jazzmine_dspy.models.registry import FlowRegistry

DESCRIPTION = "description"
"""Kind of a flow's first point, whose payload describes the flow and has the checksum of its whole content."""

_BATCH = 64
_VERSION = 4
"""Raise it when the same flows are stored in another way."""

_NAMESPACE = uuid.UUID("0c6e3bb3-2f7e-5b0f-8a51-7f1d6a1f7e55")


_STOP_WORDS = """
a an the
i me my mine myself we us our ours you your yours he him his she her hers it its they them their theirs
this that these those there here
am is are was were be been being do does did done doing have has had having
will would shall should can could may might must
and or but so if then than as because while
of to in on at by for with from into about
what which who whom whose
just please also too very really quite some any such
m s t d ll re ve im ive
hi hello hey thanks thank ok okay
"""
"""English words that say nothing about the task. Negations, particles and the question words of place, time and amount
are not among them: "not", "off", "back", "where", "when" distinguish tasks ("send it back", "call it off")."""

_AVERAGE_LENGTH = 12.0
"""Words in an average text of the index; fastembed's 256 is for pages."""

BM25_FINGERPRINT = sha256([sorted(_STOP_WORDS.split()), _AVERAGE_LENGTH])
"""Changes with whatever changes the words of a text or their weights."""


@functools.cache
def _bm25() -> Any:
    from fastembed import SparseTextEmbedding

    # Any path does: with one, fastembed does not download its own stop words.
    return SparseTextEmbedding(
        "Qdrant/bm25",
        specific_model_path="bm25",
        language="english",
        stopwords=set(_STOP_WORDS.split()),
        avg_len=_AVERAGE_LENGTH,
    )


def bm25_documents(texts: Sequence[str]) -> list[SparseVector]:
    """The word stems of each text with BM25's weights; the engine counts document frequencies."""
    return [(each.indices.tolist(), each.values.tolist()) for each in _bm25().embed(list(texts))]


def bm25_query(text: str) -> SparseVector:
    """The word stems of a query, each of weight 1; none where it has only stop words."""
    each = next(iter(_bm25().query_embed(text)))
    indices = sorted(each.indices.tolist())
    return indices, [1.0] * len(indices)


def flow_type(flow: Flow) -> str:
    """The name of jazzmine's class, in lower case.

    Example:
        >>> from jazzmine_dspy.models.flows import Flow
        >>> flow_type(Flow(name="a", description="Do a."))
        'flow'
    """
    return "flow" if flow.kind == "flow" else f"{flow.kind}flow"


class FlowPoint(NamedTuple):
    """One searchable text of a flow; ``conversation`` is the labelled one that it stems from, or empty."""

    text: str
    flow: str
    kind: str
    conversation: str
    payload: dict[str, Any]


def points_for(
    registry: FlowRegistry, agent_id: str, embedder: str, examples: Iterable[tuple[str, str, str]] = ()
) -> dict[str, FlowPoint]:
    """The points of all flows by id, in the registry's order. The same content gives the same ones everywhere.

    Args:
        registry: The flows.
        agent_id: Agent that the flows belong to.
        embedder: Fingerprint of the embedding model.
        examples: Further ones, as (text, flow, id of the conversation that it stems from).

    Raises:
        FlowError: An example names an unknown flow.
    """
    version = f"{_VERSION}:{BM25_FINGERPRINT[:16]}:{embedder}"
    points: dict[str, FlowPoint] = {}
    for name, texts in _texts(registry, examples).items():
        flow, ids = registry[name], []
        for kind, text, conversation in texts:
            payload: dict[str, Any] = {
                "agent_id": agent_id,
                "flow_name": name,
                "kind": kind,
                "text": text,
                "conversation": conversation,
                "embedder": embedder,
                "checksum": str(_VERSION),
            }
            # The id of a description outlives edits; those of the other texts change with whatever they stand for.
            key = canonical_json([agent_id, name, kind, text, conversation, version])
            point_id = flow.id_for(agent_id) if kind == DESCRIPTION else str(uuid.uuid5(_NAMESPACE, key))
            ids.append(point_id)
            points[point_id] = FlowPoint(text, name, kind, conversation, payload)
        payload = points[ids[0]].payload
        payload |= {
            "flow_id": flow.id_for(agent_id),
            "flow_type": flow_type(flow),
            "description": flow.description,
            "condition": flow.condition,
            "desired_effects": list(flow.desired_effects),
            "content": flow.checksum(),
        }
        payload["checksum"] = sha256([version, payload["content"], sorted(ids)])
    return points


def _texts(
    registry: FlowRegistry, examples: Iterable[tuple[str, str, str]]
) -> dict[str, list[tuple[str, str, str]]]:
    """(kind, text, conversation) of each flow: description, keywords, examples, further examples."""
    further: dict[str, list[tuple[str, str, str]]] = {name: [] for name in registry}
    for number, (text, wanted, conversation) in enumerate(examples, start=1):
        if wanted not in further:
            raise FlowError(
                f"Example {number} names the unknown flow {wanted!r}",
                where=f"conversation {conversation!r}",
                remedy="Correct the label, or add the flow to the registry.",
            )
        further[wanted].append(("turn", text, conversation))
    texts = {}
    for name, flow in registry.items():
        own = [(DESCRIPTION, f"{flow.description} {flow.condition}".strip(), "")]
        if flow.keywords:
            own.append(("keywords", ", ".join(flow.keywords), ""))
        texts[name] = list(
            dict.fromkeys([*own, *(("example", text, "") for text in flow.examples), *further[name]])
        )
    return texts


def queries(embedder: Embedder, text: str, summaries: Sequence[str] = ()) -> dict[str, Query]:
    """The query for each of the :class:`~jazzmine_dspy.memory.procedural.ranking.RankedLists`, by its name.

    A text of stop words alone has no query by words.
    """
    summary = "\n".join(each for each in summaries if each.strip())
    vectors = embedder.embed([text, summary] if summary else [text])
    made = {"dense": Query(vectors[0]), "sparse": Query(sparse=bm25_query(text))}
    if summary:
        made["summary_dense"] = Query(vectors[1])
        made["summary_sparse"] = Query(sparse=bm25_query(summary))
    return {name: query for name, query in made.items() if query.dense is not None or query.sparse[0]}


def write(
    engine: Engine,
    spec: CollectionSpec,
    embedder: Embedder,
    points: Mapping[str, FlowPoint],
    *,
    sparse: Callable[[Sequence[str]], list[SparseVector]] = bm25_documents,
) -> None:
    """Embed and write points.

    Args:
        engine: Where to.
        spec: Of the collection.
        embedder: Gives the dense vectors.
        points: What to write, by id.
        sparse: Gives the sparse vectors.

    Raises:
        EmbeddingError: The embedder fails.
        MemoryUnavailableError: The engine does not answer.
    """
    texts = [point.text for point in points.values()]
    dense, words = embedder.embed(texts), sparse(texts)
    engine.upsert(
        spec,
        [
            Point(point_id, dense[number], words[number], point.payload)
            for number, (point_id, point) in enumerate(points.items())
        ],
    )


def batches(items: Sequence[Any], size: int = _BATCH) -> Iterator[Any]:
    """Split what is to be written."""
    for start in range(0, len(items), size):
        yield items[start : start + size]
