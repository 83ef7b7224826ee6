"""``report``."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Annotated, Any

import typer

from jazzmine_dspy.cli._output import AsJson, output

_AGAIN = "Run 'jazzmine-dspy optimize' again."


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

    source = _find(run)
    data = _read(source)
    paths = Paths(source.with_name("report.html"), source.with_name("report.md"), source)
    if rebuild or not (paths.html.is_file() and paths.markdown.is_file()):
        try:
            paths = write_document(data, source.parent)
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            problem = f"The report is damaged ({type(error).__name__})"
            raise InputError(problem, where=str(source), remedy=_AGAIN) from error
    names = {name: str(path) for name, path in paths._asdict().items()}
    output().show(
        str(data.get("title", "")),
        str(data.get("first_line", "")),
        *(f"{name}: {path}" for name, path in names.items()),
        document={"title": data.get("title"), "first_line": data.get("first_line"), "report": names},
    )


def _find(run: str) -> Path:
    from jazzmine_dspy.artifacts import find
    from jazzmine_dspy.models.errors import ArtifactError, InputError

    folders = [Path(run), Path(run) / "report"]
    with contextlib.suppress(ArtifactError):
        folders.append(find(run) / "report")
    places = [folder / "report.json" for folder in (*folders, Path("eval/reports") / run)]
    for place in (Path(run), *places):
        if place.is_file() and place.suffix == ".json":
            return place
    raise InputError(
        f"No report of {run!r}", where=", ".join(map(str, places)),
        remedy="Name the folder that 'jazzmine-dspy optimize' wrote; it has report/report.json.",
    )  # fmt: skip


def _read(path: Path) -> dict[str, Any]:
    from jazzmine_dspy.models.errors import InputError
    from jazzmine_dspy.models.parsing import MalformedError, from_json, read_file

    try:
        data = from_json(read_file(path))
    except MalformedError as error:
        raise InputError(f"The report is damaged: {error}", where=str(path), remedy=_AGAIN) from error
    if not isinstance(data, dict) or "systems" not in data:
        remedy = "Name a report.json that 'optimize' wrote."
        raise InputError("This is no report", where=str(path), remedy=remedy)
    return data
