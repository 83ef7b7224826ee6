"""The sources that need no language model: rules, the local head, and the floors."""

from __future__ import annotations

from jazzmine_dspy.models.commands import Command
from jazzmine_dspy.models.decision import Enhancement, Selection, SourceKind
from jazzmine_dspy.models.flows import Slot
from jazzmine_dspy.program.acts import awaited_value, closed_act, typed_values
from jazzmine_dspy.program.heads import selection_features
from jazzmine_dspy.program.policy import Policy
from jazzmine_dspy.program.ports import HeadPort
from jazzmine_dspy.program.stage import Answer, Context, Declined, Embed, Steps

NONE = "none"
"""The head's label for turns that want no flow."""


def awaited_slot(context: Context) -> Slot | None:
    """The slot that the assistant has just asked for."""
    turn = context.turn
    flow = context.registry.get(turn.flow) if turn.flow else None
    return flow.slot(turn.awaiting) if flow and turn.awaiting else None


def certain_commands(context: Context) -> list[Command] | None:
    """What the whole message certainly is: a closed act, or the awaited value."""
    act = closed_act(context.turn)
    return act if act is not None else awaited_value(context.turn, awaited_slot(context))


class EnhanceRule:
    """Knows messages that are complete as they are, and writes out bare values."""

    kind: SourceKind = "rule"
    name = "rule"

    def steps(self, context: Context) -> Steps[Answer[Enhancement] | Declined]:
        """Answer the first message of a conversation, closed acts and bare values; decline all else."""
        yield from ()
        turn = context.turn
        if not turn.history and turn.flow is None and not turn.paused:
            return Answer(Enhancement(enhanced_query=turn.text))
        slot = awaited_slot(context)
        if slot is not None and awaited_value(turn, slot) is not None:
            what = slot.name.replace("_", " ").removesuffix(" id")
            return Answer(Enhancement(enhanced_query=f"The {what} is {turn.text.strip(' .!')}."))
        if closed_act(turn) is not None and turn.confirming is None:
            return Answer(Enhancement(enhanced_query=turn.text))
        return Declined("the message may need its context")


class EnhanceFloor:
    """The copy: the original text, neutral, going on."""

    kind: SourceKind = "floor"
    name = "floor"

    def __init__(self, policy: Policy) -> None:
        self._trust = policy.trust.get("enhance", {}).get("floor", 0.5)

    def steps(self, context: Context) -> Steps[Answer[Enhancement] | Declined]:
        """Always answer."""
        yield from ()
        return Answer(Enhancement(enhanced_query=context.turn.text), self._trust)


class SelectRule:
    """Knows messages that certainly start nothing."""

    kind: SourceKind = "rule"
    name = "rule"

    def steps(self, context: Context) -> Steps[Answer[Selection] | Declined]:
        """Answer closed acts and bare values with no flow."""
        yield from ()
        if not context.registry:
            return Answer(Selection(reason="the registry is empty"))
        if certain_commands(context) is not None:
            return Answer(Selection(reason="the message only answers or acts"))
        return Declined("the message may want a flow")


class SelectHead:
    """The local head over the sentence embedding and the state, "none" included."""

    kind: SourceKind = "head"
    name = "head"

    def __init__(self, head: HeadPort | None) -> None:
        self._head = head

    def steps(self, context: Context) -> Steps[Answer[Selection] | Declined]:
        """Answer with the likeliest flow that may be chosen, or with none."""
        if self._head is None:
            return Declined("no local head is bound")
        if context.candidates and context.candidates[0].name not in self._head.labels:
            return Declined(f"the head has not learnt {context.candidates[0].name}, which is recalled first")
        try:
            vector = yield Embed(context.turn.text)
        except Exception as error:
            return Declined(str(error), failed=True)
        allowed = context.allowed
        for label, probability in self._head.predict(selection_features(vector, context.turn)):
            if label == NONE:
                return Answer(Selection(reason="no flow is likely"), probability)
            if label in context.registry and (allowed is None or label in allowed):
                return Answer(Selection(flows=[label], reason="likeliest flow"), probability)
        return Declined("the head knows none of these flows")


class SelectFloor:
    """The best-ranked candidate where its score is high enough, else none."""

    kind: SourceKind = "floor"
    name = "floor"

    def __init__(self, policy: Policy) -> None:
        self._scores = policy.floor_score
        self._trust = policy.trust.get("select", {}).get("floor", 0.5)

    def steps(self, context: Context) -> Steps[Answer[Selection] | Declined]:
        """Always answer."""
        yield from ()
        turn = context.turn
        needed = self._scores["busy" if turn.flow or turn.confirming else "idle"]
        best = context.candidates[0] if context.candidates else None
        if best is not None and best.score >= needed:
            return Answer(Selection(flows=[best.name], reason="best recalled flow"), self._trust)
        return Answer(Selection(reason="no candidate is near enough"), self._trust)


class UnderstandRule:
    """Knows closed acts and bare values."""

    kind: SourceKind = "rule"
    name = "rule"

    def steps(self, context: Context) -> Steps[Answer[list[Command]] | Declined]:
        """Answer what is certain; decline all else."""
        yield from ()
        commands = certain_commands(context)
        return Declined("no closed act") if commands is None else Answer(commands)


class UnderstandFloor:
    """Values that their type tells: of the awaited flow, and of the flows that start."""

    kind: SourceKind = "floor"
    name = "floor"

    def __init__(self, policy: Policy) -> None:
        self._trust = policy.trust.get("understand", {}).get("floor", 0.5)

    def steps(self, context: Context) -> Steps[Answer[list[Command]] | Declined]:
        """Always answer."""
        yield from ()
        turn = context.turn
        started = [context.registry[name] for name in context.selected if name in context.registry]
        running = context.registry.get(turn.flow) if turn.flow else None
        flows = started or ([running] if running else [])
        slots = {slot.name: slot for flow in flows for slot in flow.slots}
        return Answer(typed_values(turn, tuple(slots.values())), self._trust)
