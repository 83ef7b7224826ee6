from __future__ import annotations

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given
from qdrant_client import QdrantClient, models

from jazzmine_dspy.memory.procedural import ranking
from jazzmine_dspy.memory.procedural.engine import Hit
from jazzmine_dspy.memory.procedural.ranking import PointInfo, RankedLists, RecallSettings
from jazzmine_dspy.models.errors import InputError
from jazzmine_dspy.models.ports import reciprocal

FLOWS = 6
SETTINGS = st.builds(
    RecallSettings,
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


def _ceiling(settings: RecallSettings) -> float:
    """The highest score of a flow: its points lead both lists."""
    return sum(
        reciprocal(rank, k=settings.rrf_k, weight=weight)
        for weight in (settings.dense, settings.sparse)
        if weight > 0
        for rank in range(min(settings.points_per_flow, settings.depth))
    )


def describe(hit: Hit) -> PointInfo:
    return PointInfo(str(int(hit.id) % FLOWS), "example", f"text {hit.id}", "", int(hit.id))


def scores(lists: RankedLists, settings: RecallSettings) -> dict[str, float]:
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
    dense: list[Hit],
    sparse: list[Hit],
    told_dense: list[Hit],
    told_sparse: list[Hit],
    settings: RecallSettings,
) -> None:
    """What they take back of a lead is a share of the highest score, however they were chosen."""
    # At full depth, since both answers are to be about the same points.
    settings = settings._replace(depth=100)
    plain = scores(RankedLists(dense, sparse), settings)
    both = scores(RankedLists(dense, sparse, told_dense, told_sparse), settings)
    most = settings.summary * _ceiling(settings)
    for one in plain:
        for other in both:
            if plain[one] - plain.get(other, 0.0) > most + 1e-9:
                assert both[one] > both[other]
    assert max(both.values(), default=0.0) <= _ceiling(settings) + 1e-9


@given(dense=LISTS, sparse=LISTS, settings=SETTINGS)
def test_no_summaries_or_none_of_weight_change_nothing(
    dense: list[Hit], sparse: list[Hit], settings: RecallSettings
) -> None:
    plain = ranking.recalled(RankedLists(dense, sparse), settings, describe, int, k=FLOWS)
    unheard = settings._replace(summary=0.0)
    assert (
        ranking.recalled(RankedLists(dense, sparse, sparse, dense), unheard, describe, int, k=FLOWS) == plain
    )


@given(st.integers(0, 2**32 - 1), st.sampled_from([1, 3, 40]))
def test_equal_scores_stand_in_the_points_order(seed: int, kinds: int) -> None:
    """Whichever of them an engine returns first, and however the noise of 32 bits orders them."""
    rng = np.random.default_rng(seed)
    exact = np.sort(rng.integers(0, kinds, size=100))[::-1] / kinds + 0.1
    noisy = exact + rng.uniform(-1e-7, 1e-7, size=100)
    hits = [Hit(str(number), float(noisy[number]), {}) for number in rng.permutation(100).tolist()]
    ordered = ranking.ordered(hits, describe, 60)
    assert [hit.id for hit in ordered] == [str(number) for number in range(60)]


def test_a_flow_is_the_sum_of_its_best_points() -> None:
    hits = [Hit(str(number), 1.0 - number / 10, {}) for number in (0, 6, 12, 18, 1)]
    settings = RecallSettings(sparse=0, points_per_flow=2)
    best, second = ranking.recalled(RankedLists(hits), settings, describe, int, k=9)
    assert (best.name, best.score) == ("0", pytest.approx(1 / 10 + 1 / 11))
    assert (second.name, second.score) == ("1", pytest.approx(1 / 14))
    assert (best.similarity, best.near) == (1.0, ("text 0", "text 6"))
    assert best.support == pytest.approx(1.0 + np.exp(-9) + np.exp(-18) + np.exp(-27), abs=1e-6)


def test_the_depth_grows_until_there_are_enough_flows() -> None:
    hits = [Hit(str(FLOWS * number), 1 - number / 100, {}) for number in range(8)] + [Hit("1", 0.5, {})]
    settings = RecallSettings(depth=2)
    assert [each.name for each in ranking.recalled(RankedLists(hits), settings, describe, int, k=1)] == ["0"]
    two = ranking.recalled(RankedLists(hits), settings, describe, int, k=2)
    assert [each.name for each in two] == ["0", "1"]
    assert two == ranking.recalled(RankedLists(hits), settings._replace(depth=32), describe, int, k=2)


def test_only_examples_are_shown_as_near() -> None:
    def of_kinds(hit: Hit) -> PointInfo:
        kind = ["description", "keywords", "example", "turn", "example", "turn"][int(hit.id)]
        return PointInfo("a", kind, ["", "", "same", "same", "other", "third"][int(hit.id)], "", int(hit.id))

    hits = [Hit(str(number), 1 - number / 10, {}) for number in range(6)]
    assert ranking.recalled(RankedLists(hits), RecallSettings(), of_kinds, str, k=1)[0].near == (
        "same",
        "other",
    )


def test_settings_that_make_no_sense() -> None:
    assert ranking.check(RecallSettings()) == RecallSettings()
    for change in ({"rrf_k": 0}, {"depth": 0}, {"points_per_flow": 0}, {"dense": 0.0, "sparse": 0.0}):
        with pytest.raises(InputError, match="numbers of at least 1"):
            ranking.check(RecallSettings()._replace(**change))
