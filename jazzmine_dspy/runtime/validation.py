"""Validators of one turn: called at the same time, each once for a value, within one deadline."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Callable
from typing import Any

from jazzmine_dspy.dialogue.apply import Validate
from jazzmine_dspy.dialogue.next_step import Applied
from jazzmine_dspy.models.base import canonical_json
from jazzmine_dspy.models.validators import Validation, ValidatorRegistry, takes_slots


async def with_validators(
    apply_decision: Callable[[Validate], Applied], deadline: float
) -> tuple[Applied, tuple[str, ...]]:
    """Carry out a turn whose validators may be slow.

    The state machine is pure, so the turn is carried out again until every validator that it asks has answered.

    Args:
        apply_decision: Carries out the turn from its beginning; called with what asks a validator.
        deadline: Seconds for all validators of the turn.

    Returns:
        What the turn came to, and why validators gave no answer.
    """
    ends = asyncio.get_running_loop().time() + deadline
    answers: dict[str, Validation] = {}
    missing: dict[str, tuple[str, Any, dict[str, Any]]] = {}

    def validate(name: str, value: Any, slots: dict[str, Any]) -> Validation | None:
        key = canonical_json([name, value, slots if takes_slots(name) else {}])
        if key not in answers:
            missing[key] = (name, value, slots)
        return answers.get(key)

    while True:
        applied = apply_decision(validate)
        if not missing:
            failures = (each.failure for each in answers.values() if each.failure)
            return applied, tuple(dict.fromkeys(failures))
        left = max(0.0, ends - asyncio.get_running_loop().time())
        # Copies: a validator that changes a list does not change the state.
        calls = (
            ValidatorRegistry.avalidate(*copy.deepcopy(each), deadline=left) for each in missing.values()
        )
        answers.update(zip(missing, await asyncio.gather(*calls), strict=True))
        missing.clear()
