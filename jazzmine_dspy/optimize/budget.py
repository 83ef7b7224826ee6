"""What a run has spent, and whether it may spend more."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from jazzmine_dspy.lm.meter import Meter
from jazzmine_dspy.lm.prices import Price, price_of
from jazzmine_dspy.models.base import Shared
from jazzmine_dspy.models.errors import RecipeError
from jazzmine_dspy.optimize.recipe import BudgetPart, Recipe


class Budget(Shared):
    """Calls, tokens, money and minutes of one run.

    Calls and tokens are counted where they are made, by the meter; minutes by a clock that is handed in. Phases may be
    held to a part, so that what must come at the end is paid for. Whatever is limited, a phase asks in calls: how many
    tokens or money pay for, the largest call so far tells.

    Args:
        limits: What the recipe allows.
        clock: Seconds of a monotonic clock.
        price: What the language model's tokens cost; None where nobody knows it.

    Raises:
        LMSettingsError: money is limited and no price is known.
    """

    def __init__(
        self, limits: BudgetPart, clock: Callable[[], float] = time.monotonic, *, price: Price | None = None
    ) -> None:
        self.meter = Meter(limits.lm_calls, max_tokens=limits.tokens, price=price, max_money=limits.money)
        self._limits = limits
        self._clock = clock
        self._started = clock()

    @property
    def calls_in_all(self) -> int | None:
        """Calls that the whole run may make; an estimate where tokens or money are limited. None without a limit."""
        left = self.meter.calls_left
        return None if left is None else self.meter.counts.calls + left

    @property
    def minutes(self) -> float:
        """Minutes so far."""
        return (self._clock() - self._started) / 60.0

    def allows(self, calls: int = 1, *, keep_calls: int = 0, share_of_time: float = 1.0) -> bool:
        """Whether some more calls fit.

        Args:
            calls: How many.
            keep_calls: Calls that must be left afterwards.
            share_of_time: Part of the minutes that may have passed, from 0 to 1.
        """
        left = self.meter.calls_left
        if left is not None and left - calls < keep_calls:
            return False
        return self._limits.minutes is None or self.minutes < self._limits.minutes * share_of_time

    def spent(self) -> dict[str, Any]:
        """Calls, tokens, money and minutes so far, the limits, and the price.

        ``money`` counts replayed answers as the limits do, ``paid`` leaves them out; None where no price is known.
        """
        counts = self.meter.counts
        return {
            "lm_calls": counts.calls,
            "failed_calls": counts.failed,
            "replayed_calls": counts.replayed,
            "prompt_tokens": counts.prompt_tokens,
            "completion_tokens": counts.completion_tokens,
            "tokens": counts.prompt_tokens + counts.completion_tokens,
            "cached_tokens": counts.cached_tokens,
            "uncounted_calls": counts.uncounted,
            "money": _rounded(counts.money),
            "paid": _rounded(counts.paid),
            "price": None if self.meter.price is None else self.meter.price._asdict(),
            "minutes": round(self.minutes, 2),
            "limits": self._limits.model_dump(),
        }

    def since(self, before: Mapping[str, Any]) -> dict[str, Any]:
        """What was spent since `spent` was asked; money is None where it was."""
        return {
            key: None if now is None or before[key] is None else round(now - before[key], 9)
            for key, now in self.spent().items()
            if key != "price" and (now is None or isinstance(now, int | float))
        }


def spending(spent: Mapping[str, Any], price: Price | None) -> str:
    """What was spent, in words.

    Example:
        >>> spent = {"lm_calls": 3, "replayed_calls": 1, "prompt_tokens": 2100, "completion_tokens": 90}
        >>> spending({**spent, "money": 0.0125, "paid": 0.01}, Price(2, 8, currency="USD"))
        '3 LM calls (1 replayed), 2,100 prompt and 90 answer tokens, 0.0125 USD (0.0100 USD without what was replayed)'
    """
    again = f" ({spent['replayed_calls']:,} replayed)" if spent["replayed_calls"] else ""
    words = (
        f"{spent['lm_calls']:,} LM calls{again}, {spent['prompt_tokens']:,} prompt and "
        f"{spent['completion_tokens']:,} answer tokens"
    )
    if price is None or not spent["money"]:
        return words
    paid = f" ({price.amount(spent['paid'])} without what was replayed)" if again else ""
    return f"{words}, {price.amount(spent['money'])}{paid}"


def price_in_words(name: str, price: Price | None) -> str:
    """What a language model's tokens cost, and who says so."""
    unknown = f"unknown: neither the recipe nor LiteLLM's table has a price for {name}"
    return unknown if price is None else price.words


def price_for(recipe: Recipe) -> Price | None:
    """The price of the run's language model; None where nobody knows it, or none is asked.

    Raises:
        RecipeError: the recipe limits money, and neither it nor LiteLLM's table knows what the model costs.
    """
    if recipe.lm == "none":
        return Price(0.0, 0.0, source="no language model is asked")
    if (found := price_of(recipe.lm, recipe.price)) is None and recipe.budget.money is not None:
        raise RecipeError(
            f"The price of {recipe.lm!r} is unknown, so a budget in money is not possible",
            where="budget.money",
            remedy="Set price = [PROMPT, ANSWER] in the recipe, in money per million tokens, or limit tokens.",
        )
    return found


def _rounded(money: float | None) -> float | None:
    return None if money is None else round(money, 9)
