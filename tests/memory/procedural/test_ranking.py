from __future__ import annotations

from collections.abc import Sequence

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given
from qdrant_client import QdrantClient, models

from jazzmine_dspy.memory.procedural import ranking
from jazzmine_dspy.memory.procedural.engine import Branch, Hit
from jazzmine_dspy.memory.procedural.ranking import Described, Lists, Settings
from jazzmine_dspy.models.errors import InputError

FLOWS = 6
SETTINGS = st.builds(
    Settings,
    rrf_k=st.integers(1, 60),
    dense=st.sampled_from([0.0, 0.5, 1.0, 3.0]),
    sparse=st.sampled_from([0.5, 1.0]),
    summary=st.floats(0, 1),
    depth=st.integers(1, 40),
    points_per_flow=st.integers(1, 5),
)
LISTS = st.lists(st.integers(0, 40), max_size=40, unique=True).map(
    lambda numbers: [Hit(str(number), 1 - place / 100, {}) for place, number in enumerate(numbers)]
)


def describe(hit: Hit) -> Described:
    return Described(str(int(hit.id) % FLOWS), "example", f"text {hit.id}", int(hit.id))


def scores(lists: Lists, settings: Settings) -> dict[str, float]:
    found = ranking.recalled(lists, settings, describe, int, k=FLOWS)
    assert [each.score for each in found] == sorted((each.score for each in found), reverse=True)
    return {each.name: each.score for each in found}


@pytest.mark.row("F4")
@pytest.mark.parametrize("k", [1, 10, 60])
@pytest.mark.parametrize("weights", [(1.0, 1.0), (3.0, 1.0), (1.0, 0.25)])
def test_ranks_are_fused_as_qdrant_fuses_them(k: int, weights: tuple[float, float]) -> None:
    numbers = np.random.default_rng(7)
    vectors = numbers.normal(size=(2, 30, 8))
    client = QdrantClient(":memory:")
    sizes = models.VectorParams(size=8, distance=models.Distance.COSINE)
    client.create_collection("flows", vectors_config={"a": sizes, "b": sizes})
    points = [
        models.PointStruct(
            id=each, vector={"a": vectors[0][each].tolist(), "b": vectors[1][each].tolist()}, payload={}
        )
        for each in range(30)
    ]
    client.upsert("flows", points)
    query = numbers.normal(size=8).tolist()
    lists = [
        [
            Hit(str(hit.id), hit.score, {})
            for hit in client.query_points("flows", query=query, using=name, limit=20).points
        ]
        for name in "ab"
    ]
    theirs = client.query_points(
        "flows",
        prefetch=[models.Prefetch(query=query, using=name, limit=20) for name in "ab"],
        query=models.RrfQuery(rrf=models.Rrf(k=k, weights=list(weights))),
        limit=40,
    ).points
    assert ranking.fused(lists, weights, k) == pytest.approx({str(hit.id): hit.score for hit in theirs})


@pytest.mark.row("F7")
@given(dense=LISTS, sparse=LISTS, told_dense=LISTS, told_sparse=LISTS, settings=SETTINGS)
def test_summaries_never_swamp_the_message(
    dense: list[Hit], sparse: list[Hit], told_dense: list[Hit], told_sparse: list[Hit], settings: Settings
) -> None:
    """What they take back of a lead is a share of the highest score, however they were chosen."""
    # At full depth, since both answers are to be about the same points.
    settings = settings._replace(depth=100)
    plain = scores(Lists(dense, sparse), settings)
    both = scores(Lists(dense, sparse, told_dense, told_sparse), settings)
    most = settings.summary * ranking.ceiling(settings)
    for one in plain:
        for other in both:
            if plain[one] - plain.get(other, 0.0) > most + 1e-9:
                assert both[one] > both[other]
    assert max(both.values(), default=0.0) <= ranking.ceiling(settings) + 1e-9


@given(dense=LISTS, sparse=LISTS, settings=SETTINGS)
def test_no_summaries_or_none_of_weight_change_nothing(
    dense: list[Hit], sparse: list[Hit], settings: Settings
) -> None:
    plain = ranking.recalled(Lists(dense, sparse), settings, describe, int, k=FLOWS)
    unheard = settings._replace(summary=0.0)
    assert ranking.recalled(Lists(dense, sparse, sparse, dense), unheard, describe, int, k=FLOWS) == plain


@given(st.integers(0, 2**32 - 1), st.integers(1, 60), st.sampled_from([1, 3, 40, 500]))
def test_a_list_is_the_same_whichever_of_equals_an_engine_gives(seed: int, depth: int, kinds: int) -> None:
    """The engine orders equal scores by chance, differs by the noise of 32 bits, and cuts wherever it is told to."""
    rng = np.random.default_rng(seed)
    exact = np.sort(rng.integers(0, kinds, size=600))[::-1] / kinds + 0.1
    asked = []

    def ask(branches: Sequence[Branch], limit: int) -> list[list[Hit]]:
        asked.append(limit)
        noisy = exact + rng.uniform(-1e-7, 1e-7, size=600)
        order = np.argsort(-noisy, kind="stable")[:limit]
        return [[Hit(str(number), float(noisy[number]), {}) for number in order.tolist()]]

    made = ranking.searched(ask, [Branch()], describe, depth)[0]
    assert [hit.id for hit in made] == [str(number) for number in range(min(depth, 600))]
    assert len(asked) <= 3
    assert kinds < 500 or len(asked) == 1


def test_a_flow_is_the_sum_of_its_best_points() -> None:
    hits = [Hit(str(number), 1.0 - number / 10, {}) for number in (0, 6, 12, 18, 1)]
    settings = Settings(sparse=0, points_per_flow=2)
    best, second = ranking.recalled(Lists(hits), settings, describe, int, k=9)
    assert (best.name, best.score) == ("0", pytest.approx(1 / 10 + 1 / 11))
    assert (second.name, second.score) == ("1", pytest.approx(1 / 14))
    assert (best.similarity, best.near) == (1.0, ("text 0", "text 6"))
    assert best.support == pytest.approx(1.0 + np.exp(-9) + np.exp(-18) + np.exp(-27), abs=1e-6)


def test_the_depth_grows_until_there_are_enough_flows() -> None:
    hits = [Hit(str(FLOWS * number), 1 - number / 100, {}) for number in range(8)] + [Hit("1", 0.5, {})]
    settings = Settings(depth=2)
    assert [each.name for each in ranking.recalled(Lists(hits), settings, describe, int, k=1)] == ["0"]
    two = ranking.recalled(Lists(hits), settings, describe, int, k=2)
    assert [each.name for each in two] == ["0", "1"]
    assert two == ranking.recalled(Lists(hits), settings._replace(depth=32), describe, int, k=2)


def test_only_examples_are_shown_as_near() -> None:
    def of_kinds(hit: Hit) -> Described:
        kind = ["description", "keywords", "example", "turn", "example", "turn"][int(hit.id)]
        return Described("a", kind, ["", "", "same", "same", "other", "third"][int(hit.id)], int(hit.id))

    hits = [Hit(str(number), 1 - number / 10, {}) for number in range(6)]
    assert ranking.recalled(Lists(hits), Settings(), of_kinds, str, k=1)[0].near == ("same", "other")


def test_settings_that_make_no_sense() -> None:
    assert ranking.check(Settings()) == Settings()
    for change in ({"rrf_k": 0}, {"depth": 0}, {"points_per_flow": 0}, {"dense": 0.0, "sparse": 0.0}):
        with pytest.raises(InputError, match="numbers of at least 1"):
            ranking.check(Settings()._replace(**change))
