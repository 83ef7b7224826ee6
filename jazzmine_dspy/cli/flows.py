"""``flows check`` and ``flows sync``."""

from __future__ import annotations

import asyncio
import os
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from jazzmine_dspy.cli._output import CHECK_FAILED, AsJson, count, output

if TYPE_CHECKING:
    from jazzmine_dspy.memory.procedural import SyncReport

app = typer.Typer(no_args_is_help=True, help="Check flow definitions, and store them for recall.")
_KEY = "QDRANT_API_KEY"


class Layouts(StrEnum):
    """How flows are laid out in memory."""

    EXAMPLES = "examples"
    JAZZMINE = "jazzmine"


@app.command("check")
def check(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="YAML file of flows, or a folder with flows.yaml.")
    ],
    _json: AsJson = False,
) -> None:
    """Check a file of flows: its form, its texts, and what would make flows hard to tell apart.

    Exit code 2: a flow is malformed, or a text names what the flow does not have. 1: two flows have the same example.
    Warnings alone: 0.
    """
    from jazzmine_dspy.cli._flow_problems import flow_problems, misrouted
    from jazzmine_dspy.models.registry import FlowRegistry

    path = file / "flows.yaml" if file.is_dir() else file
    registry = FlowRegistry.from_yaml(path)
    routed, run, texts = misrouted(registry)
    problems = [*flow_problems(registry), *routed]
    errors = sum(problem.severity == "error" for problem in problems)
    left_out = f"; {texts - run} were not run" if run < texts else ""
    output().show(
        *(f"{one.severity}: {path}, {one.field}\n  {one.message}. {one.remedy}" for one in problems),
        *([f"language models read: {registry.about}"] if registry.about else []),
        f"select another flow: {len(routed)} of {run} examples and keywords{left_out}",
        f"{count(len(registry), 'flow')}, {count(errors, 'error')}, {count(len(problems) - errors, 'warning')}",
        document={
            "ok": not errors,
            "path": str(path),
            "about": registry.about,
            "flows": list(registry),
            "slots": sum(len(flow.slots) for flow in registry.values()),
            "checksum": registry.checksum,
            "texts": {"all": texts, "run": run},
            "problems": [{**problem._asdict(), "file": str(path)} for problem in problems],
        },
    )
    if errors:
        raise typer.Exit(CHECK_FAILED)


@app.command("sync")
def sync(
    file: Annotated[
        Path, typer.Argument(metavar="FILE|DIR", help="YAML file of flows, a folder with one, or a program.")
    ],
    memory: Annotated[str, typer.Option("--memory", metavar="URL", help="URL of the Qdrant server.")],
    agent: Annotated[str, typer.Option("--agent", metavar="ID", help="Agent that the flows belong to.")] = "",
    layout: Annotated[
        Layouts, typer.Option("--layout", help="Only our own collection, or also jazzmine's.")
    ] = Layouts.EXAMPLES,
    prefix: Annotated[str, typer.Option("--prefix", help="Prefix of the collections' names.")] = "jazzmine",
    api_key_env: Annotated[
        str, typer.Option("--api-key-env", metavar="NAME", help="Environment variable with the API key.")
    ] = _KEY,
    ca: Annotated[
        Path | None,
        typer.Option("--ca", metavar="FILE", help="PEM file of certificate authorities for https."),
    ] = None,
    timeout: Annotated[
        float,
        typer.Option(
            "--timeout",
            metavar="S",
            help="Seconds that a search may take, with all retries; a write or a listing may take "
            "ten times as long.",
        ),
    ] = 30.0,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the changes without making them.")
    ] = False,
    _json: AsJson = False,
) -> None:
    """Store exactly these flows in an agent's procedural memory.

    For a program's folder, its labelled examples (examples.jsonl) are stored too. A repeated sync skips
    unchanged flows. The API key is read from the environment, never from the command line.
    """
    from jazzmine_dspy.artifacts.loading import read_examples
    from jazzmine_dspy.memory.procedural import QdrantProceduralMemory
    from jazzmine_dspy.models.errors import InputError
    from jazzmine_dspy.models.registry import FlowRegistry

    if memory == ":memory:":
        raise InputError(
            "Flows in ':memory:' would be lost when this command ends",
            where="--memory",
            remedy="Name a Qdrant server, such as http://localhost:6333. In Python, sync them to ':memory:' when the "
            "process starts.",
        )
    key = os.environ.get(api_key_env, "")
    if api_key_env != _KEY and not key:
        raise InputError(
            f"The environment variable {api_key_env} is not set",
            where="--api-key-env",
            remedy="Set it, or leave the option out.",
        )
    registry = FlowRegistry.from_yaml(file / "flows.yaml" if file.is_dir() else file, agent_id=agent)
    examples = read_examples(file / "examples.jsonl") if file.is_dir() else []
    store = QdrantProceduralMemory(
        memory,
        prefix=prefix,
        layout=layout.value,
        api_key=key,
        timeout=timeout,
        verify=str(ca) if ca else True,
    )

    async def work() -> SyncReport:
        async with store:
            return await store.sync(registry, agent, examples=examples, dry_run=dry_run)

    report = asyncio.run(work())
    output().show(
        str(report),
        *(["nothing was done (--dry-run)"] if dry_run else []),
        document={
            "memory": store.where,
            "agent": agent,
            "layout": layout.value,
            "prefix": prefix,
            "dry_run": dry_run,
            **{name: getattr(report, name) for name in ("created", "updated", "deleted", "skipped")},
        },
    )
