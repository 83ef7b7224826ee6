"""What DSPy's optimizers are given of a program: the predictors that its shape asks, plain inputs, plain outputs."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import dspy

from jazzmine_dspy.lm.dspy_api import AdapterParseError
from jazzmine_dspy.lm.errors import EngineError
from jazzmine_dspy.models import Turn, TurnDecision
from jazzmine_dspy.models.base import Shared
from jazzmine_dspy.models.errors import JazzmineError, format_error
from jazzmine_dspy.program.bindings import Bindings
from jazzmine_dspy.program.deadline import bearing_outages
from jazzmine_dspy.program.decide import adecide, decide, prediction_of
from jazzmine_dspy.program.demonstrations import demonstrations
from jazzmine_dspy.program.lm.requests import PredictFailed
from jazzmine_dspy.program.module import DecidingModule, ProgramModule
from jazzmine_dspy.program.prompts import CONTRACT, check_contract, contract_of
from jazzmine_dspy.program.state import as_turn


class _Held(Shared):
    """A program that DSPy does not look into, and that copies share."""

    def __init__(self, program: DecidingModule) -> None:
        self.program = program


def _redacted_error(error: Exception) -> Exception:
    """An error that may be logged: optimizers write what they catch, and a provider's words may echo the key."""
    if isinstance(error, JazzmineError | AdapterParseError):
        return error
    return EngineError(
        f"The language model's call failed: {format_error(error)}",
        remedy="Run jazzmine-dspy doctor --lm NAME, which makes one call and reports what is wrong.",
    )


class StagePredict(dspy.Predict):
    """A predictor that is saved with its demonstrations as they are sent.

    Where it has no language model of its own and one is bound, ``lm`` is the one that answers: ``BetterTogether`` looks
    for it there. It is not saved.

    Args:
        name: Of the predictor.
        source: What it is at first.
        held: The program whose predictor it is.
    """

    def __init__(self, name: str, source: dspy.Predict, held: _Held) -> None:
        self._own_lm: dspy.LM | None = None
        self._held, self._bindings = held, held.program.bindings
        super().__init__(source.signature)
        self.name = name
        self.lm, self.config, self.fields = source.lm, dict(source.config), source.fields
        self.demos = list(source.demos)

    @property
    def lm(self) -> dspy.LM | None:
        """Its own language model, else what answers where one is bound."""
        bound = self._bindings
        return bound.lm_for() if self._own_lm is None and bound.lm is not None else self._own_lm

    @lm.setter
    def lm(self, lm: dspy.LM | None) -> None:
        self._own_lm = lm

    def dump_state(self, json_mode: bool = True) -> dict[str, Any]:
        """DSPy's state, with the demonstrations as they are sent."""
        bare = copy.copy(self)
        bare._bindings = Bindings()
        sent = demonstrations(self.name, self.demos, self._held.program)
        state: dict[str, Any] = dspy.Predict.dump_state(bare, json_mode=json_mode)
        return {**state, "demos": [dspy.Example(**demo).toDict() for demo in sent]}


class TrainableProgram(ProgramModule):
    """A program as DSPy's optimizers want one: made by ``TurnProgram.trainable()``, taken back by ``with_compiled()``.

    Its predictors are those that the program's shape asks, every stage asks the language model, and what goes wrong
    raises instead of being left to a fallback: an optimizer would learn from the fallback's score.

    Args:
        program: Asks the language model in every stage.
    """

    def __init__(self, program: DecidingModule) -> None:
        super().__init__()
        self._held = _Held(program)
        self._names = program.active_predictors()
        for name in self._names:
            setattr(self, name, StagePredict(name, program.predictor(name), self._held))

    @property
    def program(self) -> DecidingModule:
        """The program that it was made of."""
        return self._held.program

    @property
    def bindings(self) -> Bindings:
        """What the program is bound to."""
        return self.program.bindings

    def active_predictors(self) -> tuple[str, ...]:
        """Names of the predictors: ``fused``, or ``enhance``, ``select`` and ``understand``."""
        return self._names

    def forward(
        self,
        turn: Turn | Mapping[str, Any] | str | None = None,
        exclude: Sequence[str] = (),
        *,
        text: str | None = None,
    ) -> dspy.Prediction:
        """Decide a turn.

        Args:
            turn: The turn, its plain form, or the user's text.
            exclude: Conversations whose examples recall must not use.
            text: The user's text, where there is no turn.

        Returns:
            A prediction as the program's: ``decision``, and as plain values ``flows`` and ``commands``.

        Raises:
            InputError: there is no turn.
            LMUnansweredError: the language model did not answer for two minutes, tried again and again.
            AdapterParseError: its answer cannot be read.
            EngineError: the call failed otherwise, such as by a refused key; the provider's words are left out.
        """
        with bearing_outages():
            try:
                return prediction_of(decide(self.program, as_turn(turn, text), exclude, None, owner=self))
            except PredictFailed as failure:
                raise _redacted_error(failure.error) from None

    async def aforward(
        self,
        turn: Turn | Mapping[str, Any] | str | None = None,
        exclude: Sequence[str] = (),
        *,
        text: str | None = None,
    ) -> dspy.Prediction:
        """The same without blocking the loop."""
        with bearing_outages():
            try:
                checked_turn = as_turn(turn, text)
                return prediction_of(await adecide(self.program, checked_turn, exclude, None, owner=self))
            except PredictFailed as failure:
                raise _redacted_error(failure.error) from None

    def dump_state(self, json_mode: bool = True) -> dict[str, Any]:
        """DSPy's state of the predictors, and what they were compiled for."""
        state: dict[str, Any] = super().dump_state(json_mode=json_mode)
        return {**state, CONTRACT: contract_of(self._names)}

    def load_state(self, state: dict[str, Any], **options: Any) -> None:
        """The inverse of :meth:`dump_state`.

        Raises:
            ArtifactError: the state is of another shape, or was compiled for other signatures.
        """
        mine = {name: getattr(self, name).signature for name in self._names}
        check_contract(state, mine, expected=True)
        super().load_state(state, **options)


def left_to_others(decision: TurnDecision) -> str:
    """Why something else answered in the place of a language model that failed, "" where nothing did.

    An index that is down degrades a decision too, but it is the language model that answered.
    """
    return "; ".join(
        f"{stage}: {record.cause}"
        for stage, record in decision.stages.items()
        if record.degraded and record.source != "lm"
    )
