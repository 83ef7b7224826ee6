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
    loop = asyncio.get_running_loop()
    ends = loop.time() + deadline
    answers = _Answers()
    while True:
        applied = apply_decision(answers.validate)
        if not answers.missing:
            return applied, answers.failures
        await answers.gather(max(0.0, ends - loop.time()))


class _Answers:
    """What validators have answered, by name, value and, if they look at them, the other values."""

    def __init__(self) -> None:
        self._known: dict[str, Validation] = {}
        self.missing: dict[str, tuple[str, Any, dict[str, Any]]] = {}

    def validate(self, name: str, value: Any, slots: dict[str, Any]) -> Validation | None:
        key = canonical_json([name, value, slots if takes_slots(name) else {}])
        if key not in self._known:
            self.missing[key] = (name, value, slots)
        return self._known.get(key)

    async def gather(self, deadline: float) -> None:
        missing, self.missing = self.missing, {}
        # Copies: a validator that changes a list does not change the state.
        calls = (
            ValidatorRegistry.avalidate(*copy.deepcopy(each), deadline=deadline) for each in missing.values()
        )
        self._known |= dict(zip(missing, await asyncio.gather(*calls), strict=True))

    @property
    def failures(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(each.failure for each in self._known.values() if each.failure))
