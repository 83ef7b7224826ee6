"""`datasets export`, and `datasets import candidates` behind it."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from jazzmine_dspy import Runtime, TurnProgram
from jazzmine_dspy.memory.messages import SqlMessageStore
from jazzmine_dspy.models import FlowRegistry

FLOWS = Path(__file__).resolve().parents[2] / "jazzmine_dspy" / "cli" / "_starter" / "flows.yaml"


@pytest.fixture
def url(tmp_path: Path) -> str:
    """A database in which two conversations were had."""
    address = f"sqlite:///{tmp_path}/talks.db"

    async def talk() -> None:
        store = SqlMessageStore(address)
        program = TurnProgram(FlowRegistry.from_yaml(FLOWS)).with_policy("fallback")
        runtime = Runtime(program, agent_id="shop", messages=store, clock=lambda: 1_700_000_000.0)
        for name, text in (("c1", "I want to hire a bike"), ("c1", "write to ada@web.de"), ("c2", "umm")):
            await runtime.process(conversation_id=name, user_id="u1", text=text)
        await store.close()

    asyncio.run(talk())
    return address


@pytest.mark.row("D6")
def test_from_a_database_to_a_dataset(url: str, run: Any) -> None:
    where = ("datasets", "export", url, "--flows", FLOWS, "--agent", "shop", "--out", "out")
    done = run(*where, "--json")
    assert done.code == 0, done.err
    assert (done.json["conversations"], done.json["turns"]) == (2, 3)
    assert done.json["replaced"] == {"EMAIL_ADDRESS": 1}
    path = Path("out/candidates.jsonl")
    lines = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    assert "ada@web.de" not in path.read_text("utf-8")
    for line in lines:
        del line["turns"][0]["x-guess"]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    made = run("datasets", "import", "candidates", "out", "--out", "made", "--json")
    assert made.code == 0, made.err
    assert (made.json["turns"], made.json["labelled_turns"]) == (3, 2)
    assert run("datasets", "check", "made").code == 0
    again = run(*where)
    assert again.code == 2
    assert "already has candidates" in again.err


@pytest.mark.row("D6")
@pytest.mark.parametrize(
    ("options", "told"),
    [
        ((), "name --agent, --user or --conversation"),
        (("--agent", "nobody"), "has a message of a user"),
        (("--agent", "shop", "--no-redact", "--redact-slot", "name"), "needs redaction"),
    ],
)
def test_what_cannot_be_exported_is_told(options: tuple[str, ...], told: str, url: str, run: Any) -> None:
    done = run("datasets", "export", url, "--flows", FLOWS, "--out", "out", *options)
    assert done.code == 2
    assert told in done.err
    assert not Path("out").exists()


@pytest.mark.row("D6", "G4")
def test_an_export_as_it_was_said_says_so(url: str, run: Any) -> None:
    done = run("datasets", "export", url, "--flows", FLOWS, "--user", "u1", "--out", "out", "--no-redact")
    assert done.code == 0
    assert "nothing was redacted" in done.err
    assert "ada@web.de" in Path("out/candidates.jsonl").read_text("utf-8")
