"""The five rows in the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jazzmine_dspy.eval.report.document import document
from jazzmine_dspy.eval.report.model import Report
from jazzmine_dspy.eval.report.shown import HEADLINE, TOO_FEW, shown

if TYPE_CHECKING:
    from rich.table import Table

# Short enough for 80 columns.
_NAMES = {
    "flow_set_exact": "flows\nright, %",
    "commands_exact": "commands\nright, %",
    "rewrite_token_f1": "rewrite\nF1, %",
    "unchanged_kept": "complete\nkept, %",
}


def terminal_table(report: Report) -> Table:
    """The headline figures of every system for ``rich.print``, in 80 columns.

    Shares are in percent, each above its 95 % interval, or "too few" under ten conversations; crashed, degraded,
    refused and unanswered turns stand below a system's name.
    """
    from rich import box
    from rich.table import Table
    from rich.text import Text

    data = document(report)
    turns = max(system["n"] for system in data["systems"])
    table = Table(
        title=report.title,
        caption=f"{turns:,} turns; below each figure its 95 % interval, clustered by conversation",
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        title_style="bold",
        caption_style="dim",
    )
    table.add_column("", overflow="fold", min_width=14)
    for name in (*(_NAMES[name] for name in HEADLINE), "LM calls\na turn", "prompt\ntokens"):
        table.add_column(name, justify="right", no_wrap=True)
    for index, system in enumerate(data["systems"]):
        style = "bold green" if index == data["shipped"] else ""
        first = Text(system["name"], style=style)
        for what in ("crashed", "degraded", "refused", "unanswered"):
            if system[what]:
                first.append(f"\n{system[what]} {what}", style="not bold red")
        cells = [first]
        for name in HEADLINE:
            held = system["metrics"].get(name)
            cell = Text(shown(held and held["value"], "share"), style=style)
            if held:
                bounds = f"{shown(held['low'], 'share')}-{shown(held['high'], 'share')}"
                cell.append(f"\n{TOO_FEW if held['low'] is None else bounds}", style="not bold dim")
            cells.append(cell)
        usage = system["usage"]
        cells.append(Text(shown(usage["lm_calls_per_turn"], "calls"), style=style))
        cells.append(Text(shown(usage["prompt_tokens_per_turn"], "tokens"), style=style))
        table.add_row(*cells)
    return table
