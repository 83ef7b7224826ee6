"""Dates, times and durations: one module for each, and modules for what they share.

English has a grammar of its own here; other languages use the tables of dateparser with strict rules. The functions
take a text, a date and a region, and do not depend on turns.
"""

from jazzmine_dspy.models.slot_types.calendar.types import Date, Duration, Time

__all__ = ["Date", "Duration", "Time"]
