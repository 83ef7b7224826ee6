"""Run as a process of its own: compiles, serves, evaluates and reports with a source and a head of another package.

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

from typer.testing import CliRunner

RECIPE = 'dataset = "shop"\nlm = "none"\nhead = false\nrecall = false\ntracking = "none"\n'
RECIPES = {
    "source": '[orders]\nunderstand = ["rule", "gazetteer", "floor"]\n',
    "head": '[heads]\nunderstand = "lookup"\n',
}


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
    """Everything with one recipe."""
    Path(f"{made}.toml").write_text(f'name = "{made}"\n{RECIPE}{RECIPES[made]}', "utf-8")
    run = command("optimize", f"{made}.toml", "--out", made, "--json")
    decided = command("decide", made, "--text", "clean my windows at the old mill please", "--json")
    scores = command("evaluate", made, "shop", "--split", "test", "--json")

    from jazzmine_dspy import load

    program = load(made)
    return {
        "shipped": json.loads(Path(made, "manifest.json").read_text("utf-8"))["shipped"],
        "order": program.policy.orders["understand"],
        "heads": {stage: type(head).__name__ for stage, head in program.bindings.heads.items()},
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


def main(how: str) -> None:
    """Both recipes, in the working folder, which holds the dataset in ``shop``."""
    if how == "decorators":
        for name in ("extension.gazetteer", "extension.lookup"):
            importlib.import_module(name)
    print(json.dumps({made: walk(made) for made in RECIPES}))


if __name__ == "__main__":
    main(sys.argv[1])
