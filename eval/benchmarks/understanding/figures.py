"""Figures with their targets, and the table of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from jazzmine_dspy.eval.intervals import Metric, summarise
from jazzmine_dspy.eval.metrics import TurnScores

PARTS = {"all": "all", "opening": "opening messages", "mid": "mid-form messages"}


@dataclass(frozen=True)
class Figure:
    """One line of the table, or why it is not there.

    Args:
        section: What it belongs to; sections come in the order of their first figure.
        what: What was measured.
        value, low, high: The figure with its 95 % interval, as a share, or in ``unit``.
        n, conversations: Turns behind it, and conversations that these are from.
        target: What it should reach; with ``most`` what it should not exceed.
        unit: "%" for shares, or what the figure is counted in.
        note: What a reader must know; of a line without a figure why there is none.
    """

    section: str
    what: str
    value: float | None = None
    low: float | None = None
    high: float | None = None
    n: int = 0
    conversations: int = 0
    target: float | None = None
    most: bool = False
    unit: str = "%"
    note: str = ""

    @property
    def missed(self) -> bool:
        """Whether there is a figure and a target that it does not reach."""
        if self.value is None or self.target is None:
            return False
        return self.value > self.target if self.most else self.value < self.target

    def to_json(self) -> dict[str, Any]:
        """All fields, and whether the target is missed."""
        return {**asdict(self), "missed": self.missed}

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> Figure:
        """A figure from its JSON form."""
        return cls(**{name: value for name, value in data.items() if name != "missed"})


def figure(section: str, what: str, metric: Metric | None, **more: Any) -> Figure:
    """The figure of a metric; without one the line says that there is nothing to measure."""
    if metric is None:
        return Figure(section, what, **{"note": "no such turn", **more})
    return Figure(
        section, what, metric.value, metric.low, metric.high, metric.n, metric.clusters, **more
    )  # fmt: skip


def by_part(
    section: str,
    what: str,
    rows: Sequence[TurnScores],
    clusters: Sequence[str],
    opening: Sequence[bool],
    name: str,
    *,
    target: float | None = None,
    note: str = "",
) -> list[Figure]:
    """A metric over all turns, over those that open a conversation or a task, and over those in mid-form."""
    kept: Mapping[str, Callable[[bool], bool]] = {
        "all": lambda _: True, "opening": lambda is_opening: is_opening, "mid": lambda is_opening: not is_opening,
    }  # fmt: skip
    found = []
    for part, keep in kept.items():
        chosen = [row if keep(first) else {} for row, first in zip(rows, opening, strict=True)]
        metric = summarise(chosen, clusters, only=[name]).get(name)
        title = what if part == "all" else f"· {PARTS[part]}"
        first = part == "all"
        found.append(
            figure(
                section,
                title,
                metric,
                target=target if first else None,
                **({"note": note} if first and metric else {}),
            )
        )
    return found


def shown(figure: Figure) -> str:
    """A figure with its interval.

    Example:
        >>> shown(Figure("", "", 0.381, 0.3, 0.452)), shown(Figure("", "", 12.34, unit="ms"))
        ('38.1 [30.0, 45.2]', '12.3 ms')
        >>> shown(Figure("", "", note="not recorded"))
        'not recorded'
    """
    if figure.value is None:
        return figure.note
    share = figure.unit == "%"
    scale = 100.0 if share or figure.unit == "points" else 1.0
    digits = 0 if figure.unit == "tokens" else 1
    said = f"{round(figure.value * scale, digits) + 0.0:,.{digits}f}" + ("" if share else f" {figure.unit}")
    if figure.low is not None and figure.high is not None:
        return f"{said} [{figure.low * scale:.{digits}f}, {figure.high * scale:.{digits}f}]"
    return f"{said} [too few]" if share and figure.conversations else said


def target(figure: Figure) -> str:
    """The target, marked where it is missed, with by how much.

    Example:
        >>> target(Figure("", "", 0.31, 0.2, 0.4, target=0.38)), target(Figure("", "", 0.4, target=0.38))
        ('38 **missed by 7.0**, within the interval', '38')
        >>> target(Figure("", "", 24.0, target=20.0, most=True, unit="ms"))
        '≤ 20 ms **missed by 4.0**'
    """
    if figure.target is None:
        return ""
    scale = 100.0 if figure.unit in ("%", "points") else 1.0
    unit = "" if figure.unit == "%" else f" {figure.unit}"
    said = f"{'≤ ' if figure.most else ''}{figure.target * scale:g}{unit}"
    if not figure.missed or figure.value is None:
        return said
    bound = figure.low if figure.most else figure.high
    reached = bound is not None and (bound <= figure.target if figure.most else bound >= figure.target)
    near = ", within the interval" if reached else ""
    return f"{said} **missed by {abs(figure.value - figure.target) * scale:.1f}**{near}"


PART_OF = "· "
"""Begins the name of a figure that is a part of the one before it."""


def folded(rows: Iterable[Sequence[str]]) -> list[tuple[str, ...]]:
    """Rows of a table, those of parts as further lines of the row before them.

    Example:
        >>> folded([("turns right", "75 %", "20"), ("· opening messages", "60 %", "")])
        [('turns right<br>· opening messages', '75 %<br>60 %', '20')]
    """
    groups: list[list[Sequence[str]]] = []
    for row in rows:
        if row[0].startswith(PART_OF) and groups:
            groups[-1].append(row)
        else:
            groups.append([row])
    return [tuple("<br>".join(cells).removesuffix("<br>" * (len(group) - 1)) for cells in zip(*group, strict=True))
            for group in groups]  # fmt: skip


def _row(each: Figure) -> tuple[str, ...]:
    n = f"{each.n:,} ({each.conversations:,})" if each.conversations else f"{each.n:,}" if each.n else ""
    what = each.what + (f"; {each.note}" if each.note and each.value is not None else "")
    return what, shown(each), n, target(each)


def table(figures: Iterable[Figure]) -> str:
    """All figures as Markdown, by section; shares are per cent."""
    lines = ["| what | measured, 95 % interval | n | target |", "|---|---|---|---|"]
    sections: dict[str, list[Figure]] = {}
    for each in figures:
        sections.setdefault(each.section, []).append(each)
    for section, group in sections.items():
        lines.append(f"| **{section}** |  |  |  |")
        lines += [f"| {' | '.join(cells)} |" for cells in folded(map(_row, group))]
    return "\n".join(lines)


def block(document: Mapping[str, Any]) -> str:
    """The generated block of the README of this benchmark."""
    about = document["about"]
    figures = [Figure.of(each) for each in document["figures"]]
    missed = sum(each.missed for each in figures)
    wanted = sum(each.target is not None and each.value is not None for each in figures)
    said = (
        f"Made by `make bench-understanding` on {about['date']} in {about['minutes']:.0f} minutes, with the program "
        f"`{about['program']}`. Shares are per cent, with intervals drawn by conversation; n are turns, "
        f"with conversations in brackets. {wanted - missed} of {wanted} targets are met."
    )
    return f"{said}\n\n{table(figures)}"
