"""Runs work on a database within a deadline, on an engine for each event loop."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import sqlite3
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine
from sqlalchemy.pool import AsyncAdaptedQueuePool

from jazzmine_dspy.memory.messages import _schema
from jazzmine_dspy.memory.messages._failures import may_try_again, too_slow, unavailable
from jazzmine_dspy.memory.messages._url import parse, place
from jazzmine_dspy.models.errors import InputError

T = TypeVar("T")

_TRIES = 10


class _GivenUpError(Exception):
    """Nobody waits for the work any more."""


@dataclass
class _Attempt:
    """A piece of work under way, and how to end it."""

    given_up: bool = False
    committing: bool = False
    waiting: bool = True
    driver: Any = None

    def give_up(self, task: asyncio.Task[Any]) -> None:
        """See that the work ends soon, and that it does not commit unless it already does."""
        self.given_up = True
        if self.waiting:
            task.cancel()
        elif hasattr(self.driver, "pgconn"):
            # Cancelling would ask the server to cancel, and wait for it; it may well be the server that hangs.
            _cut(self.driver.pgconn)


def _cut(pgconn: Any) -> None:
    with contextlib.suppress(OSError, ValueError, *_pq_errors()):
        line = socket.socket(fileno=pgconn.socket)
        try:
            line.shutdown(socket.SHUT_RDWR)
        finally:
            line.detach()


def _pq_errors() -> tuple[type[Exception], ...]:
    import psycopg

    return (psycopg.Error,)


@dataclass
class _Running:
    """What belongs to one event loop."""

    engine: AsyncEngine
    loop: asyncio.AbstractEventLoop
    current: bool = False
    checking: asyncio.Lock = field(default_factory=asyncio.Lock)
    writing: asyncio.Lock | None = None
    tasks: set[asyncio.Task[Any]] = field(default_factory=set)


class Database:
    """A database by URL; connections are made when first needed.

    Each event loop gets connections of its own; those of a loop that was closed are let go.

    Args:
        url: See :func:`jazzmine_dspy.memory.messages._url.parse`.
        deadline: Seconds that one piece of work may take.
        pool_size: Connections held open at most, in each event loop.

    Raises:
        InputError: the URL or the deadline cannot be used.
        ModuleNotFoundError: the driver is not installed.
    """

    def __init__(self, url: str, *, deadline: float, pool_size: int) -> None:
        if not 0 < deadline < float("inf"):
            raise InputError(f"The deadline is {deadline}", where="deadline", remedy="Give it in seconds.")
        if pool_size < 1:
            raise InputError(f"pool_size is {pool_size}", where="pool_size", remedy="Give 1 or more.")
        self._url = parse(url)
        self._deadline = deadline
        self._pool_size = pool_size
        self.place = place(self._url)
        self.is_sqlite = self._url.get_backend_name() == "sqlite"
        self._in_memory = self.is_sqlite and not self._url.database
        self._running: dict[int, _Running] = {}
        self._guard = threading.Lock()
        # Raises here rather than at the first call where a driver is missing.
        self._engine()

    # --- engines -----------------------------------------------------------------------------------------

    def _engine(self) -> AsyncEngine:
        # Of a deadline, the largest part may pass waiting for a lock; the rest is for saying so.
        patience = self._deadline * 0.8
        options: dict[str, Any] = {
            "poolclass": AsyncAdaptedQueuePool,
            "pool_size": 1 if self._in_memory else self._pool_size,
            "max_overflow": 0,
            "pool_timeout": self._deadline,
            "hide_parameters": True,
        }
        if self.is_sqlite:
            settings = {"timeout": patience, "async_creator_fn": _open_sqlite}
            engine = create_async_engine(self._url, connect_args=settings, **options)
            sa.event.listen(engine.sync_engine, "connect", partial(_prepare_sqlite, patience))
            sa.event.listen(engine.sync_engine, "begin", _begin_sqlite)
        else:
            engine = create_async_engine(self._url, pool_recycle=1800, **options)
            sa.event.listen(engine.sync_engine, "connect", partial(_prepare_postgresql, patience))
        return engine

    def _here(self) -> _Running:
        loop = asyncio.get_running_loop()
        with self._guard:
            running = self._running.get(id(loop))
            if running is not None and running.loop is loop:
                return running
            for key, other in list(self._running.items()):
                if other.loop.is_closed():
                    del self._running[key]
                    other.engine.sync_engine.dispose(close=False)
            if self._in_memory and self._running:
                raise InputError(
                    "A database in memory belongs to the event loop that first used it",
                    where=self.place,
                    remedy="Make a store for each event loop, or use a file.",
                )
            # Within the process writers queue here: fairer, and sooner on than SQLite's own waiting.
            writing = asyncio.Lock() if self.is_sqlite else None
            made = _Running(self._engine(), loop, writing=writing)
            self._running[id(loop)] = made
            return made

    async def close(self) -> None:
        """Close this event loop's connections, after the work still under way."""
        with self._guard:
            running = self._running.pop(id(asyncio.get_running_loop()), None)
        if running is None:
            return
        if running.tasks:
            await asyncio.wait(running.tasks, timeout=self._deadline)
        await running.engine.dispose()

    # --- work --------------------------------------------------------------------------------------------

    async def run(self, work: Callable[[sa.Connection], T], *, write: bool = False) -> T:
        """Do work in a transaction and return what it returns.

        Args:
            work: Plain code on a connection. It may be run again where the connection turns out to be lost.
            write: Whether it changes anything.

        Raises:
            MemoryUnavailableError: the database failed, or did not answer within the deadline.
        """
        done: T = await self._within(self._deadline, partial(self._checked, work, write))
        return done

    async def migrate(self, *, deadline: float) -> None:
        """Make the tables, which the first work does too, with more time for it."""
        await self._within(deadline, partial(self._ensure, patience=deadline))

    async def _within(self, deadline: float, work: Callable[[_Running, _Attempt], Any]) -> Any:
        running, attempt = self._here(), _Attempt()
        task = asyncio.create_task(self._told(work(running, attempt)))
        running.tasks.add(task)
        task.add_done_callback(partial(_forget, running.tasks))
        try:
            done, _ = await asyncio.wait({task}, timeout=deadline)
        except BaseException:
            attempt.give_up(task)
            raise
        if not done:
            attempt.give_up(task)
            raise too_slow(deadline, self.place)
        return task.result()

    async def _told(self, work: Any) -> Any:
        try:
            return await work
        except (SQLAlchemyError, OSError) as error:
            raise unavailable(error, self.place) from error

    async def _checked(
        self, work: Callable[[sa.Connection], T], write: bool, running: _Running, attempt: _Attempt
    ) -> T:
        if not running.current:
            await self._ensure(running, attempt)
        return await self._transact(work, write, running, attempt)

    async def _transact(
        self, work: Callable[[sa.Connection], T], write: bool, running: _Running, attempt: _Attempt
    ) -> T:
        lock: Any = running.writing if write and running.writing else contextlib.nullcontext()
        for left in reversed(range(_TRIES)):
            attempt.waiting = True
            try:
                async with lock, running.engine.connect() as connection:
                    if write:
                        await connection.execution_options(jazzmine_write=True)
                    return await connection.run_sync(partial(_transaction, work, attempt))
            except DBAPIError as error:
                lost = error.connection_invalidated and not attempt.committing
                if not left or attempt.given_up or not (lost or may_try_again(error)):
                    raise
        raise AssertionError("unreachable")

    async def _ensure(self, running: _Running, attempt: _Attempt, patience: float | None = None) -> None:
        async with running.checking:
            if running.current:
                return

            def current(connection: sa.Connection) -> bool:
                return _schema.is_current(connection, self.place)

            def create(connection: sa.Connection) -> None:
                if patience is not None and not self.is_sqlite:
                    connection.exec_driver_sql(f"SET LOCAL statement_timeout = {int(patience * 1000)}")
                _schema.create(connection, self.place)

            if not await self._transact(current, False, running, attempt):
                await self._transact(create, True, running, attempt)
            running.current = True


def _forget(tasks: set[asyncio.Task[Any]], task: asyncio.Task[Any]) -> None:
    tasks.discard(task)
    if not task.cancelled():
        # Work that was given up on fails with nobody to tell; unasked, asyncio would complain.
        task.exception()


def _transaction(work: Callable[[sa.Connection], T], attempt: _Attempt, connection: sa.Connection) -> T:
    attempt.driver = connection.connection.driver_connection
    attempt.waiting = False
    with connection.begin() as transaction:
        result = work(connection)
        if attempt.given_up:
            raise _GivenUpError
        attempt.committing = True
        transaction.commit()
    attempt.committing = False
    return result


# --- what connections need -------------------------------------------------------------------------------------


async def _open_sqlite(*place: Any, **settings: Any) -> Any:
    """A connection of aiosqlite. If it fails, its thread has ended before the error is raised.

    The thread reports its end to the event loop; were the loop closed by then, Python would print a traceback.
    """
    import aiosqlite

    connection = aiosqlite.connect(*place, **settings)
    thread: Any = getattr(connection, "_thread", connection)  # before aiosqlite 0.22 it was the thread
    thread.daemon = True
    try:
        return await connection
    except BaseException:
        while thread.is_alive():  # noqa: ASYNC110 - a thread has no event to wait for
            await asyncio.sleep(0.001)
        raise


def _prepare_sqlite(patience: float, connection: Any, _: Any) -> None:
    # Transactions are begun by the listener below: the driver itself begins too late, and never for reading.
    connection.isolation_level = None
    # Damage may have left no UTF-8; one such text must not hide the rows around it.
    connection.driver_connection.text_factory = partial(str, encoding="utf-8", errors="surrogateescape")
    cursor = connection.cursor()
    cursor.execute("PRAGMA foreign_keys = ON")
    # Where the file is locked, another process is switching it, or the next connection will.
    cursor.execute("PRAGMA busy_timeout = 100")
    with contextlib.suppress(sqlite3.OperationalError):
        cursor.execute("PRAGMA journal_mode = WAL")
    cursor.execute(f"PRAGMA busy_timeout = {int(patience * 1000)}")
    cursor.close()


def _begin_sqlite(connection: sa.Connection) -> None:
    write = connection.get_execution_options().get("jazzmine_write")
    connection.exec_driver_sql("BEGIN IMMEDIATE" if write else "BEGIN")


def _prepare_postgresql(patience: float, connection: Any, _: Any) -> None:
    # The server gives up too, so that work given up here does not hold locks there.
    cursor = connection.cursor()
    cursor.execute(f"SET statement_timeout = {max(1, int(patience * 1000))}")
    cursor.close()
    connection.commit()
