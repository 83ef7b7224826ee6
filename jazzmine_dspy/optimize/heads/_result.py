"""What training a selection head gives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from jazzmine_dspy.program.heads import SelectionHead
from jazzmine_dspy.program.ports import SelectionOutput

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from jazzmine_dspy.optimize.heads._fit import Weighed
    from jazzmine_dspy.optimize.heads._parts import Scope


class HeadWithout(NamedTuple):
    """A head of the same kind as another that was trained on a sample of its rows, none of them of some flows.

    What is fitted to answers about flows left out is fitted without these flows.
    """

    flows: frozenset[str]
    head: SelectionHead


@dataclass(frozen=True)
class TrainedHead:
    """A head, and what it answers on turns that it was not trained on.

    Args:
        head: Trained on all rows.
        judgements: Of each row by a head whose parts saw no turn of its conversation, nor did the weights that are
            fitted to judgements; empty where there were no rows. C, the kind of open-set score, the rule for several
            flows and what flows left out look like are chosen once, on all rows.
        folds: Shape (rows,): the part of the cross-validation in which a row was held out.
        facts: JSON for the manifest: ``rows``, ``labels``, ``c``, ``weights``, ``open_set`` with the scores compared,
            ``log_loss`` in nats and ``accuracy`` out of fold, ``clauses``.
        weighed: What was fitted on answers of the parts.
        c: Regularization of the parts.
        scope: Which labels have a model over n-grams.
        without: Heads without some flows, so that turns of these can be judged as out of scope.
        assumed_share: Share of the messages that is taken to be out of scope, whatever the labels tell; 0 where they
            are taken at their word.
    """

    head: SelectionHead
    judgements: list[SelectionOutput]
    folds: NDArray[np.int64]
    facts: dict[str, Any]
    weighed: Weighed
    c: float
    scope: Scope
    without: tuple[HeadWithout, ...] = ()
    assumed_share: float = 0.0
