"""Floors: they stand last in every order, and always answer."""

from __future__ import annotations

from jazzmine_dspy.models.commands import Command
from jazzmine_dspy.models.decision import Enhancement, Selection
from jazzmine_dspy.program.acts import typed_values
from jazzmine_dspy.program.clarify import TOO_CLOSE, close_pair, relative
from jazzmine_dspy.program.sources.registry import source
from jazzmine_dspy.program.stage import Answer, Context, Declined, Source, Steps


@source("enhance", "floor")
class EnhanceFloor(Source[Enhancement]):
    """The copy: the original text, neutral, going on."""

    def steps(self, context: Context) -> Steps[Answer[Enhancement] | Declined]:
        """Always answer."""
        yield from ()
        return Answer(Enhancement(enhanced_query=context.turn.text), self.trust)


@source("select", "floor")
class SelectFloor(Source[Selection]):
    """The best-recalled candidate where its score is high enough, else none."""

    def steps(self, context: Context) -> Steps[Answer[Selection] | Declined]:
        """Always answer."""
        yield from ()
        # A head that cannot judge these flows says why, and the reason tells who answered instead.
        before = f"{context.memo['head left']}: " if "head left" in context.memo else ""
        needed = self.policy.floor_score[context.turn.load]
        best = context.recalled[0] if context.recalled else None
        if best is None or best.score < needed:
            return Answer(Selection(reason=f"{before}no candidate is near enough"), self.trust)
        pair = close_pair(relative(context.recalled), [best.name], self.policy.clarify.get(self.kind, 0.0))
        if pair and not context.asked_already:
            return Answer(Selection(clarify=pair, reason=TOO_CLOSE), self.trust)
        return Answer(Selection(flows=[best.name], reason=f"{before}best recalled flow"), self.trust)


@source("understand", "floor")
class UnderstandFloor(Source[list[Command]]):
    """Values that their type tells: of the awaited flow, and of the flows that start."""

    def steps(self, context: Context) -> Steps[Answer[list[Command]] | Declined]:
        """Always answer."""
        yield from ()
        started = [name for name in context.selected if name in context.registry]
        slots = context.slots_of(started or [context.turn.flow or ""])
        return Answer(typed_values(context.turn, slots, context.at), self.trust)
