"""Estimate which flows a message starts when no head has learnt them: one, two, or two to clarify."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple

from jazzmine_dspy.models.decision import Selection
from jazzmine_dspy.models.errors import format_error
from jazzmine_dspy.models.text import plain
from jazzmine_dspy.program.clauses import NONE
from jazzmine_dspy.program.denials import is_denied, is_opposite, undoes_unasked
from jazzmine_dspy.program.heads._blend import log_odds, sigmoid
from jazzmine_dspy.program.heads.acts.free_texts import is_telling, only_answers
from jazzmine_dspy.program.heads.acts.model import Acts, shipped_head
from jazzmine_dspy.program.heads.acts.questions import LONG
from jazzmine_dspy.program.heads.acts.readings import values_in
from jazzmine_dspy.program.local.understanding import acts_head, head_input
from jazzmine_dspy.program.ports import Floats, HeadPort, SelectionOutput
from jazzmine_dspy.program.reader.network import CLARIFY
from jazzmine_dspy.program.reader.reading import pool_weights, pooled_acts, start_shares
from jazzmine_dspy.program.starts import (
    UNLIKELY,
    Starts,
    Values,
    close_pair,
    margin_of,
    relative,
    starts,
    urgency,
    values_for,
)
from jazzmine_dspy.program.state import TurnState
from jazzmine_dspy.program.wishes import likely_cuts

LIKELY = 0.5
HEAD_LIKELY = 0.75
"""Least probability of each of two wishes by a head that has learnt the flows: it is more confident."""

_LONG_LIKELY = 0.7
"""Least probability of the best flow of a long message: below it the user is asked which is meant."""

_PLAIN = 0.8
"""Probability of a flow from which on a message is not vague: "cancel my order"."""

_ANSWER_LIKELY = 0.7
"""Least probability of a start if the message may as well be the answer that the assistant asked for."""

_CUTS = 2
"""Number of cuts of a message to try."""

Judge = Callable[[TurnState], tuple[str, float] | None]
"""Returns the flow that a part of a message starts, and its probability; None if it starts none."""

SHORT = 3
"""Most words of a message that counts as a short answer."""


class StartReading(NamedTuple):
    """The estimate of the flows that a message starts.

    Args:
        starts: The estimate; None if it cannot be made.
        acts: The probability of each act, if they were computed.
        cause: Why a part failed; empty if none did.
    """

    starts: Starts | None = None
    acts: Mapping[str, float] | None = None
    cause: str = ""


def read_starts(state: TurnState) -> StartReading:
    """Estimate from recall, the head of acts and typed values which flow a message starts.

    Returns an empty reading unless both the head of the commands and the embedding model are the package's own.
    """
    head = acts_head(state.bindings, state.registry)
    if not isinstance(head, Acts) or shipped_head(state.bindings.embedder) is None:
        return StartReading()
    turn = state.turn
    try:
        inputs = head_input(head, state, state.choosable, rewritten=False)
        acts, added = head.read(inputs)
        acts = pooled_acts(state, inputs, acts)
    except Exception as error:
        return StartReading(cause=f"local: {format_error(error)}")
    if state.awaited is not None and only_answers(state.awaited, turn.text):
        return StartReading(_NOTHING, acts)
    if turn.awaiting and len(turn.text.split()) <= SHORT and acts["start"] < LIKELY:
        # A short message answers the question, however similar to a flow it is, unless it equals an example of that
        # flow.
        return StartReading(_starts_of_example(state), acts)
    estimate = starts(
        state.recalled,
        acts,
        turn,
        lambda name: (
            values_for(state.registry[name], turn.text, state.at) if name in state.registry else Values()
        ),
        lambda name: (
            is_opposite(state.registry[name], turn, state.registry) or is_denied(turn, state.registry[name])
        ),
    )
    if estimate is None:
        return StartReading(acts=acts)
    if estimate.probability and (logits := state.read()) is not None:
        vague = estimate.probability >= LIKELY and bool(logits.acts[CLARIFY] > 0)
        weights = pool_weights()["busy" if turn.flow else "idle"]
        estimate = estimate.pooled(*start_shares(logits, turn.flow), weights)._replace(vague=vague)
    return StartReading(estimate.moved(added), acts)


def _starts_of_example(state: TurnState) -> Starts | None:
    """Return the one flow with this message among its examples; None where the assistant asked for a comment."""
    if state.awaited is not None and is_telling(state.awaited):
        return None
    matches = [
        name
        for name in state.choosable
        if name != state.turn.flow and plain(state.turn.text) in map(plain, state.registry[name].examples)
    ]
    return Starts(((matches[0], _EXAMPLE_CONFIDENCE),), _EXAMPLE_CONFIDENCE) if len(matches) == 1 else None


_EXAMPLE_CONFIDENCE = 0.95
"""Probability that a message starts a flow if it equals one of its examples, while a slot is awaited."""
_NOTHING = Starts((), 0.0)
"""No other flow starts, whatever labels add."""


_DAMPED = 0.5
"""Weight of the estimate when the danger of the message is added; chosen on tests/program/test_never_miss.py."""

_NEAR = 0.3
"""Without models: least recall score of the best flow to ask about a marked flow; to start it takes more."""

NEVER_MISSED = "a flow that must not be missed is likely enough to ask about"
"""The reason of a selection that asks about such a flow."""


def never_miss_shares(state: TurnState, chosen: Sequence[str] = ()) -> dict[str, float]:
    """Return the probability that a message wants each flow that must not be missed, highest first.

    If the texts of a flow tell of danger, a message that tells of danger raises its probability. Without the
    package's models, the probability is computed from the recall score, relative to the best one.

    Args:
        state: The turn.
        chosen: The flows that are chosen already. If the texts of one of them tell of danger, the message raises no
            other flow.

    Raises:
        EmbeddingError: no embedding model is bound, or it fails.
        DeadlineError: the deadline has passed.
    """
    marked = [
        name for name in state.registry.never_miss if name in state.choosable and name != state.turn.flow
    ]
    shares: dict[str, float] = {}
    if shipped_head(state.bindings.embedder) is None:
        best = state.recalled[0].score if state.recalled else 0.0
        if best >= min(_NEAR, state.policy.fallback_score[state.turn.load]):
            shares = {
                name: score / (1.0 + score) for name, score in relative(state.recalled) if name in marked
            }
    elif marked:
        reading = read_starts(state)
        estimate = dict(reading.starts.ranking) if reading.starts is not None else {}
        danger = float(urgency(state.features((state.turn.text,)))[0])
        served = any(_dangers(name, state).mean() > 0 for name in chosen if name in state.registry)
        for name in marked:
            odds = log_odds(max(estimate.get(name, 0.0), UNLIKELY / 10))
            if not served and _dangers(name, state).max() > 0:
                odds = _DAMPED * odds + danger
            shares[name] = float(sigmoid(odds))
    return dict(sorted(shares.items(), key=lambda one: -one[1]))


def _dangers(name: str, state: TurnState) -> Floats:
    """The log-odds that each text of a flow tells of danger."""
    flow = state.registry[name]
    return urgency(state.features((flow.description, *flow.examples)))


def never_missed(state: TurnState, selection: Selection) -> Selection:
    """Put flows that must not be missed first, and ask about those that are likely enough and not chosen.

    The question names the chosen flows too, or else the running or the nearest flow. After a question about a flow,
    the next message needs a probability of at least 0.5 for another one.
    """
    turn, marked = state.turn, state.registry.never_miss
    flows = sorted(selection.flows, key=lambda name: name not in marked)
    chosen = [*flows, *selection.clarify]
    shares = never_miss_shares(state, chosen)
    least, again = state.policy.never_miss, max(LIKELY, state.policy.never_miss)
    likely = [
        name for name, share in shares.items() if share >= (again if name in turn.clarifying else least)
    ]
    missed = [name for name in likely if name not in chosen][:2]
    nearest = [name for name in (turn.flow, *(one.name for one in state.recalled)) if name in state.registry]
    others = chosen or [name for name in nearest if name not in missed][:1]
    if not missed or not others:
        clarify = sorted(selection.clarify, key=lambda name: name not in marked)
        return selection.model_copy(update={"flows": flows, "clarify": clarify})
    return selection.model_copy(
        update={"flows": [], "clarify": [*missed, *others], "mode": "single", "reason": NEVER_MISSED}
    )


def choose_flow(estimate: Starts, kind: str, state: TurnState) -> tuple[list[str], list[str]]:
    """Return the flows that a message starts, one or two, and the two to clarify, if they are too close."""
    turn, best_two = state.turn, [name for name, _ in estimate.ranking[:2]]
    if (
        estimate.vague
        and not (turn.flow or turn.clarifying)
        and estimate.ranking[0][1] < _PLAIN
        and best_two[1:]
    ):
        return [], best_two
    if estimate.probability < _least_likely(state):
        return [], []
    if two_flows := two_wishes(state, judge_by_starts):
        return two_flows, []
    best, likely = estimate.ranking[0]
    if len(turn.text.split()) > LONG and (turn.flow or likely < _LONG_LIKELY):
        # A long message is similar to several flows; while a flow runs it is more likely an answer.
        return [], best_two if turn.flow is None else []
    shares = [(name, share / estimate.probability) for name, share in estimate.ranking]
    margin = margin_of(state.policy, kind, [best], state.registry)
    # What undoes something unasked does not start: the user chooses.
    must_ask = likely < LIKELY or undoes_unasked(state.registry[best], turn)
    pair = close_pair(shares, [best], 1.0 if must_ask else margin)
    return ([], pair) if pair and not turn.clarifying else ([best], [])


def _least_likely(state: TurnState) -> float:
    """Return the least probability of a start: higher where any text is an answer, or the message holds the answer."""
    slot = state.awaited
    takes_any = slot is not None and slot.type in ("text", "list") and not slot.pattern
    answers = slot is not None and (takes_any or values_in(slot, state.turn.text, state.at))
    return _ANSWER_LIKELY if answers else LIKELY


def judge_by_head(head: HeadPort[Any], flows: Sequence[str]) -> Judge:
    """Return a judge that uses the head that has learnt the flows."""

    def judge(part: TurnState) -> tuple[str, float] | None:
        output: SelectionOutput = head.predict(head_input(head, part, flows))
        if part.policy.head_weight < 1.0:
            estimate = read_starts(part).starts
            output = pooled(output, estimate, part.policy.head_weight, getattr(head, "labels", None))
        # Not the first of the ranking: "none" may be likelier where the head has not learnt it.
        return (output.flows[0], dict(output.ranking)[output.flows[0]]) if len(output.flows) == 1 else None

    return judge


def judge_by_starts(part: TurnState) -> tuple[str, float] | None:
    """Judge a part of a message by the estimate for flows that no head has learnt."""
    estimate = read_starts(part).starts
    return None if estimate is None or estimate.probability < LIKELY else estimate.ranking[0]


def two_wishes(state: TurnState, judge: Judge, threshold: float = LIKELY) -> list[str]:
    """Return two flows that a message starts one after the other; none if it starts fewer.

    Each side of a cut is judged as a message of its own and has to pass the threshold.

    Args:
        state: The turn.
        judge: Judges a side.
        threshold: Least probability of each.
    """
    flows = [state.registry[name] for name in state.choosable]
    best: tuple[float, list[str]] = (threshold, [])
    for sides in likely_cuts(state.turn.text, flows)[:_CUTS]:
        judged = [each for text in sides if (each := judge(state.part(text))) is not None]
        least = min((share for _, share in judged), default=0.0)
        if len({name for name, _ in judged}) == 2 and least > best[0]:
            best = least, [name for name, _ in judged]
    return best[1]


_LEAST_SHARE = 1e-4
"""Least probability that counts, so that no estimate alone rules a flow out."""


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
    in_scope = max(output.in_scope, _LEAST_SHARE)
    by_head[NONE] = max(absent, max(by_head.values(), default=0.0) * (1.0 - in_scope) / in_scope)
    total = sum(by_head.values())

    shares: dict[str, float] = {}
    for name, share in by_head.items():
        own = weight if learnt is None or name in learnt else 0.0
        head_log, text_log = (
            math.log(max(each, _LEAST_SHARE)) for each in (share / total, by_texts.get(name, 0.0))
        )
        shares[name] = math.exp(own * head_log + (1.0 - own) * text_log)
    whole = sum(shares.values())
    ranking = tuple(
        sorted(((name, share / whole) for name, share in shares.items()), key=lambda one: -one[1])
    )
    best, share = ranking[0]
    flows = () if best == NONE else (best,)
    if flows != output.flows and flows and output.flows and (learnt is None or best in learnt):
        # Which of the learnt flows it is, the head knows better.
        return output
    new = "likeliest flow by the head and by the flows' texts" if flows else "no flow is likely"
    reason = output.reason if flows == output.flows else new
    return output._replace(flows=flows, confidence=share, ranking=ranking, reason=reason)
