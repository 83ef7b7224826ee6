"""The engine in process ranks as a plain reference does."""

from __future__ import annotations

import pytest

from jazzmine_dspy.memory.procedural.engine import CollectionSpec
from jazzmine_dspy.memory.procedural.numpy_engine import NumpyEngine
from reference_ranking import SIZE, Reference, compare, random_points, scores_agree

LAYOUT = CollectionSpec("flows", SIZE)


@pytest.mark.row("F4")
@pytest.mark.slow
def test_the_ranking_is_that_of_a_plain_reference() -> None:
    """Random messages, summaries, filters and settings; the same flows in the same order, and scores within 1e-6."""
    questions, points = 4750, random_points(200)
    reference, engine = Reference(points), NumpyEngine()
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
    assert first.questions + then.questions >= 5000
    assert first.doubtful + then.doubtful < 0.04 * questions


def test_the_reference_tells_a_wrong_ranking() -> None:
    points = random_points(100)
    engine = NumpyEngine()
    engine.ensure(LAYOUT)
    engine.upsert(LAYOUT, points[1:])
    with pytest.raises(AssertionError, match="question"):
        compare(engine, LAYOUT, Reference(points), questions=50)
    engine.close()
