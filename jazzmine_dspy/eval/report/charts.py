"""Plots as inline SVG: intervals, cost against quality, shares, latency. Colours are the page's, light or
dark."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from jazzmine_dspy.eval.report.markup import Markup, join, tag

WIDTH = 360.0


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
    """From values to places."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        """The place of a value; one beyond the range stands at its end."""
        share = (value - self.low) / (self.high - self.low or 1.0)
        return self.start + min(1.0, max(0.0, share)) * (self.end - self.start)


def svg(width: float, height: float, label: str, *children: Markup) -> Markup:
    """The frame of a plot; ``label`` says what it shows to those who cannot see it."""
    return tag(
        "svg",
        tag("title", label),
        *children,
        viewBox=f"0 0 {width:g} {height:g}",
        role="img",
        aria_label=label,
        xmlns="http://www.w3.org/2000/svg",
        style=f"max-width:{width:g}px",
    )


def text(x: float, y: float, content: str, cls: str = "t", anchor: str = "start", **more: str) -> Markup:
    """A text at a place."""
    return tag("text", content, cls=cls, x=x, y=y, text_anchor=anchor, **more)


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


def domain(held: Iterable[float | None], top: float = 1.0) -> tuple[float, float]:
    """A range that holds all values and bounds, its ends on tenths, not beyond [0, top]."""
    known = [value for value in held if value is not None]
    low = math.floor((min(known) - 0.02) * 10) / 10
    high = math.ceil((max(known) + 0.005) * 10) / 10
    return max(0.0, low), min(top, max(high, low + 0.2))


def dots(
    label: str,
    rows: Sequence[Dot],
    *,
    width: float = WIDTH,
) -> Markup:
    """Intervals, one below the other: name and figure above, dot and 95 % interval below them."""
    step, top = 38.0, 4.0
    height = top + step * len(rows) + 20
    low, high = domain(end for row in rows for end in (row.value, row.low, row.high))
    scale = Scale(low, high, 8.0, width - 8.0)
    parts = _grid(scale, ticks(low, high, 5), top + 2, height - 18, percent)
    most = (width - 152) / 6
    for number, row in enumerate(rows):
        y = top + step * number + 13
        # The dot's title and the legend have all of the name.
        name = row.name if len(row.name) <= most else f"{row.name[: int(most) - 1].rstrip()}…"
        parts += [
            text(8, y, name, "t strong" if row.strong else "t"),
            text(width - 8, y, row.text, "v strong" if row.strong else "v", "end"),
            _whisker(scale, row, y + 13),
        ]
    return svg(width, height, label, *parts)


def compact(
    label: str,
    rows: Sequence[Dot],
    *,
    span: tuple[float, float] | None = None,
    tick: Callable[[float], str] = percent,
    width: float = 560.0,
    names: float = 130.0,
) -> Markup:
    """Intervals with name, dot and figure in one line each; a line at zero where the range goes below it."""
    step = 23.0
    height = step * len(rows) + 24
    low, high = span or domain(end for row in rows for end in (row.value, row.low, row.high))
    scale = Scale(low, high, names, width - 190.0)
    parts = _grid(scale, ticks(low, high, 5), 2, height - 18, tick)
    if low < 0 < high:
        parts.append(tag("line", cls="zero", x1=scale(0), x2=scale(0), y1=2.0, y2=height - 18))
    for number, row in enumerate(rows):
        y = step * number + 14
        parts += [
            text(names - 12, y + 4, row.name, "t", "end"),
            text(width - 4, y + 4, row.text, "v", "end"),
            _whisker(scale, row, y),
        ]
    return svg(width, height, label, *parts)


def _grid(
    scale: Scale, at: Sequence[float], top: float, bottom: float, tick: Callable[[float], str]
) -> list[Markup]:
    parts = []
    for value in at:
        x = scale(value)
        anchor = "start" if x - scale.start < 12 else "end" if scale.end - x < 12 else "middle"
        parts += [
            tag("line", cls="grid", x1=x, x2=x, y1=top, y2=bottom),
            text(x, bottom + 14, tick(value), "k", anchor),
        ]
    return parts


def levels(y: Scale, at: Sequence[float], left: float, right: float) -> list[Markup]:
    """Lines across at some values, each with its value in percent at the left."""
    return [
        part
        for value in at
        for part in (
            tag("line", cls="grid", x1=left, x2=right, y1=y(value), y2=y(value)),
            text(left - 8, y(value) + 4, percent(value), "k", "end"),
        )
    ]


def _whisker(scale: Scale, row: Dot, y: float) -> Markup:
    size = 6.0 if row.strong else 4.8
    return tag(
        "g",
        tag("title", f"{row.name}: {row.text}"),
        None
        if row.low is None or row.high is None
        else tag("line", cls="whisker", x1=scale(row.low), x2=scale(row.high), y1=y, y2=y),
        tag("circle", cls="dot", cx=scale(row.value), cy=y, r=size),
        cls=row.colour,
    )


def scatter(label: str, points: Sequence[Dot], *, across: str, up: str, width: float = 520.0) -> Markup:
    """Cost to the right, quality upward with its interval; up and left is better."""
    height, left, bottom = 330.0, 44.0, 288.0
    most = max([point.x for point in points] + [1.0])
    low, high = domain(end for point in points for end in (point.value, point.low, point.high))
    x, y = Scale(0.0, most * 1.06, left + 14, width - 16), Scale(low, high, bottom, 26.0)
    parts = levels(y, ticks(low, high, 5), left, width - 8)
    parts += [
        text(x(value), bottom + 18, f"{value:,.0f}", "k", "middle") for value in ticks(0.0, most * 1.06, 5)
    ]
    parts += [
        text(left, 12, up, "k"),
        text(width - 8, bottom + 36, across, "k", "end"),
        tag("line", cls="axis", x1=left, x2=width - 8, y1=bottom, y2=bottom),
    ]
    best = front(points)
    if len(best) > 1:
        corners = " ".join(f"{x(point.x):.2f},{y(point.value):.2f}" for point in _stairs(best))
        names = ", ".join(point.name for point in best)
        parts.append(
            tag(
                "polyline",
                tag("title", f"Nothing is better at its cost: {names}"),
                cls="front",
                points=corners,
            )
        )
    taken: list[tuple[float, float, float]] = []
    for point in sorted(points, key=lambda point: (not point.strong, -point.value)):
        place, size = x(point.x), 7.0 if point.strong else 5.5
        mark = tag(
            "g",
            tag("title", f"{point.name}: {point.x:.0f} tokens, {100 * point.value:.1f} %"),
            None
            if point.low is None or point.high is None
            else tag("line", cls="whisker", x1=place, x2=place, y1=y(point.low), y2=y(point.high)),
            tag("circle", cls="dot", cx=place, cy=y(point.value), r=size),
            cls=point.colour,
        )
        parts += [mark, _name_tag(point, place, y(point.value) + 4, taken, width)]
    return svg(width, height, label, *parts)


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


def _stairs(points: Sequence[Dot]) -> list[Dot]:
    """The points with a corner before each but the first: what can be had for a cost."""
    steps = list(points[:1])
    for point in points[1:]:
        steps += [replace(point, value=steps[-1].value), point]
    return steps


def _name_tag(
    point: Dot, x: float, y: float, taken: list[tuple[float, float, float]], width: float
) -> Markup:
    """A name beside its point, moved up or down where another one is in its way."""
    length = 6.6 * len(point.name)
    right = x + 12 + length < width
    start = x + 12 if right else x - 12 - length
    for shift in (0, -15, 15, -30, 30, -45, 45):
        if all(
            abs(y + shift - other) > 13 or start > end or begin > start + length
            for begin, end, other in taken
        ):
            y += shift
            break
    taken.append((start, start + length, y))
    cls = "t strong" if point.strong else "t"
    return text(x + 12 if right else x - 12, y, point.name, cls, "start" if right else "end")


def shares(
    label: str,
    rows: Sequence[tuple[str, Sequence[tuple[str, str, float]]]],
    *,
    width: float = 560.0,
    names: float = 190.0,
) -> Markup:
    """Stacked bars of shares; each row is a name and its (part, colour, share), summing to 1."""
    step, height = 30.0, 30.0 * len(rows) + 4
    parts = []
    for number, (name, pieces) in enumerate(rows):
        y, place = step * number + 5, names
        parts.append(text(names - 12, y + 15, name, "t", "end"))
        for piece, colour, share in pieces:
            long = share * (width - names)
            if long <= 0:
                continue
            bar = tag("rect", cls="bar", x=place, y=y, width=max(0.8, long - 1.2), height=21.0, rx=2.5)
            inside = (
                text(place + long / 2, y + 15, f"{100 * share:.0f}", "inbar", "middle") if long > 22 else None
            )
            parts.append(
                tag("g", tag("title", f"{name}, {piece}: {100 * share:.1f} %"), bar, inside, cls=colour)
            )
            place += long
    return svg(width, height, label, *parts)


def spans(
    label: str, rows: Sequence[tuple[str, str, float, float]], *, width: float = 560.0, names: float = 150.0
) -> Markup:
    """Median to 95th percentile on a logarithmic scale; each row is a name, a colour, and both in
    milliseconds."""
    step, height = 27.0, 27.0 * len(rows) + 28
    floor = 0.01
    low = math.floor(math.log10(max(floor, min(row[2] for row in rows))))
    high = max(low + 1, math.ceil(math.log10(max(floor, *(row[3] for row in rows)) * 1.02)))
    scale = Scale(low, high, names, width - 116.0)
    parts = _grid(scale, range(low, high + 1), 2, height - 20, lambda power: f"{10**power:g} ms")
    for number, (name, colour, p50, p95) in enumerate(rows):
        y = step * number + 15
        start, end = scale(math.log10(max(floor, p50))), scale(math.log10(max(floor, p95)))
        parts += [
            text(names - 12, y + 4, name, "t", "end"),
            tag(
                "g",
                tag("line", cls="whisker wide", x1=start, x2=end, y1=y, y2=y),
                tag("circle", cls="dot", cx=start, cy=y, r=5.5),
                tag("rect", cls="dot", x=end - 1.6, y=y - 7, width=3.2, height=14.0, rx=1.2),
                cls=colour,
            ),
            text(width - 4, y + 4, f"{_short(p50)} · {_short(p95)} ms", "v", "end"),
        ]
    return svg(width, height, label, *parts)


def _short(milliseconds: float) -> str:
    return (
        f"{milliseconds:,.0f}"
        if milliseconds >= 9.95
        else f"{milliseconds:.1f}"
        if milliseconds >= 0.95
        else f"{milliseconds:.2f}"
    )


def wide(plot: Markup) -> Markup:
    """A plot as wide as the page, which a narrow screen scrolls instead of shrinking."""
    return tag("div", plot, cls="scroll wide")


def legend(items: Sequence[tuple[str, str]]) -> Markup:
    """Names beside their colours."""
    swatches = (tag("span", tag("i", cls=colour), name, cls="key") for name, colour in items)
    return tag("p", join(*swatches), cls="legend")
