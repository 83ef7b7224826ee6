"""What a run would ask of its language model, before it asks anything."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from jazzmine_dspy.datasets import load_dataset
from jazzmine_dspy.datasets.schema import Example
from jazzmine_dspy.lm.prices import Price, Tokens
from jazzmine_dspy.models.errors import JazzmineError
from jazzmine_dspy.optimize.budget import Budget, price_for
from jazzmine_dspy.optimize.context import RunContext
from jazzmine_dspy.optimize.earlier import for_update
from jazzmine_dspy.optimize.opening import start_program
from jazzmine_dspy.optimize.optimizers.candidates import DeadCompileError, calls_per_turn
from jazzmine_dspy.optimize.optimizers.means import Means
from jazzmine_dspy.optimize.optimizers.registry import candidates
from jazzmine_dspy.optimize.optimizers.search import labeled
from jazzmine_dspy.optimize.pipeline.added import check_added
from jazzmine_dspy.optimize.pipeline.check import PARTS, check_labels
from jazzmine_dspy.optimize.pipeline.prompts import turns_to_compile_on, uncompiled
from jazzmine_dspy.optimize.progress import NullProgress
from jazzmine_dspy.optimize.recipe import Recipe, read_recipe
from jazzmine_dspy.program.driver import drive
from jazzmine_dspy.program.sources.lm import call_for
from jazzmine_dspy.program.turn import TurnProgram
from jazzmine_dspy.signatures.adapter import DecisionAdapter

_LOOKED_AT = 12
"""Turns whose prompts are written out to know how long they are."""

_CHARACTERS = 4
"""Of text, in a token: a rule of thumb for English."""


class Step(NamedTuple):
    """One phase: its calls at most, and what they send and bring at most, in tokens."""

    name: str
    calls: int
    prompt_tokens: int
    completion_tokens: int


class Plan(NamedTuple):
    """What a run would ask at most.

    Args:
        lm: Name of the language model.
        steps: The phases in their order, as if there were no limit.
        limit: Calls that the recipe allows; None is no limit.
        price: What its tokens cost, by the recipe or by LiteLLM's table; None where neither knows it.
        tokens: Tokens that the recipe allows, sent and answered together; None is no limit.
        money: Money that it allows; None is no limit.
    """

    lm: str
    steps: tuple[Step, ...]
    limit: int | None
    price: Price | None
    tokens: int | None = None
    money: float | None = None

    @property
    def total(self) -> Step:
        """All phases together, within the limits."""
        calls, prompt, answer = (
            sum(numbers) for numbers in zip((0, 0, 0), *(s[1:] for s in self.steps), strict=True)
        )
        cost = 0.0 if self.price is None else self.price.cost(Tokens(prompt, answer))
        limits = ((self.limit, calls), (self.tokens, prompt + answer), (self.money, cost))
        share = min((1.0, *(most / wanted for most, wanted in limits if most is not None and wanted)))
        return Step("all", round(calls * share), round(prompt * share), round(answer * share))

    @property
    def cost(self) -> float | None:
        """Money at most; None where no price is known."""
        total = self.total
        return self.price and self.price.cost(Tokens(total.prompt_tokens, total.completion_tokens))

    def to_json(self) -> dict[str, Any]:
        """The document that ``optimize --dry-run --json`` prints."""
        return {
            "dry_run": True,
            "lm": self.lm,
            "limit": self.limit,
            "limits": {"lm_calls": self.limit, "tokens": self.tokens, "money": self.money},
            "steps": [step._asdict() for step in self.steps],
            **{key: value for key, value in self.total._asdict().items() if key != "name"},
            "cost": self.cost,
            "price": self.price and self.price.to_json(),
        }


def plan(
    recipe: Recipe | str | Path,
    *,
    start_from: str | Path | None = None,
    update: str | Path | None = None,
) -> Plan:
    """Say what a run would ask at most, without asking anything.

    Calls are counted as the run counts them, those that the replay store would answer included. Tokens are
    estimated from prompts of the recipe's own turns, four characters a token, answers at their longest.

    Args:
        recipe: A recipe, or its file.
        start_from: A compiled program whose prompts are the starting point.
        update: A compiled program that the run would update.

    Raises:
        RecipeError: as a run would before its first call; a budget in money needs a price.
        DatasetError: the same.
    """
    recipe = recipe if isinstance(recipe, Recipe) else read_recipe(recipe)
    recipe = recipe if update is None else for_update(recipe, start_from, update)
    dataset = load_dataset(recipe.dataset)
    check_added(recipe)
    check_labels(recipe, dataset)
    limits, price = recipe.budget, price_for(recipe)
    if recipe.lm == "none":
        return Plan("none", (), limits.lm_calls, price, limits.tokens, limits.money)
    base, _ = start_program(recipe, dataset, start_from or update)
    context = RunContext(recipe, dataset, NullProgress(), Budget(limits, price=price))
    train, dev_a = dataset.examples("train"), dataset.examples("dev_a")
    asking = base.with_policy("lm")
    sample = turns_to_compile_on(context, base, dev_a)
    plain = _tokens(asking, base, sample)
    shown = _tokens(_with_demonstrations(recipe, asking, train), base, sample)
    per_turn = calls_per_turn(asking)

    def step(name: str, turns: int, of: tuple[int, int]) -> Step:
        return Step(name, turns * per_turn, turns * of[0], turns * of[1])

    steps = [Step("ask once", 1, plain[0] // per_turn, plain[1] // per_turn)]
    for attempt in uncompiled(recipe, asking):
        worded = _tokens(attempt.make().program, base, sample)
        steps.append(step(f"try {attempt.name}", len(sample), worded))
    steps += [
        step(f"try {attempt.name}", len(sample) + attempt.calls // per_turn, shown)
        for attempt in candidates(recipe, asking, train, Means(recipe, sample))
    ]
    steps += [step(name, -(-calls // per_turn), shown) for name, calls in _after_compiling(context, per_turn)]
    return Plan(recipe.lm, tuple(steps), limits.lm_calls, price, limits.tokens, limits.money)


def _after_compiling(context: RunContext, per_turn: int) -> list[tuple[str, int]]:
    """The phases after the candidates, with their calls at most where the language model wins what it can."""
    recipe, parts = context.recipe, {role: len(context.dataset.examples(role)) for role in PARTS}
    every = sum(parts.values())
    # A head is also tried on turns whose flow is hidden: other candidates, and so another prompt where one holds all.
    hidden = parts["train"] + parts["dev_b"] if recipe.shape == "fused" and recipe.head else 0
    # Nobody else reads a rewrite of the fused shape.
    read = recipe.shape == "staged" or recipe.head or bool(recipe.heads)
    phases = [
        ("race on dev-B", context.calls_for_race - context.calls_for_order),
        ("fit again, if the LM wins", (every + hidden) * per_turn * read),
        ("order of head and LM", context.calls_for_order),
        ("train heads again", parts["train"] * per_turn if "understand" in recipe.heads else 0),
        # What is asked again has other candidates in the prompt; heads of later stages read answers that follow it.
        ("fit on all parts", every * per_turn * (1 + bool(recipe.heads)) if recipe.refit and read else 0),
        ("report on test", context.calls_for_report),
    ]
    return [(name, calls) for name, calls in phases if calls]


def _with_demonstrations(recipe: Recipe, asking: TurnProgram, train: Sequence[Example]) -> TurnProgram:
    """The program with as many demonstrations as a candidate has; it as it is where the labels give none."""
    count = max(recipe.demos.labeled, recipe.demos.bootstrapped)
    if recipe.optimizer == "none" or not count:
        return asking
    demos = recipe.demos.model_copy(update={"labeled": count})
    try:
        return labeled("plan", recipe.model_copy(update={"demos": demos}), asking, train, recipe.seed).program
    except DeadCompileError:
        return asking


def _tokens(asking: TurnProgram, base: TurnProgram, sample: Sequence[Example]) -> tuple[int, int]:
    """Tokens that a turn sends and brings at most, where every stage asks: the mean over some turns."""
    adapter, sent, brought = DecisionAdapter(), 0, 0
    looked_at = sample[:_LOOKED_AT]
    for example in looked_at:
        context = drive(
            base.steps_to("select", example.turn, (example.conversation_id,)), base, base.bindings
        )
        for name in asking.active_predictors():
            predictor, call = asking.predictor(name), call_for(context, name, asking.policy)
            try:
                messages = adapter.format(predictor.signature, predictor.demos, dict(call.inputs))
            except JazzmineError:
                continue
            sent += sum(len(str(message["content"])) for message in messages) // _CHARACTERS
            brought += int(call.config["max_tokens"])
    count = max(1, len(looked_at))
    return sent // count, brought // count
