"""Rules: they answer what a message certainly is, and decline all else."""

from __future__ import annotations

from jazzmine_dspy.models.commands import Command
from jazzmine_dspy.models.decision import Enhancement, Selection
from jazzmine_dspy.models.flows import Slot
from jazzmine_dspy.program.acts import awaited_value, closed_act, picked, typed_values
from jazzmine_dspy.program.clauses import selection_of
from jazzmine_dspy.program.pauses import is_pause
from jazzmine_dspy.program.recall_query import asked_about, picked_wish
from jazzmine_dspy.program.sources.registry import source
from jazzmine_dspy.program.stage import Answer, Context, Declined, Source, Steps


def awaited_slot(context: Context) -> Slot | None:
    """The slot that the assistant has just asked for."""
    turn = context.turn
    flow = context.registry.get(turn.flow) if turn.flow else None
    return flow.slot(turn.awaiting) if flow and turn.awaiting else None


def certain_commands(context: Context) -> list[Command] | None:
    """What the whole message certainly is: a closed act, the awaited value, or a wish for time, which is no command."""
    act = closed_act(context.turn)
    if act is None:
        act = awaited_value(context.turn, awaited_slot(context), context.at)
    return [] if act is None and is_pause(context.turn) else act


@source("enhance", "rule")
class EnhanceRule(Source[Enhancement]):
    """Knows messages that are complete as they are, and writes out bare values."""

    def steps(self, context: Context) -> Steps[Answer[Enhancement] | Declined]:
        """Answer the first message of a conversation, closed acts and bare values; decline all else."""
        yield from ()
        turn = context.turn
        if wish := picked_wish(turn):
            return Answer(Enhancement(enhanced_query=wish))
        if not turn.history and turn.flow is None and not turn.paused:
            return Answer(Enhancement(enhanced_query=turn.text))
        slot = awaited_slot(context)
        if slot is not None and awaited_value(turn, slot, context.at) is not None:
            what = slot.name.replace("_", " ").removesuffix(" id")
            return Answer(Enhancement(enhanced_query=f"The {what} is {turn.text.strip(' .!')}."))
        if is_pause(turn) or (closed_act(turn) is not None and turn.confirming is None):
            return Answer(Enhancement(enhanced_query=turn.text))
        return Declined("the message may need its context")


@source("select", "rule")
class SelectRule(Source[Selection]):
    """Knows messages that certainly start nothing."""

    def steps(self, context: Context) -> Steps[Answer[Selection] | Declined]:
        """Answer closed acts and bare values with no flow."""
        yield from ()
        if not context.registry:
            return Answer(Selection(reason="the registry is empty"))
        chosen = picked(context.turn)
        if chosen is not None and set(chosen) <= {*context.choosable}:
            return Answer(selection_of(context.turn.text, chosen, "the user's choice"))
        if certain_commands(context) is not None:
            return Answer(Selection(reason="the message only answers or acts"))
        return Declined("the message may want a flow")


@source("understand", "rule")
class UnderstandRule(Source[list[Command]]):
    """Knows closed acts and bare values."""

    def steps(self, context: Context) -> Steps[Answer[list[Command]] | Declined]:
        """Answer what is certain; decline all else."""
        yield from ()
        turn = context.turn
        chosen = picked(turn)
        if chosen is not None:
            before = asked_about(turn)
            earlier = turn.model_copy(update={"text": before}) if before else turn
            return Answer(typed_values(earlier, context.slots_of(chosen), context.at))
        commands = certain_commands(context)
        return Declined("no closed act") if commands is None else Answer(commands)
