"""``money``: an amount and its currency."""

from __future__ import annotations

import re
from typing import Any

from jazzmine_dspy.models.slot_types.text import TextType
from jazzmine_dspy.models.slots import ANYWHERE, ReadingContext, Slot, slot_type

_MONEY = re.compile(
    r"(?:(?P<sign>[€£$])\s?)?(?P<amount>\d{1,6}(?:[.,]\d{1,2})?)\s?(?P<unit>€|£|\$|euros?|eur|gbp|usd)?", re.I
)
_CURRENCIES = {
    "€": "EUR",
    "£": "GBP",
    "$": "USD",
    "eur": "EUR",
    "euro": "EUR",
    "euros": "EUR",
    "gbp": "GBP",
    "usd": "USD",
}


@slot_type("money")
class Money(TextType):
    """An amount with two decimals, and the currency's code."""

    example = "12.50 EUR"
    example_shown = False
    ranged = True

    def occurrences(self, slot: Slot, text: str, at: ReadingContext = ANYWHERE) -> list[Any]:
        """Amounts that stand beside a currency."""
        return [_money(match) for match in _MONEY.finditer(text) if match["sign"] or match["unit"]]


def _money(match: re.Match[str]) -> str:
    currency = _CURRENCIES[(match["sign"] or match["unit"]).lower()]
    return f"{float(match['amount'].replace(',', '.')):.2f} {currency}"
