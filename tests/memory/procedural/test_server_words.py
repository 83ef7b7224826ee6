"""What a server of Qdrant answers is told by its status: its words may quote the request."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from qdrant_client.http.exceptions import UnexpectedResponse

from jazzmine_dspy.memory.procedural._server import ServerEngine
from jazzmine_dspy.models.errors import MemoryUnavailableError


@pytest.mark.parametrize("status", [403, 422, 500, 507])
def test_what_a_server_quotes_is_not_repeated(monkeypatch: pytest.MonkeyPatch, status: int) -> None:
    engine = ServerEngine("http://127.0.0.1:1", retries=0)

    def refuse(*_: Any, **__: Any) -> Any:
        raise UnexpectedResponse(status, "", b"No space left for: my pin 9876", httpx.Headers())

    monkeypatch.setattr(engine._calls.client, "get_collections", refuse)
    with pytest.raises(MemoryUnavailableError) as told:
        engine.collections()
    assert "9876" not in str(told.value)
    assert status == 403 or str(status) in str(told.value)
    engine.close()
