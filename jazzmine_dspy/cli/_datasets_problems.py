"""A dataset's problems for people: by kind with counts, or every one."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jazzmine_dspy.datasets import Problem

_KINDS = 10
_EXAMPLES = 3
_NAMES = re.compile(r"""('[^']*'|"[^"]*"|\S*\d\S*)""")


def every(problems: Sequence[Problem]) -> list[str]:
    """One line for each problem."""
    return [f"{one.severity}: {one.where}: {one.message}. {one.remedy}" for one in problems]


def by_kind(problems: Sequence[Problem]) -> list[str]:
    """The first ten kinds of problem, each with how many there are, the first three, and the remedy.

    Problems are of one kind where their messages differ in names and numbers alone.
    """
    groups: dict[tuple[str, str], list[Problem]] = {}
    for problem in problems:
        groups.setdefault((problem.severity, _NAMES.sub("…", problem.message)), []).append(problem)
    shown = list(groups.values())[:_KINDS]
    lines = [line for group in shown for line in _kind(group)]
    left = len(problems) - sum(map(len, shown))
    if left:
        lines.append(f"and {left} problems of {len(groups) - len(shown)} other kinds")
    if any(len(group) > 1 for group in shown) or left:
        lines.append(f"--all prints each of the {len(problems)} problems")
    return lines


def _kind(group: Sequence[Problem]) -> Iterator[str]:
    first = group[0]
    if len(group) == 1:
        yield f"{first.severity}: {first.where}\n  {first.message}. {first.remedy}"
        return
    heading, names = _told_apart([problem.message for problem in group])
    told = list(dict.fromkeys(names))[:_EXAMPLES]
    places = {problem.where for problem in group}
    if len(places) == 1 and told[0]:
        yield f"{first.severity}: {heading}: {len(group)}, such as {', '.join(told)}\n  {first.where}. {first.remedy}"
        return
    yield f"{first.severity}: {heading}: {len(group)}, such as"
    for problem, name in list(zip(group, names, strict=True))[:_EXAMPLES]:
        yield f"  {problem.where}{f': {name}' if name else ''}"
    yield f"  {first.remedy}"


def _told_apart(messages: Sequence[str]) -> tuple[str, list[str]]:
    """What messages of one kind have in common, and the names in which each differs."""
    pieces = [_NAMES.split(message) for message in messages]
    # At odd places stand the names; one that all messages share is no difference.
    differ = [at for at in range(1, len(pieces[0]), 2) if len({each[at] for each in pieces}) > 1]
    heading = "".join("…" if at in differ else piece for at, piece in enumerate(pieces[0]))
    return heading, [" ".join(each[at] for at in differ) for each in pieces]
