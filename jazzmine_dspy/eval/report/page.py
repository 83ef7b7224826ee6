"""The report as one HTML page: no script, no outside file, light or dark as the reader's system is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from jazzmine_dspy.eval.report.sections import sections
from jazzmine_dspy.eval.report.shown import DASH, TOO_FEW, VERDICTS, resolve, shown

_TEMPLATES = Environment(
    autoescape=True,
    loader=FileSystemLoader(Path(__file__).parent),
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)


def render(data: dict[str, Any]) -> str:
    """The whole document as HTML."""
    return _TEMPLATES.get_template("page.html.j2").render(
        data=data,
        at=f"/systems/{data['shipped']}",
        sections=sections(data),
        resolve=resolve,
        shown=shown,
        dash=DASH,
        too_few=TOO_FEW,
        verdicts=VERDICTS,
    )
