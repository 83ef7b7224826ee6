"""The same head from more turns: its parts learn again, and nothing that was chosen is chosen again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from jazzmine_dspy.optimize import _head_fit as fitting
from jazzmine_dspy.optimize.heads import HeadRow, TrainedHead, _Training
from jazzmine_dspy.program.heads import SelectionHead

if TYPE_CHECKING:
    from jazzmine_dspy.program.clauses import ClauseRule
    from jazzmine_dspy.program.ports import EmbedderPort


class _Again(_Training):
    """A training that takes the rule for several flows as it is."""

    def __init__(self, rule: ClauseRule | None, rows: Sequence[HeadRow], *rest: Any) -> None:
        self._kept = rule
        super().__init__(rows, *rest)

    def _rule(self) -> tuple[ClauseRule | None, dict[str, Any]]:
        return self._kept, {}

    def again(self, trained: TrainedHead) -> SelectionHead:
        head, weights = trained.head, trained.facts["weights"]
        weighed = fitting.Weighed(
            float(weights["logistic"]), float(weights["means"]), head.blend, head.open_set, head.trust
        )
        parts = self.material.fit(self.taught, float(trained.facts["c"]))
        space = self.material.space(self.taught) if head.open_set.kind == "mahalanobis" else None
        return fitting.build(self.material, parts, weighed, space, head.rule)


def same_head(
    trained: TrainedHead,
    rows: Sequence[HeadRow],
    *,
    embedder: EmbedderPort,
    seed: int,
    examples: Sequence[tuple[str, str]] = (),
    flows: Sequence[str] = (),
) -> SelectionHead:
    """Train the parts of a head on more rows; C, weights, open-set score, calibration and rule stay.

    Args:
        trained: The head.
        rows: Labelled turns, those that it knows among them; what was recalled for them is not looked at.
        embedder: As in its training.
        seed: As in its training.
        examples: As in its training.
        flows: As in its training.

    Raises:
        DatasetError: as in its training.
    """
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    with threadpool_limits(limits=1):
        return _Again(trained.head.rule, rows, embedder, seed, examples, flows, None).again(trained)
