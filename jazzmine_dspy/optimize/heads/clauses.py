"""Fits the rule for several flows in one message on labelled turns, and finds the clauses to train heads on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from jazzmine_dspy.optimize.heads._clause_fit import (
    Asked,
    answers,
    fit_cuts,
    fit_together,
    fit_trust,
    raise_threshold,
)
from jazzmine_dspy.optimize.heads._rows import HeadRow
from jazzmine_dspy.program._cuts import find_cuts, is_short
from jazzmine_dspy.program.clauses import CONNECTORS, NONE, ClauseRule, Ranking

Judge = Callable[[Sequence[str]], Sequence[Ranking]]
"""Ranks the labels of each text, best first."""

FOLDS = 3
Row = TypeVar("Row")
_ALL = tuple(name for name, _ in CONNECTORS)
_MOST_TRAINING = 6_000
"""Rows that a judge is trained on at most."""

_MOST = 12
"""Cuts that count where texts are compared."""

_MARGINS = (0.0, 0.5, 1.0, 2.0, 4.0)
"""What is taken from the odds of several flows, until messages of one flow lose little enough."""


class ClauseRow(NamedTuple):
    """A text that wants one flow.

    Args:
        text: A message, or a clause of one.
        flow: The flow, or "none".
        group: The conversation that it is from.
    """

    text: str
    flow: str
    group: str


Train = Callable[[Sequence[ClauseRow]], Judge]
"""Trains a judge on texts with one flow each."""


def unseen(rows: Iterable[ClauseRow], texts: Iterable[str]) -> list[ClauseRow]:
    """Those rows that share no clause with some texts: what a judge may learn that is tested on the texts."""
    held = frozenset[str]().union(*(_pieces(text) for text in texts))
    return [row for row in rows if not _pieces(row.text) & held]


def training_clauses(
    rows: Sequence[HeadRow], rule: ClauseRule | None, *, seed: int = 0, most: int = 8_000
) -> list[ClauseRow]:
    """What messages of several flows teach a head: one row for each clause and its flow.

    Where a message has as many clauses as flows, they belong together in their order. Where it may be cut in more
    ways, the one is taken that a small model of words finds likeliest, which is trained on what is certain first.
    A message that can't be cut into its flows, or whose flows stand together (``rule.together``), or that no rule
    decides, is a row as a whole, once for each flow.

    Args:
        rows: Labelled turns; those of one flow or none are not among the result.
        rule: What the messages are cut by.
        seed: Decides which messages are taken where there are more than ``most``.
        most: Messages to take at most.

    Returns:
        Rows in the order of the messages, each text and flow once.
    """
    several = _sampled(_once([row for row in rows if len(row.flows) > 1]), most, seed)
    if rule is None or rule.together is not None:
        return _distinct(ClauseRow(row.text, flow, row.group) for row in several for flow in row.flows)
    wide = rule.model_copy(update={"most_cuts": 8, "counts": (0.0,) * 5})
    known = [ClauseRow(row.text, row.flows[0], row.group) for row in rows if len(row.flows) == 1]
    known = _sampled(_distinct(known), most, seed)
    ways = _aligned(wide, several, [row.text for row in known])
    # What the odds of the connectors favour comes first; then what the words say counts as well.
    chosen = [max(held, key=lambda way: way[1])[0] if held else None for held in ways]
    certain = [held[0][0] if len(held) == 1 else None for held in ways]
    open_ = [number for number, held in enumerate(ways) if len(held) > 1]
    for aligned in (certain if known or any(certain) else chosen, chosen) if open_ else ():
        scores = _word_scores(
            _distinct([*known, *_rows(several, aligned)]),
            [
                (text, flow)
                for number in open_
                for texts, _ in ways[number]
                for text, flow in zip(texts, several[number].flows, strict=True)
            ],
        )
        at = 0
        for number in open_:
            totals = []
            for texts, odds in ways[number]:
                totals.append(odds + sum(scores[at : at + len(texts)]))
                at += len(texts)
            chosen[number] = ways[number][int(np.argmax(totals))][0]
    return _distinct(_rows(several, [texts or (row.text,) * len(row.flows)
                                     for row, texts in zip(several, chosen, strict=True)]))  # fmt: skip


def fit_clause_rule(
    rows: Sequence[HeadRow],
    train: Train,
    *,
    seed: int,
    most: int = 1_200,
    worth: float = 5.0,
) -> tuple[ClauseRule | None, dict[str, Any]]:
    """Fit the rule on labelled turns, by judges that saw none of the clauses that they are asked about.

    Three answers are compared on held-out messages: one flow always; the best reading of the message's clauses;
    flows that stand together, above a threshold. The one that gets most sets of flows right is kept.

    Args:
        rows: Labelled turns, of several flows, one, or none.
        train: Trains a judge; called once for each of three folds and each of the two ways to answer several flows.
        seed: Decides samples and folds.
        most: Messages that are judged, half of them of several flows as far as there are so many.
        worth: Messages of several flows that must be won for each message of one flow or none that is lost.

    Returns:
        The rule, None where one flow is always the best answer or no messages want several; and what was found, as
        JSON: for both ways the shares of messages whose set of flows is right out of fold with one flow always
        (``one``, and ``one_single`` among those of one flow or none) and with the rule (``exact``, ``single``, and
        ``several`` among those of several); shares are of all labelled messages, of which the judged are a sample.
    """
    start = ClauseRule()
    held = _once(rows)
    several = sum(len(row.flows) > 1 for row in held)
    facts: dict[str, Any] = {"messages": len(held), "several": several, "kept": "one"}
    if len({row.group for row in held if len(row.flows) > 1}) < FOLDS:
        return None, facts
    best: tuple[float, ClauseRule | None] = (0.0, None)
    for kind, rule in {"clauses": start, "together": start.model_copy(update={"together": 0.5})}.items():
        if not (asked := _asked(held, rule, train, seed, most)):
            continue
        exact, made, facts[kind] = _tried(asked, rule, worth)
        if made is not None and exact > best[0]:
            best, facts["kept"] = (exact, made), kind
    return best[1], facts


def _tried(
    asked: Sequence[Asked], rule: ClauseRule, worth: float
) -> tuple[float, ClauseRule | None, dict[str, Any]]:
    """The share of right messages out of fold, the rule fitted on all of them if it pays, and what was found."""
    fit = fit_cuts if rule.together is None else fit_together
    folds = [fit([each for each in asked if each.fold != fold], rule) for fold in range(FOLDS)]
    weights = np.array([each.weight for each in asked])
    single = np.array([len(each.flows) <= 1 for each in asked])
    one = answers(asked, None).right

    def share(right: NDArray[np.bool_], among: NDArray[np.bool_]) -> float:
        return round(float(np.average(right[among], weights=weights[among])), 4) if among.any() else 1.0

    every = np.ones(len(asked), dtype=bool)
    found = []
    for margin in _MARGINS:
        said = answers(asked, [raise_threshold(each, margin) for each in folds])
        gain = weights * (said.right.astype(float) - one)
        if gain[~single].sum() > max(0.0, -worth * gain[single].sum()):
            found.append((share(said.right, every), -margin, said))
    facts: dict[str, Any] = {"judged": len(asked), "one": share(one, every), "one_single": share(one, single)}
    if not found:
        return 0.0, None, facts
    exact, negative, said = max(found, key=lambda each: each[:2])
    made = raise_threshold(fit(asked, rule), -negative).model_copy(update={"trust": fit_trust(asked, said)})
    facts |= {
        "exact": exact, "single": share(said.right, single), "several": share(said.right, ~single),
        "margin": -negative, "rule": made.model_dump(mode="json"),
    }  # fmt: skip
    return exact, made, facts


def _asked(rows: Sequence[HeadRow], rule: ClauseRule, train: Train, seed: int, most: int) -> list[Asked]:
    """A sample of messages with what a judge says of them that saw no message of their group, and no clause."""
    sampled: list[HeadRow] = []
    kinds = {several: [row for row in rows if (len(row.flows) > 1) is several] for several in (True, False)}
    for several, of in kinds.items():
        # Of messages that share clauses, many have no place in a fold: three times as many are dealt as are wanted.
        sampled += _sampled(of, 3 * max(most // 2, most - len(kinds[not several])), seed)
    folds = _folds(sampled, seed)
    dealt = {
        several: [row for row in sampled if folds[row.text] >= 0 and (len(row.flows) > 1) is several]
        for several in kinds
    }
    taken: list[HeadRow] = []
    for several, of in dealt.items():
        taken += _sampled(of, max(most // 2, most - len(dealt[not several])), seed)
    total, kept = (Counter(min(len(row.flows), 3) for row in each) for each in (rows, taken))
    clauses = training_clauses(kinds[True], rule, seed=seed)
    clauses += [ClauseRow(row.text, row.flows[0] if row.flows else NONE, row.group) for row in kinds[False]]
    asked = []
    for fold in range(FOLDS):
        out = [row for row in taken if folds[row.text] == fold]
        groups = {row.group for row in out}
        known = unseen((row for row in clauses if row.group not in groups), (row.text for row in out))
        if not out or not known:
            continue
        judge = train(_sampled(known, _MOST_TRAINING, seed))
        parts = [rule.parts(row.text) or (row.text,) for row in out]
        texts = list(dict.fromkeys(text for held in parts for text in held))
        rankings = dict(zip(texts, judge(texts), strict=True))
        for row, held in zip(out, parts, strict=True):
            count = min(len(row.flows), 3)
            weight = total[count] / kept[count]
            asked.append(Asked(row.text, row.flows, weight, fold, [rankings[text] for text in held]))
    return asked


def _folds(rows: Sequence[HeadRow], seed: int) -> dict[str, int]:
    """The fold of each message: all of one group, or that share a clause, have the same, or none (-1).

    Where clauses are used again and again, all messages hang together; then those are kept whose clauses happen to be
    of one fold, so that the clauses of the others remain for training.
    """
    of: dict[str, int] = {}
    sizes = [0] * FOLDS
    result: dict[str, int] = {}
    keys_of = [[*_pieces(row.text), f"group {row.group}"] for row in rows]
    most = 1.2 * len({key for keys in keys_of for key in keys}) / FOLDS
    for number in np.random.default_rng(seed).permutation(len(rows)):
        text, keys = rows[number].text, keys_of[number]
        met = {of[key] for key in keys if key in of}
        fold = met.pop() if len(met) == 1 else int(np.argmin(sizes)) if not met else -1
        if fold >= 0 and sizes[fold] <= most:
            sizes[fold] += sum(key not in of for key in keys)
            of.update(dict.fromkeys(keys, fold))
            result[text] = fold
        else:
            result[text] = -1
    return result


def _aligned(
    rule: ClauseRule, rows: Sequence[HeadRow], texts: Sequence[str]
) -> list[list[tuple[tuple[str, ...], float]]]:
    """For each message the ways to cut it into as many clauses as it has flows, with what speaks for them.

    Besides the odds of the connectors this is whether clauses begin with words that messages begin with, and whether
    all of them are met in other messages as well.
    """
    parts = [rule.parts(row.text) for row in rows]
    met = Counter(_plain(text) for text in texts)
    met.update(plain for held in parts for plain in {_plain(part) for part in held})
    begins = Counter(_first(text) for text in (*texts, *(row.text for row in rows)))
    follows = Counter(_first(row.text[cut.end :]) for row in rows for cut in rule.cuts(row.text))
    words = len(begins | follows)
    shift = np.log((follows.total() + words) / (begins.total() + words))
    found = []
    for row, held in zip(rows, parts, strict=True):
        ways = [way for way in rule.ways(row.text) if len(way.spans) == len(row.flows)] if held else []
        again = [float(np.log(max(1, met[_plain(part)]))) for part in held]
        start = [float(np.log((begins[w] + 1) / (follows[w] + 1)) + shift) for w in map(_first, held)]
        found.append(
            [
                (
                    tuple(held[span] for span in way.spans),
                    rule.log_odds(way, held)
                    + min(again[span] for span in way.spans)
                    + sum(start[span] for span in way.spans[1:]),
                )
                for way in ways
            ]
        )
    return found


def _rows(rows: Sequence[HeadRow], texts: Sequence[tuple[str, ...] | None]) -> list[ClauseRow]:
    return [
        ClauseRow(text, flow, row.group)
        for row, held in zip(rows, texts, strict=True)
        if held is not None
        for text, flow in zip(held, row.flows, strict=True)
    ]


def _word_scores(known: Sequence[ClauseRow], asked: Sequence[tuple[str, str]]) -> list[float]:
    """Log-probability of each asked flow of a text, by a naive Bayes model of words and pairs of words."""
    from sklearn.feature_extraction.text import CountVectorizer
    from sklearn.naive_bayes import MultinomialNB

    words = CountVectorizer(ngram_range=(1, 2), token_pattern=r"\w+", binary=True)
    names = sorted({row.flow for row in known})
    model = MultinomialNB(alpha=0.1).fit(
        words.fit_transform([row.text for row in known]), [names.index(row.flow) for row in known]
    )
    texts = list(dict.fromkeys(text for text, _ in asked))
    numbers = {text: number for number, text in enumerate(texts)}
    scores = model.predict_log_proba(words.transform(texts))
    columns = {name: column for column, name in enumerate(names)}
    unknown = -20.0
    return [
        max(unknown, float(scores[numbers[text], columns[flow]])) if flow in columns else unknown
        for text, flow in asked
    ]


def _pieces(text: str) -> frozenset[str]:
    """What two texts may have in common: the whole, and each span of it of three words or more."""
    cuts = find_cuts(text, _ALL)[:_MOST]
    starts, ends = [0, *(cut.end for cut in cuts)], [*(cut.start for cut in cuts), len(text)]
    spans = {text[start:end] for i, start in enumerate(starts) for end in ends[i:]}
    return frozenset({_plain(text), *(_plain(span) for span in spans if not is_short(span))})


def _first(text: str) -> str:
    return _plain(text[:60]).partition(" ")[0]


def _plain(text: str) -> str:
    return " ".join(text.lower().split()).strip(" ,.;?!")


def _once(rows: Sequence[HeadRow]) -> list[HeadRow]:
    """Each text once, by the first row of it."""
    held: dict[str, HeadRow] = {}
    for row in rows:
        held.setdefault(_plain(row.text), row)
    return list(held.values())


def _distinct(rows: Iterable[ClauseRow]) -> list[ClauseRow]:
    held: dict[tuple[str, str], ClauseRow] = {}
    for row in rows:
        held.setdefault((_plain(row.text), row.flow), row)
    return list(held.values())


def _sampled(rows: Sequence[Row], most: int, seed: int) -> list[Row]:
    if len(rows) <= most:
        return list(rows)
    taken = np.random.default_rng(seed).choice(len(rows), most, replace=False)
    return [rows[number] for number in sorted(taken)]
