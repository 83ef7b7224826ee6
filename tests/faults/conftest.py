"""Servers, the proxy, and worker processes, for tests in which they fail."""

from __future__ import annotations

import importlib.util
import sys
import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import pytest_asyncio


def _load(name: str) -> ModuleType:
    full = f"jazzmine_tests_{name}"
    if full not in sys.modules:
        spec = importlib.util.spec_from_file_location(full, Path(__file__).with_name(f"{name}.py"))
        assert spec is not None
        assert spec.loader is not None
        module = sys.modules[full] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    return sys.modules[full]


@pytest.fixture(scope="session")
def servers() -> ModuleType:
    found = _load("servers")
    if not found.binaries():
        pytest.skip("no Redis or Valkey here; the extra `dev` installs some")
    return found


@pytest.fixture(scope="session")
def processes() -> ModuleType:
    return _load("processes")


@pytest.fixture(scope="session")
def worker() -> ModuleType:
    return _load("worker")


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
    async with _load("proxy").Proxy(server.port) as one:
        yield one
