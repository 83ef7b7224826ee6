"""Which flows a message wants: by rules, by the head that learnt them, by what speaks for others, or by recall."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from jazzmine_dspy.models.decision import Recalled, Selection
from jazzmine_dspy.models.errors import format_error
from jazzmine_dspy.program.clarify import NONE, TOO_CLOSE, close_pair, margin_of, relative
from jazzmine_dspy.program.clauses import selection_of
from jazzmine_dspy.program.heads.selection import NEW_FLOW, NOT_NEAR
from jazzmine_dspy.program.local.closed import Closed
from jazzmine_dspy.program.local.head_input import check_share, head_input
from jazzmine_dspy.program.local.starting import (
    HEAD_LIKELY,
    LIKELY,
    StartReading,
    by_head,
    by_starts,
    chosen_of,
    read_starts,
    two_wishes,
)
from jazzmine_dspy.program.ports import HeadPort, SelectionOutput
from jazzmine_dspy.program.starts import Starts
from jazzmine_dspy.program.state import CANDIDATES, TurnState
from jazzmine_dspy.program.undoing import undoes_unasked


class Chosen(NamedTuple):
    """The flows that a message wants.

    Args:
        selection: The flows.
        confidence: How likely they are right, from 0 to 1.
        source: ``rule``, ``local`` or ``fallback``.
        candidates: Flows in the order of a head; empty where recall's stands.
        acts: The probability of each act, where they were asked for.
        cause: Why a part that should have answered did not; empty where none failed.
    """

    selection: Selection
    confidence: float = 1.0
    source: str = "rule"
    candidates: Sequence[Recalled] = ()
    acts: Mapping[str, float] | None = None
    cause: str = ""


def select(state: TurnState, closed: Closed | None, models: bool) -> Chosen:
    """The flows that a message wants.

    Args:
        state: The turn, with what was recalled.
        closed: Its closed reading; None leaves that out.
        models: Whether trained models are asked.
    """
    if not state.registry:
        return Chosen(Selection(reason="the registry is empty"))
    if closed is not None and closed.picked is not None and set(closed.picked) <= {*state.choosable}:
        return Chosen(selection_of(state.turn.text, closed.picked, "the user's choice"))
    if closed is not None and closed.commands is not None:
        return Chosen(Selection(reason="the message only answers or acts"))
    head = state.bindings.heads.get("select") if models else None
    cause = before = ""
    if head is not None:
        try:
            chosen = _by_head(state, head)
        except Exception as error:
            cause = f"local: {format_error(error)}"
        else:
            if isinstance(chosen, Chosen):
                return chosen
            # A head that cannot judge these flows says why, and the reason says who answered instead.
            before = f"{chosen}: "
    reading = read_starts(state) if models else StartReading()
    cause = "; ".join(dict.fromkeys(filter(None, (cause, reading.cause))))
    if reading.starts is not None:
        try:
            return _by_starts(reading, state, before)._replace(cause=cause)
        except Exception as error:
            # Recall is asked once more for the parts of a message.
            cause = "; ".join(filter(None, (cause, f"local: {format_error(error)}")))
    return _by_recall(state, before)._replace(cause=cause, acts=reading.acts)


def _by_head(state: TurnState, head: HeadPort[Any]) -> Chosen | str:
    """The likeliest flows that may be chosen, none, or two that are too close; why, where it leaves the turn."""
    turn, flows = state.turn, list(state.choosable)
    if not flows:
        return Chosen(Selection(reason="no flow may be chosen"), source="local")
    output: SelectionOutput = head.predict(head_input(head, state, flows))
    check_share(output.confidence)
    if unasked := _unasked(output.flows, state):
        flows = [name for name in flows if name not in unasked]
        output = head.predict(head_input(head, state, flows))
    new, reading = not _knows(head, flows), StartReading()
    if new or (turn.flow and not output.flows):
        reading = read_starts(state)
    if reading.starts is not None and new:
        return _by_new(reading, reading.starts, state)
    if output.left:
        return output.reason
    middle = None
    both = two_wishes(state, by_head(head, flows), HEAD_LIKELY) if len(output.flows) == 1 else []
    if not both and (middle := _in_the_middle(output, reading.starts)) is not None:
        name, share = middle
        output = output._replace(flows=(name,), confidence=share, reason="another task in the middle")
    order = reordered(state.recalled, output.ranking, frozenset(flows))
    if both:
        selection = selection_of(turn.text, both, "each part of the message")
        return Chosen(selection, output.confidence, "local", order, reading.acts, reading.cause)
    chosen = list(dict.fromkeys(output.flows))
    ranking = [(name, probability) for name, probability in output.ranking if name in flows]
    margin = margin_of(state.policy, "local", chosen, state.registry)
    pair = [] if middle is not None else close_pair(ranking, chosen, margin)
    if pair and not turn.clarifying:
        selection = Selection(clarify=pair, reason=TOO_CLOSE)
    else:
        reason = output.reason or ("likeliest flow" if chosen else "no flow is likely")
        selection = selection_of(turn.text, chosen, reason)
    return Chosen(selection, output.confidence, "local", order, reading.acts, reading.cause)


def _by_new(reading: StartReading, told: Starts, state: TurnState) -> Chosen:
    """Of flows that the head did not learn: what else speaks for each of them decides."""
    order = reordered(state.recalled, told.ranking, frozenset(state.choosable))
    chosen, pair = chosen_of(told, "local", state)
    both = two_wishes(state, by_starts) if told.wanted >= LIKELY else []
    if both:
        selection, confidence = Selection(flows=both, reason=NEW_FLOW), told.wanted
    elif pair:
        selection, confidence = Selection(clarify=pair, reason=TOO_CLOSE), told.wanted
    elif chosen:
        selection, confidence = Selection(flows=chosen, reason=NEW_FLOW), told.ranking[0][1]
    else:
        selection, confidence = Selection(reason=NOT_NEAR), 1.0 - told.wanted
    return Chosen(selection, confidence, "local", order, reading.acts)


def _by_starts(reading: StartReading, state: TurnState, before: str) -> Chosen:
    """What speaks for flows where no head is bound."""
    told = reading.starts
    assert told is not None, "it is read where it can be told"
    chosen, pair = chosen_of(told, "fallback", state)
    both = two_wishes(state, by_starts) if told.wanted >= LIKELY else []
    if both:
        chosen, pair = both, []
    return _plain(chosen, pair, before, told.wanted if chosen or pair else 1.0 - told.wanted)._replace(
        source="local", acts=reading.acts
    )


def _by_recall(state: TurnState, before: str) -> Chosen:
    """What recall alone says: the best flow, none, or the two that are too close to choose between."""
    best, sure = next(iter(state.recalled), None), state.policy.trust.get("fallback", 0.5)
    if best is None or best.score < state.policy.fallback_score[state.turn.load]:
        return _plain([], [], before, sure)
    margin = margin_of(state.policy, "fallback", [best.name], state.registry)
    pair = [] if state.turn.clarifying else close_pair(relative(state.recalled), [best.name], margin)
    return _plain([best.name], pair, before, sure)


def _plain(chosen: list[str], pair: list[str], before: str, confidence: float) -> Chosen:
    if pair:
        selection = Selection(clarify=pair, reason=TOO_CLOSE)
    elif chosen:
        selection = Selection(flows=chosen, reason=f"{before}best recalled flow")
    else:
        selection = Selection(reason=f"{before}no candidate is near enough")
    return Chosen(selection, confidence, "fallback")


def _unasked(flows: Sequence[str], state: TurnState) -> set[str]:
    """New flows that undo something although the message has no word for it."""
    turn = state.turn
    new = set(flows) & set(state.choosable) - {turn.flow, turn.offering, *turn.paused, *turn.clarifying}
    return {name for name in new if undoes_unasked(state.registry[name], turn)}


def _knows(head: HeadPort[Any], flows: Sequence[str]) -> bool:
    """Whether a head has learnt any of some flows; one that does not say has."""
    labels = getattr(head, "labels", None)
    return labels is None or any(name in labels for name in flows)


def _in_the_middle(found: SelectionOutput, told: Starts | None) -> tuple[str, float] | None:
    """The other flow that a message in the middle of one wants; few of the turns that a head learnt from want any."""
    named = [(name, share) for name, share in found.ranking if name != NONE]
    if found.flows or told is None or told.wanted < LIKELY or not named:
        return None
    # Which one, who has learnt them knows better.
    (best, share), total = named[0], sum(share for _, share in named)
    return (best, told.wanted * share / total) if share > LIKELY * total else None


def reordered(
    recalled: Sequence[Recalled], ranking: Sequence[tuple[str, float]], flows: Collection[str]
) -> list[Recalled]:
    """Candidates in the order of a head's ranking, the first ten, with its probabilities for scores.

    Those that recall did not find join; those that the head does not rank follow with 0.

    Example:
        >>> found = [Recalled("a", 0.3), Recalled("b", 0.2)]
        >>> [one[:2] for one in reordered(found, [("c", 0.6), ("none", 0.3), ("b", 0.1)], "abc")]
        [('c', 0.6), ('b', 0.1), ('a', 0.0)]
    """
    found = {one.name: one for one in recalled}
    ranked: dict[str, Recalled] = {}
    for name, share in ranking:
        if name in flows and name not in ranked:
            ranked[name] = found.get(name, Recalled(name, 0.0))._replace(score=share)
            if len(ranked) == CANDIDATES:
                return list(ranked.values())
    rest = [one._replace(score=0.0) for one in recalled if one.name not in ranked]
    return [*ranked.values(), *rest][:CANDIDATES]
