"""What MLflow's server answers is named by its code; what it says is not shown."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mlflow")

from jazzmine_dspy import load
from jazzmine_dspy.models.errors import ArtifactError, RecipeError
from jazzmine_dspy.optimize.tracking import Tracker

SECRET = "ann@example.org with sk-live-0123"


class Refusing:
    """A server on loopback that answers every request with one error.

    Args:
        status: Of the answer.
        code: MLflow's; None for a page of a proxy.
    """

    def __init__(self, status: int, code: str | None) -> None:
        answer = json.dumps({"error_code": code, "message": SECRET}) if code else f"<html>{SECRET}</html>"

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.rfile.read(int(self.headers.get("content-length") or 0))
                self.send_response(status)
                self.send_header("content-type", "application/json" if code else "text/html")
                self.send_header("content-length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer.encode())

            do_POST = do_GET  # noqa: N815 - the server looks for this name

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.uri = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(
            target=self.server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
        ).start()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture(autouse=True)
def _once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")


@pytest.fixture(
    params=[(404, "RESOURCE_DOES_NOT_EXIST"), (403, "PERMISSION_DENIED"), (400, "INVALID_PARAMETER_VALUE")]
)
def refusing(request: pytest.FixtureRequest) -> Iterator[tuple[str, str]]:
    server = Refusing(*request.param)
    yield server.uri, request.param[1]
    server.close()


@pytest.mark.row("O7", "A6")
def test_a_cause_names_the_code_of_mlflow(
    refusing: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    uri, code = refusing
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    with pytest.raises(ArtifactError) as told:
        load("models:/support@champion")
    assert told.value.message == f"MLflow returned no program: RestException: {code}"
    assert "example" not in str(told.value)
    if code != "RESOURCE_DOES_NOT_EXIST":  # then there is no experiment yet, and one is made
        with pytest.raises(RecipeError) as refused:
            Tracker(uri, tmp_path, "support")
        assert refused.value.message == f"MLflow's store cannot be used: RestException: {code}"


@pytest.mark.row("O7")
def test_a_page_of_a_proxy_and_a_server_that_is_gone_are_told(tmp_path: Path) -> None:
    server = Refusing(502, None)
    for message in (
        "MLflow's store cannot be used: MlflowException",
        "ConnectionError: the connection failed",
    ):
        with pytest.raises(RecipeError) as told:
            Tracker(server.uri, tmp_path, "support")
        assert message in told.value.message
        assert "example" not in str(told.value)
        server.close()
