"""The state machine: a state and a decision give a new state and the next step. It has no side effects."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from jazzmine_dspy.dialogue import questions
from jazzmine_dspy.dialogue.apply import CommandApplier, Validate, continues, turn_cache
from jazzmine_dspy.dialogue.events import Events, turn_events
from jazzmine_dspy.dialogue.flows import find_paused, next_in_line, offer_to_resume, pending
from jazzmine_dspy.dialogue.questions import Flows, await_slot, pending_question, reconcile
from jazzmine_dspy.dialogue.texts import Speech, compose, join
from jazzmine_dspy.memory.working import ActiveFlowState, WorkingMemory
from jazzmine_dspy.memory.working.operations import begin_turn
from jazzmine_dspy.memory.working.state import ATTEMPTS_ALLOWED, SENTIMENTS_KEPT
from jazzmine_dspy.models.agreement import stance
from jazzmine_dspy.models.decision import NextStep, TurnDecision
from jazzmine_dspy.models.registry import reading_context
from jazzmine_dspy.models.slots import ReadingContext
from jazzmine_dspy.models.talk import asks_for_time
from jazzmine_dspy.models.validators import ValidatorRegistry

TASKS_NAMED = 3
"""Flows that the assistant names where it tells what it can do."""


def apply(
    state: WorkingMemory, decision: TurnDecision, registry: Flows, *, message_id: str = ""
) -> tuple[WorkingMemory, NextStep]:
    """Carry out what a turn was decided to be: :func:`apply_decision` on any state, and without its events."""
    applied = apply_decision(reconcile(state, registry), decision, registry, message_id=message_id)
    return applied.state, applied.next


class Applied(NamedTuple):
    """What a turn came to."""

    state: WorkingMemory
    next: NextStep
    events: Events


def apply_decision(
    state: WorkingMemory,
    decision: TurnDecision,
    registry: Flows,
    *,
    message_id: str = "",
    at: ReadingContext | None = None,
    validate: Validate = ValidatorRegistry.validate,
) -> Applied:
    """Carry out what a turn was decided to be.

    A command that is unknown here or does not fit the state changes nothing. The answer to an open yes or no
    is taken first, then the others in their order. A pause leaves all as it is. The turn is begun with what the
    decision found out: see :func:`~jazzmine_dspy.memory.working.operations.begin_turn`.

    Args:
        state: The state before, as :func:`~jazzmine_dspy.dialogue.questions.reconcile` gives it; it is left as it is.
        decision: What the message was understood as.
        registry: The flows, by name.
        message_id: Of the message; the turn of one id is begun once.
        at: Where and when the message was said; None says what the registry tells of it.
        validate: Asks a slot's validator about a value; None while it has not answered, and then the value is stored.
    """
    before, state = state, state.model_copy(deep=True)
    key_before = questions.progress_key(state)
    person_offered = questions.offer_is_open(state)
    cache = turn_cache(decision, registry, agent_id=state.agent_id, message_id=message_id)
    begin_turn(state, cache, continues=continues(state, decision, registry))
    expired = before.pending_confirmation is not None and state.pending_confirmation is None
    record = decision.stages.get("enhance")
    # The neutral default of an outage is no observation.
    if record is None or not record.degraded:
        state.sentiments = [*state.sentiments, decision.enhancement.sentiment_score][-SENTIMENTS_KEPT:]
    at = at or reading_context(registry)
    state.locale = at.locale
    if _asks_for_time(decision):
        # An offer stays open while the user thinks.
        state.person_offered_at = state.turn_number if person_offered else state.person_offered_at
        running = state.active_flow
        flow = registry.get(running.flow_name) if running is not None else None
        text = Speech(registry, at.locale).say("wait", flow, running.values if running is not None else {})
        # The next message may still answer which of these is meant.
        step = questions.aside(state, text, questions.clarifying(state))
    else:
        turn = NextStepPolicy(state, registry, decision, at, person_offered=person_offered, validate=validate)
        step = turn.run(key_before)
    state.pending_events = []
    new_topic = not decision.enhancement.is_continuation
    return Applied(state, step, turn_events(before, state, registry, expired=expired, new_topic=new_topic))


def _asks_for_time(decision: TurnDecision) -> bool:
    """Whether a message asks for time and nothing else, whether or not something is open."""
    if decision.pause:
        return not decision.commands
    return {command.type for command in decision.commands} <= {"chitchat"} and asks_for_time(
        decision.enhancement.enhanced_query
    )


class NextStepPolicy(CommandApplier):
    """Chooses the next step once the commands are applied."""

    def run(self, key_before: object) -> NextStep:
        """Apply the commands, and return the next step; ``key_before`` is the progress key of the state before."""
        # A flow whose question lapsed and that is taken up again is where it was.
        was = (key_before, questions.progress_key(self.state))
        for command in self.commands:
            self.done_anything |= command.apply(self)
        self.validate_values()
        offer = next_in_line(self.state, self.registry) if self.ended else None
        progressed = questions.progress_key(self.state) not in was
        if progressed:
            questions.reset_counts(self.state)
        # A slot that cannot be skipped is no progress, though the wish is noted.
        progressed &= self.done_anything
        self.state.handed_over &= not progressed
        step = self._reply_aside(progressed) or self._next(offer)
        if not self.suppress_question:
            if not questions.may_ask(self.state, self._asks(step)):
                step = self._elsewhere(step)
            counts = self.state.question_counts
            counts |= {key: counts.get(key, 0) + 1 for key in self._asks(step)}
        if step.kind == "resume":
            self.state.offered_flow = step.flow
        # A question that is put again is open again.
        self.state.handed_over &= step.kind != "confirm"
        self.state.handed_over |= step.kind == "handoff"
        if self.person_offered and step.kind not in ("offer", "handoff"):
            self.state.escalation = ""
        self._apologize(progressed)
        step = compose([*self.replies, self._stored(step)], step, self.speech, self._flow(), self._values())
        unanswered = self.unanswered if (self.unanswered or "") in step.reply else None
        return step.model_copy(update={"unanswered": unanswered})

    def _stored(self, step: NextStep) -> str:
        """What this turn stored besides the answer to the last question, unless the step says it."""
        running, flow = self.state.active_flow, self._flow()
        if running is None or flow is None or step.kind not in ("ask_slot", "reask", "confirm"):
            return ""
        before = self.values_before.get(id(running), {})
        known = {self.asked} if running is self.flow_before else set()
        new = {n: v for n, v in running.values.items() if n not in known and before.get(n) != v}
        return self.speech.stored(flow, new, step.slot)

    # --- feeling -----------------------------------------------------------------------------------------

    @property
    def _aside(self) -> bool:
        """Whether the message is talk alone, or was not understood."""
        acted = (self.handed_over, self.escalated, self.refused, self.affirmed, self.denied, self.declined)
        other = any(acted) or self.repeated or self.slot_to_change or self.flows_to_choose_from is not None
        return not other and (not self.done_anything or self.only_talk)

    @property
    def _waits(self) -> bool:
        """Whether nothing runs without a word of the user: no flow, or one that lacks a value or a yes."""
        running = self.state.active_flow
        return (
            running is None
            or self.state.pending_confirmation is not None
            or pending(self.registry[running.flow_name], running) is not None
        )

    def _reply_aside(self, progressed: bool) -> NextStep | None:
        """The offer of a person, or the answer of who has called one; None where the dialogue goes on."""
        if progressed or not self._aside:
            return None
        flow = self._flow()
        if self.state.handed_over and self._waits:
            self.suppress_question = True
            # After thanks nothing is said of the person who takes over.
            brief = bool(self.replies) and self.talk in ("thanks", "farewell", "noted")
            return questions.aside(self.state, "" if brief else self.speech.say("handed_over", flow))
        if self.decision.escalation and questions.may_offer(self.state):
            return questions.offer_person(self.state, self.decision.escalation.reason, self.speech, flow)
        return None

    def _apologize(self, progressed: bool) -> None:
        """Answer a complaint as one: any in talk, and one that escalates also where the task goes on."""
        sorry = self.speech.say("complaint", self._flow(), self._values())
        complains = self.talk == "complaint" and self._aside and not progressed
        if (complains or self.decision.escalation) and sorry not in self.replies:
            self.replies.insert(0, sorry)

    # --- the next step -----------------------------------------------------------------------------------

    def _next(self, offer: NextStep | None) -> NextStep:
        running = self.state.active_flow
        name = running.flow_name if running else None
        unchanged_no = self.denied and not self.changed and running is self.flow_before
        if self.handed_over:
            if running is not None and not unchanged_no:
                self._hold(running)
            return self._handoff(running)
        owner, slot = self.escalated or (None, "")
        if owner is not None and not owner.ended and owner.slots[slot].attempts >= ATTEMPTS_ALLOWED:
            return self._escalate(owner, slot)
        if self.flows_to_choose_from is not None:
            return self._clarify(self.flows_to_choose_from, name, asking=not unchanged_no)
        if self.refused is not None and running is not None and self.refused[0] is running:
            name = self.refused[1]
            refused, flow = running.slots[name], self.registry[running.flow_name]
            # Who answers, if wrongly, goes along: only values refused count then, not the talk before.
            self.state.question_counts[f"{flow.name}.{name}"] = refused.attempts
            why = refused.validation_error
            return await_slot(
                self.state, running, flow, name, self.speech, again=True, why=why, readings=self.unsure
            )
        if unchanged_no and running is not None:
            text = self.speech.say("rejected" if self.rejected else "denied", self._flow(), self._values())
            return NextStep(kind="reask", flow=name, text=text, question=text)
        if self.slot_to_change and running is not None and running is self.flow_before:
            held = running.slots[self.slot_to_change]
            if not held.filled and not held.skipped:
                # Also one that the flow does without is asked for, since it is what should be different.
                flow = self.registry[running.flow_name]
                return await_slot(self.state, running, flow, self.slot_to_change, self.speech, again=False)
        if self.commands and self.only_talk:
            return self._digress()
        return self._question(offer)

    def _handoff(self, flow: ActiveFlowState | None, slot: str | None = None) -> NextStep:
        name, values = (flow.flow_name, flow.values) if flow else (None, {})
        text = self.speech.say("handoff", self.registry.get(name or ""), values)
        return NextStep(kind="handoff", flow=name, slot=slot, text=text)

    def _hold(self, running: ActiveFlowState) -> None:
        """Let the flow wait as it stands: a person takes over, so nothing is run, not even after a yes."""
        pending_question(self.state, self.registry)
        running.ready = False

    def _asks(self, step: NextStep) -> set[str]:
        """What a step asks; of what is said again, anything that was asked before."""
        question, again = questions.question_of(self.state, step), step.kind in ("answer", "resume")
        earlier = {*self.state.question_counts, "lost"} if self.repeated and again else set()
        return earlier | ({question} if question else set())

    def _elsewhere(self, step: NextStep) -> NextStep:
        """A question was put too often in vain: ask for another slot, once, else leave it to a person."""
        running = self.state.active_flow
        if running is None or step.slot is None:
            self.state.escalation = f"{step.flow or 'no flow'}: asked in vain too often ({step.kind})"
            if running is not None:
                self._hold(running)
            return self._handoff(running)
        # It is not asked for again before the conversation gets on.
        slot = running.slots[step.slot]
        slot.attempts = max(slot.attempts, ATTEMPTS_ALLOWED)
        flow = self.registry[running.flow_name]
        other = pending(flow, running)
        if other is None or other.name == step.slot or self._been_elsewhere(running, step.slot):
            return self._escalate(running, step.slot)
        asked = await_slot(self.state, running, flow, other.name, self.speech, again=False)
        return asked.model_copy(update={"text": f"{self.speech.say('unclear', flow)} {asked.text}"})

    def _been_elsewhere(self, running: ActiveFlowState, name: str) -> bool:
        """Whether another slot was asked for in vain, too."""
        return any(
            self.state.question_counts.get(f"{running.flow_name}.{other}", 0) >= ATTEMPTS_ALLOWED
            for other in running.slots.keys() - {name}
        )

    def _escalate(self, flow: ActiveFlowState, name: str) -> NextStep:
        """Too many values were refused for a slot, or it was asked for in vain: a person is to ask for it."""
        running = self.state.active_flow
        if not self.state.escalation:
            given_up = next((n for n, held in flow.slots.items() if held.attempts >= ATTEMPTS_ALLOWED), name)
            self.state.escalation = (
                f"{flow.flow_name}: {given_up} was asked for {flow.slots[given_up].attempts} times in vain"
            )
        if flow is running:
            await_slot(self.state, flow, self.registry[flow.flow_name], name, self.speech, again=True)
        elif running is not None:
            self._hold(running)
        return self._handoff(flow, name)

    def _clarify(self, flows: Sequence[str], name: str | None, *, asking: bool) -> NextStep:
        known = [flow for flow in flows if flow in self.registry]
        tasks = self.speech.tasks(known, self.registry)
        text = self.speech.say("clarify" if known else "idle", words={"tasks": tasks})
        step = pending_question(self.state, self.registry, confirmed=self._confirmed) if asking else None
        if step is not None and step.kind == "run_flow":
            both = join(step.text, text)
            return step.model_copy(update={"text": both, "choices": tuple(known), "question": text})
        again = NextStep(kind="clarify", flow=name, text=text, choices=tuple(known), question=text)
        return questions.rephrase(self.state, again, self.speech, self._flow())

    def _digress(self) -> NextStep:
        """Nothing but talk: the stack stays as it is, and what was asked is asked again, if not too often."""
        if self.repeated and self.person_offered:
            return questions.offer_person(self.state, self.state.escalation, self.speech, self._flow())
        waiting = find_paused(self.state, self.offered) if self.repeated and self.offered else None
        if waiting is not None:
            again = offer_to_resume(waiting, self.registry, self.at.locale)
            last = self.state.last_agent_response
            # The last reply may have been the one before a flow ran, without the offer.
            return again.model_copy(update={"text": last}) if last.endswith(again.text) else again
        step = pending_question(self.state, self.registry)
        unclear = self.talk == "chitchat" or "out_of_scope" in self.kinds
        if step is None and unclear and (offer := self._offer_again()):
            return offer
        if step is not None and step.kind == "run_flow":
            return step
        if step is None:
            opens = self.kinds == {"chitchat"} and self.talk in ("greeting", "chitchat")
            idle = self.speech.say("idle") if opens else ""
            step = NextStep(kind="answer", text=idle or self._instead(), question=idle)
        if self.repeated:
            last, wait = self.state.last_agent_response, self.speech.say("wait", self._flow(), self._values())
            text = (
                last if last not in ("", wait) else join(self.speech.say("repeat", self._flow()), step.text)
            )
        else:
            self.suppress_question = not questions.may_ask(self.state, self._asks(step))
            text = self._instead() if self.suppress_question else step.text
        return NextStep(kind="answer", flow=step.flow, slot=step.slot, text=text, question=step.question)

    def _question(self, offer: NextStep | None) -> NextStep:
        running = self.state.active_flow
        awaited = running.awaiting if running is not None and running is self.flow_before else None
        step = pending_question(self.state, self.registry, confirmed=self._confirmed)
        if step is None and not self.done_anything and (again := self._offer_again()):
            return again.model_copy(update={"text": join(self.speech.say("unclear"), again.text)})
        if step is None:
            idle = self.speech.say("idle")
            text = idle if self.done_anything or self.talk == "complaint" else self._can_do("lost")
            step = offer or NextStep(kind="none", text=text, question=idle)
        if self.done_anything or (running is not None and self._chose_running):
            return step
        if running is not None and awaited is not None and (step.kind, step.slot) == ("ask_slot", awaited):
            return self._ask_in_vain(running, awaited)
        return questions.rephrase(self.state, step, self.speech, self._flow())

    def _offer_again(self) -> NextStep | None:
        """The offer to go back to a flow once more, since it was not answered; None the third time."""
        waiting = find_paused(self.state, self.offered) if self.offered else None
        # A remark that is no yes is about something else.
        yes = self.talk != "complaint" and stance(self.decision.enhancement.enhanced_query).agrees
        if yes and not self.offered and not {"ask", "deny"} & self.kinds:
            waiting = questions.take_back_drop(self.state, self.registry)
            # Nothing was answered: "I can't do that" would be about a word of it.
            self.replies = [] if waiting else self.replies
        if waiting is None:
            return None
        step = offer_to_resume(waiting, self.registry, self.at.locale)
        often = self.state.question_counts.get(questions.question_of(self.state, step) or "", 0) > 1
        return None if often else step

    def _can_do(self, key: str = "can_do") -> str:
        """What the assistant can do: at most three flows, those first that the message may mean."""
        names = dict.fromkeys([*(name for name, _ in self.decision.selection.candidates), *self.registry])
        others = [name for name in names if self.registry.get(name) not in (None, self._flow())]
        tasks = self.speech.tasks(others[:TASKS_NAMED], self.registry)
        return self.speech.say(key, words={"tasks": tasks}) if tasks else ""

    def _instead(self) -> str:
        """What the assistant can do, after what it cannot; once, until the conversation gets on."""
        said, asks = self.state.question_counts.get("tasks", 0), {"ask", "out_of_scope"} & self.kinds
        self.state.question_counts |= {"tasks": 1} if asks else {}
        return self._can_do() if asks and not said and self.talk != "complaint" else ""

    @property
    def _chose_running(self) -> bool:
        """Whether the message answers which flow is meant, and starts no other than the one that runs."""
        record = self.decision.stages.get("select")
        by_rule = record is not None and record.source == "rule"
        return by_rule and not self.commands and bool(questions.clarifying(self.state))

    def _ask_in_vain(self, running: ActiveFlowState, name: str) -> NextStep:
        """Nothing was understood: ask again, then in other words, then for something else."""
        held = running.slots[name]
        held.attempts += 1
        if self._been_elsewhere(running, name):
            return self._escalate(running, name)
        flow = self.registry[running.flow_name]
        slot = flow.slot(name)
        assert slot is not None
        if self.commands and held.attempts == 1 and self.talk != "complaint":
            # Who cannot say it was understood.
            step = await_slot(self.state, running, flow, name, self.speech, again=True)
            needed = "" if slot.reask else self.speech.say("needed", flow, running.values)
            return step.model_copy(update={"text": join(needed, step.question), "question": step.question})
        # Not the question after a bad value: there was none.
        step = await_slot(self.state, running, flow, name, self.speech, again=False)
        asked = self.speech.helped_question(flow, slot, running.values, last=held.attempts > 1)
        unclear = "" if self.talk == "complaint" else self.speech.say("unclear", flow, running.values)
        return step.model_copy(update={"kind": "reask", "text": join(unclear, asked), "question": asked})

    @property
    def _confirmed(self) -> bool:
        running = self.state.active_flow
        if not self.affirmed or running is None or running is not self.flow_before:
            return False
        # The yes is for the values in the question: another value is a new question.
        return all(running.values.get(name) == value for name, value in self.agreed.items())
