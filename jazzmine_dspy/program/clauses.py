"""Several flows in one message: where it may be cut into wishes, and which reading of it is the likeliest (F10).

A message is cut at connectors ("and then", a comma, a full stop). Each span between two cuts is judged by the head on
its own, and a small log-linear model weighs the readings: how sure the head is of each span, how often such a
connector parts two wishes, how many wishes a message has. Its weights are fitted by the optimization run; the
connectors are data of the rule, so that another language brings its own.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import combinations, product
from typing import NamedTuple

from pydantic import Field, field_validator

from jazzmine_dspy.models.base import Value
from jazzmine_dspy.models.errors import InputError
from jazzmine_dspy.program._cuts import READ, Cut, find_cuts, is_short

__all__ = [
    "CONNECTORS",
    "NONE",
    "ClauseRule",
    "Cut",
    "Ranking",
    "Reading",
    "Way",
]

Ranking = Sequence[tuple[str, float]]
"""Labels with probabilities, best first; ``"none"`` may be among them."""

NONE = "none"

CONNECTORS: tuple[tuple[str, float], ...] = (
    (",", -1.0), (";", 0.0), (".", 0.0), ("?", 0.5), ("—", -1.0),
    ("and then", 2.0), ("and also", 2.0), ("and after that", 2.0), ("as well as", 0.0), ("after that", 0.5),
    ("followed by", 0.5), ("then", 0.5), ("also", 0.0), ("plus", -0.5), ("but", -0.5), ("and", 0.0),
)  # fmt: skip
"""Connectors of English with the log-odds of being a cut that an unfitted rule gives them. One of the five marks
stands for all of its kind, in any language: ``.`` for every end of a sentence or line."""

_LIKELY = 3
"""Labels of a span that are tried: the best reading of three distinct flows needs no further one."""


class Way(NamedTuple):
    """A way to cut a message: the numbers of its spans among :meth:`ClauseRule.parts`, and the cuts made."""

    spans: tuple[int, ...]
    cuts: tuple[Cut, ...]


class Reading(NamedTuple):
    """A way to cut a message with a label for each span.

    Args:
        flows: In the order of the message, each once; without "none".
        way: The way.
        log_p: Sum of the log-probabilities of the labels.
    """

    flows: tuple[str, ...]
    way: Way
    log_p: float


class ClauseRule(Value):
    """Decides how many flows a message wants, and which, in order.

    Args:
        connectors: Words or marks with the log-odds that each adds to a cut where it stands.
        scale: Factor of the head's log-probabilities: below 1 where clauses are judged too surely.
        counts: Log-odds of one, two, three, ... wishes; their number is the most wishes that are answered, 1 to 5.
        short: Log-odds that each span of fewer than three words adds.
        together: For flows that stand in the same clause: the next flow is added while its probability among the
            flows that are left reaches this. Where it is given, messages are not cut.
        trust: Factor and offset of the log-odds of an answer of several flows, by which its confidence is calibrated.
        most_cuts: Cuts that are considered, the likeliest ones, 1 to 8. Each pair of cuts is one more text to embed.

    Example:
        >>> rule = ClauseRule()
        >>> parts = rule.parts("where is my parcel and then cancel the lamp")
        >>> parts[1:]
        ('where is my parcel', 'cancel the lamp')
        >>> whole = [("track", 0.5), ("cancel", 0.4), ("refund", 0.1)]
        >>> spans = [whole, [("track", 0.95), ("cancel", 0.05)], [("cancel", 0.9), ("refund", 0.1)]]
        >>> flows, confidence = rule.decide(whole, parts, spans)
        >>> flows, round(confidence, 2)
        (('track', 'cancel'), 0.78)
    """

    connectors: tuple[tuple[str, float], ...] = CONNECTORS
    scale: float = Field(default=1.0, ge=0.0, le=10.0)
    counts: tuple[float, ...] = Field(default=(0.0, 0.0, 0.0), min_length=1, max_length=5)
    short: float = -1.0
    together: float | None = Field(default=None, gt=0.0, le=1.0)
    trust: tuple[float, float] = (1.0, 0.0)
    most_cuts: int = Field(default=5, ge=1, le=8)

    @field_validator("connectors")
    @classmethod
    def _named_once(cls, connectors: tuple[tuple[str, float], ...]) -> tuple[tuple[str, float], ...]:
        names = [" ".join(name.lower().split()) for name, _ in connectors]
        if len(set(names)) < len(names) or not all(names):
            raise ValueError("each connector needs a text of its own")
        return connectors

    def cuts(self, text: str) -> tuple[Cut, ...]:
        """Where a message may be cut, in order: never inside quotes, numbers and names, and never at its ends."""
        weights = dict(self.connectors)
        found = find_cuts(text, tuple(weights))
        if len(found) > self.most_cuts:
            likely = sorted(found, key=lambda cut: -sum(weights[name] for name in cut.connectors))
            return tuple(sorted(likely[: self.most_cuts]))
        return found

    def parts(self, text: str) -> tuple[str, ...]:
        """The texts that :meth:`decide` wants to see judged: the whole message first, then every span of it.

        Returns:
            Nothing where the message has no cut; else the message as it is, and for n cuts the
            (n + 1)(n + 2) / 2 - 1 spans between any two cuts or ends, by their beginning, then by their end.
        """
        cuts = () if self.together is not None else self.cuts(text)
        if not cuts:
            return ()
        starts, ends = [0, *(cut.end for cut in cuts)], [*(cut.start for cut in cuts), READ]
        spans = [text[starts[i] : ends[j - 1]].strip() for i, j in _numbers(len(cuts))]
        return text, *spans[1:]

    def ways(self, text: str) -> list[Way]:
        """All ways to cut a message into as many wishes as :attr:`counts` has numbers, the uncut message first."""
        cuts = self.cuts(text)
        numbers = _numbers(len(cuts))
        found = []
        for made in range(min(len(cuts), len(self.counts) - 1) + 1):
            for chosen in combinations(range(len(cuts)), made):
                edges = (0, *(cut + 1 for cut in chosen), len(cuts) + 1)
                spans = tuple(numbers[edges[k], edges[k + 1]] for k in range(made + 1))
                found.append(Way(spans, tuple(cuts[cut] for cut in chosen)))
        return found

    def log_odds(self, way: Way, parts: Sequence[str]) -> float:
        """What speaks for a way to cut a message before anything is known of the flows of its spans."""
        weights = dict(self.connectors)
        made = sum(weights[name] for cut in way.cuts for name in cut.connectors)
        return (
            made
            + self.counts[len(way.spans) - 1]
            + self.short * sum(is_short(parts[span]) for span in way.spans)
        )

    def readings(self, ways: Sequence[Way], rankings: Sequence[Ranking]) -> Iterator[Reading]:
        """All readings of a message that could be the best, given a ranking of each of its parts."""
        most = max(_LIKELY, len(self.counts))
        likely = [[(label, math.log(max(p, 1e-6))) for label, p in ranking[:most]] for ranking in rankings]
        for way in ways:
            for labels in product(*(likely[span] for span in way.spans)):
                flows = tuple(label for label, _ in labels if label != NONE)
                if len(set(flows)) == len(flows):
                    yield Reading(flows, way, sum(log_p for _, log_p in labels))

    def decide(
        self, whole: Ranking, parts: Sequence[str] = (), rankings: Sequence[Ranking] = ()
    ) -> tuple[tuple[str, ...], float]:
        """The flows that a message wants.

        Args:
            whole: Ranking of the message by all that is known of it.
            parts: What :meth:`parts` gave for the message.
            rankings: A ranking of each part by the same judge; the first is of the whole message once more.

        Returns:
            The flows in the order of the message, none where no flow is wanted, and the probability, from 0 to 1, that
            it is exactly these.

        Raises:
            InputError: a ranking is empty, or ``rankings`` do not fit ``parts``.
        """
        if not whole or not all(rankings) or len(parts) != len(rankings):
            raise InputError(
                "A clause rule needs a ranking of the message and one of each part",
                where=f"{len(whole)} labels, {len(parts)} parts, {len(rankings)} rankings",
            )
        if self.together is not None:
            flows, p = _together(whole, self.together, len(self.counts))
        elif parts:
            flows, p = self._read(whole, parts, rankings)
        else:
            flows, p = _flows(whole[0][0]), _probability(whole[0][1])
        return flows, self._trusted(p) if len(flows) > 1 else p

    def _trusted(self, p: float) -> float:
        factor, offset = self.trust
        return 1.0 / (1.0 + math.exp(-(factor * log_odds(p) + offset)))

    def _read(
        self, whole: Ranking, parts: Sequence[str], rankings: Sequence[Ranking]
    ) -> tuple[tuple[str, ...], float]:
        if len(parts) != len(_numbers(len(self.cuts(parts[0])))):
            raise InputError(
                "The parts are not what this rule gives for the message", where=f"{len(parts)} parts"
            )
        ways = self.ways(parts[0])
        odds = {way: self.log_odds(way, parts) for way in ways}
        scored = [(self.scale * each.log_p + odds[each.way], each) for each in self.readings(ways, rankings)]
        top = max(score for score, _ in scored)
        mass: dict[tuple[str, ...], float] = {}
        uncut = total = 0.0
        for score, reading in scored:
            weight = math.exp(score - top)
            total += weight
            if reading.way.cuts:
                mass[reading.flows] = mass.get(reading.flows, 0.0) + weight
            else:
                uncut += weight
        # How likely the message is one wish is weighed among equals; which wish, all that is known tells better.
        for label, p in whole:
            flows = _flows(label)
            mass[flows] = mass.get(flows, 0.0) + uncut * _probability(p)
        flows = max(mass, key=lambda each: mass[each])
        return flows, _probability(mass[flows] / total)


def log_odds(p: float) -> float:
    """Log-odds of a probability, from -9.2 to 9.2."""
    p = min(1 - 1e-4, max(1e-4, p))
    return math.log(p / (1 - p))


def _flows(label: str) -> tuple[str, ...]:
    return () if label == NONE else (label,)


def _probability(p: float) -> float:
    return min(1.0, max(0.0, float(p)))


@lru_cache(maxsize=16)
def _numbers(cuts: int) -> Mapping[tuple[int, int], int]:
    """The number of each span among the parts; the whole message is the first."""
    whole = (0, cuts + 1)
    rest = [(i, j) for i in range(cuts + 1) for j in range(i + 1, cuts + 2) if (i, j) != whole]
    return {span: number for number, span in enumerate([whole, *rest])}


def _together(whole: Ranking, threshold: float, most: int) -> tuple[tuple[str, ...], float]:
    flows: list[str] = []
    left, sure = 1.0, 1.0
    for label, p in whole:
        share = _probability(p / left) if left > 1e-9 else 0.0
        if flows and (label == NONE or len(flows) == most or share < threshold):
            break
        sure = min(sure, share)
        left -= p
        if label == NONE:
            break
        flows.append(label)
    return tuple(flows), sure
