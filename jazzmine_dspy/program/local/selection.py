"""Select the flows that a message asks for: by rules, a trained head, estimates for new flows, or recall."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from jazzmine_dspy.models.decision import Recalled, Selection
from jazzmine_dspy.models.errors import format_error
from jazzmine_dspy.program.clauses import NONE
from jazzmine_dspy.program.denials import undoes_unasked
from jazzmine_dspy.program.heads._blend import log_odds, sigmoid
from jazzmine_dspy.program.heads.selection import NEW_FLOW, NOT_NEAR
from jazzmine_dspy.program.local.starting import (
    HEAD_LIKELY,
    LIKELY,
    StartReading,
    choose_flow,
    judge_by_head,
    pooled,
    read_starts,
    two_wishes,
)
from jazzmine_dspy.program.local.understanding import Closed, check_share, head_input
from jazzmine_dspy.program.merge import flow_mode
from jazzmine_dspy.program.ports import HeadPort, SelectionOutput
from jazzmine_dspy.program.starts import TOO_CLOSE, Starts, close_pair, margin_of, relative
from jazzmine_dspy.program.state import CANDIDATES, TurnState

_SURE = 0.98
"""Probability of one flow from which on a message is not cut into two wishes: half of it would be less sure."""


class FlowChoice(NamedTuple):
    """The flows that a message asks for.

    Args:
        selection: The flows.
        confidence: How likely they are right, from 0 to 1.
        source: ``rule``, ``local`` or ``fallback``.
        candidates: Flows in the order of a head; empty to keep the order of recall.
        acts: The probability of each act, if they were computed.
        cause: Why a part failed; empty if none did.
    """

    selection: Selection
    confidence: float = 1.0
    source: str = "rule"
    candidates: Sequence[Recalled] = ()
    acts: Mapping[str, float] | None = None
    cause: str = ""


def select(state: TurnState, closed: Closed | None, models: bool) -> FlowChoice:
    """Select the flows that a message asks for.

    Args:
        state: The turn, with the recalled flows.
        closed: The closed reading of the message; None skips this step.
        models: Whether trained models are used.
    """
    if not state.registry:
        return FlowChoice(Selection(reason="the registry is empty"))
    if closed is not None and closed.picked is not None and set(closed.picked) <= {*state.choosable}:
        return FlowChoice(selection_of(state.turn.text, closed.picked, "the user's choice"))
    if closed is not None and closed.commands is not None:
        return FlowChoice(Selection(reason="the message only answers or acts"))
    head = state.bindings.heads.get("select") if models else None
    cause = prefix = ""
    if head is not None:
        try:
            choice = _by_head(state, head)
        except Exception as error:
            cause = f"local: {format_error(error)}"
        else:
            if isinstance(choice, FlowChoice):
                return choice
            # The head cannot judge these flows: the reason of the fallback starts with why.
            prefix = f"{choice}: "
    reading = read_starts(state) if models else StartReading()
    cause = "; ".join(dict.fromkeys(filter(None, (cause, reading.cause))))
    if reading.starts is not None:
        try:
            return _by_starts(reading, reading.starts, state, prefix)._replace(cause=cause)
        except Exception as error:
            # Parts of a message are recalled again, which may fail.
            cause = "; ".join(filter(None, (cause, f"local: {format_error(error)}")))
    return _by_recall(state, prefix)._replace(cause=cause, acts=reading.acts)


def _by_head(state: TurnState, head: HeadPort[Any]) -> FlowChoice | str:
    """Select flows by the head: the likeliest ones, none, or two to clarify. Returns a reason if the head abstains."""
    turn, flows = state.turn, list(state.choosable)
    if not flows:
        return FlowChoice(Selection(reason="no flow may be chosen"), source="local")
    output: SelectionOutput = head.predict(head_input(head, state, flows))
    check_share(output.confidence)
    if unrequested := _unrequested_undos(output.flows, state):
        flows = [name for name in flows if name not in unrequested]
        output = head.predict(head_input(head, state, flows))
    learnt = getattr(head, "labels", None)
    knows_some = learnt is None or not set(learnt).isdisjoint(flows)
    alone = knows_some and not turn.flow and state.policy.head_weight == 1.0
    reading = StartReading() if alone else read_starts(state)
    if reading.starts is not None and not knows_some:
        return _by_estimate(reading, reading.starts, state)
    if output.left:
        return output.reason
    if output.flows or not state.hidden:
        # Else the message may want a flow that may not be chosen now, of which the estimate knows nothing.
        output = pooled(output, reading.starts, state.policy.head_weight, learnt)
        if _unrequested_undos(output.flows, state):
            output = output._replace(flows=(), reason="no flow is likely")
    other_flow, two_flows = None, []
    # A head that has learnt no message without a flow was trained on single messages; its own rule cuts them.
    may_be_cut = learnt is None or NONE in learnt
    if may_be_cut and len(output.flows) == 1 and output.ranking[0][1] < _SURE:
        two_flows = two_wishes(state, judge_by_head(head, flows), HEAD_LIKELY)
    if (
        turn.flow
        and not two_flows
        and (other_flow := _other_flow(output, reading.starts, state.policy.busy_head_weight)) is not None
    ):
        name, share = other_flow
        output = output._replace(flows=(name,), confidence=share, reason="another task in the middle")
    order = rank_candidates(state.recalled, output.ranking, frozenset(flows))
    if two_flows:
        selection = selection_of(turn.text, two_flows, "each part of the message")
        return FlowChoice(selection, output.confidence, "local", order, reading.acts, reading.cause)
    chosen = list(dict.fromkeys(output.flows))
    ranking = [(name, probability) for name, probability in output.ranking if name in flows]
    margin = margin_of(state.policy, "local", chosen, state.registry)
    pair = [] if other_flow is not None else close_pair(ranking, chosen, margin)
    if pair and not turn.clarifying:
        selection = Selection(clarify=pair, reason=TOO_CLOSE)
    else:
        reason = output.reason or ("likeliest flow" if chosen else "no flow is likely")
        selection = selection_of(turn.text, chosen, reason)
    return FlowChoice(selection, output.confidence, "local", order, reading.acts, reading.cause)


def _by_estimate(reading: StartReading, estimate: Starts, state: TurnState) -> FlowChoice:
    """Select by the estimate for flows that the head has not learnt."""
    order = rank_candidates(state.recalled, estimate.ranking, frozenset(state.choosable))
    chosen, pair = choose_flow(estimate, "local", state)
    if pair:
        selection, confidence = Selection(clarify=pair, reason=TOO_CLOSE), estimate.probability
    elif chosen:
        share = estimate.ranking[0][1] if len(chosen) == 1 else estimate.probability
        selection, confidence = Selection(flows=chosen, reason=NEW_FLOW), share
    else:
        selection, confidence = Selection(reason=NOT_NEAR), 1.0 - estimate.probability
    return FlowChoice(selection, confidence, "local", order, reading.acts)


def _by_starts(reading: StartReading, estimate: Starts, state: TurnState, prefix: str) -> FlowChoice:
    """Select by the estimate when no head is bound."""
    chosen, pair = choose_flow(estimate, "fallback", state)
    confidence = estimate.probability if chosen or pair else 1.0 - estimate.probability
    choice = _fallback_choice(chosen, pair, prefix, confidence)
    return choice._replace(source="local", acts=reading.acts)


def _by_recall(state: TurnState, prefix: str) -> FlowChoice:
    """Select by recall alone: the best flow, none, or two to clarify."""
    best, confidence = next(iter(state.recalled), None), state.policy.trust.get("fallback", 0.5)
    if best is None or best.score < state.policy.fallback_score[state.turn.load]:
        return _fallback_choice([], [], prefix, confidence)
    margin = margin_of(state.policy, "fallback", [best.name], state.registry)
    pair = [] if state.turn.clarifying else close_pair(relative(state.recalled), [best.name], margin)
    return _fallback_choice([best.name], pair, prefix, confidence)


def _fallback_choice(chosen: list[str], pair: list[str], prefix: str, confidence: float) -> FlowChoice:
    if pair:
        selection = Selection(clarify=pair, reason=TOO_CLOSE)
    elif chosen:
        selection = Selection(flows=chosen, reason=f"{prefix}best recalled flow")
    else:
        selection = Selection(reason=f"{prefix}no candidate is near enough")
    return FlowChoice(selection, confidence, "fallback")


def _unrequested_undos(flows: Sequence[str], state: TurnState) -> set[str]:
    """Return new flows that undo something although no word of the message says so."""
    turn = state.turn
    new = set(flows) & set(state.choosable) - {turn.flow, turn.offering, *turn.paused, *turn.clarifying}
    return {name for name in new if undoes_unasked(state.registry[name], turn)}


def _other_flow(output: SelectionOutput, estimate: Starts | None, weight: float) -> tuple[str, float] | None:
    """Return another flow that a message starts while one runs.

    The estimate says whether a flow starts, and the head the more, the more such turns it has learnt; the head says
    which one.
    """
    ranked = [(name, share) for name, share in output.ranking if name != NONE]
    if output.flows or estimate is None or not ranked:
        return None
    (best, share), total = ranked[0], sum(share for _, share in ranked)
    odds = weight * log_odds(total) + (1.0 - weight) * log_odds(estimate.probability)
    likely = float(sigmoid(odds))
    return (best, likely * share / total) if likely >= LIKELY and share > LIKELY * total else None


def rank_candidates(
    recalled: Sequence[Recalled], ranking: Sequence[tuple[str, float]], flows: Collection[str]
) -> list[Recalled]:
    """Return the ten best candidates in the order of a head, with its probabilities as scores.

    Flows that recall did not find are added; flows that the head does not rank follow with score 0.

    Example:
        >>> recalled = [Recalled("a", 0.3), Recalled("b", 0.2)]
        >>> [one[:2] for one in rank_candidates(recalled, [("c", 0.6), ("none", 0.3), ("b", 0.1)], "abc")]
        [('c', 0.6), ('b', 0.1), ('a', 0.0)]
    """
    by_name = {one.name: one for one in recalled}
    ranked: dict[str, Recalled] = {}
    for name, share in ranking:
        if name in flows and name not in ranked:
            ranked[name] = by_name.get(name, Recalled(name, 0.0))._replace(score=share)
    rest = [one._replace(score=0.0) for one in recalled if one.name not in ranked]
    return [*ranked.values(), *rest][:CANDIDATES]


def selection_of(text: str, flows: Sequence[str], reason: str) -> Selection:
    """A selection of flows, in their order; the text tells how several of them are meant."""
    return Selection(flows=list(flows), mode=flow_mode(text, flows), reason=reason)
