"""Requests to a language model for a turn: the inputs of a predictor, and the schema of its answer."""

from __future__ import annotations

from collections.abc import Sequence

from jazzmine_dspy.models.decision import Recalled
from jazzmine_dspy.models.flows import Slot
from jazzmine_dspy.models.turn import MAX_TEXT
from jazzmine_dspy.program import render
from jazzmine_dspy.program._calls import PredictorCall
from jazzmine_dspy.program.addresses import Addresses
from jazzmine_dspy.program.policy import Policy
from jazzmine_dspy.program.prompts import found_by
from jazzmine_dspy.program.state import TurnState
from jazzmine_dspy.signatures.answers import ALIASES
from jazzmine_dspy.signatures.schema import response_format

_MAX_TOKENS = {
    "brief": {"enhance": 192, "select": 32, "understand": 160, "fused": 320},
    "full": {"enhance": 400, "select": 64, "understand": 640, "fused": 1024},
}
_SHORT = 600
"""Longest message, in bytes, whose answer fits these limits; longer ones get one more token per two bytes."""
_LONG_MESSAGE = 600
"""Characters of an earlier message that the full wording shows."""
_SLOT_FLOWS = 2
_INTENTS = 60
"""Most names in an answer schema: with more of them decoding is slow, and hosted models reject the schema."""


def offered(state: TurnState) -> list[Recalled]:
    """Return the flows that a prompt offers: the recalled ones, or a whole small registry if recall is down."""
    if state.recalled:
        return list(state.recalled[: state.policy.offers])
    names = state.choosable
    return [Recalled(name, 0.0) for name in names] if len(names) <= len(ALIASES) else []


def intents(state: TurnState, candidates: Sequence[Recalled]) -> list[str] | None:
    """Return the flows that an intent may name: choosable or active ones; the likeliest of a large catalogue.

    None if a schema cannot list them: there are no flows, or too many and no candidates.
    """
    turn = state.turn
    alive = {turn.flow, *turn.paused}
    open_to = set(state.choosable)
    if not state.registry or (len(open_to) > _INTENTS and not candidates):
        return None
    if len(open_to) > _INTENTS:
        open_to &= {candidate.name for candidate in candidates}
    return [name for name in state.registry if name in open_to or name in alive]


def slots_in_play(state: TurnState, predictor: str) -> tuple[Slot, ...]:
    """Return slots that the message may fill: of running and starting flows; a fused call adds the likeliest ones."""
    if predictor != "fused":
        return state.slots
    likeliest = (candidate.name for candidate in offered(state)[:_SLOT_FLOWS])
    return state.slots_of([state.turn.flow or "", *state.selected, *likeliest])


def addresses_of(state: TurnState, predictor: str) -> Addresses:
    """Return the slot names of the full wording, with the letters of the offered flows."""
    lettered = [one.name for one in offered(state)] if predictor == "fused" else []
    return Addresses(state.turn, state.registry, lettered, state.selected)


def message_limit(policy: Policy) -> int:
    """Return how many characters of the message a prompt shows."""
    return MAX_TEXT if policy.wording == "full" else render.MESSAGE_SHOWN


def request_for(state: TurnState, predictor: str) -> PredictorCall:
    """Build the call of a predictor for a turn: its inputs and the schema of its answer."""
    turn, policy = state.turn, state.policy
    candidates = offered(state)
    slots = slots_in_play(state, predictor)
    full = policy.wording == "full"
    message_shown = message_limit(policy)
    message_length = [_LONG_MESSAGE] if full else []
    addresses = addresses_of(state, predictor) if full else None
    enhanced = state.query or None
    every = {
        "flows_offered": render.flows_offered(
            state.registry,
            candidates,
            effects=full or predictor == "select",
            described=predictor == "select",
            turn=turn if full else None,
        ),
        "slots": render.slots_by_flow(addresses) if addresses else render.slots_offered(slots),
        "situation": render.situation(turn, state.at if full else None),
        "history": (
            render.last_messages(turn, policy.history_shown, *message_length)
            if predictor == "understand"
            else render.current_episode(turn, policy.history_window, *message_length)
        ),
        "context": render.context_snippets(turn),
        "message": render.message(
            turn, enhanced if predictor in ("select", "understand") else None, message_shown
        ),
    }
    names = {
        "enhance": ("situation", "history", "context", "message"),
        "select": ("flows_offered", "situation", "message"),
        "understand": ("slots", "situation", "history", "message"),
        "fused": tuple(every),
    }[predictor]
    schema = response_format(
        predictor,
        turn,
        candidates=[c.name for c in candidates],
        slots=slots,
        intents=intents(state, candidates),
        max_commands=policy.max_commands,
        addressed=addresses.slots if addresses else None,
    )
    limit = _MAX_TOKENS[policy.wording][predictor]
    if predictor != "select":
        # The rewrite and the values repeat text of the message.
        limit += max(0, len(render.quoted(turn.text, message_shown).encode("utf-8", "replace")) - _SHORT) // 2
    config = {"response_format": schema, "max_tokens": limit}
    inputs = {name: every[name] for name in names}
    return PredictorCall(predictor, inputs, config, found_by(turn), state.exclude)
