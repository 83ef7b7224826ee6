"""Writing a report's files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

from jazzmine_dspy.eval.report import markdown, page
from jazzmine_dspy.eval.report.document import FORMAT, document
from jazzmine_dspy.eval.report.model import Report
from jazzmine_dspy.models.errors import InputError


class Paths(NamedTuple):
    """Where the files are."""

    html: Path
    markdown: Path
    json: Path


def write_report(report: Report, folder: str | Path) -> Paths:
    """Write ``report.html`` (one self-contained file), ``report.md`` and ``report.json``; all hold the same
    figures.

    Raises:
        InputError: the report has no systems, or the folder cannot be written.
    """
    return write_document(document(report), folder)


def write_document(data: dict[str, Any], folder: str | Path) -> Paths:
    """Write the files of a document that :func:`document` made, such as one read back from ``report.json``.

    Raises:
        InputError: the document is of another format, or the folder cannot be written.
    """
    if data.get("format") != FORMAT:
        raise InputError(
            f"The report has format {data.get('format')!r}, not {FORMAT}",
            remedy="Make it again with this version.",
        )
    folder = Path(folder)
    paths = Paths(folder / "report.html", folder / "report.md", folder / "report.json")
    texts = (
        page.render(data),
        markdown.render(data),
        json.dumps(data, ensure_ascii=False, indent=1, allow_nan=False) + "\n",
    )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path, text in zip(paths, texts, strict=True):
            path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InputError(
            f"Cannot write the report: {error.strerror}",
            where=str(folder),
            remedy="Name a folder that can be written.",
        ) from error
    return paths
