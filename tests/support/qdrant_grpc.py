"""The part of Qdrant's gRPC interface that jazzmine's compiled memory uses, over the data of a `QdrantDouble`; and a
model of embeddings that its ONNX runtime takes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent import futures
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
import numpy as np
from qdrant_client import models
from qdrant_client.conversions.conversion import GrpcToRest, RestToGrpc
from qdrant_client.grpc import collections_pb2 as collections
from qdrant_client.grpc import points_pb2 as points
from qdrant_client.grpc import qdrant_common_pb2 as common
from qdrant_client.grpc import qdrant_pb2 as service

import qdrant_server

VOCABULARY = 30522
SIZE = 16


class _Calls(grpc.GenericRpcHandler):
    def __init__(self, running: qdrant_server.QdrantDouble) -> None:
        self.running = running
        self.made: list[str] = []
        done = points.PointsOperationResponse(
            result=points.UpdateResult(status=points.UpdateStatus.Completed)
        )
        self.known: dict[str, tuple[Any, Callable[[Any], Any]]] = {
            "Qdrant/HealthCheck": (
                service.HealthCheckRequest,
                lambda _: service.HealthCheckReply(title="qdrant", version="1.15.0"),
            ),
            "Collections/CollectionExists": (
                collections.CollectionExistsRequest,
                lambda asked: collections.CollectionExistsResponse(
                    result=collections.CollectionExists(
                        exists=self.client.collection_exists(asked.collection_name)
                    )
                ),
            ),
            "Collections/Get": (
                collections.GetCollectionInfoRequest,
                lambda asked: collections.GetCollectionInfoResponse(
                    result=RestToGrpc.convert_collection_info(
                        self.client.get_collection(asked.collection_name)
                    )
                ),
            ),
            "Collections/Create": (collections.CreateCollection, self._create),
            "Points/CreateFieldIndex": (
                points.CreateFieldIndexCollection,
                lambda asked: self._index(asked) or done,
            ),
            "Points/Upsert": (points.UpsertPoints, lambda asked: self._upsert(asked) or done),
            "Points/Delete": (points.DeletePoints, lambda asked: self._delete(asked) or done),
            "Points/Scroll": (points.ScrollPoints, self._scroll),
            "Points/Search": (points.SearchPoints, self._search),
        }

    @property
    def client(self) -> Any:
        return self.running.client

    def service(self, details: Any) -> Any:
        name = details.method.removeprefix("/qdrant.")

        def answer(request: bytes, context: Any) -> bytes:
            self.made.append(name)
            kind, work = self.known[name]
            asked = kind()
            asked.ParseFromString(request)
            with self.running.lock:
                data: bytes = work(asked).SerializeToString()
            return data

        return grpc.unary_unary_rpc_method_handler(answer)

    def _create(self, asked: Any) -> Any:
        words = {
            name: models.SparseVectorParams(
                modifier=models.Modifier.IDF if params.modifier == collections.Modifier.Idf else None
            )
            for name, params in asked.sparse_vectors_config.map.items()
        }
        dense = {
            name: models.VectorParams(size=params.size, distance=models.Distance.COSINE)
            for name, params in asked.vectors_config.params_map.map.items()
            if params.distance == collections.Distance.Cosine
        }
        self.client.create_collection(
            asked.collection_name, vectors_config=dense, sparse_vectors_config=words
        )
        return collections.CollectionOperationResponse(result=True)

    def _index(self, asked: Any) -> None:
        known = self.running.indexes.setdefault(asked.collection_name, {})
        known[asked.field_name] = {"data_type": "keyword", "points": 0}

    def _upsert(self, asked: Any) -> None:
        made = []
        for point in asked.points:
            vector: dict[str, Any] = {}
            for name, given in point.vectors.vectors.vectors.items():
                if given.HasField("sparse"):
                    vector[name] = models.SparseVector(
                        indices=list(given.sparse.indices), values=list(given.sparse.values)
                    )
                else:
                    vector[name] = list(given.dense.data)
            payload = GrpcToRest.convert_payload(point.payload)
            made.append(models.PointStruct(id=point.id.uuid, vector=vector, payload=payload))
        self.client.upsert(asked.collection_name, points=made)

    def _delete(self, asked: Any) -> None:
        if asked.points.HasField("filter"):
            chosen: Any = models.FilterSelector(filter=GrpcToRest.convert_filter(asked.points.filter))
        else:
            chosen = models.PointIdsList(points=[one.uuid for one in asked.points.points.ids])
        self.client.delete(asked.collection_name, points_selector=chosen)

    def _scroll(self, asked: Any) -> Any:
        found, _ = self.client.scroll(
            asked.collection_name, scroll_filter=GrpcToRest.convert_filter(asked.filter), limit=asked.limit
        )
        return points.ScrollResponse(
            result=[
                points.RetrievedPoint(
                    id=common.PointId(uuid=one.id), payload=RestToGrpc.convert_payload(one.payload)
                )
                for one in found
            ]
        )

    def _search(self, asked: Any) -> Any:
        query: Any = list(asked.vector)
        if asked.HasField("sparse_indices"):
            query = models.SparseVector(indices=list(asked.sparse_indices.data), values=query)
        found = self.client.query_points(
            asked.collection_name,
            query=query,
            using=asked.vector_name,
            query_filter=GrpcToRest.convert_filter(asked.filter),
            limit=asked.limit,
        )
        return points.SearchResponse(
            result=[
                points.ScoredPoint(
                    id=common.PointId(uuid=one.id),
                    payload=RestToGrpc.convert_payload(one.payload),
                    score=one.score,
                )
                for one in found.points
            ]
        )


@contextmanager
def served(running: qdrant_server.QdrantDouble) -> Iterator[tuple[str, list[str]]]:
    """A URL for clients that speak gRPC, and the calls that were made, while the block lasts."""
    calls = _Calls(running)
    server = grpc.server(futures.ThreadPoolExecutor(4))
    server.add_generic_rpc_handlers((calls,))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield f"http://127.0.0.1:{port}", calls.made
    finally:
        server.stop(None).wait()


# --- a model -----------------------------------------------------------------------------------------------


def table() -> np.ndarray[Any, np.dtype[np.float32]]:
    """A random vector for each token."""
    return np.random.default_rng(0).normal(size=(VOCABULARY, SIZE)).astype(np.float32)


def write_model(folder: Path) -> None:
    """An ONNX model whose token states are rows of the table, named as jazzmine exports its own."""
    words = table().astype("<f4").tobytes()
    tensor = (
        _number(1, VOCABULARY) + _number(1, SIZE) + _number(2, 1) + _bytes(8, b"table") + _bytes(9, words)
    )
    node = (
        _bytes(1, b"table") + _bytes(1, b"input_ids") + _bytes(2, b"last_hidden_state") + _bytes(4, b"Gather")
    )
    inputs = _bytes(11, _value(b"input_ids", 7)) + _bytes(11, _value(b"attention_mask", 7))
    output = _bytes(12, _value(b"last_hidden_state", 1, _number(1, SIZE)))
    graph = _bytes(1, node) + _bytes(2, b"table") + _bytes(5, tensor) + inputs + output
    model = _number(1, 8) + _bytes(8, _number(2, 13)) + _bytes(7, graph)
    (folder / "table_fp32.onnx").write_bytes(model)


def _varint(number: int) -> bytes:
    head = b""
    while number > 127:
        head += bytes([number & 127 | 128])
        number >>= 7
    return head + bytes([number])


def _number(field: int, number: int) -> bytes:
    return _varint(field << 3) + _varint(number)


def _bytes(field: int, data: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(data)) + data


def _value(name: bytes, kind: int, *more: bytes) -> bytes:
    shape = b"".join(_bytes(1, dimension) for dimension in (_bytes(2, b"texts"), _bytes(2, b"tokens"), *more))
    return _bytes(1, name) + _bytes(2, _bytes(1, _number(1, kind) + _bytes(2, shape)))
