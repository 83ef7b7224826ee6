"""Compiles, serves, evaluates and reports with deciders of another package, in the process of ``walk.py``."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

NAMES = ("gazetteer", "lookup")
RECIPE = """
dataset = "shop"
lm = "none"
head = false
acts = false
recall = false
replay = false
tracking = "none"
"""


def command(*words: str) -> Any:
    """Call the command line; fails on any exit code but 0."""
    from jazzmine_dspy.cli import app

    done = CliRunner().invoke(app, list(words))
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


async def talk(made: str) -> dict[str, Any]:
    """One turn of a conversation with the compiled program."""
    from jazzmine_dspy import Runtime, load

    runtime = Runtime(load(made), agent_id="shop")
    said = await runtime.process(conversation_id="c", user_id="u", text="mend my boiler at the town hall now")
    return {"next": said.next.kind, "values": said.state.active_flow.values}


def walk(made: str) -> dict[str, Any]:
    """Everything with a recipe that names a decider."""
    Path(f"{made}.toml").write_text(f'name = "{made}"\n{RECIPE}deciders = ["{made}"]\n', "utf-8")
    run = command("optimize", f"{made}.toml", "--out", made, "--json")
    decided = command("decide", made, "--text", "clean my windows at the old mill please", "--json")
    scores = command("evaluate", made, "shop", "--split", "test", "--json")

    from jazzmine_dspy import load

    program = load(made)
    manifest = json.loads(Path(made, "manifest.json").read_text("utf-8"))
    return {
        "shipped": manifest["shipped"],
        "files": sorted(manifest["files"]),
        "names": program.policy.names,
        "bound": {name: type(one).__name__ for name, one in program.bindings.deciders.items()},
        "fingerprint": [program.fingerprint, load(made).fingerprint],
        "commands": decided["commands"],
        "record": decided["stages"]["understand"],
        "talk": asyncio.run(talk(made)),
        "scores": scores["metrics"],
        "sources": scores["sources"]["understand"],
        "run": run,
        "report": Path(made, "report", "report.md").read_text("utf-8"),
        "page": Path(made, "report", "report.html").read_text("utf-8"),
    }
