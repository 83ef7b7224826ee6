"""``models``: programs in MLflow's registry."""

from __future__ import annotations

from typing import Annotated

import typer

from jazzmine_dspy.cli._output import AsJson, output
from jazzmine_dspy.cli._program_options import Name

app = typer.Typer(no_args_is_help=True, help="Publish programs in MLflow's registry.")


@app.command("publish")
def publish(
    program: Name,
    name: Annotated[str, typer.Option("--name", metavar="NAME", help="Name in the registry.")],
    alias: Annotated[
        str | None, typer.Option("--alias", metavar="ALIAS", help="Move this alias to the new version.")
    ] = None,
    uri: Annotated[
        str | None,
        typer.Option(
            "--uri",
            metavar="URI",
            help="MLflow's server or store. Default: MLFLOW_TRACKING_URI, else .jazzmine/mlflow.",
        ),
    ] = None,
    _json: AsJson = False,
) -> None:
    """Publish a compiled program in the registry, as the next version of a name."""
    from jazzmine_dspy import artifacts

    made = artifacts.publish(program, name, alias=alias, uri=uri)
    parts = (made.address, f" @{alias}" if alias else "", f"  {made.first_line}" if made.first_line else "")
    output().show("".join(parts), document={**made._asdict(), "address": made.address})
