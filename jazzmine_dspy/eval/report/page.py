"""The report as one HTML page: no script, no outside file, light or dark as the reader's system is."""

from __future__ import annotations

from typing import Any

from jazzmine_dspy.eval.report.charts import TEMPLATES
from jazzmine_dspy.eval.report.sections import sections
from jazzmine_dspy.eval.report.shown import DASH, VERDICTS, resolve, shown


def render(data: dict[str, Any]) -> str:
    """The whole document as HTML."""
    return TEMPLATES.get_template("page.html.j2").render(
        data=data,
        at=f"/systems/{data['shipped']}",
        sections=sections(data),
        resolve=resolve,
        shown=shown,
        dash=DASH,
        verdicts=VERDICTS,
    )
