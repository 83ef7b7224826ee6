"""The clinic's data in SQLite: checks of what a client says, and actions that flows run."""

from __future__ import annotations

import datetime as dt
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

TABLES = """
CREATE TABLE IF NOT EXISTS prices (service TEXT PRIMARY KEY, pounds REAL NOT NULL);
CREATE TABLE IF NOT EXISTS patients (
    name TEXT PRIMARY KEY COLLATE NOCASE, species TEXT NOT NULL, phone TEXT NOT NULL, action TEXT UNIQUE);
CREATE TABLE IF NOT EXISTS appointments (
    id INTEGER PRIMARY KEY, pet TEXT NOT NULL COLLATE NOCASE, service TEXT NOT NULL,
    day TEXT NOT NULL, time TEXT NOT NULL, cancelled INTEGER NOT NULL DEFAULT 0, action TEXT UNIQUE);
CREATE UNIQUE INDEX IF NOT EXISTS one_at_a_time ON appointments (day, time) WHERE NOT cancelled;
"""
PRICES = [
    ("check-up", 45), ("vaccination", 52), ("dental cleaning", 180), ("nail trim", 18), ("microchip", 25),
]  # fmt: skip
PATIENTS = [("Bella", "dog", "07700900123"), ("Milo", "cat", "07700900456"), ("Nugget", "rabbit", "07700900789")]
HALF_HOURS = [f"{hour:02d}:{minute:02d}" for hour in range(9, 18) for minute in (0, 30)]
SATURDAY, SUNDAY = 5, 6


class Clinic:
    """Actions raise to fail: the client then reads the `failed` text of the flow.

    Args:
        path: The SQLite file. A new file starts with prices, three patients and two appointments.
    """

    def __init__(self, path: Path | str) -> None:
        self.path = path
        with closing(self._connect()) as db, db:
            db.executescript(TABLES)
            if db.execute("SELECT count(*) FROM prices").fetchone()[0] == 0:
                monday = dt.date.today() + dt.timedelta(7 - dt.date.today().weekday())
                booked = [(101, "Bella", "vaccination", str(monday), "10:00")]
                booked += [(102, "Milo", "check-up", str(monday + dt.timedelta(2)), "15:30")]
                db.executemany("INSERT INTO prices VALUES (?, ?)", PRICES)
                db.executemany("INSERT INTO patients VALUES (?, ?, ?, NULL)", PATIENTS)
                db.executemany("INSERT INTO appointments VALUES (?, ?, ?, ?, ?, 0, NULL)", booked)

    def _connect(self) -> sqlite3.Connection:
        return sqlite3.connect(self.path, timeout=5)

    def _rows(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        with closing(self._connect()) as db, db:
            return db.execute(query, values).fetchall()

    def _change(self, query: str, *values: Any) -> None:
        with closing(self._connect()) as db, db:
            if db.execute(query, values).rowcount == 0:
                raise LookupError(f"nothing to change: {values}")

    # Checks: True, or the reason that the client reads. A second argument holds the flow's other values.

    def check_pet(self, value: str) -> bool | str:
        """Whether the animal is registered."""
        known = self._rows("SELECT 1 FROM patients WHERE name = ?", value)
        return bool(known) or f"{value} is not registered with us. You can register now, or tell me another name"

    def check_code(self, value: str) -> bool | str:
        """Whether there is such an appointment."""
        found = self._rows("SELECT 1 FROM appointments WHERE id = ? AND NOT cancelled", value[1:])
        return bool(found) or f"There is no appointment {value}"

    def check_day(self, value: str) -> bool | str:
        """Whether the clinic has time on that day."""
        if dt.date.fromisoformat(value).weekday() == SUNDAY:
            return "We are closed on Sundays"
        return bool(self._free(value)) or "We have no time left on that day"

    def check_time(self, value: str, slots: Mapping[str, Any]) -> bool | str:
        """Whether the time is free on the flow's day."""
        if "day" not in slots or value in (free := self._free(slots["day"])):
            return True
        later = [time for time in free if time > value][:3] or free[-3:]
        return f"{value} is not free on that day, but {', '.join(later)} would be"

    def _free(self, day: str) -> list[str]:
        times = HALF_HOURS[:8] if dt.date.fromisoformat(day).weekday() == SATURDAY else HALF_HOURS
        taken = self._rows("SELECT time FROM appointments WHERE day = ? AND NOT cancelled", day)
        return [time for time in times if (time,) not in taken]

    # Actions: called with the values of the flow and an id that is the same if the action runs again after a crash.
    # What they return under "text" is said before the flow's own text.

    def book_appointment(self, slots: dict[str, Any], action: str) -> dict[str, str]:
        """Book an appointment."""
        query = (
            "INSERT INTO appointments (pet, service, day, time, action) VALUES (?, ?, ?, ?, ?) "
            "ON CONFLICT (action) DO UPDATE SET action = action RETURNING id"
        )
        values = (slots["pet"], slots["service"], slots["day"], slots["time"], action)
        code = f"A{self._rows(query, *values)[0][0]}"
        return {"code": code, "text": f"It is booked, the code is {code}."}

    def move_appointment(self, slots: dict[str, Any], _: str) -> dict[str, str]:
        """Move an appointment."""
        query = "UPDATE appointments SET day = ?, time = ? WHERE id = ? AND NOT cancelled"
        self._change(query, slots["day"], slots["time"], slots["code"][1:])
        return {}

    def cancel_appointment(self, slots: dict[str, Any], _: str) -> dict[str, str]:
        """Cancel an appointment."""
        self._change("UPDATE appointments SET cancelled = 1 WHERE id = ?", slots["code"][1:])
        return {}

    def find_appointment(self, slots: dict[str, Any], _: str) -> dict[str, str]:
        """Find the appointments under a phone number."""
        query = (
            "SELECT appointments.id, name, service, day, time FROM appointments JOIN patients ON name = pet "
            "WHERE phone = ? AND NOT cancelled AND day >= ? ORDER BY day, time"
        )
        rows = self._rows(query, slots["phone"], str(dt.date.today()))
        texts = [f"A{code}: {name}, {service}, {day} at {time}." for code, name, service, day, time in rows]
        return {"text": " ".join(texts) or "There is no appointment under this number."}

    def ask_price(self, slots: dict[str, Any], _: str) -> dict[str, str]:
        """Look up a price."""
        ((pounds,),) = self._rows("SELECT pounds FROM prices WHERE service = ?", slots["service"])
        price = f"£{pounds:.2f}"
        return {"price": price, "text": f"A {slots['service']} costs {price}."}

    def register_patient(self, slots: dict[str, Any], action: str) -> dict[str, str]:
        """Register an animal."""
        query = "INSERT INTO patients VALUES (?, ?, ?, ?) ON CONFLICT (action) DO NOTHING"
        self._rows(query, slots["name"], slots["species"], slots["phone"], action)
        return {}
