"""The program as a module of DSPy's: its predictors, the language model that answers, and single decisions."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, Self, cast

import dspy

from jazzmine_dspy.models import FlowRegistry, Turn, TurnDecision
from jazzmine_dspy.models.errors import InputError
from jazzmine_dspy.program.bindings import Bindings
from jazzmine_dspy.program.deadline import DEADLINE
from jazzmine_dspy.program.policy import Policy, PolicyName
from jazzmine_dspy.program.state import as_turn
from jazzmine_dspy.signatures.contract import CONTRACTS


class ProgramModule(dspy.Module):
    """Base of :class:`TurnProgram` and of what is trained of one: predictors, and the language model that answers."""

    @property
    def bindings(self) -> Bindings:
        """What the program is bound to."""
        raise NotImplementedError

    @property
    def program(self) -> DecidingModule:
        """The program that decides."""
        raise NotImplementedError

    def predictor(self, name: str) -> dspy.Predict:
        """The predictor of that name."""
        return cast("dspy.Predict", getattr(self, name))

    def active_predictors(self) -> tuple[str, ...]:
        """Names of the predictors that are asked."""
        raise NotImplementedError

    def all_parameters(self) -> list[tuple[str, Any]]:
        """All predictors, those included that the policy does not ask."""
        return list(super().named_parameters())

    def named_parameters(self) -> list[tuple[str, Any]]:
        """The predictors that the policy asks: DSPy's optimizers improve these, inside other modules too."""
        asked = self.active_predictors()
        return [one for one in self.all_parameters() if one[0] in asked or one[0] not in CONTRACTS]

    def set_lm(self, lm: dspy.LM | str | None, **settings: Any) -> None:
        """Set the language model of all predictors; None takes it away.

        Args:
            lm: The model, or its name such as ``openai/gpt-4o-mini``.
            settings: Of a model that is named, such as ``api_base``.

        Raises:
            LMNotFoundError: the name does not resolve.
        """
        from jazzmine_dspy.lm import resolve_lm

        model = resolve_lm(lm, **settings) if isinstance(lm, str) else lm
        for _, predictor in self.all_parameters():
            predictor.lm = model

    def get_lm(self) -> dspy.LM | None:
        """The language model that answers: DSPy's optimizers, ``Refine`` and ``BestOfN`` ask for it.

        Returns:
            The predictors' own, else the one of :meth:`Bindings.lm_for`; None where there is none.

        Raises:
            ValueError: the predictors have different ones.
        """
        own = {id(predictor.lm): predictor.lm for _, predictor in self.all_parameters()}
        if len(own) > 1:
            raise ValueError(
                "The predictors have different language models, so there is no single one to return"
            )
        return next(iter(own.values()), None) or self.bindings.lm_for()

    def context(self, **settings: Any) -> AbstractContextManager[None]:
        """A ``dspy.context`` in which the program's language model is the one of DSPy's settings.

        Some of DSPy reads the settings alone: ``MIPROv2``, the rules of ``SIMBA``, ``BootstrapFewShot`` from its second
        round on, and the advice of ``Refine``. A bound model is none of the settings'.

        Args:
            settings: Others of DSPy's settings.

        Raises:
            InputError: there is no language model.

        Example:
            >>> from jazzmine_dspy import FlowRegistry, TurnProgram
            >>> flows = FlowRegistry([{"name": "hours", "description": "Tell when the shop is open."}])
            >>> program = TurnProgram(flows).bind(lm=dspy.LM("openai/gpt-4o-mini"))
            >>> with program.context():
            ...     print(dspy.settings.lm.model)
            openai/gpt-4o-mini
        """
        lm = self.get_lm()
        if lm is None:
            raise InputError(
                "No language model is bound to the program, or configured",
                where="context",
                remedy="Call program.bind(lm=…) or dspy.configure(lm=…).",
            )
        return cast("AbstractContextManager[None]", dspy.context(lm=lm, **settings))


class DecidingModule(ProgramModule):
    """Base of :class:`TurnProgram`: what decides turns by a policy, over a registry of flows."""

    registry: FlowRegistry
    policy: Policy

    @property
    def program(self) -> DecidingModule:
        """The program itself."""
        return self

    @property
    def fingerprint(self) -> str:
        """SHA-256 over everything that can change a decision."""
        raise NotImplementedError

    def with_policy(self, policy: PolicyName | Policy) -> Self:
        """A copy with other deciders; predictors and bindings are the same."""
        copy: Self = self.deepcopy()
        copy.policy = policy if isinstance(policy, Policy) else self.policy.named(policy)
        return copy

    def decide(
        self,
        turn: Turn | str | None = None,
        *,
        text: str | None = None,
        exclude: Sequence[str] = (),
        deadline: float | None = DEADLINE,
    ) -> TurnDecision:
        """Decide a turn, or a bare text. A part that is down degrades the decision; it raises nothing.

        Args:
            turn: The turn, or the user's text.
            text: What the user wrote, where there is no turn.
            exclude: Conversations whose examples recall must not use, while fitting.
            deadline: Seconds, all attempts at a call included; what is not answered by then is decided without. None
                for no limit.

        Raises:
            InputError: no turn and no text, an empty text, or one over the limit.
        """  # fmt: skip
        prediction = self(turn=as_turn(turn, text), exclude=exclude, deadline=deadline)
        return cast("TurnDecision", prediction.decision)

    async def adecide(
        self,
        turn: Turn | str | None = None,
        *,
        text: str | None = None,
        exclude: Sequence[str] = (),
        deadline: float | None = DEADLINE,
    ) -> TurnDecision:
        """The same without blocking the loop."""  # fmt: skip
        prediction = await self.acall(turn=as_turn(turn, text), exclude=exclude, deadline=deadline)
        return cast("TurnDecision", prediction.decision)
