"""Days counted from another day, and days that a date without a year or a month may mean."""

from __future__ import annotations

import calendar
import datetime as dt
from typing import NamedTuple

MONTH_FIRST = frozenset(["US", "PH", "FM", "MH", "PW", "GU", "AS", "PR", "VI", "MP", "UM"])
"""Regions that write the month before the day."""
EITHER_FIRST = frozenset({"CA"})
YEAR_FIRST = frozenset(["zh", "ja", "ko", "hu", "lt", "mn", "eu"])
"""Languages that write the year, then the month, then the day."""


class Near(NamedTuple):
    """What a date is read from.

    Args:
        date: The day that words count from.
        orders: The orders of day and month that numbers may have: ``dm``, ``md``.
        past: Whether days behind are meant, not days ahead.
        year_needed: Whether a date must name its year, as a date of birth does.
    """

    date: dt.date
    orders: tuple[str, ...] = ("dm", "md")
    past: bool = False
    year_needed: bool = False

    def century(self, digits: str, month: int, day: int) -> int:
        """The year that two digits stand for; where days behind are meant, no day ahead.

        Example:
            >>> near = Near(dt.date(2026, 3, 4))
            >>> near.century("27", 3, 15), near._replace(past=True).century("27", 3, 15)
            (2027, 1927)
        """
        year = 2000 + int(digits)
        ahead = (year, month, day) > (self.date.year, self.date.month, self.date.day)
        return year - 100 if ahead and (self.past or self.year_needed) else year

    def on(self, day: int, month: int | None = None, year: int | None = None) -> dt.date | None:
        """The day of that number: the next one, or the last one, where month or year are left open."""
        if year is not None:
            return exact(year, month or self.date.month, day)
        start = self.date.year * 12 + self.date.month - 1
        step = -1 if self.past else 1
        for months in range(0, 12 * 9 * step, step):
            at_year, at_month = divmod(start + months, 12)
            if month is not None and at_month + 1 != month:
                continue
            found = exact(at_year, at_month + 1, day)
            if found is not None and (found <= self.date if self.past else found >= self.date):
                return found
        return None

    def weekday(self, day: int) -> dt.date:
        """The next day of the week of that number, or the last one; today is neither."""
        ahead = (day - self.date.weekday() - 1) % 7 + 1
        return shifted(self.date, days=ahead - 7 - 7 * (ahead == 7) if self.past else ahead) or self.date

    def in_week(self, weeks: int, day: int) -> dt.date | None:
        """A weekday of the week that many weeks from this one; weeks begin on Monday."""
        return shifted(self.date, days=7 * weeks + day - self.date.weekday())


def orders(locale: str, region: str) -> tuple[str, ...]:
    """Whether day or month comes first; both where nothing settles it.

    Example:
        >>> orders("en", "US"), orders("en-GB", ""), orders("en", ""), orders("de", "")
        (('md',), ('dm',), ('dm', 'md'), ('dm',))
    """
    language, _, rest = locale.replace("_", "-").partition("-")
    place = (region or rest.rpartition("-")[2]).upper()
    if language.lower() in YEAR_FIRST:
        return ("md",)
    if place in EITHER_FIRST or (language.lower() == "en" and len(place) != 2):
        return ("dm", "md")
    return ("md",) if place in MONTH_FIRST else ("dm",)


def exact(year: int, month: int, day: int) -> dt.date | None:
    """That day, where there is one."""
    try:
        return dt.date(year, month, day)
    except (ValueError, OverflowError):
        return None


def shifted(date: dt.date, *, days: int = 0, months: int = 0) -> dt.date | None:
    """A day some days and months away; the last day of a shorter month. None outside of the calendar.

    Example:
        >>> shifted(dt.date(2026, 1, 31), months=1)
        datetime.date(2026, 2, 28)
    """
    try:
        year, month = divmod(date.year * 12 + date.month - 1 + months, 12)
        day = min(date.day, calendar.monthrange(year, month + 1)[1])
        return dt.date(year, month + 1, day) + dt.timedelta(days=days)
    except (ValueError, OverflowError):
        return None


def last_day(date: dt.date) -> dt.date:
    """The last day of its month."""
    return date.replace(day=calendar.monthrange(date.year, date.month)[1])


def moved(date: dt.date, number: int, unit: str) -> dt.date | None:
    """A day some days, nights, weeks, fortnights, months or years away."""
    days = {"day": 1, "night": 1, "week": 7, "fortnight": 14}.get(unit)
    if days is not None:
        return shifted(date, days=number * days)
    months = {"month": 1, "year": 12, "decade": 120}.get(unit)
    return None if months is None else shifted(date, months=number * months)


def counted_by(word: str) -> int:
    """The number of ``3``, ``a`` or ``a couple of``."""
    return int(word) if word.isdigit() else 2 if "couple" in word else 1
