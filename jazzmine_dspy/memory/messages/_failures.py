"""What a driver's errors mean to the caller."""

from __future__ import annotations

from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from jazzmine_dspy.models.errors import MemoryUnavailableError, format_error

# Serialization failure and deadlock: the database has undone the transaction, and it may be tried again.
_TRY_AGAIN = {"40001", "40P01"}

_REMEDIES = (
    (
        ("53100", "database or disk is full", "disk i/o error"),
        "Make room on the database's disk, then repeat the call.",
    ),
    (
        ("55p03", "57014", "database is locked"),
        "Look for what holds a lock on the database, then repeat the call.",
    ),
    (("unable to open database file",), "Check that the folder exists and may be written to."),
    (
        ("readonly database", "42501", "permission denied"),
        "Give this process the right to write to the database.",
    ),
    (
        ("53300", "too many connections"),
        "Let fewer processes connect, or let the database take more, then repeat the call.",
    ),
    (("malformed", "not a database"), "Restore the file from a backup, or use another one."),
)


def may_try_again(error: DBAPIError) -> bool:
    """Whether the database asks for another try of the whole transaction."""
    return getattr(error.orig, "sqlstate", None) in _TRY_AGAIN


def unavailable(error: SQLAlchemyError | OSError, place: str) -> MemoryUnavailableError:
    """The error for a database that failed: its class and code, and no text of the driver, which may quote values."""
    cause: BaseException = error
    if isinstance(error, DBAPIError) and error.orig is not None:
        cause = error.orig
    state = getattr(cause, "sqlstate", None)
    told = f"{state or ''} {cause}".lower()
    line = f"{type(cause).__name__} {state}" if state else format_error(cause)
    remedy = "Check that the database runs and can be reached, then repeat the call."
    for signs, better in _REMEDIES:
        if known := [sign for sign in signs if sign in told]:
            remedy = better
            # Words of this table, so that no value is among them.
            line += "".join(f": {sign}" for sign in known if " " in sign)
    if isinstance(error, PoolTimeoutError):
        line = "no connection became free"
    return MemoryUnavailableError(f"The message store failed: {line}", where=place, remedy=remedy)


def too_slow(deadline: float, place: str) -> MemoryUnavailableError:
    """The error for a database that did not answer in time."""
    return MemoryUnavailableError(
        f"The message store did not answer within {deadline:g} s",
        where=place,
        remedy="Check that the database runs and can be reached, then repeat the call.",
    )
