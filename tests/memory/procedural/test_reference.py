"""Every engine ranks as plain numpy does."""

from __future__ import annotations

import pytest

from jazzmine_dspy.memory.procedural.engine import CollectionSpec
from jazzmine_dspy.memory.procedural.index import open_engine
from reference_ranking import SIZE, Reference, compare, random_points, scores_agree

LAYOUT = CollectionSpec("flows", SIZE)


@pytest.mark.row("F4")
@pytest.mark.slow
@pytest.mark.parametrize(("name", "questions"), [("edge", 4750), ("local", 65)])
def test_the_ranking_is_that_of_a_plain_reference(name: str, questions: int) -> None:
    """Random messages, summaries, filters and settings; the same flows in the same order, and scores within 1e-6."""
    points = random_points(200)
    reference = Reference(points)
    engine = open_engine(":memory:", name)
    engine.ensure(LAYOUT)
    engine.upsert(LAYOUT, points)
    first = compare(engine, LAYOUT, reference, questions=questions)

    # Removed and replaced points leave no trace in the document frequencies.
    gone = [point.id for point in points[::4]]
    again = random_points(50, seed=1, start=100)
    engine.delete(LAYOUT, gone)
    engine.upsert(LAYOUT, again)
    reference.delete(gone)
    reference.upsert(again)
    assert scores_agree(engine, LAYOUT, reference, questions=20) < 1e-6
    then = compare(engine, LAYOUT, reference, questions=questions // 11)
    engine.close()
    assert first.questions + then.questions >= (5000 if name == "edge" else 60)
    assert first.doubtful + then.doubtful < 0.04 * questions


def test_the_reference_tells_a_wrong_ranking() -> None:
    points = random_points(100)
    engine = open_engine(":memory:")
    engine.ensure(LAYOUT)
    engine.upsert(LAYOUT, points[1:])
    with pytest.raises(AssertionError, match="question"):
        compare(engine, LAYOUT, Reference(points), questions=50)
    engine.close()
