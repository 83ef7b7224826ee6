"""What a run may ask of its language model at most, before it asks anything."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import dspy

from jazzmine_dspy.datasets.schema import Example
from jazzmine_dspy.lm.engines import chat_messages, scripted_lm
from jazzmine_dspy.lm.prices import Price, Tokens
from jazzmine_dspy.optimize.budget import Budget, price_for, price_in_words
from jazzmine_dspy.optimize.checks import open_dataset
from jazzmine_dspy.optimize.context import PARTS, NullProgress, RunContext
from jazzmine_dspy.optimize.opening import start_program
from jazzmine_dspy.optimize.optimizers.registry import AS_WRITTEN, OptimizerTools, calls_per_turn, named
from jazzmine_dspy.optimize.previous import read_previous
from jazzmine_dspy.optimize.recipe import DemosPart, Recipe, read_recipe
from jazzmine_dspy.optimize.steps.prompts import turns_to_compile_on
from jazzmine_dspy.program.turn import TurnProgram

_MEASURED = 12
"""Turns whose prompts are written out to know how long they are."""

_CHARACTERS = 4
"""Of text, in a token: a rule of thumb for English."""


class Step(NamedTuple):
    """One part of a run with its maximum of calls and of tokens sent and answered."""

    name: str
    calls: int
    prompt_tokens: int
    completion_tokens: int


class Plan(NamedTuple):
    """The maximum that a run asks of its language model.

    Args:
        lm: Name of the language model.
        steps: The parts of the run in order, without the limits.
        limit: Calls that the recipe allows; None is no limit.
        price: Price of tokens, from the recipe or LiteLLM's table; None if neither has it.
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
        """All parts together, within the limits."""
        calls, prompt, answer = (
            sum(numbers) for numbers in zip((0, 0, 0), *(s[1:] for s in self.steps), strict=True)
        )
        cost = 0.0 if self.price is None else self.price.cost(Tokens(prompt, answer))
        limits = ((self.limit, calls), (self.tokens, prompt + answer), (self.money, cost))
        share = min((1.0, *(limit / need for limit, need in limits if limit is not None and need)))
        return Step("all", round(calls * share), round(prompt * share), round(answer * share))

    @property
    def cost(self) -> float | None:
        """Maximum of money; None if the price is unknown."""
        total = self.total
        return self.price and self.price.cost(Tokens(total.prompt_tokens, total.completion_tokens))

    def in_words(self) -> list[str]:
        """Lines: calls, tokens, and money at most, and the price."""
        if not self.steps:
            return ["no language model is asked: 0 calls"]
        total, price = self.total, self.price
        limits = [
            None if self.limit is None else f"{self.limit:,}",
            None if self.tokens is None else f"{self.tokens:,} tokens",
            None if self.money is None or price is None else price.amount(self.money),
        ]
        words = ", ".join(limit for limit in limits if limit is not None)
        return [
            f"at most {total.calls:,} calls of {self.lm} ({f'limit {words}' if words else 'no limit'}), about "
            f"{total.prompt_tokens:,} prompt tokens, at most {total.completion_tokens:,} answer tokens",
            *([] if price is None or self.cost is None else [f"at most about {price.amount(self.cost)}"]),
            f"price: {price_in_words(self.lm, price)}",
        ]

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
            "price": self.price and self.price._asdict(),
        }


def plan(recipe: Recipe | str | Path, *, start_from: str | Path | None = None) -> Plan:
    """Compute the maximum that a run may ask, without asking anything.

    Calls include those that the replay store would answer. Optimizers that write prompts have one rough bound. Tokens
    are estimated from prompts for turns of the dataset, with four characters a token and answers of maximum length.

    Args:
        recipe: A recipe, or its file.
        start_from: A compiled program that the run would start from.

    Raises:
        RecipeError: the recipe is invalid, or its budget in money lacks a price.
        DatasetError: the dataset does not fit the recipe.
    """
    recipe = recipe if isinstance(recipe, Recipe) else read_recipe(recipe)
    dataset = open_dataset(recipe)
    budget = Budget(recipe.budget, price=price_for(recipe))
    if recipe.lm == "none":
        return Plan(recipe.lm, (), recipe.budget.lm_calls, budget.meter.price)
    previous = None if start_from is None else read_previous(start_from, dataset)
    base, _ = start_program(recipe, dataset, start_from)
    return plan_run(RunContext(recipe, dataset, NullProgress(), budget, previous=previous), base)


def plan_run(context: RunContext, base: TurnProgram) -> Plan:
    """Compute the maximum that a run with this context asks, from its program before any training."""
    recipe, dataset, previous = context.recipe, context.dataset, context.previous
    limits, price = recipe.budget, context.budget.meter.price
    steps: list[Step] = []

    def add(name: str, calls: int, per_call: tuple[int, int]) -> None:
        steps.append(Step(name, calls, calls * per_call[0], calls * per_call[1]))

    train, asking = dataset.examples("train"), base.with_policy("lm")
    sample = turns_to_compile_on(context, base, dataset.examples("dev_a"))
    per_turn = calls_per_turn(asking)
    add("ask once", 1, _tokens(asking, sample))
    add("try uncompiled", len(sample) * per_turn, _tokens(asking, sample))
    shown = OptimizerTools(
        recipe.model_copy(
            update={"demos": DemosPart(labeled=max(recipe.demos.labeled, recipe.demos.bootstrapped))}
        )
    )
    compiled = next(named("labeled_few_shot")(asking, train, shown), None)
    per_call = _tokens(asking if compiled is None else compiled.program, sample)
    candidates, turns = _making(recipe, len(asking.active_predictors()))
    if candidates:
        add(f"compile by {recipe.optimizer.name}", (turns + candidates * len(sample)) * per_turn, per_call)
    add("compare", context.calls_for_judging, per_call)
    add("report on test", context.calls_for_report, per_call)
    if previous is not None:
        pool = dataset.examples(*PARTS)
        unseen = sum(example.conversation_id not in previous.learnt for example in pool)
        judged = min(recipe.sample.dev_b or unseen, unseen)
        tested = min(recipe.sample.test or context.test_turns, context.test_turns)
        add("judge and report before", (judged + tested) * calls_per_turn(previous.program), per_call)
    return Plan(recipe.lm, tuple(steps), limits.lm_calls, price, limits.tokens, limits.money)


def _making(recipe: Recipe, predictors: int) -> tuple[int, int]:
    """Maximum of candidates of an optimizer, and of turns decided to make them."""
    search = recipe.search
    known = {"none": (0, 0), AS_WRITTEN: (1, 0), "labeled_few_shot": (1, 0)}
    sets = max(search.candidates, recipe.demos.candidates) + 1
    return known.get(recipe.optimizer.name, (1, search.turns * predictors * sets * (search.rounds + 2)))


def _tokens(program: TurnProgram, sample: Sequence[Example]) -> tuple[int, int]:
    """Tokens that a call sends and maximum of tokens that it answers: means over the calls of some turns."""
    lm, log = scripted_lm(lambda _request: "{}"), logging.getLogger("jazzmine_dspy")
    level = log.level
    log.setLevel(logging.CRITICAL)
    try:
        with dspy.context(lm=lm):
            for example in sample[:_MEASURED]:
                program.decide(example.turn, exclude=(example.conversation_id,))
    finally:
        log.setLevel(level)
    requests = lm.engine.requests
    sent = sum(len(message["content"]) for request in requests for message in chat_messages(request))
    brought = sum(request.config.max_tokens or 0 for request in requests)
    count = max(1, len(requests))
    return sent // count // _CHARACTERS, brought // count
