"""One estimate of the flow that a message starts, from the head that labels trained and from what the package knows."""

from __future__ import annotations

import math
from collections.abc import Collection

from jazzmine_dspy.program.clarify import NONE
from jazzmine_dspy.program.ports import SelectionOutput
from jazzmine_dspy.program.starts import Starts

_LEAST = 1e-4
"""Least probability that counts, so that no estimate alone rules a flow out."""

_REASON = "likeliest flow by the head and by the flows' texts"


def pooled(
    output: SelectionOutput, estimate: Starts | None, weight: float, learnt: Collection[str] | None
) -> SelectionOutput:
    """Pool the probabilities of a head with the estimate that needs no label.

    The logarithms of both are averaged (a logarithmic opinion pool; Genest and Zidek 1986, Statistical Science 1).

    Args:
        output: What the head predicts. Several flows stay.
        estimate: The estimate; None leaves the output as it is.
        weight: Weight of the head, from 0 to 1; 1 leaves the output as it is.
        learnt: Labels of the head; other flows have the estimate's probability alone. Without "none" among them the
            output stays as it is: whether any flow is wanted is then its open-set score's word alone. None counts as
            if the head had learnt all.

    Example:
        >>> head = SelectionOutput((), 0.6, (("none", 0.6), ("track", 0.3), ("cancel", 0.1)))
        >>> both = pooled(head, Starts((("track", 0.9), ("cancel", 0.05)), 0.95), 0.7, None)
        >>> both.flows, round(both.confidence, 2)
        (('track',), 0.53)
    """
    if estimate is None or weight == 1.0 or len(output.flows) > 1:
        return output
    if learnt is not None and NONE not in learnt:
        return output
    by_head, by_texts = dict(output.ranking), {**dict(estimate.ranking), NONE: 1.0 - estimate.probability}
    if not by_head.keys() >= {*output.flows}:
        return output
    absent = by_head.pop(NONE, max(0.0, 1.0 - sum(by_head.values())))
    # Beside its best flow, "none" is at least as likely as the open set says: at the threshold they are even.
    in_scope = max(output.in_scope, _LEAST)
    by_head[NONE] = max(absent, max(by_head.values(), default=0.0) * (1.0 - in_scope) / in_scope)
    total = sum(by_head.values())

    def share_of(name: str) -> float:
        own = weight if learnt is None or name in learnt else 0.0
        return math.exp(own * _log(by_head[name] / total) + (1.0 - own) * _log(by_texts.get(name, 0.0)))

    shares = {name: share_of(name) for name in by_head}
    whole = sum(shares.values())
    ranking = tuple(
        sorted(((name, share / whole) for name, share in shares.items()), key=lambda one: -one[1])
    )
    best, share = ranking[0]
    flows = () if best == NONE else (best,)
    if flows != output.flows and flows and output.flows and (learnt is None or best in learnt):
        # Which of the learnt flows it is, the head knows better.
        return output
    reason = output.reason if flows == output.flows else _REASON if flows else "no flow is likely"
    return output._replace(flows=flows, confidence=share, ranking=ranking, reason=reason)


def _log(share: float) -> float:
    return math.log(max(share, _LEAST))
