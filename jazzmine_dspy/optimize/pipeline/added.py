"""What a recipe names beside our own: heads of registered kinds to train, and orders of registered sources to race."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Sequence
from typing import Any, cast

from jazzmine_dspy.datasets.schema import Example, Labels
from jazzmine_dspy.models.decision import STAGES, Enhancement, SourceKind, Stage
from jazzmine_dspy.models.errors import InputError, RecipeError, format_error
from jazzmine_dspy.optimize.context import RunContext
from jazzmine_dspy.optimize.pipeline.rows import Exclusions
from jazzmine_dspy.optimize.recipe import Recipe
from jazzmine_dspy.program.batch import at_once
from jazzmine_dspy.program.driver import drive
from jazzmine_dspy.program.heads import HEADS
from jazzmine_dspy.program.policy import FLOOR, Policy
from jazzmine_dspy.program.ports import HeadExample, HeadPort
from jazzmine_dspy.program.sources import check_orders
from jazzmine_dspy.program.sources.heads import head_input
from jazzmine_dspy.program.turn import TurnProgram


def check_added(recipe: Recipe) -> None:
    """Make sure that what the recipe names beside our own is there, before anything is fitted.

    Raises:
        RecipeError: nobody registered the source or the kind of head, or it cannot be had in this run.
        ExtensionError: the package that offers it cannot be loaded.
    """
    try:
        check_orders(Policy(orders={**FLOOR, **recipe.orders}))
    except InputError as error:
        raise RecipeError(error.message, where=error.where, remedy=error.remedy) from error
    for stage, order in recipe.orders.items():
        where = f"orders.{stage}"
        if "lm" in order and recipe.lm == "none":
            message, remedy = "asks a language model, and the run has none", "Name one with the key lm."
            raise RecipeError(f"The order {message}", where=where, remedy=remedy)
        trained = stage in recipe.heads or (stage == "select" and recipe.head)
        if "head" in order and not trained:
            message, remedy = "asks a head, and the run trains none", f"Name a kind with heads.{stage}."
            raise RecipeError(f"The order {message}", where=where, remedy=remedy)
    for stage, kind in recipe.heads.items():
        _check_head(recipe, stage, kind)


def _check_head(recipe: Recipe, stage: Stage, kind: str) -> None:
    name, where = f"{stage}.{kind}", f"heads.{stage}"
    if name not in HEADS:
        known = ", ".join(each.partition(".")[2] for each in HEADS if each.startswith(f"{stage}."))
        raise RecipeError(
            f"Nobody registered the kind of head {kind!r} for the stage {stage!r}",
            where=where,
            remedy=f"Install the package that has it; known: {known or 'none'}.",
        )
    if not callable(getattr(HEADS[name], "train", None)):
        raise RecipeError(
            f"Heads of the kind {kind!r} cannot be trained so",
            where=where,
            remedy="Give the class a class method train(examples, seed); the head of ours is the key head.",
        )
    if stage == "select" and recipe.head:
        raise RecipeError(
            "Two heads would be trained for the selection",
            where=where,
            remedy="Set head = false, or take the other one out.",
        )


def train_heads(
    context: RunContext,
    program: TurnProgram,
    examples: Sequence[Example],
    stages: Collection[Stage] = STAGES,
) -> dict[Stage, HeadPort[Any]]:
    """Train the heads that the recipe names.

    A head is given what it will be given in service: what the program's own steps make of a turn up to its stage, its
    own conversation and those that say the same left out of recall, the stages before it predicted and never labelled.

    Args:
        context: Of the run.
        program: Its policy says who answers the stages before.
        examples: Labelled turns; those without the label of a stage teach its head nothing.
        stages: Those whose heads are trained now.

    Raises:
        RecipeError: no turn has the label that a head learns from, or its training failed.
    """
    found: dict[Stage, HeadPort[Any]] = {}
    for stage in (each for each in STAGES if each in stages and each in context.recipe.heads):
        kind, where = context.recipe.heads[stage], f"heads.{stage}"
        trainer: Any = HEADS[f"{stage}.{kind}"]
        labelled = [(each, wanted) for each in examples if (wanted := WANTED[stage](each.labels)) is not None]
        if not labelled:
            raise RecipeError(
                f"No training turn has the labels of the stage {stage!r}",
                where=where,
                remedy="Label the turns, or take the head out of the recipe.",
            )
        context.progress.phase(f"train {kind} for {stage}", len(labelled))
        made, exclude = [], Exclusions(examples)

        def see(
            item: tuple[Example, Any],
            stage: Stage = stage,
            trainer: Any = trainer,
            exclude: Exclusions = exclude,
        ) -> HeadExample[Any]:
            return _example(program, stage, trainer, *item, exclude.of(item[0]))

        with context.asking():
            for shown in at_once(see, labelled, None if program.active_predictors() else 1):
                made.append(shown)
                context.on_progress(len(made), len(labelled))
        try:
            found[stage] = _trained(trainer, made, context.recipe.seed, program)
        except Exception as error:
            raise RecipeError(
                f"The head {kind!r} could not be trained: {format_error(error)}",
                where=where,
                remedy="Mend the package that has it.",
            ) from error
    return found


def orders_of(recipe: Recipe, stage: Stage) -> list[tuple[str, tuple[SourceKind, ...]]]:
    """The orders to race for a stage beside our own, each under the name of whom it asks."""
    own = recipe.heads.get(stage)
    orders = [recipe.orders[stage]] if stage in recipe.orders else []
    if own is not None and not any("head" in order for order in orders):
        orders.append(("rule", "head", "floor"))
    names = {"head": own or "head"}
    return [
        (
            ", then ".join(names.get(kind, kind) for kind in order if kind not in FLOOR[stage]) or "floor",
            order,
        )
        for order in orders
    ]


def _example(
    program: TurnProgram,
    stage: Stage,
    trainer: Any,
    example: Example,
    wanted: Any,
    left_out: tuple[str, ...],
) -> HeadExample[Any]:
    bindings = program.bindings
    context = drive(program.steps_to(stage, example.turn, left_out), program, bindings)
    reader = _Untrained(trainer, embeds=bindings.embedder is not None)
    steps = head_input(reader, context, context.choosable, rewritten=stage == "select")
    given = drive(steps, program, bindings)
    return HeadExample(given, wanted, example.conversation_id, example.labels.flows or ())


def _trained(trainer: Any, made: list[HeadExample[Any]], seed: int, program: TurnProgram) -> HeadPort[Any]:
    """A head of a kind; one that asks for it is given the embedding model, to see texts of its own."""
    if "embedder" in inspect.signature(trainer.train).parameters:
        return cast("HeadPort[Any]", trainer.train(made, seed, embedder=program.bindings.embedder))
    return cast("HeadPort[Any]", trainer.train(made, seed))


class _Untrained:
    """Stands for a head that is still to be trained, and looks at what its class says; else at the message."""

    fingerprint = ""

    def __init__(self, trainer: Any, embeds: bool) -> None:
        told = isinstance(inspect.getattr_static(trainer, "texts", None), staticmethod | classmethod)
        self._texts = trainer.texts if told else lambda message: (message,)
        self._embeds = embeds
        if isinstance(inspect.getattr_static(trainer, "texts_of", None), staticmethod | classmethod):
            self.texts_of = lambda turn: tuple(trainer.texts_of(turn)) if embeds else ()

    def texts(self, message: str) -> tuple[str, ...]:
        """The same texts as in service, where there is an embedder for them."""
        return tuple(self._texts(message)) if self._embeds else ()

    def predict(self, given: Any) -> Any:
        """Nothing yet."""
        raise NotImplementedError


def _rewrite(labels: Labels) -> Enhancement | None:
    if labels.enhanced is None:
        return None
    return Enhancement(
        enhanced_query=labels.enhanced,
        sentiment_score=labels.sentiment or 0.0,
        intent=labels.intent or "unknown",
        is_cancellation=bool(labels.is_cancellation),
        is_continuation=labels.is_continuation is not False,
    )


WANTED: dict[Stage, Callable[[Labels], Any]] = {
    "enhance": _rewrite,
    "select": lambda labels: labels.flows,
    "understand": lambda labels: (
        None if labels.commands is None else [each for each in labels.commands if each.understood]
    ),
}
"""What the head of each stage is to say, by the labels of a turn; None where these do not tell."""
