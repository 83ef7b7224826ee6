"""What the practice registries gave: each judged by what was fitted without it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from jazzmine_dspy import eval as scoring
from jazzmine_dspy.program.heads import options
from jazzmine_dspy.program.heads.acts.fit import Rows
from jazzmine_dspy.program.heads.acts.model import ACTS, Acts
from jazzmine_dspy.program.local.understanding import LIKELY_ASKED, LIKELY_TOLD
from jazzmine_dspy.program.ports import EmbedderPort
from weights import acts, choices
from weights.ground import FOLDS, Registry

_SHOWN = ("affirm", "deny", "value", "correct", "skip", "cancel_flow", "ask", "chitchat", "start")


class Measured(NamedTuple):
    """Registries with the rows of their turns, and what decides with nothing learnt of them."""

    registries: Sequence[Registry]
    rows: Sequence[Rows]
    embedder: EmbedderPort
    bank: Acts
    heads: Sequence[Acts]


def lines(given: Measured) -> Iterator[str]:
    """The table, as Markdown."""
    yield "| practice registries, each left out | the phrases alone | with the other registries |"
    yield "|---|---|---|"
    alone, beside = (_right(given, head) for head in (None, given.heads))
    yield f"| all commands right, % of {alone[1]:,} turns | {_share(*alone)} | {_share(*beside)} |"
    first, second = (_f1(given, head) for head in (None, given.heads))
    for act in _SHOWN:
        yield f"| act `{act}`, F1 | {first[act]:.2f} | {second[act]:.2f} |"
    asked, told = _options(given)
    yield f"| options in other words, asked for: right of those taken | - | {asked} |"
    yield f"| options in other words, in an opening: right of those taken | - | {told} |"


def _of(given: Measured, registry: Registry, heads: Sequence[Acts] | None) -> Acts:
    return given.bank if heads is None else heads[registry.fold]


def _share(right: int, of: int) -> str:
    return f"{100 * right / of:.1f}"


def _right(given: Measured, heads: Sequence[Acts] | None) -> tuple[int, int]:
    right = of = 0
    for registry in given.registries:
        found = scoring.evaluate(registry.program(_of(given, registry, heads)), registry.examples).turns
        right += sum(turn.scores["commands_exact"].value == 1.0 for turn in found)
        of += len(found)
    return right, of


def _f1(given: Measured, heads: Sequence[Acts] | None) -> dict[str, float]:
    told, right = [], []
    for registry, rows in zip(given.registries, given.rows, strict=True):
        head = _of(given, registry, heads)
        shares = [head.shares(row) for row in head.scores(rows.shown)]
        told.append(np.array([[each[act] >= 0.5 for act in ACTS] for each in shares]))
        right.append(rows.right)
    said, labelled = np.concatenate(told), np.concatenate(right)
    both, either = (said & labelled).sum(0), said.sum(0) + labelled.sum(0)
    return {
        act: float(2 * hits / max(1, all_of)) for act, hits, all_of in zip(ACTS, both, either, strict=True)
    }


def _options(given: Measured) -> tuple[str, str]:
    rows = [
        [*choices.rows_of(each, seen, given.heads[each.fold], given.embedder)]
        for each, seen in zip(given.registries, given.rows, strict=True)
    ]
    told = {True: [0, 0], False: [0, 0]}
    for fold in range(FOLDS):
        known = [
            row
            for each, some in zip(given.registries, rows, strict=True)
            if each.fold != fold
            for row in some
        ]
        fitted = choices.fit(known)
        weights = options.Weights(tuple(fitted["options"]), tuple(fitted["none"]))
        for each, some in zip(given.registries, rows, strict=True):
            for row in some if each.fold == fold else ():
                shares = options.shares(weights, row.options, row.none)
                asked, best = bool(row.none[0]), int(shares.argmax())
                if shares[best] >= (LIKELY_ASKED if asked else LIKELY_TOLD):
                    told[asked][0] += row.right == best
                    told[asked][1] += 1
    return f"{told[True][0]} of {told[True][1]}", f"{told[False][0]} of {told[False][1]}"


def of(embedder: EmbedderPort, registries: Sequence[Registry]) -> Measured:
    """Fit what is measured."""
    rows = [acts.rows_of(each) for each in registries]
    return Measured(
        registries, rows, embedder, acts.head_of(embedder, []), acts.left_out(embedder, registries, rows)
    )
