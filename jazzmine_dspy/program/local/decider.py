"""The local decider: closed acts, flows, commands and slot values, and how likely all of it is right."""

from __future__ import annotations

from dataclasses import replace

from jazzmine_dspy.models.commands import Command
from jazzmine_dspy.models.decision import Enhancement, Selection, Stage, StageRecord
from jazzmine_dspy.program.deadline import Deadline
from jazzmine_dspy.program.decider import NOTHING_FOUND, Decided, Decider, record
from jazzmine_dspy.program.denials import without_denied
from jazzmine_dspy.program.finish import feeling_head
from jazzmine_dspy.program.heads.acts.model import Acts, shipped_head
from jazzmine_dspy.program.local.selection import FlowChoice, select
from jazzmine_dspy.program.local.understanding import (
    Closed,
    Understanding,
    acts_head,
    read_closed,
    understand,
)
from jazzmine_dspy.program.merge import merge
from jazzmine_dspy.program.reader.reading import second_reading
from jazzmine_dspy.program.state import CANDIDATES, TurnState
from jazzmine_dspy.program.turn_confidence import TurnConfidence, features, in_force


class LocalDecider(Decider):
    """Decides without a language model; without labels it uses the heads of the package.

    Args:
        models: Whether trained models are used. Otherwise rules, recall and types decide alone, as without a bound
            embedding model.
    """

    def __init__(self, *, models: bool = True) -> None:
        self.models = models

    @property
    def label(self) -> str:
        """``local``, or ``fallback`` without models: the source in records."""
        return "local" if self.models else "fallback"

    def decide(self, state: TurnState, so_far: Decided | None, deadline: Deadline) -> Decided:
        """Decide a turn; a part that fails is skipped, and its stage is degraded."""
        del so_far
        began = deadline.milliseconds()
        closed = read_closed(state)
        reads = self.models and feeling_head(state.bindings) is not None
        source, confidence = (
            ("local" if reads else "fallback", state.policy.trust.get(self.label, 0.5))
            if closed.rewrite is None
            else ("rule", 1.0)
        )
        enhanced = deadline.milliseconds()
        chosen = self.select(state, closed)
        selected = deadline.milliseconds()
        understood = self.understand(state.with_selected(chosen.selection.flows), closed, chosen)
        certain = closed.commands is not None or closed.picked is not None
        second = second_reading(state) if self.models and not certain else None
        ended = deadline.milliseconds()
        cause = "; ".join(filter(None, (understood.cause, *state.read_failures[:1])))
        records: dict[Stage, StageRecord] = {
            "enhance": record(source, confidence, enhanced - began),
            "select": record(chosen.source, chosen.confidence, selected - enhanced, cause=chosen.cause),
            "understand": record(understood.source, understood.confidence, ended - selected, cause=cause),
        }
        decided = Decided(
            enhancement=Enhancement(
                enhanced_query=state.turn.text if closed.rewrite is None else closed.rewrite
            ),
            fields=frozenset(("enhanced_query",)),
            selection=chosen.selection,
            commands=understood.commands,
            degraded="; ".join(filter(None, (chosen.cause, cause))),
            records=records,
        )
        if certain or not self.models:
            return replace(decided, confidence={"turn": float(certain)})
        return self._weighed(state, decided, second)

    def select(self, state: TurnState, closed: Closed | None = None) -> FlowChoice:
        """Select the flows of a message, without flows that it rejects."""
        chosen = select(
            replace(state, query=(closed.rewrite if closed else None) or state.query), closed, self.models
        )
        selection = undenied(chosen.selection, state)
        if not selection.candidates:
            candidates = (chosen.candidates or state.recalled)[:CANDIDATES]
            selection = selection.model_copy(
                update={"candidates": [(one.name, one.score) for one in candidates]}
            )
        most = 1.0 if selection.flows or selection.clarify else NOTHING_FOUND
        return chosen._replace(selection=selection, confidence=min(chosen.confidence, most))

    def understand(
        self, state: TurnState, closed: Closed | None = None, chosen: FlowChoice | None = None
    ) -> Understanding:
        """Return the commands of a message for the flows whose slots may be filled."""
        understood = understand(state, closed, chosen.acts if chosen else None, self.models)
        return (
            understood
            if understood.commands
            else understood._replace(confidence=min(understood.confidence, NOTHING_FOUND))
        )

    def _weighed(self, state: TurnState, decided: Decided, second: Decided | None) -> Decided:
        """Return the answer with the probability that all its commands are right; the reader's answer is a sign."""
        understood, commands = decided.records["understand"], _merged(state, decided)
        if second is not None:
            same = set(_merged(state, second)) == set(commands)
            agreement = second.confidence["turn"] * (1.0 if same else -1.0)
            understood = understood.model_copy(update={"agreement": agreement})
        model = confidence_model(state)
        candidates = decided.selection.candidates if decided.selection else []
        seen = features(state.turn, state.registry, commands, candidates, understood)
        return replace(
            decided,
            records={**decided.records, "understand": understood},
            confidence={"turn": 0.0 if model is None else model.probability(seen)},
        )


def _merged(state: TurnState, decided: Decided) -> list[Command]:
    """The commands of an answer as the decision will have them."""
    assert decided.selection is not None, "the answer is whole"
    assert decided.commands is not None, "the answer is whole"
    return merge(state.turn, state.registry, decided.enhancement, decided.selection, decided.commands)[2]


def confidence_model(state: TurnState) -> TurnConfidence | None:
    """Return the confidence model: of the run that compiled the program, or of the package.

    The model of the package applies if a choosable flow is not in the fitted one. None if neither fits the head of the
    commands.
    """
    head, fitted = acts_head(state.bindings, state.registry), state.policy.turn_confidence
    if fitted is None or not fitted.flows or set(state.choosable) <= set(fitted.flows):
        return in_force(fitted, head)
    # Labels change the head of the package, but not its confidence for flows that they do not cover.
    package = shipped_head(state.bindings.embedder)
    return in_force(None, package if isinstance(head, Acts) else head)


def undenied(selection: Selection, state: TurnState) -> Selection:
    """Remove the flows that the message rejects from a selection."""
    flows = without_denied(state.turn, selection.flows, state.registry)
    clarify = without_denied(state.turn, selection.clarify, state.registry)
    if flows == list(selection.flows) and clarify == list(selection.clarify):
        return selection
    clarify = clarify if len(clarify) > 1 else []
    reason = "the message says that it is not wanted"
    return selection.model_copy(update={"flows": flows, "clarify": clarify, "reason": reason})
