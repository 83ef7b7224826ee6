"""Checks of a run: labels exist, the language model answers, and no prompt copies text of the test part."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import dspy

from jazzmine_dspy.datasets import Dataset, load_dataset
from jazzmine_dspy.datasets.schema import Example
from jazzmine_dspy.eval.objective import has_label, labelled
from jazzmine_dspy.lm.engines import stated_timeout
from jazzmine_dspy.models.decision import STAGES
from jazzmine_dspy.models.errors import DatasetError, RecipeError
from jazzmine_dspy.models.labels import Labels
from jazzmine_dspy.models.turn import Turn
from jazzmine_dspy.optimize.context import PARTS, RunContext
from jazzmine_dspy.optimize.optimizers.teleprompters import optimizer_of
from jazzmine_dspy.optimize.recipe import Recipe
from jazzmine_dspy.program.bindings import BUILT_IN
from jazzmine_dspy.program.decider import DECIDERS
from jazzmine_dspy.program.outages import has_answer
from jazzmine_dspy.program.turn import TurnProgram

_DEADLINE_S = 120.0
"""Deadline of the first answer, because a server may have to load its model; a longer ``timeout`` counts instead."""

_SERVER_DOWN = ("LMNoAnswerError", "LMServerError", "LMRateLimitError", "LMTimeoutError")
"""Errors that do not come from a wrong name, address or key."""


def open_dataset(recipe: Recipe) -> Dataset:
    """Read the dataset of a recipe and check that the run can use it, and that all that the recipe names exists.

    Raises:
        RecipeError: an optimizer or a decider is not registered, or no label fits the objective or a constraint.
        ExtensionError: the package of one of them cannot be imported.
        DatasetError: the dataset is broken, or one of its parts is empty.
    """
    dataset = load_dataset(recipe.dataset)
    optimizer_of(recipe)
    for name in recipe.deciders:
        if name in BUILT_IN or DECIDERS.get(name) is None:
            raise RecipeError(
                f"No decider is registered as {name!r}",
                where=f"deciders of {recipe.name}",
                remedy=f"Known are {', '.join(DECIDERS) or 'none'}: install the package that has it.",
            )
    check_labels(recipe, dataset)
    return dataset


def check_labels(recipe: Recipe, dataset: Dataset) -> None:
    """Check that each part has turns with labels for the objective and the constraints.

    Raises:
        DatasetError: a part has no labelled turn.
        RecipeError: a part has no label for the objective, or for a constraint; the remedy names what has.
    """
    parts: dict[str, Sequence[Example]] = {role: dataset.examples(role) for role in PARTS}
    # Labels that the test part has, without the texts of its turns.
    parts["test"] = [
        Example(
            conversation_id=conversation.id, turn_id=conversation.turn_id(index), turn=Turn(text="…"),
            labels=turn.labels or Labels(), role="test", line=1,
        )
        for conversation in dataset.conversations if dataset.roles[conversation.id] == "test"
        for index, turn in enumerate(conversation.turns) if turn.labels is not None
    ]  # fmt: skip
    if not parts["test"]:
        raise DatasetError(
            "The split 'test' has no labelled turn",
            where=str(dataset.path),
            remedy="The report needs one: give it conversations with `datasets split`.",
        )
    named = (("objective", recipe.objective), *(("constraints", name) for name in recipe.constraints))
    for key, metric in named:
        lacking = [
            role for role, examples in parts.items() if not any(has_label(metric, each) for each in examples)
        ]
        if lacking:
            able = labelled(list(parts.values()))
            raise RecipeError(
                f"No turn of {lacking[0]!r} has the labels that {metric!r} is scored by",
                where=f"{key} of the recipe, dataset {dataset.path}",
                remedy=f"Name one that is labelled in every part: objective = {able[0]!r}"
                + (f" (or {', '.join(able[1:])})." if able[1:] else ".")
                if able
                else "Label the turns: no objective has labels in every part.",
            )


def check_lm(context: RunContext, program: TurnProgram, examples: Sequence[Example]) -> str:
    """Ask the language model once about a labelled turn, before any training.

    The call counts; an answer of the replay store stands for it, and a budget of no calls allows none. What the model
    says is not looked at: that it answers is enough.

    Returns:
        Why it gives no answer although its server is there; empty where it answers, or was not asked.

    Raises:
        RecipeError: the model cannot be reached; a wrong name and a missing key are found so.
    """
    if context.lm is None or not examples or not context.budget.allows():
        return ""
    context.progress.phase("ask the language model once", None)
    if not any(program.policy.asks(stage) for stage in STAGES):
        return ""
    once = program.with_policy("lm")
    if program.shape == "staged" and program.policy.asks("enhance"):
        # One call, not one for each stage.
        once = program.with_policy(program.policy.named("local").model_copy(update={"enhance": "lm"}))
    # The shortest turn, so that it fits the context window of a small model.
    example = min(
        examples, key=lambda e: (sum(len(m.text) for m in e.turn.history) + len(e.turn.text), e.key)
    )
    # Without outage tolerance, so that a mistyped address fails at once.
    deadline = max(_DEADLINE_S, stated_timeout(context.lm))
    with dspy.context(lm=context.lm):
        decision = once.decide(example.turn, exclude=(example.conversation_id,), deadline=deadline)
    refused = any(call.refused for call in decision.calls)
    if not decision.calls or refused or has_answer(decision.calls):
        return ""
    problem = decision.calls[-1].error or ""
    words = f"the language model {context.recipe.lm!r} does not answer: {problem}"
    if problem.startswith(_SERVER_DOWN):
        return words
    raise RecipeError(
        words[0].upper() + words[1:],
        where="asked once, before anything was fitted",
        remedy="Check its name, its address and its key, or run with lm = 'none'.",
    )


OWN_WORDS = 6
"""Runs of at least this many words count as copied; shorter ones, such as "where is my order", are common."""


class TestTexts:
    """Runs of six words that only the test part has: its messages, and the texts of its labels.

    Words that also occur in another part or in the flows are ignored.

    Args:
        dataset: The dataset with its test part.
    """

    __test__ = False

    def __init__(self, dataset: Dataset) -> None:
        self._turns: dict[str, set[str]] = {}
        public = _runs(str(dataset.flows.to_json()))
        for conversation in dataset.conversations:
            test = dataset.roles[conversation.id] == "test"
            for index, turn in enumerate(conversation.turns):
                texts = (
                    [turn.text, *texts_of(turn.labels.model_dump(mode="json"))]
                    if turn.labels
                    else [turn.text]
                )
                runs = {run for text in texts if turn.role == "user" for run in _runs(text)}
                if not test:
                    public.update(runs)
                for run in runs if test else ():
                    self._turns.setdefault(run, set()).add(f"{conversation.id}/{conversation.turn_id(index)}")
        for run in public & self._turns.keys():
            del self._turns[run]

    def copied(self, texts: Iterable[str]) -> tuple[str, ...]:
        """Test turns of which texts copy six words in a row: the keys of the turns, without their text."""
        runs = {run for text in texts for run in _runs(text)}
        return tuple(sorted({key for run in runs for key in self._turns.get(run, ())}))


def _runs(text: str) -> set[str]:
    words = re.findall(r"\w+", text.casefold())
    return {" ".join(words[at : at + OWN_WORDS]) for at in range(len(words) - OWN_WORDS + 1)}


def texts_of(state: Any) -> Iterator[str]:
    """All texts of nested mappings and lists."""
    if isinstance(state, str):
        yield state
    elif isinstance(state, Mapping):
        for value in state.values():
            yield from texts_of(value)
    elif isinstance(state, list | tuple):
        for value in state:
            yield from texts_of(value)
