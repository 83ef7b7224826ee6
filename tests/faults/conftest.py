"""Servers, the proxy, and worker processes, for tests in which they fail."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Iterator
from types import ModuleType
from typing import Any

import pytest
import pytest_asyncio

import redis_servers
import turn_worker
import worker_processes
from fault_proxy import Proxy


@pytest.fixture(scope="session")
def servers() -> ModuleType:
    if not redis_servers.binaries():
        pytest.skip("no Redis or Valkey here; the extra `dev` installs some")
    return redis_servers


@pytest.fixture(scope="session")
def processes() -> ModuleType:
    return worker_processes


@pytest.fixture(scope="session")
def worker() -> ModuleType:
    return turn_worker


@pytest.fixture(scope="session")
def server(servers: Any) -> Iterator[Any]:
    """One server for all tests that do it no harm."""
    with servers.server() as one:
        yield one


@pytest.fixture
def prefix() -> str:
    """Keys of this test."""
    return f"faults-{uuid.uuid4().hex[:8]}"


@pytest_asyncio.fixture
async def proxy(server: Any) -> AsyncIterator[Any]:
    """Between this test and the server."""
    async with Proxy(server.port) as one:
        yield one
