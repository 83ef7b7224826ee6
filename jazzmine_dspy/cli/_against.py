"""Two programs beside each other, for `compare` and for `evaluate --against`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from jazzmine_dspy.cli._output import output, table
from jazzmine_dspy.cli._scoring import Asked, Scored, held_by, score

if TYPE_CHECKING:
    from jazzmine_dspy.datasets import Dataset, Example
    from jazzmine_dspy.eval import Comparison, Objective, Record
    from jazzmine_dspy.eval.significance import Paired

T = TypeVar("T")
_SHOWN = 5


def is_record(name: str) -> bool:
    """Whether what is named is a file of an earlier evaluation, not a program."""
    return name.endswith(".json") and Path(name).is_file()


def side(name: str, dataset: Dataset, examples: Sequence[Example], asked: Asked) -> Record | Scored:
    """A program's evaluation on the turns, or what an earlier one left in a file.

    Raises:
        JazzmineError: there is no such program, or the file is of another dataset, split or flows.
    """
    if not is_record(name):
        return score(name, dataset, examples, asked)
    from jazzmine_dspy.eval import read_record

    return read_record(name, dataset.examples(asked.split), held_by(dataset, asked.split))


def all_asked(*tasks: Callable[[], T]) -> list[T]:
    """What comes of each; where one awaits answers, the others are asked about all the same."""
    from jazzmine_dspy.models.awaiting import Awaiting, AwaitingGroup

    found, gathered = [], AwaitingGroup()
    for task in tasks:
        try:
            found.append(task())
        except Awaiting as awaiting:
            gathered.add(awaiting)
    gathered.check()
    return found


def objective_of(*sides: Record | Scored, name: str | None = None) -> Objective:
    """What decides: the named metric, else the objective and constraints of the last program's recipe."""
    from jazzmine_dspy.eval import OBJECTIVES, Objective
    from jazzmine_dspy.models.errors import InputError

    if name is not None and name not in OBJECTIVES:
        raise InputError(
            f"No objective is named {name!r}", where="--objective", remedy=f"Use: {', '.join(OBJECTIVES)}."
        )
    recipes = [one.opened.manifest.get("recipe") or {} for one in reversed(sides) if isinstance(one, Scored)]
    recipe: dict[str, Any] = next((one for one in recipes if one.get("objective")), {})
    if name is not None and name != recipe.get("objective"):
        return Objective(name)
    return Objective(str(recipe.get("objective", OBJECTIVES[0])), dict(recipe.get("constraints") or {}))


def record_of(one: Record | Scored) -> Record:
    """The turns of a side."""
    return one.record() if isinstance(one, Scored) else one


def undecided(*sides: Record | Scored) -> str:
    """Why nothing may be decided by these figures: too many turns that a language model did not answer."""
    from jazzmine_dspy.eval.compare import inconclusive_reason

    return next((why for one in sides if (why := inconclusive_reason(record_of(one)))), "")


def show(found: Comparison, examples: int = _SHOWN) -> None:
    """Print a comparison for people."""
    out = output()
    columns = (*found.names, "difference", "95 % interval", "p", "gained", "lost", "n")
    rows = [(one.metric, *_cells(one)) for one in (found.main, *found.others)]
    out.show(table(("metric", *columns), rows, title=" → ".join(found.names), numbers=True))
    if found.slices:
        rows = [(f"{part.kind}: {part.name}", *_cells(part.found, part.tested)) for part in found.slices]
        out.show(table(("slice", *columns), rows, title=f"{found.objective} by slice", numbers=True))
    out.show("p of further metrics and of slices: adjusted for their number (Holm).")
    for flag in found.flags:
        out.show(
            f"{flag.name}: right with {found.names[0]} alone on {flag.only_before} turns, with {found.names[1]} alone "
            f"on {flag.only_after} (McNemar, turn by turn: p = {flag.p:.3g})"
        )
    for title, turns in (("gained", found.gained), ("lost", found.lost)):
        for turn in turns[:examples]:
            out.show(
                "", f"{title}: {turn.message!r} ({turn.key}; {turn.state})", f"  expected  {turn.expected}"
            )
            out.show(f"  {found.names[0]}  {turn.before}", f"  {found.names[1]}  {turn.after}")
        if len(turns) > examples:
            out.show(f"… and {len(turns) - examples} more {title}; --json and --report hold all of them.")
    moved = ", ".join(f"{n} {old} → {new}" for (old, new), n in sorted(found.outcomes.items()) if old != new)
    out.show("", f"outcomes that changed: {moved or 'none'}; {found.left_out} turns left out as unanswered")
    out.show(found.verdict)


def _cells(one: Paired, tested: bool = True) -> tuple[str, ...]:
    bounds = "too few" if one.low is None else f"{one.low:+.3f} to {one.high:+.3f}"
    p = one.p if one.adjusted is None else one.adjusted
    chance = f"{p:.3g}" if tested else "too few"
    figures = (f"{one.before:.3f}", f"{one.after:.3f}", f"{one.difference:+.3f}", bounds, chance)
    return (*figures, str(one.gained), str(one.lost), str(one.n))
