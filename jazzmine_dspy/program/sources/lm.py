"""The language model as a source: per stage, or once for all stages in the fused shape."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, cast

from dspy.utils.exceptions import AdapterParseError

from jazzmine_dspy.models.commands import UNDERSTOOD, BaseCommand, Command
from jazzmine_dspy.models.decision import LMCall, Selection
from jazzmine_dspy.models.errors import AnswerError, format_error
from jazzmine_dspy.models.flows import Slot
from jazzmine_dspy.models.turn import MAX_TEXT
from jazzmine_dspy.program import render
from jazzmine_dspy.program.addresses import Addresses
from jazzmine_dspy.program.clauses import flow_mode
from jazzmine_dspy.program.enhancement import enhancement_of
from jazzmine_dspy.program.nearest import found_by
from jazzmine_dspy.program.policy import Policy
from jazzmine_dspy.program.ports import Recalled
from jazzmine_dspy.program.sources.registry import source
from jazzmine_dspy.program.stage import (
    Answer,
    Context,
    Declined,
    Predict,
    Predicted,
    PredictFailed,
    Source,
    Steps,
)  # fmt: skip
from jazzmine_dspy.signatures.answers import ALIASES, CommandAnswer
from jazzmine_dspy.signatures.contract import CONTRACTS
from jazzmine_dspy.signatures.schema import DOUBT, most_of_rewrite, response_format

_MAX_TOKENS = {
    "brief": {"enhance": 192, "select": 32, "understand": 160, "fused": 320},
    "full": {"enhance": 400, "select": 64, "understand": 640, "fused": 1024},
}
_SHORT = 600
"""Bytes of a message whose answer fits these limits; a longer one gets a token more for every two bytes."""
_LONG_MESSAGE = 600
"""Characters of an earlier message that the full wording shows."""
_SLOT_FLOWS = 2
_CHOSEN = "chosen by the language model"
_INTENTS = 60
"""Names that an answer's schema lists; with more of them decoders grow slow, and hosted models refuse."""


Reader = Callable[[CommandAnswer], BaseCommand | None]
"""What an answer means as a command; None where it is refused."""


def offered(context: Context, top_k: int) -> list[Recalled]:
    """The flows that a prompt offers: the recalled ones, or a small registry whole where recall is down."""
    if context.candidates:
        return list(context.candidates[:top_k])
    names = context.choosable
    return [Recalled(name, 0.0) for name in names] if len(names) <= len(ALIASES) else []


def intents(context: Context, candidates: Sequence[Recalled]) -> list[str] | None:
    """Flows that an intent may name: those that may be chosen or are alive; of a large catalogue the likeliest.

    None where a schema cannot list them: there are no flows, or too many without any that is likely.
    """
    turn = context.turn
    alive = {turn.flow, *turn.paused}
    open_to = set(context.choosable)
    if not context.registry or (len(open_to) > _INTENTS and not candidates):
        return None
    if len(open_to) > _INTENTS:
        open_to &= {candidate.name for candidate in candidates}
    return [name for name in context.registry if name in open_to or name in alive]


def slots_in_play(context: Context, predictor: str, top_k: int) -> tuple[Slot, ...]:
    """Slots that the message may fill: of the running flow, of those that start, and in one call of the likeliest."""
    if predictor != "fused":
        return context.slots
    likeliest = (candidate.name for candidate in offered(context, top_k)[:_SLOT_FLOWS])
    return context.slots_of([context.turn.flow or "", *context.selected, *likeliest])


def addresses_of(context: Context, predictor: str, top_k: int) -> Addresses:
    """How the full wording calls the slots of a call: letters are those of the prompt that offers flows."""
    lettered = [one.name for one in offered(context, top_k)] if predictor == "fused" else []
    return Addresses(context.turn, context.registry, lettered, context.selected)


def message_limit(policy: Policy) -> int:
    """Characters of the message that a prompt shows."""
    return MAX_TEXT if policy.wording == "full" else render.MESSAGE_SHOWN


def call_for(context: Context, predictor: str, policy: Policy) -> Predict:
    """The call that a predictor needs for a turn: inputs, and the schema of its answer."""
    turn, top_k = context.turn, policy.offers
    candidates = offered(context, top_k)
    slots = slots_in_play(context, predictor, top_k)
    full = policy.wording == "full"
    message_shown = message_limit(policy)
    message_length = [_LONG_MESSAGE] if full else []
    addresses = addresses_of(context, predictor, top_k) if full else None
    enhanced = context.enhancement.enhanced_query if context.enhancement else None
    every = {
        "flows_offered": render.flows_offered(
            context.registry,
            candidates,
            effects=full or predictor == "select",
            described=predictor == "select",
            turn=turn if full else None,
        ),
        "slots": render.slots_by_flow(addresses) if addresses else render.slots_offered(slots),
        "situation": render.situation(turn, context.at if full else None),
        "history": (
            render.last_messages(turn, policy.history_shown, *message_length)
            if predictor == "understand"
            else render.current_episode(turn, policy.history_window, *message_length)
        ),
        "context": render.context_snippets(turn),
        "message": render.message(
            turn, enhanced if predictor in ("select", "understand") else None, message_shown
        ),
    }
    wanted = {
        "enhance": ("situation", "history", "context", "message"),
        "select": ("flows_offered", "situation", "message"),
        "understand": ("slots", "situation", "history", "message"),
        "fused": tuple(every),
    }[predictor]
    schema = response_format(
        predictor,
        turn,
        candidates=[c.name for c in candidates],
        slots=slots,
        intents=intents(context, candidates),
        max_commands=policy.max_commands,
        addressed=addresses.slots if addresses else None,
    )
    limit = _MAX_TOKENS[policy.wording][predictor]
    if predictor != "select":
        # The rewrite and the values repeat what the message says.
        limit += max(0, len(render.quoted(turn.text, message_shown).encode("utf-8", "replace")) - _SHORT) // 2
    config = {"response_format": schema, "max_tokens": limit}
    inputs = {name: every[name] for name in wanted}
    return Predict(predictor, inputs, config, found_by(turn), context.exclude)


@source("enhance", "lm")
@source("select", "lm")
@source("understand", "lm")
class LMSource(Source[Any]):
    """Asks the program's predictor for a stage. In the fused shape the first stage to ask pays for all."""

    @property
    def _predictor(self) -> str:
        return "fused" if self.policy.shape == "fused" else self.stage

    def steps(self, context: Context) -> Steps[Answer[Any] | Declined]:
        """Answer, or fail with a typed error."""
        if not self.policy.asks(self.stage):
            return Declined("nobody labelled what it would be asked")
        if self.stage == "select" and not offered(context, self.policy.offers):
            # There is nothing to ask.
            if context.recall_failure and context.choosable:
                return Declined("there are no candidates")
            return Answer(Selection(reason="there are no candidates"))
        predicted: Predicted = yield from self._ask(context)
        outputs, calls = predicted.outputs, predicted.calls
        own = CONTRACTS[self.stage].signature.output_fields
        unread = tuple(f"{name}: {why}" for name, why in predicted.refused.items() if name in own)
        if unread and not any(name in outputs for name in own):
            return Declined(f"{CONTRACTS[self.stage].error.__name__}: {unread[0]}", failed=True, calls=calls)
        if self.stage == "enhance":
            value, left_out = enhancement_of(outputs, context.turn, context.registry)
            return Answer(value, self.trust, calls, refused=(*unread, *left_out), degraded=bool(unread))
        if self.stage == "select":
            return self._selection(outputs["flows"], context, calls)
        commands, refused = _commands(outputs["commands"], self._reader(context))
        reason = f"commands that do not fit the state: {', '.join(refused)}" if refused else ""
        if refused and not commands:
            return Declined(reason, failed=True, calls=calls)
        return Answer(commands, self.trust, calls, refused=(reason,) if reason else ())

    def _reader(self, context: Context) -> Reader:
        if self.policy.wording == "full":
            called: Addresses = context.memo[self._addresses]
            return called.read
        slots = slots_in_play(context, self._predictor, self.policy.offers)

        def read(answer: CommandAnswer) -> BaseCommand | None:
            kind = UNDERSTOOD[answer.type]
            name = answer.name if "name" in kind.lm_arguments else None
            return kind.read(name, answer.value, context.turn, slots)

        return read

    @property
    def _addresses(self) -> str:
        return f"addresses of {self._predictor}"

    def _ask(self, context: Context) -> Steps[Predicted]:
        # In the staged shape understanding may be asked twice in a turn, with other slots.
        shared = self._predictor == "fused"
        if shared and "fused" in context.memo:
            earlier: Predicted | Exception = context.memo["fused"]
            if isinstance(earlier, Exception):
                # The call is on the stage that made it.
                raise PredictFailed(earlier) from earlier
            return replace(earlier, calls=())
        if self.policy.wording == "full":
            # As the prompt has them: another source may give the candidates another order afterwards.
            context.memo[self._addresses] = addresses_of(context, self._predictor, self.policy.offers)
        try:
            predicted: Predicted = yield call_for(context, self._predictor, self.policy)
        except Exception as error:
            failed = error if isinstance(error, PredictFailed) else PredictFailed(error)
            typed = self._typed(failed.error)
            calls = _failed(failed.calls, typed)
            if not (isinstance(typed, AnswerError) and typed.readable):
                if shared:
                    context.memo["fused"] = typed
                raise PredictFailed(typed, calls) from error
            predicted = Predicted(typed.readable, calls, typed.refused)
        if _is_cut(predicted.outputs.get("enhanced_query"), context.turn.text, message_limit(self.policy)):
            whole = {**predicted.outputs, "enhanced_query": context.turn.text}
            predicted = replace(predicted, outputs=whole)
        if shared:
            context.memo["fused"] = predicted
        return predicted

    def _typed(self, error: Exception) -> Exception:
        if not isinstance(error, AdapterParseError):
            return error
        if isinstance(error.__cause__, AnswerError):
            return error.__cause__
        empty = not str(error.lm_response or "").strip()
        told = "The answer is empty" if empty else "The answer has none of the fields asked for"
        return CONTRACTS[self._predictor].error(told, remedy="Ask again.")

    def _selection(
        self, letters: Sequence[str], context: Context, calls: tuple[LMCall, ...]
    ) -> Answer[Selection] | Declined:
        candidates = offered(context, self.policy.offers)
        by_letter = dict(zip(ALIASES, (c.name for c in candidates), strict=False))
        # A model that no schema holds says "none" where it is to say nothing.
        letters = [letter for letter in letters if letter.strip().lower() not in ("", "none")]
        doubted = self.policy.wording == "full" and any(letter.strip().endswith(DOUBT) for letter in letters)
        letters = [letter.strip().removesuffix(DOUBT) for letter in letters] if doubted else letters
        chosen = [by_letter.get(letter.strip().rstrip(".:").upper()) for letter in letters]
        known = list(dict.fromkeys(name for name in chosen if name))
        invented = [_readable(letter) for letter, name in zip(letters, chosen, strict=True) if not name]
        invented = list(dict.fromkeys(invented))[:10]
        if invented:
            context.memo["invented"] = invented
        if letters and not known:
            return Declined(f"no such flow was offered ({len(invented)} named)", failed=True, calls=calls)
        reason = _CHOSEN
        if invented:
            reason += f"; not offered: {', '.join(invented)[:200]}"
        if doubted and len(known) > 1:
            reason = "the language model is in doubt which is meant" + reason.removeprefix(_CHOSEN)
            return Answer(Selection(clarify=known, reason=reason), self.trust, calls)
        selection = Selection(flows=known, mode=flow_mode(context.turn.text, known), reason=reason)
        return Answer(selection, self.trust, calls)


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
    return len(text) > shown or at_its_limit or (render.CUT in rewrite and render.CUT not in text)


def _commands(answers: Sequence[CommandAnswer], read: Reader) -> tuple[list[Command], list[str]]:
    """Typed commands, and the kinds of those that the state does not allow."""
    commands: list[Command] = []
    refused: list[str] = []
    for answer in answers:
        meant = read(answer)
        if meant is not None:
            commands.append(cast(Command, meant))
        else:
            # Not what it names: that is the model's own text, and causes are logged and stored.
            refused.append(answer.type)
    return commands, refused
