"""``models``: programs in MLflow's registry."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from jazzmine_dspy.cli._output import AsJson, output
from jazzmine_dspy.cli._program_options import Name

if TYPE_CHECKING:
    from jazzmine_dspy.artifacts import Published

app = typer.Typer(
    no_args_is_help=True, help="Publish programs in MLflow's registry, and say which one serves."
)

Registered = Annotated[str, typer.Argument(metavar="NAME", help="Of the program in the registry.")]
Alias = Annotated[
    str, typer.Option("--alias", metavar="ALIAS", help="What stands at the version that serves.")
]
Uri = Annotated[
    str | None,
    typer.Option(
        "--uri",
        metavar="URI",
        help="MLflow's server or store. Default: MLFLOW_TRACKING_URI, else .jazzmine/mlflow.",
    ),
]


@app.command("publish")
def publish(
    program: Name,
    name: Annotated[str, typer.Option("--name", metavar="NAME", help="Under which it is registered.")],
    alias: Annotated[
        str | None, typer.Option("--alias", metavar="ALIAS", help="Move this alias to the new version.")
    ] = None,
    uri: Uri = None,
    _json: AsJson = False,
) -> None:
    """Put a compiled program into the registry, as the next version of a name."""
    from jazzmine_dspy import artifacts

    _show(artifacts.publish(program, name, alias=alias, uri=uri))


@app.command("promote")
def promote(
    name: Registered,
    version: Annotated[int, typer.Argument(metavar="VERSION", min=1, help="That is to serve.")],
    alias: Alias = "champion",
    uri: Uri = None,
    _json: AsJson = False,
) -> None:
    """Let an alias stand at a version."""
    from jazzmine_dspy import artifacts

    _show(artifacts.promote(name, version, alias=alias, uri=uri))


@app.command("rollback")
def rollback(name: Registered, alias: Alias = "champion", uri: Uri = None, _json: AsJson = False) -> None:
    """Let an alias stand where it stood before."""
    from jazzmine_dspy import artifacts

    _show(artifacts.roll_back(name, alias=alias, uri=uri))


@app.command("list")
def listed(name: Registered, uri: Uri = None, _json: AsJson = False) -> None:
    """Show all versions of a name, the newest first."""
    from jazzmine_dspy import artifacts

    _show(*artifacts.published(name, uri=uri))


def _show(*versions: Published) -> None:
    lines = []
    for version in versions:
        aliases = "".join(f" @{alias}" for alias in version.aliases)
        lines.append(f"{version.address}{aliases}{f'  {version.said}' if version.said else ''}")
    documents = [{**each._asdict(), "address": each.address} for each in versions]
    output().show(*lines, document={"versions": documents})
