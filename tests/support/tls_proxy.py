"""A proxy that speaks TLS with clients, with a certificate of its own authority, and plainly with a server."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import trustme


@contextlib.asynccontextmanager
async def tls_proxy(target: int, folder: Path, host: str = "127.0.0.1") -> AsyncIterator[tuple[int, Path]]:
    """Its port on this machine, and the file with the certificate of its authority.

    Args:
        target: Port of the server.
        folder: Where the file goes.
        host: The host that its certificate names.
    """
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(folder / "authority.pem"))
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert(host).configure_cert(context)
    tasks: set[asyncio.Task[None]] = set()

    async def passed_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.CancelledError):
            while chunk := await reader.read(1 << 16):
                writer.write(chunk)
        writer.close()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        answers, server = await asyncio.open_connection("127.0.0.1", target)
        for ends in ((reader, server), (answers, writer)):
            tasks.add(asyncio.create_task(passed_on(*ends)))

    listener = await asyncio.start_server(accept, "127.0.0.1", 0, ssl=context)
    try:
        yield listener.sockets[0].getsockname()[1], folder / "authority.pem"
    finally:
        listener.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks)
