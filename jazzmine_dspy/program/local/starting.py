"""Whether a message starts flows that no head has learnt, one or two, and the doubt between two of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from jazzmine_dspy.models.errors import format_error
from jazzmine_dspy.models.text import plain
from jazzmine_dspy.program.clarify import close_pair, margin_of
from jazzmine_dspy.program.denials import is_denied
from jazzmine_dspy.program.heads.acts import Acts
from jazzmine_dspy.program.heads.acts.free_texts import is_telling, only_answers
from jazzmine_dspy.program.heads.acts.questions import LONG, without_correcting
from jazzmine_dspy.program.heads.acts.readings import free_text, whole_value
from jazzmine_dspy.program.heads.acts.shipped import shipped_head
from jazzmine_dspy.program.local.head_input import head_input
from jazzmine_dspy.program.local.understanding import acts_head
from jazzmine_dspy.program.ports import HeadPort, SelectionOutput
from jazzmine_dspy.program.starts import Starts, Values, starts, values_for
from jazzmine_dspy.program.state import TurnState
from jazzmine_dspy.program.undoing import is_opposite
from jazzmine_dspy.program.wishes import begins_wish, likely_cuts

LIKELY = 0.5
_BOTH_LIKELY, _BEGUN_LIKELY, HEAD_LIKELY = 0.78, 0.55, 0.75
"""How likely each of two wishes has to be; where the second begins as a wish; and there by a head that has learnt the
flows, which is surer of itself: better one start too few."""

_LONG_LIKELY, _EVEN = 0.7, 0.33
"""How likely the best flow of a long message has to be, and of any, not to be asked about."""

_CUTS = 2
"""Cuts of a message that are tried."""

Judge = Callable[[TurnState], tuple[str, float] | None]
"""Tells the flow that a part of a message starts, and how likely; None where it starts none."""

SHORT = 3
"""Words of a message that says hardly more than an answer."""


class StartReading(NamedTuple):
    """What a message says of flows that no head has learnt.

    Args:
        starts: What it may start; None where that cannot be told.
        acts: The probability of each act, where they were asked for.
        cause: Why that cannot be told; empty where nothing failed.
    """

    starts: Starts | None = None
    acts: Mapping[str, float] | None = None
    cause: str = ""


def read_starts(state: TurnState) -> StartReading:
    """What recall, the head of acts and typed values say of flows that no head has learnt.

    Nothing where the head of the commands is not the package's, or the embedding model is not the bundled one.
    """
    head = acts_head(state.bindings)
    if not isinstance(head, Acts) or shipped_head(state.bindings.embedder) is None:
        return StartReading()
    turn = state.turn
    flow = state.running
    corrected = without_correcting(turn.text)
    if (
        flow is not None
        and corrected != turn.text
        and any(whole_value(slot, free_text(corrected), state.at) is not None for slot in flow.slots)
    ):
        # It corrects a value of the running flow, and wants no other.
        return StartReading(_NOTHING)
    if flow is not None and any(
        whole_value(slot, free_text(turn.text), state.at) is not None for slot in flow.slots
    ):
        # It is a value of the running flow, and nothing else.
        return StartReading()
    try:
        given = head_input(head, state, state.choosable, rewritten=False)
        acts, added = head.read(given)
    except Exception as error:
        return StartReading(cause=f"local: {format_error(error)}")
    if state.awaited is not None and only_answers(state.awaited, turn.text):
        return StartReading(_NOTHING, acts)
    if turn.awaiting and len(turn.text.split()) <= SHORT and acts["start"] < LIKELY:
        # First of all a short message answers what was asked, however near to a flow it is; unless it is what that
        # flow's own examples say.
        return StartReading(_as_an_example(state), acts)
    found = starts(
        state.recalled,
        acts,
        turn,
        lambda name: _values(name, state),
        lambda name: (
            is_opposite(state.registry[name], turn, state.registry) or is_denied(turn, state.registry[name])
        ),
    )
    return StartReading(None if found is None else found.moved(added), acts)


def _as_an_example(state: TurnState) -> Starts | None:
    """The one flow that has the message among its examples, word for word; None where a comment was asked for."""
    if state.awaited is not None and is_telling(state.awaited):
        return None
    said = plain(state.turn.text)
    named = [
        name
        for name in state.choosable
        if name != state.turn.flow
        and any(plain(example) == said for example in state.registry[name].examples)
    ]
    return Starts(((named[0], _SAID),), _SAID) if len(named) == 1 else None


def _values(name: str, state: TurnState) -> Values:
    """What of the message a flow has slots for; nothing where it runs or is paused, and has left the registry since."""
    flow = state.registry.get(name)
    return Values() if flow is None else values_for(flow, state.turn.text, state.at)


_SAID = 0.95
"""How likely a message that is one of a flow's examples starts it, though something else was asked."""
_NOTHING = Starts((), 0.0)
"""No wish for another flow, whatever labels add."""


def chosen_of(told: Starts, kind: str, state: TurnState) -> tuple[list[str], list[str]]:
    """The flow that a message starts, if any, or the two that are too close to choose between."""
    if told.wanted < LIKELY:
        return [], []
    chosen = [told.ranking[0][0]]
    likely = told.ranking[0][1]
    if len(state.turn.text.split()) > LONG and (state.turn.flow or likely < _LONG_LIKELY):
        # A long message is near to several flows, and in the middle of one it rather answers.
        return [], [name for name, _ in told.ranking[:2]] if state.turn.flow is None else []
    shares = [(name, share / told.wanted) for name, share in told.ranking]
    margin = margin_of(state.policy, kind, chosen, state.registry)
    pair = close_pair(shares, chosen, 1.0 if told.vague >= LIKELY or likely < _EVEN else margin)
    return ([], pair) if pair and not state.turn.clarifying else (chosen, [])


def by_head(head: HeadPort[Any], flows: Sequence[str]) -> Judge:
    """Judges a part of a message by the head that has learnt its flows."""

    def judge(part: TurnState) -> tuple[str, float] | None:
        given = head_input(head, part, flows)
        found: SelectionOutput = head.predict(given)
        return max(found.ranking, key=lambda one: one[1]) if len(found.flows) == 1 else None

    return judge


def by_starts(part: TurnState) -> tuple[str, float] | None:
    """Judges a part of a message by what speaks for flows that no head has learnt."""
    told = read_starts(part).starts
    return None if told is None or told.wanted < LIKELY else told.ranking[0]


def two_wishes(state: TurnState, judge: Judge, begun: float = _BEGUN_LIKELY) -> list[str]:
    """Two flows that a message starts one after the other; none where it wants fewer.

    Each side of a cut is judged as a message of its own, and has to be at least as likely a wish as one alone.

    Args:
        state: The turn.
        judge: Judges a side.
        begun: How likely each has to be where the second begins as a wish does.
    """
    flows = [state.registry[name] for name in state.choosable]
    best: tuple[float, list[str]] = (LIKELY, [])
    for sides in likely_cuts(state.turn.text, flows)[:_CUTS]:
        chosen, least = [], 1.0
        for text in sides:
            likeliest = judge(state.part(text))
            if likeliest is None:
                break
            chosen.append(likeliest[0])
            least = min(least, likeliest[1])
        enough = len(set(chosen)) == 2 and least > (begun if begins_wish(sides[1], flows) else _BOTH_LIKELY)
        if enough and least > best[0]:
            best = least, chosen
    return best[1]
