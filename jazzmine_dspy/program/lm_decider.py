"""The language model as a decider: one call for the whole turn, or one for each stage."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

from dspy.utils.exceptions import AdapterParseError

from jazzmine_dspy.models.commands import UNDERSTOOD, BaseCommand, Command
from jazzmine_dspy.models.decision import (
    STAGES,
    Enhancement,
    LMCall,
    PredictorName,
    Selection,
    Stage,
    StageRecord,
)
from jazzmine_dspy.models.errors import AnswerError, LMUnansweredError, format_error
from jazzmine_dspy.program._calls import Predicted, PredictFailed, PredictorCall
from jazzmine_dspy.program.addresses import Addresses
from jazzmine_dspy.program.asking import HasPredictors, aask, ask
from jazzmine_dspy.program.clauses import flow_mode
from jazzmine_dspy.program.deadline import Deadline, in_thread
from jazzmine_dspy.program.decider import NOTHING_FOUND, Decided, Decider, record
from jazzmine_dspy.program.enhancement import enhancement_of
from jazzmine_dspy.program.lm_requests import (
    addresses_of,
    message_limit,
    offered,
    request_for,
    slots_in_play,
)
from jazzmine_dspy.program.local.decider import undenied
from jazzmine_dspy.program.render import CUT
from jazzmine_dspy.program.state import CANDIDATES, TurnState
from jazzmine_dspy.signatures.answers import ALIASES, CommandAnswer
from jazzmine_dspy.signatures.contract import CONTRACTS
from jazzmine_dspy.signatures.schema import DOUBT, most_of_rewrite

log = logging.getLogger("jazzmine_dspy")

_CHOSEN = "chosen by the language model"

Reader = Callable[[CommandAnswer], BaseCommand | None]
"""What an answer means as a command; None where it is refused."""


class LMDecider(Decider):
    """Asks a program's predictors for the whole turn.

    Its inputs are its own: candidates in recall's order, nothing selected or reordered by another decider. A stage that
    it cannot answer is left to what stood before.

    Args:
        owner: Has the predictors.
        strict: Whether what goes wrong raises, as optimizers need it.
        stages: The stages that it is asked for.
    """

    name = "lm"

    def __init__(
        self, owner: HasPredictors, *, strict: bool = False, stages: Sequence[Stage] = STAGES
    ) -> None:
        self._owner = owner
        self._strict = strict
        self._stages = tuple(stages)

    def decide(self, state: TurnState, so_far: Decided | None, deadline: Deadline) -> Decided:  # noqa: ARG002
        """Ask for all stages.

        Raises:
            LMUnansweredError: the language model was not answering, where outages are borne.
            PredictFailed: a call failed, where failures raise.
        """
        draft = Draft(state, deadline, self._strict, self._stages)
        while (call := draft.next_call()) is not None:
            try:
                draft.take(ask(call, self._owner, state.bindings, deadline))
            except Exception as error:
                draft.fail(call, error)
        return draft.decided()

    async def adecide(
        self,
        state: TurnState,
        so_far: Decided | None,  # noqa: ARG002
        deadline: Deadline,
    ) -> Decided:
        """The same without blocking the loop; cancelling it cancels the call."""
        return (await self.adraft(state, deadline)).decided()

    async def adraft(self, state: TurnState, deadline: Deadline) -> Draft:
        """What :meth:`adecide` makes its answer of."""
        draft = Draft(state, deadline, self._strict, self._stages)
        # Making a call may recall: the loop does not wait for it.
        while (call := await in_thread(draft.next_call)) is not None:
            try:
                draft.take(await aask(call, self._owner, state.bindings, deadline))
            except Exception as error:
                draft.fail(call, error)
        return draft


@dataclass
class Draft:
    """The answer of a language model while it is asked for, call by call.

    Args:
        state: The turn.
        deadline: Of the turn.
        strict: Whether what goes wrong raises.
        stages: The stages that are asked for.
    """

    state: TurnState
    deadline: Deadline
    strict: bool = False
    stages: tuple[Stage, ...] = STAGES
    enhancement: Enhancement | None = None
    selection: Selection | None = None
    commands: tuple[Command, ...] | None = None
    records: dict[Stage, StageRecord] = field(default_factory=dict)
    answered: frozenset[str] = frozenset()
    invented: tuple[str, ...] = ()
    _began: float = 0.0
    _addresses: Addresses | None = None

    def __post_init__(self) -> None:
        asks = self.state.policy.asks
        self._left = [stage for stage in self.stages if asks(stage)]
        if "select" in self._left and not offered(self.state, self.state.policy.offers):
            self._nothing_offered()

    @property
    def fused(self) -> bool:
        """Whether one call asks for all stages."""
        return self.state.policy.shape == "fused"

    def next_call(self) -> PredictorCall | None:
        """The next call to make; None when all stages are through."""
        if not self._left:
            return None
        predictor = "fused" if self.fused else self._left[0]
        if not self.fused and predictor == "select":
            rewrite = self._rewrite
            again = rewrite not in ("", self.state.turn.text)
            self.state = self.state.with_query(rewrite) if again else replace(self.state, query=rewrite)
            if not offered(self.state, self.state.policy.offers):
                self._nothing_offered()
                return self.next_call()
        elif not self.fused and predictor == "understand":
            self.state = replace(self.state, query=self._rewrite)
            if self.selection is not None:
                self.state = self.state.with_selected(self.selection.flows)
        self._began = self.deadline.milliseconds()
        if self.state.policy.wording == "full":
            self._addresses = addresses_of(self.state, predictor, self.state.policy.offers)
        return request_for(self.state, predictor)

    @property
    def _rewrite(self) -> str:
        return self.enhancement.enhanced_query if self.enhancement is not None else self.state.query

    def take(self, predicted: Predicted) -> None:
        """Read the answer of a call for the stages that it was made for."""
        rewrite = predicted.outputs.get("enhanced_query")
        if _is_cut(rewrite, self.state.turn.text, message_limit(self.state.policy)):
            outputs = {**predicted.outputs, "enhanced_query": self.state.turn.text}
            predicted = replace(predicted, outputs=outputs)
        took, calls = self.deadline.milliseconds() - self._began, predicted.calls
        for stage in self._done():
            self.records[stage] = self._read(stage, predicted, took, calls)
            # The first stage of a call has its time and cost.
            took, calls = 0.0, ()

    def fail(self, call: PredictorCall, error: Exception) -> None:
        """Note why a call brought no answer; what of it can be read is taken.

        Raises:
            LMUnansweredError: the language model was not answering, where outages are borne.
            PredictFailed: whatever went wrong, where failures raise.
        """
        failed = error if isinstance(error, PredictFailed) else PredictFailed(error)
        if isinstance(failed.error, LMUnansweredError):
            # Nobody takes another's answer for the model's: who measures is told.
            raise failed.error from error
        if self.strict:
            raise failed from error
        typed = _typed(failed.error, call.predictor)
        calls = _failed(failed.calls, typed)
        if isinstance(typed, AnswerError) and typed.readable:
            self.take(Predicted(typed.readable, calls, typed.refused))
            return
        took = self.deadline.milliseconds() - self._began
        for stage in self._done():
            self.records[stage] = record("lm", 0.0, took, calls, cause=f"lm: {format_error(typed)}")
            took, calls = 0.0, ()

    def decided(self) -> Decided:
        """The answer."""
        causes = [record.cause or "" for record in self.records.values() if record.degraded]
        return Decided(
            enhancement=self.enhancement or Enhancement(enhanced_query=self.state.turn.text),
            fields=self.answered,
            selection=self.selection,
            commands=self.commands,
            degraded="; ".join(dict.fromkeys(causes)),
            records=self.records,
        )

    def _done(self) -> list[Stage]:
        """The stages that the call was made for."""
        done, self._left = (self._left, []) if self.fused else (self._left[:1], self._left[1:])
        return done

    def _nothing_offered(self) -> None:
        """There is nothing to ask for the flows: that is an answer, unless recall is down."""
        self._left.remove("select")
        if not (self.state.recall_failure and self.state.choosable):
            self.selection = Selection(reason="there are no candidates")
            self.records["select"] = record("lm", NOTHING_FOUND)

    def _read(
        self, stage: Stage, predicted: Predicted, took: float, calls: tuple[LMCall, ...]
    ) -> StageRecord:
        outputs, own = predicted.outputs, CONTRACTS[stage].signature.output_fields
        trust = self.state.policy.trust.get("lm", 0.5)
        unread = tuple(f"{name}: {why}" for name, why in predicted.refused.items() if name in own)
        if unread and not any(name in outputs for name in own):
            return record("lm", 0.0, took, calls, cause=f"lm: {CONTRACTS[stage].error.__name__}: {unread[0]}")
        if stage == "enhance":
            self.enhancement, refused = enhancement_of(outputs, self.state.turn, self.state.registry)
            # A field that is refused has its default: nobody else answers in the language model's place.
            self.answered = frozenset(name for name in own if name not in self.state.policy.unasked)
            cause = "; ".join(unread)
            return record("lm", trust, took, calls, cause=cause, refused=refused)
        if stage == "select":
            self.selection, self.invented = _selection(outputs["flows"], self.state)
            if self.selection is None:
                problem = f"lm: no such flow was offered ({len(self.invented)} named)"
                return record("lm", 0.0, took, calls, cause=problem)
            nothing = not (self.selection.flows or self.selection.clarify)
            return record("lm", min(trust, NOTHING_FOUND) if nothing else trust, took, calls)
        if self.selection is not None:
            self.state = self.state.with_selected(self.selection.flows)
        commands, odd = _commands(outputs["commands"], self._reader())
        reason = f"commands that do not fit the state: {', '.join(odd)}" if odd else ""
        if odd and not commands:
            return record("lm", 0.0, took, calls, cause=f"lm: {reason}")
        self.commands = tuple(commands)
        confidence = trust if commands else min(trust, NOTHING_FOUND)
        return record("lm", confidence, took, calls, refused=(reason,) if reason else ())

    def _reader(self) -> Reader:
        if self._addresses is not None:
            return self._addresses.read
        slots = slots_in_play(self.state, "fused" if self.fused else "understand", self.state.policy.offers)
        return functools.partial(_as_command, turn_state=self.state, slots=slots)


def _as_command(answer: CommandAnswer, turn_state: TurnState, slots: Sequence[Any]) -> BaseCommand | None:
    kind = UNDERSTOOD[answer.type]
    name = answer.name if "name" in kind.lm_arguments else None
    return kind.read(name, answer.value, turn_state.turn, tuple(slots))


def _typed(error: Exception, predictor: str) -> Exception:
    if not isinstance(error, AdapterParseError):
        return error
    if isinstance(error.__cause__, AnswerError):
        return error.__cause__
    empty = not str(error.lm_response or "").strip()
    problem = "The answer is empty" if empty else "The answer has none of the fields asked for"
    return CONTRACTS[cast("PredictorName", predictor)].error(problem, remedy="Ask again.")


def _selection(letters: Sequence[str], state: TurnState) -> tuple[Selection | None, tuple[str, ...]]:
    """The flows of the letters that were answered, None where all of them were invented; and what was invented."""
    by_letter = dict(zip(ALIASES, (c.name for c in offered(state, state.policy.offers)), strict=False))
    # A model that no schema holds says "none" where it is to say nothing.
    letters = [letter for letter in letters if letter.strip().lower() not in ("", "none")]
    doubted = state.policy.wording == "full" and any(letter.strip().endswith(DOUBT) for letter in letters)
    letters = [letter.strip().removesuffix(DOUBT) for letter in letters] if doubted else letters
    chosen = [by_letter.get(letter.strip().rstrip(".:").upper()) for letter in letters]
    known = list(dict.fromkeys(name for name in chosen if name))
    invented = [_readable(letter) for letter, name in zip(letters, chosen, strict=True) if not name]
    invented = list(dict.fromkeys(invented))[:10]
    if invented:
        log.warning("the language model named %d flows that were not offered", len(invented))
    if letters and not known:
        return None, tuple(invented)
    reason = _CHOSEN
    if invented:
        reason += f"; not offered: {', '.join(invented)[:200]}"
    candidates = [(one.name, one.score) for one in state.recalled[:CANDIDATES]]
    if doubted and len(known) > 1:
        reason = "the language model is in doubt which is meant" + reason.removeprefix(_CHOSEN)
        selection = Selection(clarify=known, reason=reason, candidates=candidates)
    else:
        mode = flow_mode(state.turn.text, known)
        selection = Selection(flows=known, mode=mode, reason=reason, candidates=candidates)
    return undenied(selection, state), tuple(invented)


def _readable(answer: str) -> str:
    """What a model answered, as records can hold it: short, and without halves of characters."""
    return answer.strip()[:60].encode("utf-8", "replace").decode()


def _failed(calls: tuple[LMCall, ...], error: Exception) -> tuple[LMCall, ...]:
    """The calls, the last of which led to the error: an answer that cannot be read is no success either."""
    if not calls:
        return ()
    return (*calls[:-1], calls[-1].model_copy(update={"success": False, "error": format_error(error)}))


def _is_cut(rewrite: Any, text: str, shown: int) -> bool:
    """Whether a rewrite may lack a part of the message: it was not shown whole, or the rewrite breaks off."""
    if not isinstance(rewrite, str) or len(rewrite.strip()) >= len(text):
        return False
    at_its_limit = len(rewrite) == most_of_rewrite(text)
    return len(text) > shown or at_its_limit or (CUT in rewrite and CUT not in text)


def _commands(answers: Sequence[CommandAnswer], read: Reader) -> tuple[list[Command], list[str]]:
    """Typed commands, and the kinds of those that the state does not allow."""
    commands: list[Command] = []
    refused: list[str] = []
    for answer in answers:
        meant = read(answer)
        if meant is not None:
            commands.append(cast("Command", meant))
        else:
            # Not what it names: that is the model's own text, and causes are logged and stored.
            refused.append(answer.type)
    return commands, refused
