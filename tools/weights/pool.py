"""How much the reader and the rest count where both say how likely an act is, or that any flow starts.

Fitted on turns of which neither has learnt: registries left out of both, a dataset's training turns, and conversations
with businesses of which the reader knows the flows.
"""

from __future__ import annotations

import tarfile
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
from sklearn.linear_model import LogisticRegression

from jazzmine_dspy.datasets.schema import Example
from jazzmine_dspy.optimize.local.weights import head_example
from jazzmine_dspy.program.heads._blend import log_odds
from jazzmine_dspy.program.heads.acts.fit import acts_of
from jazzmine_dspy.program.local import starting
from jazzmine_dspy.program.local.understanding import acts_head, head_input, read_closed
from jazzmine_dspy.program.reader.reading import acts_odds
from jazzmine_dspy.program.starts import Starts
from jazzmine_dspy.program.turn import TurnProgram
from weights.ground import practice

UNSEEN = ("campsite", "car_workshop", "nursery", "optician", "photo_studio", "print_shop")
"""Practice registries that the reader has not learnt from."""
CONVERSATIONS = Path(__file__).with_name("conversations.tar.xz")
KNOWN = 0.5
"""What a turn of a business counts of which the reader knows the flows."""
STARTS = ("busy", "idle")
"""Names of the pool for whether any flow starts, while one runs and while none does."""
_C = 1.0
"""Inverse strength of the penalty."""


class Row(NamedTuple):
    """One of the things to tell of a turn, the log-odds by the reader and by the rest, whether it is so, its weight."""

    name: str
    reader: float
    other: float
    right: bool
    weight: float = 1.0


def rows_of(program: TurnProgram, examples: Iterable[Example]) -> Iterator[Row]:
    """Acts of turns that the reader can read and no rule decides, and whether a flow starts."""
    for example in examples:
        given = head_example(program, example)
        acts = set(acts_of(given.wanted, bool(given.flows)))
        state = program.read(example.turn, (example.conversation_id,))
        logits, head = state.read(), acts_head(program.bindings, state.registry)
        if logits is None or head is None or read_closed(state).commands is not None:
            continue
        shares = head.probabilities(head_input(head, state, state.choosable, rewritten=False))
        for act, odds in acts_odds(logits, example.turn).items():
            # Values of a flow that starts are none of the running one, of which the reader speaks.
            if not (given.flows and act in ("value", "correct")):
                yield Row(act, odds, float(log_odds(shares[act])), act in acts)
        seen = list[tuple[float, Starts]]()

        def spied(estimate: Starts, _: object, none: float, __: object, seen: list[Any] = seen) -> Starts:
            seen.append((float(log_odds(1.0 - none)), estimate))
            return estimate

        # What was fitted before must not count.
        with (
            mock.patch.object(Starts, "pooled", spied),
            mock.patch.object(starting, "pooled_acts", lambda *given: given[-1]),
        ):
            starting.read_starts(state)
        for reader, estimate in seen:
            name, other = "busy" if example.turn.flow else "idle", float(log_odds(estimate.probability))
            yield Row(name, reader, other, "start" in acts)


def known_rows() -> Iterator[Row]:
    """The rows of the conversations with businesses of which the reader knows the flows."""
    with tempfile.TemporaryDirectory() as folder, tarfile.open(CONVERSATIONS) as archive:
        archive.extractall(folder, filter="data")
        for each in practice(Path(folder)):
            yield from (row._replace(weight=KNOWN) for row in rows_of(each.program(), each.examples))


def fit(rows: Sequence[Row]) -> dict[str, list[float]]:
    """The weights of both for each act; for a start while a flow runs and while none does, with an offset.

    Acts have none, so that what both find unlikely stays so.
    """
    by_name = defaultdict[str, list[Row]](list)
    for row in rows:
        by_name[row.name].append(row)
    fitted = {}
    for name, each in sorted(by_name.items()):
        starts = name in STARTS
        model = LogisticRegression(C=_C, max_iter=5_000, fit_intercept=starts)
        seen, right = [[row.reader, row.other] for row in each], [row.right for row in each]
        model.fit(np.array(seen), right, sample_weight=[row.weight for row in each])
        weights = [*model.coef_[0], *(model.intercept_ if starts else ())]
        fitted[name] = [round(float(value), 3) for value in weights]
    return fitted
