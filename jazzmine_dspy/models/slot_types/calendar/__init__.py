"""Dates, times and durations: one module for each, one for what numbers, days and months have in common.

English is read by a grammar of our own; other languages by dateparser, inside a strict frame. What is here takes a
text, a date and a region, and knows nothing of turns.
"""

from jazzmine_dspy.models.slot_types.calendar.types import Date, Duration, Time

__all__ = ["Date", "Duration", "Time"]
