"""What is fitted is fitted on what is served: rows hold what the local decider sees of a turn."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jazzmine_dspy.artifacts.loading import bind_recall
from jazzmine_dspy.datasets import Dataset, load_dataset
from jazzmine_dspy.optimize.local.rows import Exclusions, collect_rows
from jazzmine_dspy.optimize.local.training import head_row
from jazzmine_dspy.program.local.understanding import head_input
from jazzmine_dspy.program.policy import Policy
from jazzmine_dspy.program.ports import SelectionOutput
from jazzmine_dspy.program.turn import TurnProgram


class Watching:
    """An index that notes what is asked of it."""

    fingerprint = "watching"

    def __init__(self, inner: Any) -> None:
        self.inner, self.registry = inner, inner.registry
        self.asked: list[tuple[str, tuple[str, ...], tuple[str, ...]]] = []

    def __deepcopy__(self, memo: Any) -> Watching:
        return self

    def recall(self, query: str, **settings: Any) -> Any:
        self.asked.append((query, tuple(settings["summaries"]), tuple(sorted(settings["exclude"]))))
        return self.inner.recall(query, **settings)


class Noting:
    """A head that notes what it is given."""

    fingerprint = "noting"

    def __init__(self) -> None:
        self.given: list[Any] = []

    def __deepcopy__(self, memo: Any) -> Noting:
        return self

    def texts(self, message: str) -> tuple[str, ...]:
        return (message,)

    def predict(self, given: Any) -> SelectionOutput:
        self.given.append(given)
        return SelectionOutput((), 0.9, (("none", 0.9),))


@pytest.fixture(scope="module")
def dataset(library: Path) -> Dataset:
    return load_dataset(library)


@pytest.mark.row("C2")
@pytest.mark.parametrize("shape", ["staged", "fused"])
def test_rows_are_what_a_decision_is_made_of(shape: str, dataset: Dataset) -> None:
    """Query, exclusions, candidates and the head's input: the same while fitting as in a decision, turn by turn."""
    program = TurnProgram(dataset.flows, policy=Policy.model_validate({"shape": shape}).named("local"))
    bind_recall(program, "minilm")
    watched, head = Watching(program.bindings.recall), Noting()
    program = program.bind(recall=watched, heads={"select": head})
    train = dataset.examples("train")
    exclude = Exclusions(train)
    rows = collect_rows(program, train, exclude=exclude)
    fitted, watched.asked = watched.asked, []
    reached = 0
    for example, row, asked in zip(train, rows, fitted, strict=True):
        head.predict(head_input(head, row.state, tuple(row.state.choosable)))
        (mine,), head.given = head.given, []
        program.decide(example.turn, exclude=exclude.of(example))
        theirs, head.given = head.given, []
        assert watched.asked[0] == asked
        watched.asked = []
        assert row.ruled == (not theirs)
        for given in theirs[:1]:
            reached += 1
            assert (mine.turn, mine.hidden) == (given.turn, given.hidden)
            assert list(mine.flows) == list(given.flows)
            assert list(mine.recalled) == list(given.recalled)
            assert np.array_equal(mine.features, given.features)
            assert (head_row(row).text, head_row(row).recalled) == (given.query, given.recalled)
    assert 0 < reached < len(train)
