"""Floors: they stand last in every order, and always answer."""

from __future__ import annotations

from typing import cast

from jazzmine_dspy.models.commands import Command, CorrectSlot, SetSlot
from jazzmine_dspy.models.decision import Enhancement, Selection
from jazzmine_dspy.program.acts import typed_values
from jazzmine_dspy.program.clarify import TOO_CLOSE, close_pair, margin_of, relative
from jazzmine_dspy.program.heads.acts.free_texts import is_bare_act
from jazzmine_dspy.program.heads.acts.readings import free_text
from jazzmine_dspy.program.heads.feeling.head import SHIPPED
from jazzmine_dspy.program.sources.heads import LIKELY, by_starts, chosen_of, told_starts, two_wishes
from jazzmine_dspy.program.sources.registry import source
from jazzmine_dspy.program.stage import Answer, Context, Declined, Source, Steps


@source("enhance", "floor")
class EnhanceFloor(Source[Enhancement]):
    """The copy: the original text; sentiment, topic and entities are filled in after the commands."""

    fingerprint = SHIPPED

    def steps(self, context: Context) -> Steps[Answer[Enhancement] | Declined]:
        """Always answer."""
        yield from ()
        return Answer(Enhancement(enhanced_query=context.turn.text), self.trust)


@source("select", "floor")
class SelectFloor(Source[Selection]):
    """The best-recalled candidate where its score is high enough, else none."""

    def steps(self, context: Context) -> Steps[Answer[Selection] | Declined]:
        """Always answer."""
        told = yield from told_starts(self.policy, self.bindings, context)
        # A head that cannot judge these flows says why, and the reason tells who answered instead.
        before = f"{context.memo['head left']}: " if "head left" in context.memo else ""
        if told is not None:
            chosen, pair = chosen_of(told, self.policy, self.kind, context)
            both: list[str] = []
            if told.wanted >= LIKELY:
                both = yield from two_wishes(context, by_starts(self.policy, self.bindings))
            if both:
                chosen, pair = both, []
        else:
            chosen, pair = self._nearest(context)
        if pair:
            return Answer(Selection(clarify=pair, reason=TOO_CLOSE), self.trust)
        if not chosen:
            return Answer(Selection(reason=f"{before}no candidate is near enough"), self.trust)
        return Answer(Selection(flows=chosen, reason=f"{before}best recalled flow"), self.trust)

    def _nearest(self, context: Context) -> tuple[list[str], list[str]]:
        """What recall alone says: the best flow, or the two that are too close to choose between."""
        best = next(iter(context.recalled), None)
        if best is None or best.score < self.policy.floor_score[context.turn.load]:
            return [], []
        margin = margin_of(self.policy, self.kind, [best.name], context.registry)
        pair = close_pair(relative(context.recalled), [best.name], margin)
        return ([], pair) if pair and not context.asked_already else ([best.name], [])


@source("understand", "floor")
class UnderstandFloor(Source[list[Command]]):
    """What a head said that was not sure enough for its gate; else the values that their type tells.

    A text that was asked for, and has no form of its own, is the message, where neither another flow nor a value of
    another type is in it, it asks nothing, and it is not an act such as "no" or "help" alone.
    """

    def steps(self, context: Context) -> Steps[Answer[list[Command]] | Declined]:
        """Always answer."""
        yield from ()
        if "unsure" in context.memo:
            return cast("Answer[list[Command]]", context.memo["unsure"])
        started = [name for name in context.selected if name in context.registry]
        slots = context.slots_of(started or [context.turn.flow or ""])
        values = typed_values(context.turn, slots, context.at)
        if not values and not context.selected:
            values = self._awaited_text(context)
        return Answer(values, self.trust)

    def _awaited_text(self, context: Context) -> list[Command]:
        turn, flow = context.turn, context.registry.get(context.turn.flow or "")
        slot = flow.slot(turn.awaiting or "") if flow is not None else None
        if slot is None or slot.type != "text" or slot.pattern or turn.text.rstrip().endswith("?"):
            return []
        if is_bare_act(turn.text):
            return []
        value = free_text(turn.text)
        held = slot.name in turn.slots.names
        return [(CorrectSlot if held else SetSlot)(name=slot.name, value=value)] if value else []
