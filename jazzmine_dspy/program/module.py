"""What DSPy asks of a program's modules: which language model answers, and where it is in force."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any, cast

import dspy

from jazzmine_dspy.models.errors import InputError
from jazzmine_dspy.program.bindings import Bindings


class ProgramModule(dspy.Module):
    """Base of :class:`TurnProgram` and of what is trained of one."""

    bindings: Bindings

    def get_lm(self) -> dspy.LM | None:
        """The language model that answers: DSPy's optimizers, ``Refine`` and ``BestOfN`` ask for it.

        Returns:
            The predictors' own, else the one of :meth:`Bindings.lm_for`; None where there is none.

        Raises:
            ValueError: the predictors have different ones.
        """
        return super().get_lm() or self.bindings.lm_for()

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
