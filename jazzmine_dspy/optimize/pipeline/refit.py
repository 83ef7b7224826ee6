"""The last fit: index and head once more, from all labelled turns but those of the test part."""

from __future__ import annotations

from typing import Any, NamedTuple

from jazzmine_dspy.optimize.context import RunContext
from jazzmine_dspy.optimize.pipeline.heads import refit_head
from jazzmine_dspy.optimize.pipeline.recall import IndexExample, index_examples
from jazzmine_dspy.optimize.pipeline.rows import collect_rows
from jazzmine_dspy.optimize.pipeline.selection import SelectionFit
from jazzmine_dspy.program.heads import SelectionHead
from jazzmine_dspy.program.turn import TurnProgram

PARTS = ("train", "dev_a", "dev_b")


class Refit(NamedTuple):
    """Index and head from all parts but the test's; nothing was chosen again."""

    examples: tuple[IndexExample, ...]
    head: SelectionHead | None
    rows: int

    def facts(self) -> dict[str, Any]:
        """What the manifest says of it."""
        return {"parts": list(PARTS), "rows": self.rows, "index_examples": len(self.examples)}


def refit(
    context: RunContext, program: TurnProgram, selection: SelectionFit, examples: tuple[IndexExample, ...]
) -> Refit | None:
    """Make index and head again; thresholds, gates and settings stay. None where the recipe wants none.

    Args:
        context: Of the run.
        program: What ships; its policy says who rewrites.
        selection: What was fitted.
        examples: Labelled turns that are in the index; where none are, none join it.
    """
    if not context.recipe.refit or not selection.rows:
        return None
    every = [e for e in context.dataset.examples(*PARTS) if e.labels.flows is not None]
    context.progress.phase("fit again on all parts", None)
    again = tuple(index_examples(program.registry, every)) if examples else ()
    head = None
    if selection.head is not None:
        with context.asking():
            # The head learns nothing from what recall finds here, so a turn may find itself.
            rows = collect_rows(program, every)
        head = refit_head(program, rows, selection.head, context.recipe.seed)
    return Refit(again, head, len(every))
