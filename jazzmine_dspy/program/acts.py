"""Closed acts, pauses and typed values: what a rule may decide, as the whole message and the state leave no doubt."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

from jazzmine_dspy.models.agreement import stance
from jazzmine_dspy.models.commands import (
    Affirm,
    CancelFlow,
    ChitChat,
    Command,
    CorrectSlot,
    Deny,
    Handoff,
    Repeat,
    Restart,
    ResumeFlow,
    SetSlot,
)  # fmt: skip
from jazzmine_dspy.models.language import is_english, phrases
from jazzmine_dspy.models.slot_types.boolean import NO as NO
from jazzmine_dspy.models.slot_types.boolean import YES as YES
from jazzmine_dspy.models.slots import ANYWHERE, ReadingContext, Slot, call_type, pattern_matches
from jazzmine_dspy.models.talk import asks_for_time as asks_for_time
from jazzmine_dspy.models.text import plain as plain
from jazzmine_dspy.models.turn import Turn

LEAVE = phrases(
    "cancel|stop|never mind|nevermind|forget it|forget about it|leave it|drop it|cancel that|cancel this|no forget it|"
    "actually forget it|actually never mind|oh forget it|oh never mind|quit|abort|let's leave it|just leave it"
)
REPEAT = phrases(
    "repeat|repeat that|say that again|can you repeat that|could you repeat that|pardon|sorry what|come again|"
    "what did you say|please repeat|say again|can you say that again|could you say that again|huh"
)
RESTART = phrases(
    "restart|start over|start again|from the beginning|let's start over|begin again|start from scratch|reset"
)
HANDOFF = phrases(
    "agent|human|operator|representative|real person|a human please|human please|let me talk to a human|"
    "i want to talk to a human|i want to speak to a person|speak to a person|talk to a person|talk to a human|"
    "can i talk to a human|can i speak to a human|can i speak to someone|get me a human|get me a person|"
    "i want a human|i want a real person|let me speak to a person"
)
TALK = phrases(
    "hi|hello|hey|good morning|good afternoon|good evening|hiya|thanks|thank you|thanks a lot|thank you so much|"
    "thank you very much|cheers|ta|great thanks|ok thanks|perfect thanks|bye|goodbye|have a nice day|how are you|"
    "lovely thanks|brilliant thanks|ok thank you|great thank you|many thanks|thx|ty"
)

_FILLERS = phrases(
    "the|a|an|please|i|mean|meant|want|to|would|like|one|that|number|option|yes|no|my|it's|is|thanks|do"
)
_PLACES = {
    **dict.fromkeys(("first", "1", "1st", "former"), 0),
    **dict.fromkeys(("second", "2", "2nd", "two"), 1),
    **dict.fromkeys(("third", "3", "3rd", "three"), 2),
    **dict.fromkeys(("last", "latter"), -1),
}
_BOTH = (["both"], ["both", "of", "them"], ["both", "of", "those"])
_NEITHER = tuple(
    [word, *rest]
    for word in ("neither", "none")
    for rest in ([], ["of", "them"], ["of", "those"], ["of", "these"])
)


def closed_act(turn: Turn) -> list[Command] | None:
    """The commands of a message that is nothing but one known act in its state; None where it is not.

    Example:
        >>> from jazzmine_dspy.models import Turn
        >>> closed_act(Turn(text="Yes!", status="awaiting_confirmation", flow="x", confirming={"action": "Cancel 1."}))
        [Affirm(type='affirm')]
        >>> closed_act(Turn(text="I know")) is None
        True
    """
    if (answer := _answer(turn)) is not None:
        return answer
    if not is_english(turn.locale):
        return None
    said = plain(turn.text)
    if said in LEAVE and turn.confirming is None:
        return [CancelFlow()] if turn.flow else [ChitChat()]
    if said in REPEAT and turn.history:
        return [Repeat()]
    if said in RESTART:
        return [Restart()]
    if said in HANDOFF:
        return [Handoff()]
    if said in TALK:
        return [ChitChat()]
    return [] if said in WAIT and turn.flow else None


def _answer(turn: Turn) -> list[Command] | None:
    """A yes or no to the open question, in any language; None where the message is neither, or says more."""
    offered = turn.offering
    if offered is not None:
        if plain(turn.text) == plain(offered.replace("_", " ")):
            return [ResumeFlow(flow=offered)]
        said = stance(turn.text, offered)
        if said.whole and said.agrees:
            return [ResumeFlow(flow=offered)]
        if said.whole and (said.refuses or said.leaves) and not said.negates:
            return [CancelFlow(flow=offered)]
    told = turn.stance
    if told is None or not told.whole:
        return None
    if told.agrees:
        return [Affirm()]
    if told.refuses:
        return [Deny()]
    # To the offer of a person, "never mind" is a no.
    offered_person = turn.confirming is not None and turn.confirming.handoff
    return [Deny() if offered_person else CancelFlow()] if told.leaves else None


def picked(turn: Turn) -> list[str] | None:
    """Flows that answer "which of these do you mean?"; None where the message is no such answer and nothing else.

    Taken are a place in the question, a name or words of one name alone, "both" and "neither".

    Example:
        >>> from jazzmine_dspy.models import Turn
        >>> asked = ("track_order", "cancel_order")
        >>> picked(Turn(text="The second one, please", clarifying=asked)), picked(Turn(text="both", clarifying=asked))
        (['cancel_order'], ['track_order', 'cancel_order'])
        >>> picked(Turn(text="the second one")) is None
        True
    """
    asked = turn.clarifying
    if not asked or not is_english(turn.locale):
        return None
    said = [word for word in plain(turn.text).split() if word not in _FILLERS]
    if not said:
        return None
    if said in _BOTH and len(asked) == 2:
        return list(asked)
    if said in _NEITHER:
        return []
    if len(said) == 1 and said[0] in _PLACES and _PLACES[said[0]] < len(asked):
        return [asked[_PLACES[said[0]]]]
    fitting = [name for name in asked if set(said) <= set(plain(name.replace("_", " ")).split())]
    return fitting if len(fitting) == 1 else None


def awaited_value(turn: Turn, slot: Slot | None, at: ReadingContext = ANYWHERE) -> list[Command] | None:
    """The command of a message that is nothing but the awaited slot's value; None where that is not certain."""
    if slot is None:
        return None
    value = call_type(slot, "parse", turn.text, None, at)
    return None if value is None else [_fill(turn, slot, value)]


def typed_values(turn: Turn, slots: tuple[Slot, ...], at: ReadingContext = ANYWHERE) -> list[Command]:
    """Values that can be told by their type alone: those of which the message holds exactly one of the kind.

    A message with two order numbers fills none: which is meant is not the rule's to guess. Nor is it where several
    slots of one type read the same value: the awaited one gets it, else none does.
    """
    told: list[tuple[Slot, Any]] = []
    for slot in slots:
        taken = (
            pattern_matches(slot, turn.text)
            if slot.pattern
            else call_type(slot, "find_values", turn.text, [], at)
        )
        found = list(dict.fromkeys(taken))
        if len(found) == 1:
            told.append((slot, found[0]))
        elif slot.name == turn.awaiting and len(call_type(slot, "candidates", turn.text, [], at)) > 1:
            # As it was said: the user is asked which of its readings is meant.
            told.append((slot, turn.text.strip()))
    takers = Counter((slot.type, value) for slot, value in told)
    return [
        _fill(turn, slot, value)
        for slot, value in told
        if takers[slot.type, value] == 1 or slot.name == turn.awaiting
    ]


def _fill(turn: Turn, slot: Slot, value: Any) -> Command:
    known = turn.slots.get(slot.name)
    return SetSlot(name=slot.name, value=value) if known is None else CorrectSlot(name=slot.name, value=value)


WAIT = phrases(
    "hang on|hang on a second|hold on|hold on a second|hold on a minute|one moment|one moment please|"
    "just a moment|a moment please|wait|wait a moment|wait a minute|wait a second|just a second|just a minute|"
    "one second|one sec|a second please|give me a second|give me a minute|give me a moment|let me check|"
    "let me look|let me see|let me think|hm let me look|hm|hmm|um|umm|brb"
)
"""Whole messages that ask for time and say nothing."""

_NOTES = re.compile(
    r"(?:(?:lol|haha|ah|oh|um|right|great|cool|nice) )*"
    r"(?:ok|okay|k|kk|cool|alright|all right|right|fine|thanks|thank you|thx|ta|cheers|great)"
    r"(?: (?:ok|okay|cool|thanks|thank you|thx|cheers|mate|lol|then))*"
)


def notes_pause(turn: Turn) -> bool:
    """Whether a message only notes that the assistant waits: "ok" after "hang on" and "Take your time."."""
    if not _NOTES.fullmatch(plain(turn.text)):
        return False
    before = (message.text for message in reversed(turn.history) if message.role == "user")
    return asks_for_time(next((text for text in before if not _NOTES.fullmatch(plain(text))), ""))


def is_pause(turn: Turn) -> bool:
    """Whether a message asks for time, or notes that it is given while the assistant waits for something."""
    if not is_english(turn.locale):
        return False
    waiting = turn.flow or turn.paused or turn.offering or turn.clarifying or turn.confirming
    if not waiting:
        # "I need to get my card" asks for time while a number is asked for, and for a card else.
        wishes = plain(turn.text).startswith(("i need to ", "i have to ", "i must "))
        return asks_for_time(turn.text) and not wishes
    return asks_for_time(turn.text) or notes_pause(turn)
