"""Where and when a text is said, as its values are read."""

from __future__ import annotations

import datetime as dt
from typing import NamedTuple


class ReadingContext(NamedTuple):
    """What a text means depends on where and when it is said.

    Args:
        date: The user's local date; words such as "tomorrow" count from it.
        locale: The user's language, such as ``en`` or ``de-AT``.
        region: Country whose habits hold, as ISO 3166 alpha-2; "" where the registry names none.
        currency: Currency of an amount that names none, as ISO 4217; "" where the registry names none.
    """

    date: dt.date | None = None
    locale: str = "en"
    region: str = ""
    currency: str = ""


ANYWHERE = ReadingContext()
"""Where nothing is known of the place and the day."""
