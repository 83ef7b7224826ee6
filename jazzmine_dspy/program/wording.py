"""A program whose prompts are put into another wording."""

from __future__ import annotations

from jazzmine_dspy.models.errors import InputError
from jazzmine_dspy.program.turn import TurnProgram
from jazzmine_dspy.signatures.contract import CONTRACTS, Wording


def in_wording(program: TurnProgram, wording: Wording) -> TurnProgram:
    """A copy of a program whose prompts are worded ``brief`` or ``full``; a project's and compiled words stay.

    Raises:
        InputError: a predictor holds demonstrations, and these show answers in the other wording.

    Example:
        >>> program = in_wording(TurnProgram(), "full")
        >>> program.fused.signature.output_fields["flows"].json_schema_extra["desc"].partition(",")[0]
        'letters of the tasks that this message wants started'
    """
    held = [name for name in CONTRACTS if program.predictor(name).demos]
    if wording != program.policy.wording and held:
        raise InputError(
            f"The demonstrations of {', '.join(held)} are in the {program.policy.wording} wording",
            where=f"wording {wording!r}",
            remedy="Compile the program anew with that wording, or use one without demonstrations.",
        )
    return program.with_policy(program.policy.model_copy(update={"wording": wording}))
