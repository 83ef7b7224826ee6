"""A SQLite or PostgreSQL database that coroutines use: one thread for each connection, one deadline for each call."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import sqlite3
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError
from sqlalchemy.pool import QueuePool, StaticPool

from jazzmine_dspy.memory.errors import MissingExtraError
from jazzmine_dspy.memory.messages.rows import METADATA
from jazzmine_dspy.models.base import forked
from jazzmine_dspy.models.errors import InputError, MemoryUnavailableError

T = TypeVar("T")

_DRIVERS = {
    "sqlite": "sqlite",
    "postgres": "postgresql+psycopg",
    "postgresql": "postgresql+psycopg",
    "postgresql+psycopg": "postgresql+psycopg",
}
_INTEGERS = {
    "connect_timeout",
    "keepalives",
    "keepalives_count",
    "keepalives_idle",
    "keepalives_interval",
    "prepare_threshold",
    "tcp_user_timeout",
}
"""Options of a PostgreSQL URL that are numbers; libpq itself reads the other ones."""

_OF_SQLITE_FILES = {"cache", "immutable", "mode", "nolock", "psow", "vfs"}
"""Options of a SQLite URL, which count where ``uri=true`` stands with them."""

_LOCK_SHARE = 0.8
"""Share of the deadline that may pass waiting for a lock; the rest is for reporting it."""

_TABLES_LOCK = 0x6A61_7A7A
"""Number of the advisory lock under which processes create the tables in PostgreSQL."""


@dataclass(eq=False)
class _Opened:
    """The engine of one process and the threads that use it."""

    engine: sa.Engine
    readers: ThreadPoolExecutor
    writers: ThreadPoolExecutor
    lock: threading.Lock = field(default_factory=threading.Lock)
    has_tables: bool = False

    def transaction(self, work: Callable[[sa.Connection], T], write: bool, connections: list[Any]) -> T:
        """Do work in a transaction; meanwhile its connection stands in ``connections``."""
        with self.engine.connect() as connection:
            connections.append(connection.connection.driver_connection)
            try:
                with connection.execution_options(jazzmine_write=write).begin():
                    return work(connection)
            finally:
                connections.clear()

    def close(self) -> None:
        """Wait for the threads, and close the connections."""
        self.readers.shutdown()
        self.writers.shutdown()
        self.engine.dispose()


class Database:
    """A database by URL. The first call connects and creates the tables.

    A database in memory has one connection, used in the thread of the caller: a call takes less than a thread costs.
    A SQLite file has one thread for writing, so that writers of this process neither race nor starve each other. A
    call that is cancelled or late leaves its thread to finish; a late one first closes its connection to PostgreSQL,
    which may never answer.

    Args:
        url: ``sqlite://``, ``sqlite:///file.db`` or ``postgresql://user:password@host/database``, with libpq options,
            ``prepare_threshold`` (off by default, for poolers) or ``pgbouncer=true``.
        deadline: Seconds that one call may take.
        pool_size: Connections at most.

    Raises:
        InputError: an argument cannot be used.
        MissingExtraError: psycopg is not installed.
    """

    def __init__(self, url: str, *, deadline: float, pool_size: int) -> None:
        if not 0 < deadline < float("inf") or pool_size < 1:
            raise InputError(
                f"The deadline is {deadline} and pool_size {pool_size}",
                where="deadline, pool_size",
                remedy="Pass seconds above 0 and 1 connection or more.",
            )
        self._url = _parse(url)
        self._deadline = deadline
        self._pool_size = pool_size
        self._sqlite = self._url.get_backend_name() == "sqlite"
        self._in_memory = self._sqlite and self._url.database in (None, "", ":memory:")
        self.address = _address(self._url)
        self._opening = threading.Lock()
        self._opened: _Opened | None = None
        self._pid = os.getpid()
        self._open()

    async def run(self, work: Callable[[sa.Connection], T], *, write: bool = False) -> T:
        """Do work in a transaction and return its result.

        Args:
            work: Synchronous code on a connection.
            write: Whether it changes anything.

        Raises:
            MemoryUnavailableError: the database failed, or did not answer within the deadline.
            InputError: this process was forked after the store was made.
        """
        if os.getpid() != self._pid:
            raise forked(self._pid, "the message store")
        connections: list[Any] = []
        try:
            if self._in_memory:
                opened = self._open()
                with opened.lock:
                    return self._work(opened, work, write, connections)
            async with asyncio.timeout(self._deadline):
                return await asyncio.wrap_future(self._submit(work, write, connections))
        except TimeoutError:
            for connection in () if self._sqlite else connections:
                _hang_up(connection)
            raise MemoryUnavailableError(
                f"The message store did not answer within {self._deadline:g} s",
                where=self.address,
                remedy="Check that the database runs and can be reached, then repeat the call.",
            ) from None
        except (SQLAlchemyError, sqlite3.Error, OSError) as error:
            raise MemoryUnavailableError(
                f"The message store failed: {_cause(error)}",
                where=self.address,
                remedy="Check the database, its disk and this process's rights, then repeat the call.",
            ) from error

    async def close(self) -> None:
        """Close the connections, once the calls under way have ended.

        The next call opens new ones; a database in memory stays open.
        """
        if self._in_memory:
            return
        with self._opening:
            opened, self._opened = self._opened, None
        if opened is not None:
            await asyncio.to_thread(opened.close)

    # --- within ------------------------------------------------------------------------------------------

    def _open(self) -> _Opened:
        """Return the engine and the threads of this process; new ones where there are none."""
        with self._opening:
            if self._opened is None:
                engine = _engine(self._url, self._deadline, 0 if self._in_memory else self._pool_size)
                if self._in_memory:
                    weakref.finalize(self, engine.dispose)
                readers = ThreadPoolExecutor(self._pool_size, "jazzmine-messages")
                writers = ThreadPoolExecutor(1, "jazzmine-writes") if self._sqlite else readers
                self._opened = _Opened(engine, readers, writers)
            return self._opened

    def _submit(self, work: Callable[[sa.Connection], T], write: bool, connections: list[Any]) -> Future[T]:
        """Give work to a thread."""
        for _ in range(2):
            opened = self._open()
            threads = opened.writers if write else opened.readers
            # Another thread may close the store just then.
            with contextlib.suppress(RuntimeError):
                return threads.submit(self._work, opened, work, write, connections)
        raise MemoryUnavailableError(
            "The message store has no threads any more",
            where=self.address,
            remedy="Make no calls while the interpreter ends.",
        )

    def _work(
        self, opened: _Opened, work: Callable[[sa.Connection], T], write: bool, connections: list[Any]
    ) -> T:
        if not opened.has_tables:
            has_tables = opened.transaction(
                lambda c: sa.inspect(c).has_table("jazzmine_messages"), False, connections
            )
            if not has_tables:
                opened.transaction(_create_tables, True, connections)
            opened.has_tables = True
        try:
            return opened.transaction(work, write, connections)
        except DBAPIError as error:
            # The server restarted since the connection was last used, or ended a deadlock. Repeating is safe.
            if not error.connection_invalidated and getattr(error.orig, "sqlstate", "") != "40P01":
                raise
            return opened.transaction(work, write, connections)


def _hang_up(connection: Any) -> None:
    """End the wait of the thread that uses a connection of psycopg.

    Closing it here would free its descriptor for the next connection, on which that thread could then wait for ever.
    """
    if not connection.closed:
        with contextlib.suppress(OSError), socket.socket(fileno=os.dup(connection.fileno())) as end:
            end.shutdown(socket.SHUT_RDWR)


def _engine(url: sa.URL, deadline: float, pool_size: int) -> sa.Engine:
    """Create an engine; ``pool_size`` 0 is one connection for all."""
    wait_ms = max(1, int(deadline * _LOCK_SHARE * 1000))
    sqlite = url.get_backend_name() == "sqlite"
    pool: dict[str, Any] = {"poolclass": StaticPool}
    if pool_size:
        size = {"pool_size": pool_size, "max_overflow": 0, "pool_timeout": deadline}
        pool = {"poolclass": QueuePool, "pool_recycle": 1800, **size}
    try:
        arguments = _sqlite_arguments(url) if sqlite else _postgres_arguments(url, max(1, int(deadline)))
        engine = sa.create_engine(
            url.difference_update_query(["pgbouncer"]), connect_args=arguments, hide_parameters=True, **pool
        )
    except ImportError as error:
        raise MissingExtraError(
            "SqlMessageStore needs the package psycopg for PostgreSQL, which is not installed",
            where="jazzmine_dspy.memory.messages",
            remedy="Run: pip install 'jazzmine-dspy[sql]'.",
        ) from error
    except ArgumentError:
        raise _no_option("port", "Give a number, or one for each host.") from None

    def prepare(connection: Any, _: Any) -> None:
        # `begin` below starts the transactions: the driver does so too late, and never for reading.
        connection.isolation_level = None
        # Damage may have left bytes that are no UTF-8; one such text must not break the query for its neighbours.
        connection.text_factory = lambda data: data.decode("utf-8", "surrogateescape")
        connection.execute("PRAGMA foreign_keys = ON")
        # The file may be locked because another process is switching it.
        connection.execute("PRAGMA busy_timeout = 100")
        with contextlib.suppress(sqlite3.OperationalError):
            connection.execute("PRAGMA journal_mode = WAL")
        connection.execute(f"PRAGMA busy_timeout = {wait_ms}")

    def begin(connection: sa.Connection) -> None:
        if sqlite:
            write = connection.get_execution_options().get("jazzmine_write")
            connection.exec_driver_sql("BEGIN IMMEDIATE" if write else "BEGIN")
        else:
            # The server ends what waits too long for a lock.
            connection.exec_driver_sql(f"SET LOCAL statement_timeout = {wait_ms}")

    if sqlite:
        sa.event.listen(engine, "connect", prepare)
    sa.event.listen(engine, "begin", begin)
    return engine


def _sqlite_arguments(url: sa.URL) -> dict[str, Any]:
    """What SQLite is opened with besides the URL."""
    known = _OF_SQLITE_FILES if url.query.get("uri") == "true" else set()
    for name in url.query:
        if name not in known and (name, url.query[name]) != ("uri", "true"):
            raise _no_option(name, "Remove it; those of SQLite's own file names need uri=true.")
    return {"check_same_thread": False}


def _postgres_arguments(url: sa.URL, seconds: int) -> dict[str, Any]:
    """What psycopg is called with besides the URL, whose options count before ours.

    A pooler gives a connection another session of the server for each transaction, which knows no statement that was
    prepared before.
    """
    from psycopg import Error, pq
    from psycopg.conninfo import make_conninfo

    options: dict[str, Any] = {
        "connect_timeout": seconds,
        "keepalives_idle": seconds,
        "tcp_user_timeout": 1000 * seconds,
        "prepare_threshold": None,
    }
    for name, value in url.query.items():
        try:
            if name in _INTEGERS:
                options[name] = int(str(value))
            elif name == "pgbouncer" and value not in ("true", "false"):
                raise ValueError(name)
            elif name not in ("host", "port", "pgbouncer"):
                # With this port libpq reads all options and connects to nothing.
                option: dict[str, Any] = {name: value, "port": "?"}
                connection = pq.PGconn.connect_start(make_conninfo(**option).encode())
                if isinstance(value, tuple) or b'"port"' not in connection.error_message:
                    raise ValueError(name)
        except (ValueError, Error):
            remedy = (
                "Use libpq's options with values that it takes, prepare_threshold=NUMBER or pgbouncer=true."
            )
            raise _no_option(name, remedy) from None
    return options if url.query.get("pgbouncer") != "true" else {**options, "prepare_threshold": None}


def _no_option(name: str, remedy: str) -> InputError:
    return InputError(
        f"The database URL's option {name!r} cannot be used as it is", where="url", remedy=remedy
    )


def _create_tables(connection: sa.Connection) -> None:
    if connection.dialect.name == "postgresql":
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_TABLES_LOCK)))
    METADATA.create_all(connection)


def _parse(url: str) -> sa.URL:
    """Return the URL with the driver that the store uses; errors do not repeat it, as it may hold a password."""
    parsed = None
    with contextlib.suppress(ArgumentError, ValueError):
        parsed = sa.make_url(url)
    if parsed is None or parsed.drivername not in _DRIVERS:
        raise InputError(
            "The message store cannot use this database URL",
            where="url",
            remedy="Use sqlite:///file.db, sqlite:// or postgresql://user:password@host/database.",
        )
    return parsed.set(drivername=_DRIVERS[parsed.drivername])


def _address(url: sa.URL) -> str:
    """Name a database in errors, without user and password.

    Example:
        >>> _address(sa.make_url("postgresql+psycopg://ann:secret@db.example:5433/talks?password=secret"))
        'postgresql db.example:5433/talks'
        >>> _address(sa.make_url("sqlite://"))
        'sqlite in memory'
    """
    if url.get_backend_name() == "sqlite":
        return f"sqlite {url.database or 'in memory'}"
    port = f":{url.port}" if url.port else ""
    return f"postgresql {url.host or url.query.get('host') or 'local socket'}{port}/{url.database or ''}"


def _cause(error: Exception) -> str:
    """Name a failure by class and code: a driver's text may quote values."""
    cause = getattr(error, "orig", None) or error if isinstance(error, DBAPIError) else error
    code = getattr(cause, "sqlstate", None) or getattr(cause, "sqlite_errorname", None)
    return f"{type(cause).__name__} {code}" if code else type(cause).__name__
