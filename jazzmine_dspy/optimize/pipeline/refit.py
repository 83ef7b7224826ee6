"""The last fit: index and head once more, from all labelled turns but those of the test part."""

from __future__ import annotations

from typing import Any, NamedTuple

from jazzmine_dspy.models.decision import Stage
from jazzmine_dspy.optimize.context import RunContext
from jazzmine_dspy.optimize.pipeline.heads import refit_head
from jazzmine_dspy.optimize.pipeline.parts import bind_rewriting, with_index
from jazzmine_dspy.optimize.pipeline.recall import IndexExample, index_examples
from jazzmine_dspy.optimize.pipeline.rows import collect_rows
from jazzmine_dspy.optimize.pipeline.selection import SelectionFit
from jazzmine_dspy.program.ports import HeadPort
from jazzmine_dspy.program.turn import TurnProgram

PARTS = ("train", "dev_a", "dev_b")


class Refit(NamedTuple):
    """Index and heads from all parts but the test's; nothing was chosen again.

    Args:
        program: What ships, over the new index. While what follows the rewrite is trained, a head of the rewrite
            answers in it that has not seen the turn.
        heads: The heads to bind when all is trained: of the rewrite, and ours of the selection.
        examples: Labelled turns in the index.
        rows: How many turns taught.
    """

    program: TurnProgram
    heads: dict[Stage, HeadPort[Any]]
    examples: tuple[IndexExample, ...]
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
    every = context.dataset.examples(*PARTS)
    labelled = [each for each in every if each.labels.flows is not None]
    context.progress.phase("fit again on all parts", None)
    again = tuple(index_examples(program.registry, labelled)) if examples else ()
    program = with_index(program, again) if again else program.with_policy(program.policy)
    heads = bind_rewriting(context, program, every)
    if selection.head is not None:
        with context.asking():
            # The head learns nothing from what recall finds here, so a turn may find itself.
            rows = collect_rows(program, labelled)
        head = refit_head(program, rows, selection.head, context.recipe.seed)
        heads = {**heads, "select": head}
        program.bind(heads={"select": head})
    return Refit(program, heads, again, len(labelled))
