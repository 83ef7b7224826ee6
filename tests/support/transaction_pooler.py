"""A pooler of PostgreSQL connections in transaction mode: a client has a session of the server for one transaction.

It speaks the protocol of version 3 as far as this needs, and hands the sessions out in turn, so that a client seldom
has the same one twice in a row. What a session was told outside of a transaction, such as a prepared statement, stays
in it, as behind pgbouncer.
"""

from __future__ import annotations

import asyncio
import contextlib
import struct
from collections import deque
from pathlib import Path

SSL_REQUEST, CANCEL_REQUEST = 80877103, 80877102
QUERY, SYNC, TERMINATE, READY = b"Q", b"S", b"X", b"Z"


class TransactionPooler:
    """Listens on a port of this machine.

    Args:
        folder: Of the server's socket.
        sessions: Of the server, which all clients share.
    """

    def __init__(self, folder: Path, sessions: int = 2) -> None:
        self._socket = folder / ".s.PGSQL.5432"
        self._count = sessions
        self._idle: deque[_Session] = deque()
        self._freed = asyncio.Condition()
        self._connecting = asyncio.Lock()
        self._greeting = b""
        self._clients: set[asyncio.Task[None]] = set()
        self.transactions = 0

    async def __aenter__(self) -> TransactionPooler:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *exc: object) -> None:
        self._server.close()
        for client in list(self._clients):
            client.cancel()
        await asyncio.gather(*self._clients, return_exceptions=True)
        for session in self._idle:
            session.writer.close()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._clients.add(task)
        with contextlib.suppress(OSError, EOFError, asyncio.CancelledError):
            await self._serve(reader, writer)
        self._clients.discard(task)
        writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        startup, code = b"", SSL_REQUEST
        while code == SSL_REQUEST:
            startup = await _without_type(reader)
            code = struct.unpack_from("!I", startup, 4)[0]
            if code == SSL_REQUEST:
                writer.write(b"N")
        if code == CANCEL_REQUEST:
            return
        await self._connected(startup)
        writer.write(self._greeting)
        session: _Session | None = None
        try:
            while True:
                kind, message = await _message(reader)
                if kind == TERMINATE:
                    return
                session = session or await self._taken()
                session.writer.write(message)
                # The answer to what came before is complete, and no transaction is open, after this message.
                if kind in (QUERY, SYNC) and await session.answered(writer):
                    await self._free(session)
                    session = None
        finally:
            if session is not None:
                # A client that is gone leaves its transaction; the server ends it with the session.
                session.writer.close()
                self._count += 1
                await self._connected(startup)

    async def _connected(self, startup: bytes) -> None:
        """Open the sessions, as the first client asks for them."""
        async with self._connecting:
            while self._count:
                session = _Session(*await asyncio.open_unix_connection(str(self._socket)))
                session.writer.write(startup)
                self._greeting = await session.greeting()
                await self._free(session)
                self._count -= 1

    async def _taken(self) -> _Session:
        async with self._freed:
            await self._freed.wait_for(lambda: self._idle)
            self.transactions += 1
            return self._idle.popleft()

    async def _free(self, session: _Session) -> None:
        async with self._freed:
            self._idle.append(session)
            self._freed.notify()


class _Session:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def greeting(self) -> bytes:
        """What the server says to a client that it lets in."""
        said = b""
        while True:
            kind, message = await _message(self.reader)
            said += message
            if kind == READY:
                return said

    async def answered(self, client: asyncio.StreamWriter) -> bool:
        """Pass on an answer; whether no transaction is open after it."""
        while True:
            kind, message = await _message(self.reader)
            client.write(message)
            if kind == READY:
                await client.drain()
                return message.endswith(b"I")


async def _without_type(reader: asyncio.StreamReader) -> bytes:
    length = await reader.readexactly(4)
    return length + await reader.readexactly(struct.unpack("!I", length)[0] - 4)


async def _message(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    kind = await reader.readexactly(1)
    return kind, kind + await _without_type(reader)
