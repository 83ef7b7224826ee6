"""``flows check``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jazzmine_dspy.cli._errors import CHECK_FAILED
from jazzmine_dspy.cli._output import AsJson, output

if TYPE_CHECKING:
    from jazzmine_dspy.models.registry import FlowRegistry

app = typer.Typer(no_args_is_help=True, help="Check flow definitions.")
_FEW = 3


@app.callback()
def _flows() -> None:
    # Keeps `check` a subcommand while it is the only one.
    return


@app.command("check")
def check(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="YAML file of flows, or a folder with flows.yaml.")
    ],
    _json: AsJson = False,
) -> None:
    """Check a file of flows: its form, and what would make flows hard to tell apart.

    Exit code 2: a flow is malformed. 1: two flows have the same example. Warnings alone: 0.
    """
    from jazzmine_dspy.models.registry import FlowRegistry

    out = output()
    path = file / "flows.yaml" if file.is_dir() else file
    registry = FlowRegistry.from_yaml(path)
    problems = [{**problem, "file": str(path)} for problem in _problems(registry)]
    errors = sum(problem["severity"] == "error" for problem in problems)
    out.document(
        {
            "ok": not errors,
            "path": str(path),
            "flows": list(registry),
            "slots": sum(len(flow.slots) for flow in registry.values()),
            "checksum": registry.checksum,
            "problems": problems,
        }
    )
    for problem in problems:
        out.show(
            f"{problem['severity']}: {path}, {problem['field']}\n  {problem['message']}. {problem['remedy']}"
        )
    out.show(f"{len(registry)} flows, {errors} errors, {len(problems) - errors} warnings")
    if errors:
        raise typer.Exit(CHECK_FAILED)


def _problems(registry: FlowRegistry) -> Iterator[dict[str, Any]]:
    if not registry:
        yield _problem(
            "warning", "flows", "There is no flow", "Write one; without flows nothing is ever selected."
        )
    said: dict[str, str] = {}
    for flow in registry.values():
        at = f"flow {flow.name!r}"
        if len(flow.examples) < _FEW:
            number = len(flow.examples) or "no"
            remedy = f"Write {_FEW} or more messages that want it."
            yield _problem(
                "warning", f"{at}, examples", f"{number} example{'' if number == 1 else 's'}", remedy
            )
        for example in flow.examples:
            key = " ".join(example.casefold().split())
            if said.setdefault(key, flow.name) != flow.name:
                message = f"Example {example!r} is also one of {said[key]!r}"
                yield _problem("error", f"{at}, examples", message, "Keep it with the flow that it wants.")
        if not flow.condition:
            remedy = "Say when the flow is the right one: language models choose by it."
            yield _problem("warning", f"{at}, condition", "No condition", remedy)
        for slot in flow.slots:
            if slot.required and not slot.ask:
                remedy = "Write the question that gets the value."
                yield _problem("warning", f"{at}, slot {slot.name!r}", "A required slot has no 'ask'", remedy)


def _problem(severity: str, field: str, message: str, remedy: str) -> dict[str, Any]:
    return {"severity": severity, "field": field, "message": message, "remedy": remedy}
