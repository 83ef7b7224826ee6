"""Run as a process of its own: trains, saves, serves and evaluates with two deciders of another package.

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

POLICIES: dict[str, Any] = {
    "gazetteer": (("local", 1.0), ("gazetteer", None)),
    "lookup": (("lookup", 0.5), ("local", None)),
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


def make(name: str) -> None:
    """A program with one of the deciders, trained on the dataset where it can be."""
    from jazzmine_dspy import TurnProgram, save
    from jazzmine_dspy.artifacts import bind_recall
    from jazzmine_dspy.datasets import load_dataset
    from jazzmine_dspy.program.decider import DECIDERS, DecidedTurn
    from jazzmine_dspy.program.policy import Policy

    dataset = load_dataset(Path("shop"))
    program = TurnProgram(dataset.flows, policy=Policy(deciders=POLICIES[name]))
    bind_recall(program, "minilm")
    train = getattr(DECIDERS[name], "train", None)
    if train is not None:
        turns = dataset.examples("train")
        seen = [DecidedTurn(program.read(each.turn), each.labels, each.conversation_id) for each in turns]
        program.bind(deciders={name: train(seen, 0)})
    save(program, Path(name), name=name)


def walk(name: str) -> dict[str, Any]:
    """Everything with one decider."""
    make(name)
    decided = command("decide", name, "--text", "clean my windows at the old mill please", "--json")
    scores = command("evaluate", name, "shop", "--split", "test", "--json")

    from jazzmine_dspy import load

    program = load(name)
    return {
        "deciders": program.policy.names,
        "learnt": Path(name, "deciders.safetensors").is_file(),
        "fingerprint": [program.fingerprint, load(name).fingerprint],
        "commands": decided["commands"],
        "record": decided["stages"]["understand"],
        "talk": asyncio.run(talk(name)),
        "scores": scores["metrics"],
        "sources": scores["sources"]["understand"],
    }


def broken() -> str:
    """What a policy says that names a decider whose package cannot be loaded."""
    from jazzmine_dspy import FlowRegistry, TurnProgram
    from jazzmine_dspy.models.errors import JazzmineError
    from jazzmine_dspy.program.policy import Policy

    try:
        program = TurnProgram(FlowRegistry(), policy=Policy(deciders=(("broken", None),)))
        return program.fingerprint
    except JazzmineError as error:
        return str(error)


def main(how: str) -> None:
    """Both deciders, in the working folder, which holds the dataset in ``shop``."""
    if how == "decorators":
        for name in ("extension.gazetteer", "extension.lookup"):
            importlib.import_module(name)
    print(json.dumps({"how": how, "broken": broken(), **{name: walk(name) for name in POLICIES}}))


if __name__ == "__main__":
    main(sys.argv[1])
