"""The clinic's data in SQLite: checks of what a client says, and the actions that flows run."""

from __future__ import annotations

import datetime as dt
import sqlite3
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

TIMES = [f"{hour:02d}:{minute:02d}" for hour in range(9, 18) for minute in (0, 30)]
SATURDAY, SUNDAY = 5, 6
ZONE = ZoneInfo("Europe/London")


class Clinic:
    """Checks return True, or the reason that the client reads. Actions return JSON, or raise to fail.

    An action gets the flow's values, and an id that is the same if it runs again after a crash. The flow's `done` text
    can say what it returns, as in {result.code}; if it fails, the client reads the `failed` text.

    Args:
        path: SQLite file.
        clock: Unix time in seconds.
    """

    def __init__(self, path: Path | str, clock: Callable[[], float] = time.time) -> None:
        self._path, self.clock = path, clock
        with closing(sqlite3.connect(path)) as db:
            db.executescript(Path(__file__).with_name("clinic.sql").read_text("utf-8"))

    def _rows(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        with closing(sqlite3.connect(self._path)) as db, db:
            return db.execute(query, values).fetchall()

    def _now(self) -> str:
        return f"{dt.datetime.fromtimestamp(self.clock(), ZONE):%Y-%m-%d %H:%M}"

    def _free(self, day: str) -> list[str]:
        times = TIMES[:8] if dt.date.fromisoformat(day).weekday() == SATURDAY else TIMES
        taken = self._rows("SELECT time FROM appointments WHERE day = ? AND NOT cancelled", day)
        return [time for time in times if f"{day} {time}" > self._now() and (time,) not in taken]

    def check_pet(self, value: str) -> bool | str:
        """Whether the animal is registered."""
        known = self._rows("SELECT 1 FROM patients WHERE name = ?", value)
        return (
            bool(known) or f"{value} is not registered with us. You can register now, or tell me another name"
        )

    def check_code(self, value: str) -> bool | str:
        """Whether there is such an appointment."""
        rows = self._rows("SELECT 1 FROM appointments WHERE id = ? AND NOT cancelled", value[1:])
        return bool(rows) or f"There is no appointment {value}"

    def check_day(self, value: str) -> bool | str:
        """Whether the clinic has time on that day."""
        if dt.date.fromisoformat(value).weekday() == SUNDAY:
            return "We are closed on Sundays"
        return bool(self._free(value)) or "We have no time left on that day"

    def check_time(self, value: str, slots: Mapping[str, Any]) -> bool | str:
        """Whether the time is free on the flow's day."""
        if "day" not in slots or value in (free := self._free(slots["day"])):
            return True
        others = ", ".join([time for time in free if time > value][:3] or free[-3:])
        return f"{value} is not free on that day" + (f", but {others} would be" if others else "")

    def book_appointment(self, slots: dict[str, Any], action: str) -> dict[str, str]:
        """Book an appointment."""
        query = """INSERT INTO appointments (pet, service, day, time, action) VALUES (?, ?, ?, ?, ?)
            ON CONFLICT (action) DO UPDATE SET action = action RETURNING id"""
        names = ("pet", "service", "day", "time")
        ((number,),) = self._rows(query, *(slots[name] for name in names), action)
        return {"code": f"A{number}"}

    def move_appointment(self, slots: dict[str, Any], _: str) -> dict[str, str]:
        """Move an appointment."""
        query = "UPDATE appointments SET day = ?, time = ? WHERE id = ? AND NOT cancelled RETURNING day, time"
        ((day, time),) = self._rows(query, slots["day"], slots["time"], slots["code"][1:])
        return {"day": day, "time": time}

    def cancel_appointment(self, slots: dict[str, Any], _: str) -> dict[str, str]:
        """Cancel an appointment."""
        query = "UPDATE appointments SET cancelled = 1 WHERE id = ? RETURNING day"
        ((day,),) = self._rows(query, slots["code"][1:])
        return {"day": day}

    def find_appointment(self, slots: dict[str, Any], _: str) -> dict[str, str]:
        """Find the next four appointments under a phone number: more are too long to be said."""
        query = """SELECT appointments.id, name, service, day, time FROM appointments JOIN patients ON name = pet
            WHERE phone = ? AND NOT cancelled AND day >= ? ORDER BY day, time LIMIT 4"""
        rows = self._rows(query, slots["phone"], self._now()[:10])
        texts = [
            f"A{code}: {name}, {service}, on {_in_words(day)} at {time}."
            for code, name, service, day, time in rows
        ]
        return {"text": " ".join(texts) or "There is no appointment under this number."}

    def ask_price(self, slots: dict[str, Any], _: str) -> dict[str, float]:
        """Look up a price."""
        ((pounds,),) = self._rows("SELECT pounds FROM prices WHERE service = ?", slots["service"])
        return {"price": pounds}

    def prices(self) -> str:
        """All prices, as a sentence."""
        rows = self._rows("SELECT service, pounds FROM prices ORDER BY pounds")
        return f"Prices: {', '.join(f'{service} £{pounds:.2f}' for service, pounds in rows)}."

    def register_patient(self, slots: dict[str, Any], action: str) -> dict[str, str]:
        """Register an animal."""
        query = "INSERT INTO patients VALUES (?, ?, ?, ?) ON CONFLICT (action) DO NOTHING"
        self._rows(query, slots["name"], slots["species"], slots["phone"], action)
        return {}


def _in_words(day: str) -> str:
    """A day as the texts of the flows say it, such as "6 March 2026"."""
    date = dt.date.fromisoformat(day)
    return f"{date.day} {date:%B %Y}"
