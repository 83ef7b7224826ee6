"""Applies the commands of a decision to a state, and begins the turn in it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from jazzmine_dspy.dialogue.flows import defer, find_paused, pending, readings, refusal
from jazzmine_dspy.dialogue.questions import DROPPED, Flows, clarifying
from jazzmine_dspy.dialogue.texts import Speech
from jazzmine_dspy.memory.working import ActiveFlowState, FlowStatus, TurnCache, WorkingMemory
from jazzmine_dspy.memory.working.operations import (
    clear_slot,
    collect_slot,
    confirm_action,
    deny_action,
    pause_flow,
    resume_flow,
    start_flow,
)
from jazzmine_dspy.memory.working.operations.flows import end_flow
from jazzmine_dspy.memory.working.state import ATTEMPTS_ALLOWED
from jazzmine_dspy.models.base import thaw
from jazzmine_dspy.models.commands import Command, Dialogue
from jazzmine_dspy.models.decision import TurnDecision
from jazzmine_dspy.models.flows import Flow
from jazzmine_dspy.models.slots import ReadingContext, Slot, call_type
from jazzmine_dspy.models.talk import kind_of_talk
from jazzmine_dspy.models.validators import Validation, ValidatorRegistry, takes_slots

Validate = Callable[[str, Any, dict[str, Any]], Validation | None]
"""Asks the validator of a name about a value, next to the flow's other values; None while it has not answered."""


class CommandApplier(Dialogue):
    """One application: the state in change, and what the commands came to.

    Args:
        state: Changed in place.
        decision: The answer to an open yes or no is taken first, its other commands in their order.
        person_offered: Whether the last turn offered a person.
        validate: Asks a validator about a value; None while it has not answered, and then the value is stored.
    """

    def __init__(
        self,
        state: WorkingMemory,
        registry: Flows,
        decision: TurnDecision,
        at: ReadingContext,
        *,
        person_offered: bool = False,
        validate: Validate = ValidatorRegistry.validate,
    ) -> None:
        self.state = state
        self.registry = registry
        self.at = at
        self.speech = Speech(registry, at.locale)
        self.validate = validate
        self.unvalidated: list[tuple[ActiveFlowState, Slot, Any]] = []
        self.values_before = {id(flow): flow.values for flow in state.open_flows}
        self.commands: list[Command] = [
            *(c for c in decision.commands if c.answers),
            *(c for c in decision.commands if not c.answers),
        ]
        self.kinds = {command.type for command in self.commands}
        self.only_talk = all(command.digression or command.is_small_talk for command in self.commands)
        self.decision = decision
        enhance = decision.stages.get("enhance")
        # The neutral default of an outage is no observation.
        score = 0.0 if enhance is not None and enhance.degraded else decision.enhancement.sentiment_score
        self.talk = kind_of_talk(decision.enhancement.enhanced_query, score)
        self.person_offered = person_offered
        self.replies: list[str] = []
        self.unanswered: str | None = None
        self.flow_before = state.active_flow
        self.asked = self.flow_before.awaiting if self.flow_before is not None else None
        # An offer is for the next message alone.
        self.offered, state.offered_flow = state.offered_flow, None
        self.slot_owner: ActiveFlowState | None = None
        self.affirmed = self.asks_again = self.denied = self.rejected = self.declined = self.changed = False
        self.ended = self.handed_over = self.repeated = self.suppress_question = self.done_anything = False
        self.agreed: Mapping[str, Any] = {}
        self.slot_to_change: str | None = None
        self.refused: tuple[ActiveFlowState, str] | None = None
        self.unsure: Sequence[object] = ()
        self.escalated: tuple[ActiveFlowState, str] | None = None
        self.deferred_at: int | None = None
        self.flows_to_choose_from: Sequence[str] | None = None

    # --- yes and no --------------------------------------------------------------------------------------

    def affirm(self) -> bool:
        """Yes: what was asked about is ready to run."""
        open_question = self.state.pending_confirmation
        if open_question is None:
            return self.person_offered and self.hand_over()
        if self.asks_again or self.state.handed_over or clarifying(self.state):
            # The last reply did not put this question: "ok" may be about that reply. The question is put again.
            self.state.handed_over, self.state.escalation, self.state.question_counts = False, "", {}
            self.asks_again = True
            return True
        self.agreed = open_question.action_payload
        # It is ready to run; what the next step asks instead takes that back.
        confirm_action(self.state)
        self.affirmed = True
        return True

    def deny(self, name: str | None) -> bool:
        """No: nothing is done, and a slot that is named is taken back."""
        running = self.state.active_flow
        if self.person_offered and name is None and self.state.pending_confirmation is None:
            self.replies.append(self.speech.say("go_on", self._flow()))
            self.state.question_counts, self.declined = {}, True
            return True
        if running is None:
            self.state.pending_confirmation = None
            return False
        known = name if name and self.registry[running.flow_name].slot(name) is not None else None
        self.slot_to_change = known or self.slot_to_change
        if self.state.pending_confirmation is not None:
            deny_action(self.state, known)
        else:
            # What was understood is wrong: the values stay, but for one that is named.
            running.transition_to(FlowStatus.ACTIVE)
            running.awaiting, running.ready, self.rejected = None, False, True
            if known:
                clear_slot(self.state, known)
        self.denied = True
        self.changed |= known is not None
        return True

    # --- the stack ---------------------------------------------------------------------------------------

    def start(self, name: str) -> bool:
        """Begin a flow, or line it up behind the one that was begun or confirmed before it."""
        state = self.state
        if name not in self.registry:
            return False
        if state.active_flow is not None and state.active_flow.flow_name == name:
            self.slot_owner = state.active_flow
            return False
        waiting = find_paused(state, name)
        if self.affirmed or self.deferred_at is not None:
            # What was wished for first comes first: the others follow in their order.
            self.deferred_at = len(state.paused) if self.deferred_at is None else self.deferred_at
            self.slot_owner = waiting or defer(state, self.registry[name], self.deferred_at)
            return True
        if waiting is not None:
            resume_flow(state, name)
        else:
            start_flow(state, self.registry[name])
        self.slot_owner = state.active_flow
        self.deferred_at = len(state.paused)
        return True

    def resume(self, name: str | None) -> bool:
        """Take up a flow that was set aside."""
        found = find_paused(self.state, name)
        if found is None:
            return False
        # Slots that follow are its own.
        self.slot_owner = found
        if not self.affirmed:
            resume_flow(self.state, found.flow_name)
            return True
        # The flow just confirmed runs first.
        self.state.paused = [*(flow for flow in self.state.paused if flow is not found), found]
        found.deferred = True
        return True

    def leave(self, name: str | None, unsure: bool = False) -> bool:
        """End a flow, running or set aside; if unsure, set the running one aside and offer to go back."""
        state = self.state
        named = (flow for flow in state.open_flows if flow.flow_name == name)
        found = state.active_flow if name is None else next(named, None)
        if found is None:
            return False
        self.ended = True
        if unsure and found is state.active_flow:
            pause_flow(state)
            return True
        self.replies.append(self.speech.say("cancelled", self.registry.get(found.flow_name), found.values))
        end_flow(state, found, FlowStatus.CANCELLED, reason=DROPPED)
        return True

    def restart(self) -> bool:
        """Begin the running flow anew; with none, drop those set aside."""
        state = self.state
        running = state.active_flow
        self.replies.append(self.speech.say("restarted", self._flow()))
        state.pending_confirmation = None
        if running is None:
            for waiting in list(state.paused):
                end_flow(state, waiting, FlowStatus.CANCELLED, reason="the conversation was begun anew")
            return True
        end_flow(state, running, FlowStatus.CANCELLED, reason="the task was begun anew")
        start_flow(state, self.registry[running.flow_name])
        return True

    # --- slots -------------------------------------------------------------------------------------------

    def find_owner(self, name: str, of: str | None = None) -> ActiveFlowState | None:
        """The flow that a slot belongs to: the one named, else just started, running, or running before this turn."""
        flows = self.state.open_flows
        owners = (self.slot_owner, self.state.active_flow, self.flow_before)
        likely = [flow for owner in owners for flow in flows if flow is owner]
        chosen = likely if of is None else [flow for flow in flows if flow.flow_name == of]
        return next((flow for flow in chosen if self.registry[flow.flow_name].slot(name) is not None), None)

    def put(self, name: str, value: object, flow: str | None = None) -> bool:
        """Fill a slot, or note why the value is refused."""
        owner = self.find_owner(name, flow)
        slot = self.registry[owner.flow_name].slot(name) if owner else None
        if owner is None or slot is None:
            return False
        # Labels, and commands of others than the program, come as they were written.
        value = call_type(slot, "normalize", value, value, self.at)
        why_not = refusal(slot, value, self.at)
        self._forget_unvalidated(owner, name)
        if slot.validator and not why_not:
            # A validator may look at other values that this turn brings.
            self.unvalidated.append((owner, slot, value))
        else:
            self._store(owner, slot, value, why_not, readings(slot, value, self.at) if why_not else ())
        return True

    def _store(
        self,
        owner: ActiveFlowState,
        slot: Slot,
        value: object,
        why_not: str,
        readings: Sequence[object] = (),
    ) -> None:
        name = slot.name
        collect_slot(self.state, name, value, why_not, flow=owner.flow_name)
        if not why_not:
            self.changed |= owner is self.state.active_flow
            return
        # The running flow comes first: it must not run with the value that was to change.
        if self.refused is None or (owner is self.state.active_flow and self.refused[0] is not owner):
            self.unsure = () if self.refused else readings
            self.refused = (owner, name)
        if owner.slots[name].attempts >= ATTEMPTS_ALLOWED:
            self.escalated = self.escalated or (owner, name)

    def _forget_unvalidated(self, owner: ActiveFlowState, name: str) -> None:
        self.unvalidated = [each for each in self.unvalidated if each[0] is not owner or each[1].name != name]

    def validate_values(self) -> None:
        """Store the values that their validators accept, and check again those that depend on a changed one."""
        for owner in self.state.open_flows:
            own = [(slot, value) for flow, slot, value in self.unvalidated if flow is owner]
            values = owner.values | {slot.name: value for slot, value in own}
            # A value that is refused by itself is none that others are checked against.
            for slot, value in sorted(own, key=lambda each: takes_slots(str(each[0].validator))):
                verdict = self._verdict(slot, value, values)
                if not verdict:
                    values = {**values, slot.name: owner.values.get(slot.name)}
                self._store(owner, slot, value, verdict.reason)
            if owner.values != self.values_before.get(id(owner), {}):
                self._validate_dependents(owner)

    def _validate_dependents(self, owner: ActiveFlowState) -> None:
        """Take back the values that no longer fit the others."""
        dependents = [
            slot
            for slot in self.registry[owner.flow_name].slots
            if slot.validator and takes_slots(slot.validator)
        ]
        values: dict[str, Any] = {}
        while values != owner.values:
            values = owner.values
            for slot in dependents:
                value = owner.values.get(slot.name)
                if value is not None and not (verdict := self._verdict(slot, value, owner.values)):
                    clear_slot(self.state, slot.name, flow=owner.flow_name)
                    self._store(owner, slot, value, verdict.reason)

    def _verdict(self, slot: Slot, value: Any, values: dict[str, Any]) -> Validation:
        others = {name: other for name, other in values.items() if name != slot.name and other is not None}
        verdict = self.validate(str(slot.validator), thaw(value), others)
        return Validation(True) if verdict is None else verdict

    def clear(self, name: str, flow: str | None = None) -> bool:
        """Take a slot's value back."""
        owner = self.find_owner(name, flow)
        if owner is not None and name == self.slot_to_change:
            self.slot_to_change = None
        if owner is not None:
            self._forget_unvalidated(owner, name)
        if owner is None or not owner.slots[name].filled:
            return False
        clear_slot(self.state, name, flow=owner.flow_name)
        self.changed |= owner is self.state.active_flow
        return True

    def skip(self, name: str, flow: str | None = None) -> bool:
        """Go on without a slot."""
        owner = self.find_owner(name, flow)
        slot = self.registry[owner.flow_name].slot(name) if owner else None
        if owner is None or slot is None or owner.slots[name].filled:
            return False
        owner.slots[name].skipped = True
        # Only who is spared the question has got anywhere.
        return pending(self.registry[owner.flow_name], owner) != slot

    # --- what is said ------------------------------------------------------------------------------------

    def say(self, key: str) -> bool:
        """Say the text under a key; talk is answered by its kind."""
        flow = self._flow()
        if key == "chitchat" and self.talk != key:
            own = dict(flow.responses) if flow is not None else {}
            # A flow's own text for talk answers all of it but complaints.
            key = self.talk if self.talk in own or key not in own or self.talk == "complaint" else key
        self.replies.append(text := self.speech.say(key, flow, self._values()))
        self.unanswered = text if key == "ask" else self.unanswered
        return True

    def repeat(self) -> bool:
        """Say the last reply again."""
        self.repeated = True
        return True

    def ask_which(self, flows: Sequence[str]) -> bool:
        """Ask which of some flows is meant, once."""
        if self.flows_to_choose_from is None:
            self.flows_to_choose_from = flows
        return True

    def hand_over(self) -> bool:
        """Leave the conversation to a person."""
        self.handed_over = True
        return True

    # --- what the texts are filled with -------------------------------------------------------------------

    def _flow(self) -> Flow | None:
        return self.registry.get(self.state.active_flow.flow_name) if self.state.active_flow else None

    def _values(self) -> dict[str, object]:
        return self.state.active_flow.values if self.state.active_flow else {}


# --- the beginning of a turn --------------------------------------------------------------------------------


def turn_cache(
    decision: TurnDecision, registry: Mapping[str, Flow], *, agent_id: str = "", message_id: str = ""
) -> TurnCache:
    """What a decision found out, as working memory keeps it for the turn.

    Selected flows that the registry does not have stand among the unresolved ones.
    """
    found, chosen = decision.enhancement, decision.selection
    flows = [registry[name] for name in chosen.flows if name in registry]
    return TurnCache(
        message_id=message_id,
        enhanced_query=found.enhanced_query,
        intent=found.intent,
        sentiment_score=found.sentiment_score,
        is_continuation=found.is_continuation,
        is_cancellation=found.is_cancellation,
        raw_entities=[entity.model_dump(mode="json") for entity in found.entities],
        combined_flow_prompt="\n\n".join(flow.build_prompt(verbose=False) for flow in flows),
        selected_flow_ids=[flow.id_for(agent_id) for flow in flows],
        unresolved_flow_ids=[name for name in chosen.flows if name not in registry],
        flow_candidates=[
            {"flow_id": registry[name].id_for(agent_id), "flow_name": name, "score": score}
            for name, score in chosen.candidates
            if name in registry
        ],
    )


def continues(state: WorkingMemory, decision: TurnDecision, registry: Mapping[str, Flow]) -> bool:
    """Whether a message is about the yes or no that is open, and has not drifted away from it.

    Answers, a word on a slot or on the flow itself, and the wish to hear the question again are about it; so is
    a message that says nothing new and continues the topic, or asks for time. Everything else lets the question age.
    """
    if decision.pause:
        return True
    running = state.active_flow
    flow = registry.get(running.flow_name) if running is not None else None
    if flow is None or not decision.commands:
        return decision.enhancement.is_continuation
    return any(command.is_about(flow) for command in decision.commands)
