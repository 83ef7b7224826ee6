"""The sources that need no language model: rules, the local head, and the floors."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from jazzmine_dspy.models.commands import Command
from jazzmine_dspy.models.decision import Enhancement, Selection, SourceKind
from jazzmine_dspy.models.flows import Slot
from jazzmine_dspy.models.messages import MessageRole
from jazzmine_dspy.models.turn import Turn
from jazzmine_dspy.program.acts import awaited_value, closed_act, picked, typed_values
from jazzmine_dspy.program.clarify import close_pair, relative
from jazzmine_dspy.program.clauses import flow_mode
from jazzmine_dspy.program.policy import Policy
from jazzmine_dspy.program.ports import Clause, HeadPort, Recalled, Seen
from jazzmine_dspy.program.stage import Answer, Context, Declined, Features, Steps

CANDIDATES = 10
"""Flows that recall is asked for, and that a decision shows."""

_TOO_CLOSE = "two flows are too close to choose between"


def awaited_slot(context: Context) -> Slot | None:
    """The slot that the assistant has just asked for."""
    turn = context.turn
    flow = context.registry.get(turn.flow) if turn.flow else None
    return flow.slot(turn.awaiting) if flow and turn.awaiting else None


def certain_commands(context: Context) -> list[Command] | None:
    """What the whole message certainly is: a closed act, or the awaited value."""
    act = closed_act(context.turn)
    return act if act is not None else awaited_value(context.turn, awaited_slot(context))


def asked_about(turn: Turn) -> str:
    """The message that led to the question which flow is meant: it may hold the values that the flow needs."""
    return next((one.text for one in reversed(turn.history) if one.role is MessageRole.USER), "")


class EnhanceRule:
    """Knows messages that are complete as they are, and writes out bare values."""

    kind: SourceKind = "rule"
    name = "rule"

    def steps(self, context: Context) -> Steps[Answer[Enhancement] | Declined]:
        """Answer the first message of a conversation, closed acts and bare values; decline all else."""
        yield from ()
        turn = context.turn
        if chosen := picked(turn):
            wish = " and ".join(name.replace("_", " ") for name in chosen)
            before = asked_about(turn)
            return Answer(Enhancement(enhanced_query=f"{wish}: {before}" if before else wish))
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
        chosen = picked(context.turn)
        if chosen is not None and set(chosen) <= {*context.choosable}:
            return Answer(selection_of(context.turn.text, chosen, "the user's choice"))
        if certain_commands(context) is not None:
            return Answer(Selection(reason="the message only answers or acts"))
        return Declined("the message may want a flow")


class SelectHead:
    """The local head over what the embedder and recall tell of the message, "none" included.

    Where it answers, the decision's candidates are in its order; the sources after it see those of recall.
    """

    kind: SourceKind = "head"
    name = "head"

    def __init__(self, head: HeadPort | None, policy: Policy) -> None:
        self._head = head
        self._margin = policy.clarify.get("head", 0.0)

    def steps(self, context: Context) -> Steps[Answer[Selection] | Declined]:
        """Answer with the likeliest flows that may be chosen, with none, or with the two that are too close."""
        head, flows = self._head, context.choosable
        if head is None:
            return Declined("no local head is bound")
        if not flows:
            return Answer(Selection(reason="no flow may be chosen"))
        open_to = frozenset(flows)
        parts = head.parts(context.turn.text)
        rows = yield Features((context.turn.text, *parts))
        clauses = [Clause(text, row) for text, row in zip(parts, rows[1:], strict=True)]
        found = head.judge(Seen(context.turn, rows[0], context.recalled, flows, clauses, context.hidden))
        context.candidates = reordered(context.recalled, found.ranking, open_to)
        chosen = list(dict.fromkeys(found.flows))
        if strange := [name for name in chosen if name not in open_to]:
            return Declined(f"the head chose {', '.join(strange)[:60]}, which may not be chosen")
        if not 0.0 <= found.confidence <= 1.0:
            return Declined(f"the head is sure to {found.confidence}, which is no probability", failed=True)
        ranking = [(name, probability) for name, probability in found.ranking if name in open_to]
        pair = close_pair(ranking, chosen, self._margin)
        if pair and not context.asked_already:
            return Answer(Selection(clarify=pair, reason=_TOO_CLOSE), found.confidence)
        reason = found.reason or ("likeliest flow" if chosen else "no flow is likely")
        return Answer(selection_of(context.turn.text, chosen, reason), found.confidence)


def selection_of(text: str, flows: Sequence[str], reason: str) -> Selection:
    """A selection of flows, in their order; the text tells how several of them are meant."""
    return Selection(flows=list(flows), mode=flow_mode(text, flows), reason=reason)


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


class SelectFloor:
    """The best-recalled candidate where its score is high enough, else none."""

    kind: SourceKind = "floor"
    name = "floor"

    def __init__(self, policy: Policy) -> None:
        self._scores = policy.floor_score
        self._trust = policy.trust.get("select", {}).get("floor", 0.5)
        self._margin = policy.clarify.get("floor", 0.0)

    def steps(self, context: Context) -> Steps[Answer[Selection] | Declined]:
        """Always answer."""
        yield from ()
        turn = context.turn
        needed = self._scores["busy" if turn.flow or turn.confirming else "idle"]
        best = context.recalled[0] if context.recalled else None
        if best is None or best.score < needed:
            return Answer(Selection(reason="no candidate is near enough"), self._trust)
        pair = close_pair(relative(context.recalled), [best.name], self._margin)
        if pair and not context.asked_already:
            return Answer(Selection(clarify=pair, reason=_TOO_CLOSE), self._trust)
        return Answer(Selection(flows=[best.name], reason="best recalled flow"), self._trust)


class UnderstandRule:
    """Knows closed acts and bare values."""

    kind: SourceKind = "rule"
    name = "rule"

    def steps(self, context: Context) -> Steps[Answer[list[Command]] | Declined]:
        """Answer what is certain; decline all else."""
        yield from ()
        turn = context.turn
        chosen = picked(turn)
        if chosen is not None:
            flows = [context.registry[name] for name in chosen if name in context.registry]
            slots = {slot.name: slot for flow in flows for slot in flow.slots}
            before = asked_about(turn)
            earlier = turn.model_copy(update={"text": before}) if before else turn
            return Answer(typed_values(earlier, tuple(slots.values())))
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
