"""The language model as a decider: one call for the whole turn, or one for each stage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import cast

from jazzmine_dspy.lm.dspy_api import AdapterParseError
from jazzmine_dspy.models import Command
from jazzmine_dspy.models.base import log
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
from jazzmine_dspy.program.deadline import Deadline, bearing_here, in_thread
from jazzmine_dspy.program.decider import NOTHING_FOUND, Decided, Decider, record
from jazzmine_dspy.program.lm.calls import Retries, aask, ask, asked_again, is_cut, retried
from jazzmine_dspy.program.lm.enhancement import enhancement_of
from jazzmine_dspy.program.lm.requests import (
    Predicted,
    PredictFailed,
    PredictorCall,
    addresses_of,
    offered,
    request_for,
)
from jazzmine_dspy.program.local.decider import undenied
from jazzmine_dspy.program.merge import flow_mode, merge
from jazzmine_dspy.program.module import ProgramModule
from jazzmine_dspy.program.state import CANDIDATES, TurnState
from jazzmine_dspy.signatures.answers import ALIASES, START, CommandAnswer
from jazzmine_dspy.signatures.contract import CONTRACTS

_CHOSEN = "chosen by the language model"
_DOUBTED = "the language model is in doubt which is meant"


class LMDecider(Decider):
    """Asks a program's predictors for the whole turn.

    Its inputs do not depend on other deciders: candidates come in the order of recall. A stage that it cannot answer
    keeps the current answer.

    Args:
        owner: Provides the predictors.
        strict: Whether failures raise, as optimizers need.
        stages: The stages to answer.
        ids: Names of flows by ids and names that count as their letters.
    """

    name = "lm"

    def __init__(
        self,
        owner: ProgramModule,
        *,
        strict: bool = False,
        stages: Sequence[Stage] = STAGES,
        ids: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self._owner = owner
        self._strict = strict
        self._stages = tuple(stages)
        self._ids = ids

    def decide(self, state: TurnState, so_far: Decided | None, deadline: Deadline) -> Decided:  # noqa: ARG002
        """Ask for all stages.

        Raises:
            LMUnansweredError: the language model was not answering, where outages are borne.
            PredictFailed: a call failed, where failures raise.
        """
        draft = self._draft(state, deadline)
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
        """Return the draft that :meth:`adecide` builds its answer from."""
        draft = self._draft(state, deadline)
        # Building a call may run recall, so it does not block the loop.
        while (call := await in_thread(draft.next_call)) is not None:
            try:
                draft.take(await aask(call, self._owner, state.bindings, deadline))
            except Exception as error:
                draft.fail(call, error)
        return draft

    def _draft(self, state: TurnState, deadline: Deadline) -> Draft:
        # Programs are measured by first answers: runs stay repeatable, and ask what was planned.
        measured = self._strict or bearing_here() is not None
        retries = None if measured else Retries(state.bindings.lm_for())
        return Draft(state, deadline, self._strict, self._stages, self._ids, retries)


@dataclass
class Draft:
    """The answer of a language model, built call by call.

    Args:
        state: The turn.
        deadline: The deadline of the turn.
        strict: Whether failures raise.
        stages: The stages to answer.
        ids: Names of flows by ids and names that count as their letters.
        retries: Allows a second call for parts that are refused; None allows none.
    """

    state: TurnState
    deadline: Deadline
    strict: bool = False
    stages: tuple[Stage, ...] = STAGES
    ids: Mapping[str, str] = field(default_factory=dict)
    retries: Retries | None = None
    enhancement: Enhancement | None = None
    selection: Selection | None = None
    commands: tuple[Command, ...] | None = None
    records: dict[Stage, StageRecord] = field(default_factory=dict)
    answered: frozenset[str] = frozenset()
    invented: tuple[str, ...] = ()
    _began: float = 0.0
    _call: PredictorCall | None = None
    _reasons: dict[Stage, tuple[str, ...]] = field(default_factory=dict)
    """Why parts of the last answer were refused."""

    def __post_init__(self) -> None:
        asks = self.state.policy.asks
        self._left = [stage for stage in self.stages if asks(stage)]
        if "select" in self._left and not offered(self.state):
            self._skip_selection()

    @property
    def fused(self) -> bool:
        """Whether one call asks for all stages."""
        return self.state.policy.shape == "fused"

    def next_call(self) -> PredictorCall | None:
        """Return the next call to make; None when all stages are done. Refused parts are asked for once more."""
        if self._reasons and self._call is not None and self.retries is not None and self.retries.allow():
            self.retries, self._began = None, self.deadline.milliseconds()
            return asked_again(self._call, [why for reasons in self._reasons.values() for why in reasons])
        self._reasons = {}
        if not self._left:
            return None
        predictor = "fused" if self.fused else self._left[0]
        if not self.fused and predictor == "select":
            rewrite = self._rewrite
            again = rewrite not in ("", self.state.turn.text)
            self.state = self.state.with_query(rewrite) if again else replace(self.state, query=rewrite)
            if not offered(self.state):
                self._skip_selection()
                return self.next_call()
        elif not self.fused and predictor == "understand":
            self.state = replace(self.state, query=self._rewrite)
            if self.selection is not None:
                self.state = self.state.with_selected(self.selection.flows)
        self._began = self.deadline.milliseconds()
        self._call = request_for(self.state, predictor)
        return self._call

    @property
    def _rewrite(self) -> str:
        return self.enhancement.enhanced_query if self.enhancement is not None else self.state.query

    def take(self, predicted: Predicted) -> None:
        """Read the answer of a call into its stages."""
        rewrite = predicted.outputs.get("enhanced_query")
        if is_cut(rewrite, self.state.turn.text):
            outputs = {**predicted.outputs, "enhanced_query": self.state.turn.text}
            predicted = replace(predicted, outputs=outputs)
        elapsed, calls = self.deadline.milliseconds() - self._began, predicted.calls
        if self._reasons:
            self._take_again(predicted, elapsed)
            return
        stages = self._pop_stages()
        for stage in stages:
            self.records[stage] = self._read(stage, predicted, elapsed, calls)
            # The first stage of a call records its time and cost.
            elapsed, calls = 0.0, ()
        self._reasons = {stage: reasons for stage in stages if (reasons := self._refused(stage))}

    def _refused(self, stage: Stage) -> tuple[str, ...]:
        """Why parts of a stage's answer cannot be used."""
        one = self.records[stage]
        reasons = one.refused or ((one.cause or "",) if one.degraded else ())
        if stage == "understand" and self.commands is not None and self.selection is not None:
            refused: list[str] = []
            turn, enhancement = self.state.turn, self.enhancement or Enhancement(enhanced_query="")
            merge(turn, self.state.registry, enhancement, self.selection, self.commands, refused, by_lm=True)
            reasons = (*reasons, *refused)
        return reasons

    def _take_again(self, predicted: Predicted, elapsed: float) -> None:
        """Take what was refused from a second answer, where it stands there; the rest stays as it was said first."""
        calls = predicted.calls
        for stage, why in self._reasons.items():
            enhancement, others = self.enhancement, (self.selection, self.commands, self.invented)
            first, self.records[stage] = self.records[stage], self._read(stage, predicted, 0.0, ())
            again = self._refused(stage)
            if stage == "enhance" and enhancement is not None and self.enhancement is not None:
                fields = {reason.partition(":")[0] for reason in why} - {
                    each.partition(":")[0] for each in again
                }
                update = {name: getattr(self.enhancement, name) for name in fields & self.answered}
                self.enhancement = enhancement.model_copy(update=update)
            elif again:
                self.enhancement, (self.selection, self.commands, self.invented) = enhancement, others
            stands = first if again else self.records[stage]
            self.records[stage] = retried(stands, first, why, elapsed, calls)
            elapsed, calls = 0.0, ()
        self._reasons = {}

    def fail(self, call: PredictorCall, error: Exception) -> None:
        """Record why a call failed; readable parts of its answer are used.

        Raises:
            LMUnansweredError: the language model was not answering, where outages are borne.
            PredictFailed: any other failure, where failures raise.
        """
        failure = error if isinstance(error, PredictFailed) else PredictFailed(error)
        if self._reasons:
            # The first answer stands as far as it could be used.
            elapsed, calls = self.deadline.milliseconds() - self._began, failure.calls
            for stage, why in self._reasons.items():
                self.records[stage] = retried(self.records[stage], self.records[stage], why, elapsed, calls)
                elapsed, calls = 0.0, ()
            self._reasons = {}
            return
        if isinstance(failure.error, LMUnansweredError):
            # An evaluation must not count another decider's answer as the model's.
            raise failure.error from error
        if self.strict:
            raise failure from error
        answer_error = _typed_error(failure.error, call.predictor)
        calls = failure.calls
        if calls:
            # An unreadable answer is not a success.
            failed = {"success": False, "error": format_error(answer_error)}
            calls = (*calls[:-1], calls[-1].model_copy(update=failed))
        if isinstance(answer_error, AnswerError) and answer_error.readable:
            self.take(Predicted(answer_error.readable, calls, answer_error.refused))
            return
        elapsed = self.deadline.milliseconds() - self._began
        stages = self._pop_stages()
        for stage in stages:
            self.records[stage] = record("lm", 0.0, elapsed, calls, cause=f"lm: {format_error(answer_error)}")
            elapsed, calls = 0.0, ()
        if isinstance(answer_error, AnswerError):
            self._reasons = {stage: (format_error(answer_error),) for stage in stages}

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

    def _pop_stages(self) -> list[Stage]:
        """Remove and return the stages of the current call."""
        stages, self._left = (self._left, []) if self.fused else (self._left[:1], self._left[1:])
        return stages

    def _skip_selection(self) -> None:
        """Record an empty selection without a call: no flow is offered. If recall failed, the stage stays open."""
        self._left.remove("select")
        if not (self.state.recall_failure and self.state.choosable):
            self.selection = Selection(reason="there are no candidates")
            self.records["select"] = record("lm", NOTHING_FOUND)

    def _read(
        self, stage: Stage, predicted: Predicted, elapsed: float, calls: tuple[LMCall, ...]
    ) -> StageRecord:
        outputs, own = predicted.outputs, tuple(CONTRACTS[stage].signature.output_fields)
        if stage == "select" and "flows" not in {*outputs, *predicted.refused}:
            # Letters stand among the commands.
            own = ("commands",)
        trust = self.state.policy.trust.get("lm", 0.5)
        invalid = tuple(f"{name}: {why}" for name, why in predicted.refused.items() if name in own)
        if invalid and not any(name in outputs for name in own):
            return record(
                "lm", 0.0, elapsed, calls, cause=f"lm: {CONTRACTS[stage].error.__name__}: {invalid[0]}"
            )
        if stage == "enhance":
            self.enhancement, refused = enhancement_of(outputs, self.state.turn, self.state.registry)
            # A refused field keeps its default; no other decider fills it.
            self.answered = frozenset(name for name in own if name in outputs or name in predicted.refused)
            cause = "; ".join(invalid)
            return record("lm", trust, elapsed, calls, cause=cause, refused=refused)
        if stage == "select":
            letters = outputs.get("flows")
            if letters is None:
                letters = [each.name or "" for each in outputs["commands"] if each.type == START]
            self.selection, self.invented = _selection(letters, self.state, self.ids)
            if self.selection is None:
                problem = f"lm: no such flow was offered ({len(self.invented)} named)"
                return record("lm", 0.0, elapsed, calls, cause=problem)
            nothing = not (self.selection.flows or self.selection.clarify)
            return record("lm", min(trust, NOTHING_FOUND) if nothing else trust, elapsed, calls)
        if self.selection is not None:
            self.state = self.state.with_selected(self.selection.flows)
        addresses = addresses_of(self.state, "fused" if self.fused else "understand")
        answers: list[CommandAnswer] = [
            each for each in outputs["commands"] if not self.fused or each.type != START
        ]
        clear = [each for each in answers if each.type != "clarify"]
        in_doubt = len(clear) < len(answers)
        if in_doubt and self._doubt():
            # Whose value it is has to be asked first.
            clear, in_doubt = [each for each in clear if each.value is None or self.state.turn.flow], False
        read = [(answer.type, None if answer.type == START else addresses.read(answer)) for answer in clear]
        commands = [cast("Command", command) for _, command in read if command is not None]
        # Only the types: names are free text of the model, and causes are logged and stored.
        rejected = [kind for kind, command in read if command is None]
        fails = bool(rejected) and not commands
        rejected += ["clarify"] * in_doubt
        reason = f"commands that do not fit the state: {', '.join(rejected)}" if rejected else ""
        if fails:
            return record("lm", 0.0, elapsed, calls, cause=f"lm: {reason}")
        self.commands = tuple(commands)
        confidence = trust if commands else min(trust, NOTHING_FOUND)
        return record("lm", confidence, elapsed, calls, refused=(reason,) if reason else ())

    def _doubt(self) -> bool:
        """Ask which of the flows is meant that are chosen; False where there are not two of them."""
        if self.selection is None or len(self.selection.flows) < 2:
            return False
        update = {
            "flows": [],
            "clarify": self.selection.flows,
            "mode": "single",
            "reason": self.selection.reason.replace(_CHOSEN, _DOUBTED, 1),
        }
        self.selection = self.selection.model_copy(update=update)
        self.state = self.state.with_selected(())
        return True


def _typed_error(error: Exception, predictor: str) -> Exception:
    if not isinstance(error, AdapterParseError):
        return error
    if isinstance(error.__cause__, AnswerError):
        return error.__cause__
    empty = not str(error.lm_response or "").strip()
    problem = "The answer is empty" if empty else "The answer has none of the fields asked for"
    return CONTRACTS[cast("PredictorName", predictor)].error(problem, remedy="Ask again.")


def _selection(
    letters: Sequence[str], state: TurnState, ids: Mapping[str, str]
) -> tuple[Selection | None, tuple[str, ...]]:
    """Return the selection of the answered letters or ids, None if all are invented, and the invented ones."""
    open_to = [one.name for one in offered(state)]
    by_letter = dict(zip(ALIASES, open_to, strict=False))
    by_id = {key: name for key, name in ids.items() if name in open_to}
    # A model without an enforced schema writes "none" instead of an empty list.
    letters = [letter for letter in letters if letter.strip().lower() not in ("", "none")]
    names = [
        by_letter.get(letter.strip().rstrip(".:").upper()) or by_id.get(letter.strip()) for letter in letters
    ]
    known = list(dict.fromkeys(name for name in names if name))
    # Half of a surrogate pair cannot be stored.
    said = [letter.strip()[:60].encode("utf-8", "replace").decode() for letter in letters]
    invented = [*dict.fromkeys(text for text, name in zip(said, names, strict=True) if not name)][:10]
    if invented:
        log.warning("the language model named %d flows that were not offered", len(invented))
    if letters and not known:
        return None, tuple(invented)
    reason = _CHOSEN
    reason += f"; not offered: {', '.join(invented)[:200]}" if invented else ""
    candidates = [(one.name, one.score) for one in state.recalled[:CANDIDATES]]
    mode = flow_mode(state.turn.text, known)
    selection = Selection(flows=known, mode=mode, reason=reason, candidates=candidates)
    return undenied(selection, state), tuple(invented)
