"""The steps of one turn: which stage comes when, what each is given, and what comes of their answers."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from jazzmine_dspy.models.commands import Command
from jazzmine_dspy.models.decision import Degraded, Enhancement, Selection, Stage, StageRecord, TurnDecision
from jazzmine_dspy.models.errors import MAX_SHOWN, format_error
from jazzmine_dspy.models.language import warn_unsupported_language
from jazzmine_dspy.models.registry import FlowRegistry
from jazzmine_dspy.models.turn import Turn
from jazzmine_dspy.program.bindings import Bindings
from jazzmine_dspy.program.denials import without_denied
from jazzmine_dspy.program.feeling import FIELDS, feel
from jazzmine_dspy.program.gate import in_force, keeps, without_lm
from jazzmine_dspy.program.merge import derived_intent, merge
from jazzmine_dspy.program.pauses import is_pause
from jazzmine_dspy.program.policy import Policy
from jazzmine_dspy.program.recall_query import recall_query
from jazzmine_dspy.program.sources import sources_of
from jazzmine_dspy.program.stage import (
    CANDIDATES,
    Context,
    Parallel,
    Predicted,
    Recall,
    Steps,
    run_stage,
)  # fmt: skip
from jazzmine_dspy.program.turn_problems import turn_problems

log = logging.getLogger("jazzmine_dspy")


class TurnSteps:
    """Enhance, recall, select, understand, merge: for one turn of a program.

    Args:
        registry: The flows to choose from.
        bindings: What sources may ask for.
        policy: Shape, and the order of sources per stage.
    """

    def __init__(self, registry: FlowRegistry, bindings: Bindings, policy: Policy) -> None:
        self.registry = registry
        self.bindings = bindings
        self.policy = policy

    def decide(self, turn: Turn, exclude: Sequence[str] = ()) -> Steps[TurnDecision]:
        """All steps of a decision, for a driver to take.

        A turn that is sure enough as a whole without a language model is decided without; any other is decided anew.
        """
        warn_unsupported_language(turn.locale)
        sureness = in_force(self.policy, self.bindings)
        if sureness is not None and sureness.gate <= 1.0:
            alone = TurnSteps(self.registry, self.bindings, without_lm(self.policy))
            decision = yield from alone.decide(turn, exclude)
            if keeps(sureness, turn, decision, self.registry):
                return decision
        context = Context(turn=turn, registry=self.registry, exclude=frozenset(exclude))
        stages: dict[Stage, StageRecord] = {}
        stages["enhance"] = yield from self._enhanced(context)
        if self.policy.shape == "staged" and turn.flow:
            # Both read the same running flow, so neither waits for the other.
            (selection, stages["select"]), (commands, stages["understand"]) = yield Parallel(
                (self._stage("select", context), self._stage("understand", context))
            )
            selection = self._undenied(selection, turn)
            context.selected = _new(selection, turn)
            if context.selected:
                again, record = yield from self._stage("understand", context)
                commands = _with_new_slots(commands, again)
                stages["understand"] = _summed(stages["understand"], record)
        else:
            selection, stages["select"] = yield from self._stage("select", context)
            selection = self._undenied(selection, turn)
            context.selected = _new(selection, turn)
            commands, stages["understand"] = yield from self._stage("understand", context)
        enhancement, stages["enhance"] = yield from self._as_answered(context, stages["enhance"])
        if context.recall_failure and stages["select"].source != "rule":
            record = stages["select"]
            cause = "; ".join(filter(None, (context.recall_failure, record.cause)))
            stages["select"] = record.model_copy(update={"degraded": True, "cause": cause})
        return (yield from self._decision(context, enhancement, selection, commands, stages))

    def to(self, stage: Stage, turn: Turn, exclude: Sequence[str] = ()) -> Steps[Context]:
        """The steps of a decision before a stage: what is fitted for that stage is fitted on their result.

        Returns:
            The turn's context as the sources of the stage find it: rewritten, recalled and selected by what the policy
            names.
        """
        context = Context(turn=turn, registry=self.registry, exclude=frozenset(exclude))
        if stage != "enhance":
            yield from self._enhanced(context)
        elif self.policy.shape == "fused":
            yield from self.recall(context, turn.text)
        if stage == "understand":
            selection, _ = yield from self._stage("select", context)
            context.selected = _new(self._undenied(selection, turn), turn)
        return context

    def _undenied(self, selection: Selection, turn: Turn) -> Selection:
        """The selection without flows that the message says it does not want."""
        flows = without_denied(turn, selection.flows, self.registry)
        clarify = without_denied(turn, selection.clarify, self.registry)
        if flows == list(selection.flows) and clarify == list(selection.clarify):
            return selection
        clarify = clarify if len(clarify) > 1 else []
        reason = "the message says that it is not wanted"
        return selection.model_copy(update={"flows": flows, "clarify": clarify, "reason": reason})

    def _enhanced(self, context: Context) -> Steps[StageRecord]:
        """Rewrite the message, and recall for it: before the rewrite in the fused shape, else after it."""
        if self.policy.shape == "fused":
            yield from self.recall(context, context.turn.text)
        context.enhancement, record = yield from self._stage("enhance", context)
        if self.policy.shape == "staged":
            yield from self.recall(context, context.enhancement.enhanced_query)
        return record

    def _as_answered(self, context: Context, record: StageRecord) -> Steps[tuple[Enhancement, StageRecord]]:
        """The enhancement of the one call for all stages, where a rule or the floor answered before it was made."""
        enhancement = context.enhancement
        assert enhancement is not None, "a stage always answers"
        order = self.policy.orders["enhance"]
        before_it = record.source == "rule" or (record.source == "floor" and "lm" not in order)
        made = isinstance(context.memo.get("fused"), Predicted) and self.policy.asks("enhance")
        if not (before_it and made):
            return enhancement, record
        orders = {**self.policy.orders, "enhance": ("lm", "floor")}
        policy = self.policy.model_copy(update={"orders": orders})
        said, later = yield from run_stage(
            "enhance", sources_of("enhance", self.bindings, policy), {}, context
        )
        if later.source == "lm":
            return said, _summed(record, later)
        return enhancement, record.model_copy(update={"degraded": True, "cause": later.cause})

    def _decision(
        self,
        context: Context,
        enhancement: Enhancement,
        selection: Selection,
        commands: Sequence[Command],
        stages: dict[Stage, StageRecord],
    ) -> Steps[TurnDecision]:
        selection = selection.model_copy(
            update={"candidates": [(found.name, found.score) for found in context.candidates[:CANDIDATES]],
                    "confidence": stages["select"].confidence}
        )  # fmt: skip
        refused: list[str] = []
        enhancement, selection, merged = merge(
            context.turn, self.registry, enhancement, selection, commands, refused
        )
        if refused and stages["understand"].source == "lm":
            stages["understand"] = _with_reasons(stages["understand"], refused)
        record = stages["enhance"]
        local = record.source in ("rule", "floor") and not record.degraded
        unasked = self.policy.unasked if record.source == "lm" else ()
        if local or "intent" in unasked:
            update = {"intent": derived_intent(context.turn, merged)}
            enhancement = enhancement.model_copy(update=update)
        if fields := [name for name in FIELDS if local or name in unasked]:
            enhancement, stages["enhance"] = yield from feel(
                context, self.bindings, enhancement, record, merged, fields
            )
        causes = [f"{stage}: {record.cause}" for stage, record in stages.items() if record.degraded]
        invented = context.memo.get("invented")
        if invented and not stages["select"].degraded:
            log.warning("the language model named %d flows that were not offered", len(invented))
        if causes:
            log.warning("the turn is degraded: %s", "; ".join(causes))
        # The neutral default of an outage is no observation.
        scores = [] if record.degraded else [*context.turn.recent_sentiments, enhancement.sentiment_score]
        problems = tuple(turn_problems(context.turn, self.registry))
        if problems:
            log.warning("the turn contradicts the registry or itself: %s", "; ".join(problems))
        return TurnDecision(
            enhancement=enhancement,
            selection=selection,
            commands=merged,
            stages=stages,
            escalation=self.policy.escalation.judge(scores),
            pause=not merged and is_pause(context.turn),
            problems=problems,
        )

    def recall(self, context: Context, query: str) -> Steps[None]:
        """Look for candidates, by the query and what stands beside it; the context keeps them."""
        if not self.registry:
            return
        allowed = None if context.allowed is None else frozenset(context.allowed)
        try:
            query, beside = recall_query(context.turn, query, self.registry)
            found = yield Recall(
                query=query,
                k=CANDIDATES,
                summaries=beside,
                allowed=allowed,
                exclude=context.exclude,
            )
            open_to = self.registry.keys() if allowed is None else allowed
            context.recalled = [one for one in found if one.name in open_to]
            context.candidates = list(context.recalled)
            # A stand-in answered: what it found is used, and the turn says so.
            context.recall_failure = found.cause if isinstance(found, Degraded) else None
        except Exception as error:
            context.recall_failure = f"recall: {format_error(error)}"

    def _stage(self, stage: Stage, context: Context) -> Steps[tuple[Any, StageRecord]]:
        sources = sources_of(stage, self.bindings, self.policy)
        return run_stage(stage, sources, self.policy.gates.get(stage, {}), context)


def _new(selection: Selection, turn: Turn) -> list[str]:
    """Flows whose slots come into play: those that start, and paused ones that are taken up again."""
    return [name for name in selection.flows if name != turn.flow]


def _with_new_slots(first: Sequence[Command], again: Sequence[Command]) -> list[Command]:
    """What the first reading says of the running flow, and the second of the new flow's slots."""
    rest = [c for c in first if c.understood and c.order != "value"]
    return [*rest, *(c for c in again if c.order == "value")]


def _with_reasons(record: StageRecord, reasons: Sequence[str]) -> StageRecord:
    """The record of an answer of which parts were refused."""
    cause = "; ".join(dict.fromkeys([*([record.cause] if record.cause else []), *reasons]))
    return record.model_copy(update={"cause": cause[:MAX_SHOWN]})


def _summed(first: StageRecord, second: StageRecord) -> StageRecord:
    causes = "; ".join(cause for cause in (first.cause, second.cause) if cause)
    return second.model_copy(
        update={
            "latency_ms": first.latency_ms + second.latency_ms,
            "usage": first.usage + second.usage,
            "calls": (*first.calls, *second.calls),
            "degraded": first.degraded or second.degraded,
            "cause": causes or None,
        }
    )
