"""A thousand flows, found by recall as among twenty; and 20,000 points, searched as the plain reference does."""

from __future__ import annotations

import random
import uuid
from typing import NamedTuple

import numpy as np
import pytest

from jazzmine_dspy.memory.procedural import FastembedEmbedder, FlowIndex
from jazzmine_dspy.memory.procedural.engine import CollectionSpec, Filter, Point, Query
from jazzmine_dspy.memory.procedural.numpy_engine import NumpyEngine
from jazzmine_dspy.models.registry import FlowRegistry
from large_catalogue import ACTIONS, catalogue
from word_embedder import WordEmbedder


class Asked(NamedTuple):
    """A message, and the flow that it wants."""

    text: str
    flow: str


def messages(flows: list[dict[str, object]], *, other_words: bool) -> list[Asked]:
    """A message for each flow: what its first example says within a sentence, or in other words but for the thing."""
    found = []
    for flow in flows:
        name = str(flow["name"])
        action, _, thing = name.partition("_")
        _, (said, _), otherwise = ACTIONS[action]
        text = otherwise if other_words else f"hello there, {said}, as soon as you can"
        found.append(Asked(text.format(f"the {thing.replace('_', ' ')}"), name))
    return found


def accuracy(index: FlowIndex, asked: list[Asked]) -> tuple[float, float]:
    """Shares of the messages whose flow is the first one, and among the first five."""
    ranked = [[each.name for each in index.recall(one.text, k=5)] for one in asked]
    first = [one.flow == names[0] for one, names in zip(asked, ranked, strict=True)]
    among = [one.flow in names for one, names in zip(asked, ranked, strict=True)]
    return float(np.mean(first)), float(np.mean(among))


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.row("F18")
def test_recall_among_a_thousand_flows_finds_what_it_finds_among_twenty(minilm: FastembedEmbedder) -> None:
    """Ten catalogues of twenty flows, and one of all: by recall alone, without a head that learnt from turns.

    In a flow's own words a message finds it first among 1,000 as among 20, within two points. In other words it is
    among the first five within five points; which one is first is then for the head, since every flow has some
    seventy that differ by one word.
    """
    flows = catalogue()
    assert len(flows) == len({flow["name"] for flow in flows}) == 1000
    drawn = random.Random(0).sample(flows, 200)
    told: dict[bool, tuple[list[float], list[float]]] = {}
    with FlowIndex(FlowRegistry(flows), minilm) as large:
        for other_words in (False, True):
            of_few, of_many = [], []
            for start in range(0, 200, 20):
                few = drawn[start : start + 20]
                asked = messages(few, other_words=other_words)
                with FlowIndex(FlowRegistry(few), minilm) as small:
                    of_few.append(accuracy(small, asked))
                of_many.append(accuracy(large, asked))
            told[other_words] = (np.mean(of_few, axis=0).tolist(), np.mean(of_many, axis=0).tolist())
            (first, five), (first_of_many, five_of_many) = told[other_words]
            print(f"first {first:.3f} and {first_of_many:.3f}, of five {five:.3f} and {five_of_many:.3f}")
    (first, five), (first_of_many, five_of_many) = told[False]
    assert first_of_many >= first - 0.02
    assert five_of_many >= five - 0.02
    (_, five), (_, five_of_many) = told[True]
    assert five_of_many >= five - 0.05


@pytest.mark.row("F18")
def test_a_thousand_flows_hide_no_flow_that_twenty_show() -> None:
    """In a flow's own words it is among the first five, within two points of catalogues of twenty flows."""
    flows, embedder = catalogue(), WordEmbedder(size=256)
    drawn = random.Random(0).sample(flows, 60)
    of_few, of_many = [], []
    with FlowIndex(FlowRegistry(flows), embedder) as large:
        for start in range(0, 60, 20):
            few = drawn[start : start + 20]
            asked = messages(few, other_words=False)
            with FlowIndex(FlowRegistry(few), embedder) as small:
                of_few.append(accuracy(small, asked)[1])
            of_many.append(accuracy(large, asked)[1])
    assert np.mean(of_few) > 0.9
    assert np.mean(of_many) >= np.mean(of_few) - 0.02


@pytest.mark.row("F18")
def test_twenty_thousand_points_are_searched_as_the_plain_reference_does() -> None:
    count, size, words, depth = 20_000, 64, 60, 100
    rng = np.random.default_rng(18)
    vectors = rng.normal(size=(1000, size))[rng.integers(0, 1000, size=count)] + rng.normal(
        size=(count, size)
    )
    vectors = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)
    stems = np.argsort(rng.random((count, words)), axis=1)[:, :5]
    weights = np.zeros((count, words), dtype=np.float32)
    np.put_along_axis(weights, stems, rng.uniform(0.1, 2.0, size=stems.shape).astype(np.float32), axis=1)
    agents = rng.integers(0, 3, size=count)
    layout = CollectionSpec("flows", size, indexed=("agent_id",))
    engine = NumpyEngine()
    engine.ensure(layout)
    for start in range(0, count, 1000):
        engine.upsert(
            layout,
            [
                Point(
                    str(uuid.UUID(int=number)),
                    vectors[number],
                    (stems[number].tolist(), weights[number, stems[number]].tolist()),
                    {"agent_id": f"agent_{agents[number]}"},
                )
                for number in range(start, start + 1000)
            ],
        )
    holding = (weights > 0).sum(axis=0)
    idf = np.log((count - holding + 0.5) / (holding + 0.5) + 1)
    for number in range(40):
        asked = vectors[rng.integers(count)] + 0.05 * rng.normal(size=size).astype(np.float32)
        query = sorted(rng.choice(words, size=3, replace=False).tolist())
        branches = [Query(dense=asked), Query(sparse=(query, [1.0] * 3))]
        agent = number % 3 if number % 2 else None
        where = {} if agent is None else {"agent_id": [f"agent_{agent}"]}
        among = np.ones(count, dtype=bool) if agent is None else agents == agent
        dense, sparse = engine.search(layout, branches, limit=depth, where=Filter(where))
        cosines = np.where(among, vectors @ (asked / np.linalg.norm(asked)), -2.0)
        scores = np.where(among, weights[:, query] @ idf[query], -1.0)
        assert [hit.score for hit in sparse] == pytest.approx(-np.sort(-scores)[:depth], rel=1e-5)
        for hits, exact in ((dense, cosines), (sparse, scores)):
            ids = [uuid.UUID(hit.id).int for hit in hits]
            assert len(set(ids)) == depth
            assert [hit.score for hit in hits] == pytest.approx(exact[ids], rel=1e-5, abs=1e-5)
            assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
        assert [hit.score for hit in dense] == pytest.approx(-np.sort(-cosines)[:depth], abs=1e-5)
