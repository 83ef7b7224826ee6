"""Bad input, and a Redis that is down: exit code 2, a clear message, and nothing changed."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

pytestmark = pytest.mark.row("W19")


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (["show", ""], "0 characters"),
        (["show", "--quarantined", "x" * 1001], "1,001 characters"),
        (["show", "c1", "--prefix", "{}"], "cannot be a prefix"),
        (["show", "c1", "--records", "soni"], "--records"),
        (["show", "{c1}", "--records", "jazzmine"], "without braces"),
    ],
)
def test_bad_input_is_refused(run: Any, url: str, args: list[str], told: str) -> None:
    refused = run("memory", *args, "--redis", url)
    assert refused.code == 2
    assert told in refused.err


@pytest.mark.parametrize("options", [[], ["--quarantined"]])
def test_redis_down_is_told_without_the_password(
    run: Any, options: list[str], free_address: str, monkeypatch: Any
) -> None:
    monkeypatch.setenv("JAZZMINE_REDIS_URL", f"redis://ann:hush-hush@{free_address}/0")
    down = run("memory", "show", "c1", *options, "--json")
    assert down.code == 2
    assert down.json["error"]["type"] == "MemoryUnavailableError"
    assert free_address in down.json["error"]["where"]
    assert "hush" not in down.out + down.err


@pytest.mark.row("A5")
def test_the_command_line_starts_without_the_client_of_redis() -> None:
    code = (
        "import sys; from jazzmine_dspy.cli import app; assert not {'redis', 'pydantic'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
