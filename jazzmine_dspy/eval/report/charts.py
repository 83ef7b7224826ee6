"""What plots are drawn by: ranges, ticks, places of names. The drawing is in ``charts.svg.j2``."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader
from markupsafe import Markup

from jazzmine_dspy.eval.report.shown import counted, shown


@dataclass(frozen=True)
class Dot:
    """A value with its interval: a row of an interval plot, with ``text`` at its right end, or a point of a scatter.

    ``colour`` is a class of the page, ``x`` the place in a scatter. Without bounds it is a dot alone.
    """

    name: str
    value: float
    low: float | None
    high: float | None
    colour: str
    text: str = ""
    strong: bool = False
    x: float = 0.0


@dataclass(frozen=True)
class Scale:
    """From values to places; ``low`` and ``high`` are those of the measure of a value."""

    low: float
    high: float
    start: float
    end: float
    measure: Callable[[float], float] = float

    def __call__(self, value: float) -> float:
        """The place of a value; one beyond the range stands at its end."""
        share = (self.measure(value) - self.low) / (self.high - self.low or 1.0)
        return self.start + min(1.0, max(0.0, share)) * (self.end - self.start)


def percent(value: float) -> str:
    """A tick in percent."""
    return f"{100 * value:g}"


def ticks(low: float, high: float, wanted: int = 4) -> list[float]:
    """Round numbers inside a range, about as many as wanted.

    Example:
        >>> ticks(0.0, 1.0), ticks(0, 430)
        ([0.0, 0.25, 0.5, 0.75, 1.0], [0.0, 100.0, 200.0, 300.0, 400.0])
    """
    rough = (high - low) / wanted or 1.0
    base = 10.0 ** math.floor(math.log10(rough))
    step = min((factor * base for factor in (1, 2, 2.5, 5, 10)), key=lambda size: abs(size - rough))
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(number * step, 10) for number in range(first, last + 1)]


def domain(rows: Sequence[Dot]) -> tuple[float, float]:
    """A range that holds all values and bounds, its ends on tenths, not beyond [0, 1]."""
    known = [end for row in rows for end in (row.value, row.low, row.high) if end is not None]
    low = math.floor((min(known) - 0.02) * 10) / 10
    high = math.ceil((max(known) + 0.005) * 10) / 10
    return max(0.0, low), min(1.0, max(high, low + 0.2))


def front(points: Sequence[Dot]) -> list[Dot]:
    """The Pareto front, the cheapest first: the points than which none is better and as cheap.

    Example:
        >>> [each.name for each in front([
        ...     Dot("rules", 0.5, None, None, "s0", x=0), Dot("worse", 0.4, None, None, "s1", x=300),
        ...     Dot("model", 0.8, None, None, "s2", x=200),
        ... ])]
        ['rules', 'model']
    """
    found: list[Dot] = []
    for point in sorted(points, key=lambda each: (each.x, -each.value)):
        if not found or point.value > found[-1].value:
            found.append(point)
    return found


def tick_labels(
    scale: Scale, values: Sequence[float], text: Callable[[float], str], pixels: float = 1.0
) -> list[tuple[float, str, str]]:
    """Place, text and anchor of the labels that fit next to each other, from the last value on.

    Args:
        scale: Of the axis.
        values: The ticks, in ascending order.
        text: Label of a value.
        pixels: Pixels of a unit of the scale, on the narrowest page.

    Example:
        >>> tick_labels(Scale(0, 100, 0, 100), [0, 1, 50, 100], "{:g}".format)
        [(100.0, '100', 'end'), (50.0, '50', 'middle'), (1.0, '1', 'start')]
    """
    labels: list[tuple[float, str, str]] = []
    edge = math.inf
    for value in reversed(values):
        x, words = scale(value), text(value)
        half = 3.4 * len(words) / pixels
        anchor = "start" if x - scale.start < half else "end" if scale.end - x < half else "middle"
        start = x - {"start": 0.0, "middle": half, "end": 2 * half}[anchor]
        if start + 2 * half < edge:
            labels.append((x, words, anchor))
            edge = start - 6 / pixels
    return labels


def named_places(
    points: Sequence[Dot], across: Scale, up: Scale, width: float
) -> list[tuple[Dot, float, float, str]]:
    """The points, the best last of all but the strong one, each with the place and the anchor of its name.

    A name stands next to its point, moved up or down where a dot or another name is in its way.
    """
    placed: list[tuple[Dot, float, float, str]] = []
    taken = [(across(point.x) - 8, across(point.x) + 8, up(point.value) + 4) for point in points]
    for point in sorted(points, key=lambda point: (not point.strong, -point.value)):
        x, length = across(point.x), 6.6 * len(point.name)
        spots = [
            (start, up(point.value) + 4 + shift, anchor)
            for shift in (0, -15, 15, -30, 30, -45, 45)
            for start, anchor in ((x + 12, "start"), (x - 12 - length, "end"))
            if start > across.start - 20 and start + length < width
        ] or [(x + 12, up(point.value) + 4, "start")]
        start, y, anchor = next(
            (
                spot
                for spot in spots
                if all(
                    abs(spot[1] - other) > 13 or spot[0] > end or begin > spot[0] + length
                    for begin, end, other in taken
                )
            ),
            spots[0],
        )
        taken.append((start, start + length, y))
        placed.append((point, start if anchor == "start" else start + length, y, anchor))
    return placed


_FASTEST = 0.01
"""Milliseconds at which a logarithmic scale begins."""


def log_scale(rows: Sequence[tuple[str, str, float, float]], start: float, end: float) -> Scale:
    """A scale over whole powers of ten that holds the medians and the 95th percentiles of all rows."""
    low = math.floor(_log10(min(row[2] for row in rows)))
    high = max(low + 1, math.ceil(_log10(max(row[3] for row in rows) * 1.02)))
    return Scale(low, high, start, end, _log10)


def _log10(milliseconds: float) -> float:
    return math.log10(max(_FASTEST, milliseconds))


def _number(value: Any) -> Any:
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else value


TEMPLATES = Environment(
    autoescape=True,
    finalize=_number,
    loader=FileSystemLoader(Path(__file__).parent),
    lstrip_blocks=True,
    trim_blocks=True,
)
_USED = (Scale, counted, domain, front, log_scale, named_places, percent, shown, tick_labels, ticks)
TEMPLATES.globals |= {each.__name__: each for each in _USED}


def draw(name: str, *given: Any, **named: Any) -> Markup:
    """A plot, or another part of the page, by the name of its macro in ``charts.svg.j2``; may be empty."""
    return Markup(getattr(TEMPLATES.get_template("charts.svg.j2").module, name)(*given, **named).strip())
