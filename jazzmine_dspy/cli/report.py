"""``report``."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Annotated, Any

import typer

from jazzmine_dspy.cli._output import AsJson, output


def report(
    run: Annotated[
        str, typer.Argument(metavar="RUN", help="Folder or name of a program, of its report, or report.json.")
    ],
    rebuild: Annotated[bool, typer.Option("--rebuild", help="Write report.html and report.md anew.")] = False,
    _json: AsJson = False,
) -> None:
    """Say where the report of a run is; what is missing of it is made again from report.json."""
    from jazzmine_dspy.eval.report import Paths, write_document
    from jazzmine_dspy.models.errors import InputError

    out = output()
    source = _find(run)
    data = _read(source)
    folder = source.parent
    paths = Paths(folder / "report.html", folder / "report.md", source)
    if rebuild or not (paths.html.is_file() and paths.markdown.is_file()):
        try:
            paths = write_document(data, folder)
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            raise InputError(
                f"The report is damaged ({type(error).__name__})",
                where=str(source),
                remedy="Run 'jazzmine-dspy optimize' again.",
            ) from error
    told = {name: str(path) for name, path in paths._asdict().items()}
    out.document({"title": data.get("title"), "first_line": data.get("first_line"), "report": told})
    out.show(
        str(data.get("title", "")),
        str(data.get("first_line", "")),
        *(f"{name}: {path}" for name, path in told.items()),
    )


def _find(run: str) -> Path:
    from jazzmine_dspy.artifacts import find
    from jazzmine_dspy.models.errors import ArtifactError, InputError

    given = Path(run)
    places = [given, given / "report.json", given / "report" / "report.json"]
    with contextlib.suppress(ArtifactError):
        places.append(find(run) / "report" / "report.json")
    places.append(Path("eval/reports") / run / "report.json")
    for place in places:
        if place.is_file() and place.suffix == ".json":
            return place
    raise InputError(
        f"No report of {run!r}", where=", ".join(str(place) for place in places[1:]),
        remedy="Name the folder that 'jazzmine-dspy optimize' wrote; it has report/report.json.",
    )  # fmt: skip


def _read(path: Path) -> dict[str, Any]:
    from jazzmine_dspy.models.errors import InputError
    from jazzmine_dspy.models.parsing import MalformedError, from_json, read_file

    try:
        data = from_json(read_file(path))
    except MalformedError as error:
        remedy = "Run 'jazzmine-dspy optimize' again."
        raise InputError(f"The report is damaged: {error}", where=str(path), remedy=remedy) from error
    if not isinstance(data, dict) or "systems" not in data:
        raise InputError(
            "This is no report", where=str(path), remedy="Name a report.json that 'optimize' wrote."
        )
    return data
