"""The head of acts: on the phrase bank and the practice registries."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from jazzmine_dspy.optimize.local.weights import head_example
from jazzmine_dspy.program.heads.acts import fit
from jazzmine_dspy.program.heads.acts.fit import Rows
from jazzmine_dspy.program.heads.acts.model import Acts
from jazzmine_dspy.program.heads.acts.view import Stack
from jazzmine_dspy.program.ports import EmbedderPort
from weights.ground import FOLDS, Registry

COPIES = 3
BANK = 2.0
"""What a phrase of the bank counts beside a turn of a registry: of 1 and 2 it told rare acts better."""


def rows_of(registry: Registry) -> Rows:
    """A registry's turns as numbers; all of them are left out together."""
    program = registry.program().with_policy("fallback")
    found = fit.labelled_rows([head_example(program, each) for each in registry.examples])
    # The reader has learnt from these registries, so that its vectors of them are not those of new ones.
    shown = found.shown._replace(read=np.zeros_like(found.shown.read))
    return found._replace(shown=shown, groups=(registry.name,) * len(found.groups))


def joined(parts: Sequence[Rows]) -> Rows:
    """All rows of several parts."""
    stack = Stack(*(np.concatenate([getattr(part.shown, name) for part in parts]) for name in Stack._fields))
    return Rows(
        stack,
        np.concatenate([part.right for part in parts]),
        tuple(group for part in parts for group in part.groups),
        np.concatenate([part.weights for part in parts]),
    )


def head_of(embedder: EmbedderPort, parts: Sequence[Rows]) -> Acts:
    """A head fitted on the bank and on some registries."""
    bank = fit.bank_rows(embedder, COPIES)
    return fit.fit_rows(joined([bank._replace(weights=bank.weights * BANK), *parts]))


def left_out(embedder: EmbedderPort, registries: Sequence[Registry], rows: Sequence[Rows]) -> list[Acts]:
    """For each fold of registries a head that has seen none of them."""
    return [
        head_of(embedder, [row for each, row in zip(registries, rows, strict=True) if each.fold != fold])
        for fold in range(FOLDS)
    ]
