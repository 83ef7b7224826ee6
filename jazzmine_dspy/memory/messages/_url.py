"""Database URLs: those accepted, as SQLAlchemy's asyncio takes them, and how errors name them."""

from __future__ import annotations

from pathlib import Path

import sqlalchemy as sa
from sqlalchemy.exc import ArgumentError

from jazzmine_dspy.models.errors import InputError

_DRIVERS = {
    "sqlite": "sqlite+aiosqlite",
    "sqlite+aiosqlite": "sqlite+aiosqlite",
    "postgres": "postgresql+psycopg",
    "postgresql": "postgresql+psycopg",
    "postgresql+psycopg": "postgresql+psycopg",
    "postgresql+psycopg_async": "postgresql+psycopg",
}


def parse(url: str) -> sa.URL:
    """The URL with the driver that the store uses.

    Raises:
        InputError: it is none, or of another database. The text of it, which may hold a password, is not repeated.
    """
    remedy = "Use sqlite:///file.db, sqlite:// or postgresql://user:password@host/database."
    try:
        parsed = sa.make_url(url)
    except (ArgumentError, ValueError):
        # The error before this one may repeat the text.
        raise InputError("The database URL cannot be read", where="url", remedy=remedy) from None
    driver = _DRIVERS.get(parsed.drivername)
    if driver is None:
        raise InputError(f"No store for {parsed.drivername!r} databases", where="url", remedy=remedy)
    if driver.startswith("sqlite") and parsed.database in ("", ":memory:"):
        parsed = sa.URL.create(driver, query=parsed.query)
    elif driver.startswith("sqlite") and parsed.database and not parsed.database.startswith("file:"):
        # The folder of this moment counts, not that of the first use.
        parsed = parsed.set(database=str(Path(parsed.database).absolute()))
    return parsed.set(drivername=driver)


def place(url: sa.URL) -> str:
    """What errors call the database: never with a user or a password.

    Example:
        >>> place(sa.make_url("postgresql+psycopg://ann:secret@db.example:5433/talks?password=secret"))
        'postgresql db.example:5433/talks'
        >>> place(sa.make_url("sqlite+aiosqlite://"))
        'sqlite in memory'
    """
    kind = url.get_backend_name()
    if kind == "sqlite":
        return f"sqlite {url.database}" if url.database else "sqlite in memory"
    host = url.host or url.query.get("host") or "local socket"
    port = f":{url.port}" if url.port else ""
    return f"{kind} {host if isinstance(host, str) else ','.join(host)}{port}/{url.database or ''}"
