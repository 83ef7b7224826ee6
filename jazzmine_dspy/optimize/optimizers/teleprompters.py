"""The adapter between a run and DSPy's optimizers: five by name, any other `dspy.Teleprompter` by its dotted name."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import dspy

from jazzmine_dspy.datasets.schema import Example
from jazzmine_dspy.lm.engines import scripted_lm
from jazzmine_dspy.models.errors import RecipeError
from jazzmine_dspy.optimize.optimizers.compiling import compiled, quiet
from jazzmine_dspy.optimize.optimizers.registry import OPTIMIZERS, Candidate, Optimizer, OptimizerTools, named
from jazzmine_dspy.optimize.recipe import OptimizerPart, Recipe, suggestion
from jazzmine_dspy.program.demonstrations import label_of
from jazzmine_dspy.program.trainable import TrainableProgram
from jazzmine_dspy.program.turn import TurnProgram

_ALL_RIGHT = 0.9
"""Score from which GEPA takes an answer for right: the price of its tokens keeps it below 1."""


def _defaults(tools: OptimizerTools) -> dict[str, Mapping[str, Any]]:
    """Arguments of the constructors of the five optimizers, by name, and of the ``compile`` of one."""
    demos, search = tools.recipe.demos, tools.recipe.search
    own = {"max_bootstrapped_demos": demos.bootstrapped}
    variants = {"num_candidates": search.candidates}
    return {
        "labeled_few_shot": {"k": demos.labeled},
        "bootstrap_random_search": {
            **own,
            "max_labeled_demos": demos.labeled,
            # Each random set has one of the program's right answers at least.
            "num_candidate_programs": demos.candidates if demos.bootstrapped else 0,
        },
        "miprov2": {**own, **variants, "auto": None, "max_labeled_demos": 0, "track_stats": False},
        "miprov2.compile": {"num_trials": search.trials, "minibatch": False},
        "simba": {
            **variants,
            "bsize": 8,
            "max_steps": search.rounds,
            "max_demos": demos.bootstrapped,
            # It distinguishes samples by their order.
            "num_threads": 1,
        },
        "gepa": {
            "max_metric_calls": search.rollouts,
            "gepa_kwargs": {"stop_callbacks": lambda _state: not tools.allows(1)},
        },
    }


class TeleprompterAdapter:
    """A ``dspy.Teleprompter`` as a run uses it: an :class:`Optimizer` that makes one candidate.

    The constructor and ``compile`` get what their signatures have: metric, language models, seed and threads of the
    run, student, teacher and turns. The tables of the recipe are added, and replace the defaults.

    Args:
        name: Name in recipes: one of the five, or a dotted name.
        path: Dotted name of the class.
    """

    def __init__(self, name: str, path: str) -> None:
        self.name, self._path = name, path

    def check(self, recipe: Recipe) -> None:
        """Check before a run that the class can be used with the tables of the recipe.

        Raises:
            RecipeError: it cannot be imported, is no optimizer, or refuses a key.
        """
        model = scripted_lm(lambda _request: "{}")
        with quiet(), dspy.context(lm=model):
            self._made(OptimizerTools(recipe, teacher=model), 1)

    def __call__(
        self, program: TurnProgram, train: Sequence[Example], tools: OptimizerTools
    ) -> Iterator[Candidate]:
        """The candidate that the class compiles."""
        train = _labelled(program, train) or train

        def run(student: TrainableProgram, tools: OptimizerTools) -> Any:
            trainset, valset = tools.trainset(train), tools.trainset(tools.dev or train)
            made = self._made(tools, len(trainset))
            values = {"student": student, "trainset": trainset, "valset": valset, **_settings(tools)}
            writes = {"teacher_settings", "prompt_model", "reflection_lm"} & set(_parameters(type(made)))
            if tools.teacher is not None and not writes:
                values["teacher"] = student.deepcopy()
                values["teacher"].set_lm(tools.teacher)
            return made.compile(**self._arguments("compile", made.compile, values, tools))

        yield from compiled(self.name, program, tools, run)

    def _made(self, tools: OptimizerTools, turns: int) -> Any:
        """An instance of the class."""
        kind = self._class(tools.recipe)
        self._arguments("compile", kind.compile, {}, tools)
        # Whoever writes by reflection wants the faults in words, and the same number with a trace and without.
        wants_words = "reflection_lm" in _parameters(kind)
        values = {
            "metric": tools.score if wants_words else tools.metric,
            "prompt_model": tools.writer, "reflection_lm": tools.writer, "task_model": dspy.settings.lm,
            "teacher_settings": {} if tools.teacher is None else {"lm": tools.teacher},
            "perfect_score": _ALL_RIGHT, **_settings(tools),
        }  # fmt: skip
        arguments = self._arguments("init", kind, values, tools)
        if isinstance(size := arguments.get("bsize"), int):
            arguments["bsize"] = min(size, turns) if turns > 1 else size
        try:
            return kind(**arguments)
        except Exception as error:
            raise self._refused(
                tools.recipe, ".init", f"{self._path} refuses these settings: {str(error)[:300]}",
                f"It takes {', '.join(_parameters(kind))}.",
            ) from error  # fmt: skip

    def _class(self, recipe: Recipe) -> Any:
        module, _, name = self._path.rpartition(".")
        kind: Any
        try:
            kind = getattr(importlib.import_module(module), name)
        except Exception as error:
            raise self._refused(
                recipe, "", f"{self._path} cannot be imported: {error}",
                "Install its package, or correct the name: package.module.Class.",
            ) from error  # fmt: skip
        of_dspy = inspect.isclass(kind) and issubclass(kind, dspy.teleprompt.Teleprompter)
        if not of_dspy:
            fault = "is not a dspy.Teleprompter"
        elif "student" not in _parameters(kind.compile):
            fault = "compiles no student"
        else:
            return kind
        raise self._refused(recipe, "", f"{self._path} {fault}", "Name an optimizer of prompts: dspy.GEPA.")

    def _arguments(
        self, part: str, function: Any, values: Mapping[str, Any], tools: OptimizerTools
    ) -> dict[str, Any]:
        """The arguments of a function: those of the run, the defaults, and the table of the recipe.

        Raises:
            RecipeError: the table has a key that the function does not take, or that the run sets.
        """
        recipe, known = tools.recipe, _parameters(function)
        mine = recipe.optimizer if recipe.optimizer.name == self.name else OptimizerPart()
        table: dict[str, Any] = getattr(mine, part)
        open_ended = any(
            each.kind is each.VAR_KEYWORD for each in inspect.signature(function).parameters.values()
        )
        for key in table:
            if key in _SET_BY_RUN:
                raise self._refused(
                    recipe, f".{part}.{key}", f"The run sets {key!r} itself", "Remove the key."
                )
            if key not in known and not open_ended:
                raise self._refused(
                    recipe,
                    f".{part}.{key}",
                    f"{self._path} takes no {key!r} here",
                    f"{suggestion(key, known)}.",
                )
        given = {
            key: value for key, value in values.items() if key in known or (open_ended and key == "metric")
        }
        name = self.name if part == "init" else f"{self.name}.{part}"
        return {**given, **_defaults(tools).get(name, {}), **table}

    def _refused(self, recipe: Recipe, key: str, fault: str, remedy: str) -> RecipeError:
        return RecipeError(fault, where=f"{recipe.where}: optimizer{key}", remedy=remedy)


_SET_BY_RUN = frozenset(
    {
        "metric", "prompt_model", "reflection_lm", "task_model", "teacher_settings", "student", "teacher", "trainset",
        "valset",
    }
)  # fmt: skip


def _settings(tools: OptimizerTools) -> dict[str, Any]:
    """Settings of a run that tables may replace."""
    threads = {"num_threads": tools.threads}
    return {"seed": tools.recipe.seed, **threads, "eval_kwargs": threads}


def _parameters(function: Any) -> list[str]:
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    parameters = inspect.signature(function).parameters
    return [name for name, each in parameters.items() if each.kind in kinds and name != "self"]


def _labelled(program: TurnProgram, turns: Sequence[Example]) -> list[Example]:
    """The turns that have a label for each field that the prompts ask for."""
    fields = {
        field
        for name in program.active_predictors()
        for field in program.predictor(name).signature.output_fields
    }
    return [each for each in turns if all(label_of(field, each.labels) is not None for field in fields)]


_PATHS = {
    "labeled_few_shot": "dspy.LabeledFewShot",
    "bootstrap_random_search": "dspy.BootstrapFewShotWithRandomSearch",
    "miprov2": "dspy.MIPROv2",
    "simba": "dspy.SIMBA",
    "gepa": "dspy.GEPA",
}
for _name, _path in _PATHS.items():
    OPTIMIZERS.add(_name, TeleprompterAdapter(_name, _path), origin=f"{__name__}.{_name}")


def optimizer_of(recipe: Recipe) -> Optimizer:
    """The optimizer of a recipe, checked: one that is registered, else a class by its dotted name.

    Raises:
        RecipeError: there is no such optimizer, or it refuses the tables.
        ExtensionError: the package that offers it cannot be loaded.
    """
    part = recipe.optimizer
    dotted = part.name not in OPTIMIZERS and "." in part.name
    found = TeleprompterAdapter(part.name, part.name) if dotted else named(part.name)
    if isinstance(found, TeleprompterAdapter):
        found.check(recipe)
    elif part.init or part.compile:
        raise RecipeError(
            f"The optimizer {part.name!r} takes no tables",
            where=f"{recipe.where}: optimizer",
            remedy="Remove [optimizer.init] and [optimizer.compile], or name a class of DSPy's kind.",
        )
    return found
