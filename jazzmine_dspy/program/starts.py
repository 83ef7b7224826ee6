"""Estimate whether a message starts a flow that no head has learnt: weighs recall, acts and typed values."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from importlib.resources import files
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from jazzmine_dspy.models import Flow, FlowRegistry, ReadingContext, Turn
from jazzmine_dspy.program.clauses import NONE
from jazzmine_dspy.program.denials import undoes
from jazzmine_dspy.program.heads.acts.compose import takes_up
from jazzmine_dspy.program.heads.acts.named import named_texts
from jazzmine_dspy.program.heads.acts.readings import values_in
from jazzmine_dspy.program.policy import Policy
from jazzmine_dspy.program.ports import Recalled

URGENT = "urgent.json"

# Fitted with MiniLM, on none of what the parts below have learnt: the fitting parts of datasets/support, the working
# suite, and registries cut from public data (other halves than those of the tests). Fitted on any two of the three,
# they predict the turns of the third as well.
_FLOW = {"similarity": 3.6, "support": 0.8, "fused": 4.1, "values": 1.0, "marked": 1.25}
_START = {"similarity": 13.8, "beside": -0.37, "values": 1.5}
_OFFSET = -6.2
_RUNNING = {"similarity": -3.4, "start": 0.55, "values": 0.9}
"""Added while a flow runs: most messages then answer it, and only their words point to another one."""

_OPPOSITE = -4.0
"""Added for a flow that does the opposite of the message: ranks it far below every other."""

_AWAITED = -0.2
"""Added while a slot is awaited: if the odds are nearly even, the message is the answer."""

_INSTEAD = ("resume_flow", "repeat", "restart", "skip", "handoff")
"""Acts of messages that start no other flow, however similar to one they are."""

_MOST = 2
"""Most values that count."""

UNLIKELY = 0.01
"""Least probability of a flow, and of none, before what labels add."""

_LEAST = 1e-3
_FAR = 1e-4
"""Least probability of a flow when two estimates are pooled."""
_VAGUE = frozenset(("text", "list", "boolean", "number"))
"""Types whose values do not show which flow a message starts."""


TOO_CLOSE = "two flows are too close to choose between"
"""The reason of a selection that asks which of two flows is meant."""


NEAR = {"fallback": 0.05, "local": 0.1}
"""Least margins, by source, for a flow that needs a confirmation or undoes something; a policy can only raise them.
For recall scores, a share of the better score; for the others, a difference of probabilities."""


class Starts(NamedTuple):
    """What a message may start.

    Args:
        ranking: Flows with probabilities, best first; they sum to ``probability``.
        probability: Probability, from 0 to 1, that it starts any of them.
        vague: Whether it wants one of them but says too little to tell which.
    """

    ranking: tuple[tuple[str, float], ...]
    probability: float
    vague: bool = False

    def moved(self, added: Mapping[str, float]) -> Starts:
        """The same with what labels add to the log-odds of each flow, and under "" to those of all.

        Example:
            >>> estimate = Starts((("a", 0.5), ("b", 0.1)), 0.6).moved({"": 0.0, "b": 2.5})
            >>> [name for name, _ in estimate.ranking], estimate.probability > 0.7
            (['b', 'a'], True)
        """
        if not added or not self.ranking:
            return self
        shared = added.get("", 0.0)
        odds = {
            name: math.log(max(share, UNLIKELY)) + shared + added.get(name, 0.0)
            for name, share in self.ranking
        }
        top = max(odds.values())
        shares = {name: math.exp(each - top) for name, each in odds.items()}
        total = sum(shares.values()) + max(1.0 - self.probability, UNLIKELY) * math.exp(-top)
        ranking = sorted(((name, share / total) for name, share in shares.items()), key=lambda one: -one[1])
        return Starts(tuple(ranking), sum(share for _, share in ranking), self.vague)

    def pooled(self, shares: Mapping[str, float], none: float, weights: Sequence[float]) -> Starts:
        """Pool the probabilities with those of the reader.

        For which flow it is, logarithms are averaged (a logarithmic opinion pool; Genest and Zidek 1986, Statistical
        Science 1).

        Args:
            shares: Probabilities of the flows.
            none: Probability that the message starts none of them.
            weights: Of the reader's log-odds that it starts any, of those here, and an offset.

        Example:
            >>> estimate = Starts((("a", 0.5), ("b", 0.4)), 0.9).pooled({"b": 0.9, "a": 0.05}, 0.05, (0.65, 0.35, 0.0))
            >>> [(name, round(share, 2)) for name, share in estimate.ranking]
            [('b', 0.74), ('a', 0.2)]
        """
        both = {
            name: math.sqrt(max(share, _FAR) * max(shares.get(name, 0.0), _FAR))
            for name, share in self.ranking
        }
        odds = np.dot(weights, (_odds(1.0 - none), _odds(self.probability), 1.0))
        probability = float(1.0 / (1.0 + np.exp(-odds)))
        factor = probability / sum(both.values())
        ranking = sorted(((name, share * factor) for name, share in both.items()), key=lambda one: -one[1])
        return self._replace(ranking=tuple(ranking), probability=probability)


class Values(NamedTuple):
    """How many of a flow's slots a message holds values for, and how many of these have a form or options."""

    all: int = 0
    marked: int = 0


def values_for(flow: Flow, text: str, at: ReadingContext) -> Values:
    """Count the values of a message that fit the slots of a flow; equal values count once.

    Example:
        >>> from jazzmine_dspy.models import FlowRegistry
        >>> slots = [{"name": "size", "type": "choice", "options": ["small", "large"]}, {"name": "to", "type": "email"}]
        >>> flow = FlowRegistry([{"name": "order", "description": "Order.", "slots": slots}])["order"]
        >>> values_for(flow, "a large one for ann@post.net", ReadingContext())
        Values(all=2, marked=1)
    """
    readings: set[tuple[str, ...]] = set()
    marked = 0
    for slot in flow.slots:
        if slot.type in _VAGUE and not slot.pattern:
            continue
        reading = (slot.type, *map(str, values_in(slot, text, at)))
        if len(reading) > 1 and reading not in readings:
            readings.add(reading)
            marked += bool(slot.pattern or slot.options)
    # Both ends of a way.
    ways = len(named_texts(flow, text).values) > 1
    return Values(min(len(readings) + ways, _MOST), min(marked + ways, _MOST))


def starts(
    recalled: Sequence[Recalled],
    acts: Mapping[str, float],
    turn: Turn,
    values: Callable[[str], Values],
    opposite: Callable[[str], bool] = lambda _: False,
) -> Starts | None:
    """Estimate the probability that a message starts each flow, and any flow at all.

    Args:
        recalled: What recall found, with similarities; without any the result is None.
        acts: The probability of each act.
        turn: The turn.
        values: Counts the values of the message that fit a flow.
        opposite: Whether a flow does the opposite of the message.
    """
    running = turn.flow
    others = [one for one in recalled if one.name != running]
    if not others or not any(one.similarity for one in others):
        return None
    instead = [act for act in _INSTEAD if acts[act] >= 0.5 and acts[act] > acts["start"]]
    if instead and (
        instead != ["resume_flow"] or takes_up(turn) or any(values(name).marked for name in turn.paused)
    ):
        return Starts(tuple((one.name, 0.0) for one in others), 0.0)
    near = max(one.similarity for one in others)
    beside = max(share for act, share in acts.items() if act not in ("start", "value"))
    odds = _OFFSET + _START["similarity"] * near + _START["beside"] * _odds(beside)
    if running:
        odds += _RUNNING["similarity"] * near + _RUNNING["start"] * _odds(acts["start"])
        odds += _AWAITED if turn.awaiting else 0.0
    weight = _START["values"] + (_RUNNING["values"] if running else 0.0)
    if odds + _MOST * weight < 0:
        # No value could change the result, so most answers to a question are not parsed.
        return Starts(tuple((one.name, 0.0) for one in others), 0.0)
    top = max(one.score for one in others)
    scores = np.array(
        [
            _FLOW["similarity"] * one.similarity + _FLOW["support"] * float(np.log(one.support + 1e-4))
            + _FLOW["fused"] * (one.score / top if top > 0 else 0.0) + _OPPOSITE * opposite(one.name)
            for one in others
        ]
    )  # fmt: skip
    # No values could raise a flow so far behind to a hundredth of the first one.
    reachable = scores >= scores.max() - _MOST * (_FLOW["values"] + _FLOW["marked"]) - math.log(100)
    values_by_flow = [
        values(one.name) if within else Values() for one, within in zip(others, reachable, strict=True)
    ]
    scores += [_FLOW["values"] * counts.all + _FLOW["marked"] * counts.marked for counts in values_by_flow]
    shares = np.exp(scores - scores.max())
    shares /= shares.sum()
    best = int(shares.argmax())
    # A value that also fits the running flow counts for that one.
    own = values(running).all if running else 0
    odds += weight * max(0, values_by_flow[best].all - own)
    probability = float(1.0 / (1.0 + np.exp(-odds)))
    order = np.argsort(-shares, kind="stable")
    ranking = tuple((others[place].name, float(shares[place] * probability)) for place in order)
    return Starts(ranking, probability)


@lru_cache(maxsize=1)
def _urgent() -> tuple[NDArray[np.float32], float]:
    data = json.loads(files(__package__).joinpath(URGENT).read_text("utf-8"))
    return np.asarray(data["weights"], np.float32), float(data["offset"])


def urgency(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    """Log-odds that texts say that somebody or something is in danger now; of features of the bundled model."""
    weights, offset = _urgent()
    return rows @ weights + offset


def _odds(share: float) -> float:
    return float(np.log(max(share, _LEAST) / max(1.0 - share, _LEAST)))


def margin_of(policy: Policy, kind: str, chosen: Sequence[str], registry: FlowRegistry) -> float:
    """The margin under which two flows are too close: the policy's, and a wider one where the chosen flow destroys.

    Example:
        >>> from jazzmine_dspy.models import FlowRegistry
        >>> from jazzmine_dspy.program.policy import Policy
        >>> flows = FlowRegistry([{"name": "cancel", "description": "Cancel it.", "confirm": "Cancel it?"}])
        >>> margin_of(Policy(), "local", ["cancel"], flows)
        0.1
    """
    destroys = any(name in registry and (registry[name].confirm or undoes(registry[name])) for name in chosen)
    return max(policy.clarify.get(kind, 0.0), NEAR.get(kind, 0.0) if destroys else 0.0)


def close_pair(ranking: Sequence[tuple[str, float]], chosen: Sequence[str], margin: float) -> list[str]:
    """Return the two best flows if they are nearer to each other than a margin; else none.

    The user has to choose only if exactly one flow was chosen, and it is one of the two.

    Args:
        ranking: Flows with probabilities or scores, best first; "none" among them does not count.
        chosen: The flows that would start without a question.
        margin: The least lead of the first over the second.

    Example:
        >>> close_pair([("refund", 0.48), ("cancel", 0.44), ("none", 0.08)], ["refund"], 0.1)
        ['refund', 'cancel']
        >>> close_pair([("refund", 0.9), ("cancel", 0.02)], ["refund"], 0.1)
        []
    """
    best = [(name, score) for name, score in ranking if name != NONE][:2]
    if margin <= 0 or len(best) < 2 or len(chosen) != 1:
        return []
    (first, high), (second, low) = best
    return [first, second] if chosen[0] in (first, second) and high - low < margin else []


def relative(candidates: Sequence[Recalled]) -> list[tuple[str, float]]:
    """Recall scores as shares of the best one, best first, so that a margin means the same for every query."""
    ordered = sorted(candidates, key=lambda one: -one.score)
    top = ordered[0].score if ordered else 0.0
    return [(one.name, one.score / top) for one in ordered] if top > 0 else []
