"""Run as a process of its own: imports tables, compiles, decides, serves and evaluates with what a package adds.

The argument ``decorators`` imports the package's files first; ``installed`` leaves it to the entry points. The last
line that is printed is a JSON document of what came out.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import sys
from pathlib import Path
from typing import Any

import walk_deciders
from typer.testing import CliRunner


def command(*words: str) -> Any:
    """Call the command line; fails on any exit code but 0."""
    from jazzmine_dspy.cli import app

    done = CliRunner().invoke(app, list(words))
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout) if "--json" in words else done.stdout


async def talk() -> list[dict[str, Any]]:
    """Two turns of a conversation with the compiled program: a task, then the value that it asks for."""
    from jazzmine_dspy import Runtime, load

    runtime = Runtime(load("made"), agent_id="shop")
    said = [
        await runtime.process(conversation_id="c", user_id="u", text=text)
        for text in ("mend my boiler", "sw1a1aa")
    ]
    return [
        {"next": one.next.kind, "slot": one.next.slot, "values": one.state.active_flow.values} for one in said
    ]


def walk() -> dict[str, Any]:
    """Everything with the slot type."""
    parts = [f"--split={name}=source/{name}.csv" for name in ("train", "dev", "test")]
    report = command(
        "datasets", "import", "csv", *parts, "--flows", "source/flows.yaml", "--out", "jobs", "--json"
    )
    command("datasets", "check", "jobs")
    recipe = 'name = "jobs"\ndataset = "jobs"\nlm = "none"\nhead = false\ntracking = "none"\n'
    Path("jobs.toml").write_text(recipe, "utf-8")
    command("optimize", "jobs.toml", "--out", "made")
    decided = command("decide", "made", "--text", "mend my boiler at m11ae please", "--json")
    scores = command("evaluate", "made", "jobs", "--split", "test", "--json")

    from jazzmine_dspy import load
    from jazzmine_dspy.dialogue.flows import refusal

    slot = load("made").registry["mend_boiler"].slots[0]
    return {
        "imported": (report["conversations"], report["left_out"]),
        "commands": decided["commands"],
        "talk": asyncio.run(talk()),
        "scores": scores["metrics"],
        "refused": refusal(slot, "the moon"),
        "flows": Path("made/flows.yaml").read_text("utf-8"),
    }


def main(how: str) -> None:
    """All, in the working folder, which holds the source in ``source`` and the dataset in ``shop``."""
    if how == "decorators":
        for name in ("postcode", "gazetteer", "lookup"):
            importlib.import_module(f"extension.{name}")
    print(
        json.dumps(
            {"files": walk(), "deciders": {name: walk_deciders.walk(name) for name in walk_deciders.NAMES}}
        )
    )


if __name__ == "__main__":
    main(sys.argv[1])
