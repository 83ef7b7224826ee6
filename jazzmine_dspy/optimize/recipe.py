"""The recipe: one TOML file that says all of an optimization run."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    PrivateAttr,
    SerializerFunctionWrapHandler,
    ValidationError,
    field_validator,
    model_serializer,
)

from jazzmine_dspy.artifacts.manifest import is_secret
from jazzmine_dspy.eval.metrics import LOWER_IS_BETTER
from jazzmine_dspy.eval.objective import CONSTRAINTS, OBJECTIVES, Objective
from jazzmine_dspy.models.base import Value, sha256
from jazzmine_dspy.models.errors import RecipeError, reading
from jazzmine_dspy.models.history import USER_TURNS
from jazzmine_dspy.models.parsing import from_toml, read_file
from jazzmine_dspy.optimize.gates import DELTA, TARGET_ERROR
from jazzmine_dspy.program.policy import Shape

_Money = Annotated[float, Field(ge=0, allow_inf_nan=False)]


def suggestion(name: str, known: Iterable[str]) -> str:
    """The name that a misspelt one is nearest to, else all known ones.

    Example:
        >>> suggestion("sed", ["seed", "name"]), suggestion("x", ["seed", "name"])
        ("Did you mean 'seed'?", 'Known: seed, name')
    """
    names = list(known)
    near = difflib.get_close_matches(name, names, n=1)
    return f"Did you mean {near[0]!r}?" if near else f"Known: {', '.join(names)}"


def _without_secrets(settings: dict[str, Any]) -> dict[str, Any]:
    for key, value in settings.items():
        if is_secret(key, value):
            raise ValueError(
                f"{key} is a secret, and recipes are stored and tracked; set the provider's environment variable"
            )
    return settings


_Arguments = Annotated[dict[str, Any], AfterValidator(_without_secrets)]
_Settings = Annotated[dict[str, str | int | float | bool], AfterValidator(_without_secrets)]


class BudgetPart(Value):
    """What a run may spend; None is no limit. With a limit in minutes no run is repeatable to the byte.

    Args:
        minutes: Of the clock.
        lm_calls: Calls of the language model.
        tokens: Sent and answered together, as the language model counts them.
        money: By the recipe's ``price``, else by LiteLLM's table; a model without a price cannot have this limit.
    """

    minutes: float | None = Field(default=None, gt=0)
    lm_calls: int | None = Field(default=None, ge=0)
    tokens: int | None = Field(default=None, ge=0)
    money: float | None = Field(default=None, ge=0, allow_inf_nan=False)


class DemosPart(Value):
    """Demonstrations per prompt, which every call sends, and how many sets of them are tried."""

    labeled: int = Field(default=3, ge=0, le=4)
    bootstrapped: int = Field(default=2, ge=0, le=4)
    candidates: int = Field(default=3, ge=1, le=64)
    threshold: float = Field(default=0.8, gt=0, le=1)


class SearchPart(Value):
    """How far optimizers search, and how long an instruction may become.

    Args:
        turns: Turns of train, and of dev-A, that a prompt is tried on.
        candidates: Texts, or variants of a program, per round.
        rounds: How often texts are written anew from what was learnt of the ones before.
        instruction_tokens: Longest instruction that an optimizer may write, in tokens of four bytes.
    """

    turns: int = Field(default=24, ge=1)
    candidates: int = Field(default=4, ge=2, le=32)
    rounds: int = Field(default=2, ge=1, le=32)
    instruction_tokens: int = Field(default=700, ge=1)

    @property
    def trials(self) -> int:
        """Combinations of texts and demonstrations that ``miprov2`` tries."""
        return self.candidates * self.rounds

    @property
    def rollouts(self) -> int:
        """Turns that ``gepa`` decides in all."""
        return self.turns * self.trials


class OptimizerPart(Value):
    """How prompts are compiled.

    Args:
        name: A registered optimizer, or the dotted name of a ``dspy.Teleprompter``.
        init: Arguments of the constructor of DSPy's class; they replace the run's own.
        compile: Arguments of its ``compile``.
    """

    name: str = "bootstrap_random_search"
    init: _Arguments = Field(default_factory=dict)
    compile: _Arguments = Field(default_factory=dict)

    @model_serializer(mode="wrap")
    def _short(self, handler: SerializerFunctionWrapHandler) -> Any:
        return handler(self) if self.init or self.compile else self.name


class TeacherPart(Value):
    """Another language model, which shows right answers and writes prompts. What it is asked is counted apart.

    Args:
        lm: Its name; "" for none, so that the run's own language model does both.
        lm_settings: Its settings; secrets are refused.
        price: Money per million prompt tokens and per million answer tokens; LiteLLM's table where it is left out.
        lm_calls: Calls that it may be asked; None is no limit.
        tokens: Tokens that it may take, sent and answered together.
    """

    lm: str = ""
    lm_settings: _Settings = Field(default_factory=dict)
    price: tuple[_Money, _Money] | None = None
    lm_calls: int | None = Field(default=None, ge=0)
    tokens: int | None = Field(default=None, ge=0)


class SamplePart(Value):
    """Turns of each part that the language model is asked on; 0 means all."""

    dev_a: int = Field(default=0, ge=0)
    dev_b: int = Field(default=0, ge=0)
    test: int = Field(default=0, ge=0)


class GatesPart(Value):
    """What the head's certificate promises: at most ``target_error`` of the turns that pass are wrong, with probability
    1 - ``delta``."""

    target_error: float = Field(default=TARGET_ERROR, gt=0, lt=1)
    delta: float = Field(default=DELTA, gt=0, lt=1)


Prefer = Literal["quality", "cost", "calls"]
"""What a run prefers where quality costs something."""


class OpenSetPart(Value):
    """Share of the messages that want no flow; None takes that of flows.yaml, else of the labels, 0.2 at least."""

    share: float | None = Field(default=None, ge=0, lt=1)


class Recipe(Value):
    """A run: dataset, shape, language model, optimizer, budget, seed.

    Args:
        name: Name of the run and of its program.
        dataset: Folder of the dataset, from where the run starts.
        objective: The metric that the run raises.
        constraints: For further metrics, how much of them may be lost for it.
        prefer: What a call of the language model for each turn has to bring: two points of the objective (``cost``, the
            default), four (``calls``), or none (``quality``).
        token_price: What a thousand tokens for each turn have to bring, sent and answered together: by default one
            point of the objective. Optimizers raise the objective minus this price, and prompts and programs are
            compared by it. With ``prefer = "quality"`` tokens have no price.
        lm: Name of the language model; ``none`` runs without one.
        top_k: Flows offered to the language model.
        history_window: Turns of the user, 1 to 50, that prompts show with the replies between them; those of
            ``understand`` show ``history_shown`` messages.
        max_commands: Commands that one answer may hold; a tiny model rambles less with few.
        head: Whether a head of selection is trained and judged too; left out, only where no commands are labelled.
            ``only`` judges no local program without one.
        acts: Whether labels move the package's weights.
        recall: Whether the run fits what recall's index holds and how it ranks.
        deciders: Deciders of other packages that are judged too, alone and before the language model.
        replay: Whether the report has whole conversations of the test part, with the program's own state. A run holds
            none where its program asks a language model: use ``evaluate --replay``.
        refit: Whether head and index are made again from all labelled turns but the test part's, once all is chosen.
        embedder: ``minilm``, or the name of a fastembed model.
        tracking: MLflow's tracking URI; ``none`` tracks nothing; empty is a SQLite file in
            ``.jazzmine/mlflow`` of the working folder.
        signatures: Folder with a project's own wording of the prompts.
        concurrency: Turns that a language model is asked about at once, which changes no result.
        price: Money per million prompt tokens and per million completion tokens; LiteLLM's table where it is left out.
    """

    name: str = Field(min_length=1, pattern=r"^[\w.-]+$")
    dataset: str = Field(min_length=1)
    objective: str = OBJECTIVES[0]
    constraints: dict[str, float] = Field(default_factory=dict)
    prefer: Prefer = "cost"
    token_price: float = Field(default=0.01, ge=0, le=1)
    shape: Shape = "fused"
    lm: str = "none"
    lm_settings: _Settings = Field(default_factory=dict)
    optimizer: Annotated[
        OptimizerPart, BeforeValidator(lambda value: {"name": value} if isinstance(value, str) else value)
    ] = OptimizerPart()
    seed: int = Field(default=0, ge=0)
    top_k: int = Field(default=8, ge=1, le=8)
    history_window: int = Field(default=USER_TURNS, ge=1, le=50)
    history_shown: int = Field(default=5, ge=0, le=10)
    max_commands: int = Field(default=6, ge=1, le=16)
    head: bool | Literal["only"] | None = None
    acts: bool = True
    recall: bool = True
    deciders: tuple[str, ...] = Field(default=(), exclude_if=lambda names: not names)
    refit: bool = False
    replay: bool = True
    embedder: str = "minilm"
    tracking: str = ""
    signatures: str = "signatures"
    concurrency: int = Field(default=8, ge=1, le=256)
    price: tuple[_Money, _Money] | None = None
    budget: BudgetPart = BudgetPart()
    demos: DemosPart = DemosPart()
    search: SearchPart = SearchPart()
    teacher: TeacherPart = TeacherPart()
    sample: SamplePart = SamplePart()
    gates: GatesPart = GatesPart()
    open_set: OpenSetPart = OpenSetPart()
    _file: str = PrivateAttr(default="")

    @field_validator("objective")
    @classmethod
    def _raisable(cls, name: str) -> str:
        if name not in OBJECTIVES:
            less = " (less of it is better)" if name in LOWER_IS_BETTER else ""
            raise ValueError(f"{name!r} cannot be raised{less}. {suggestion(name, OBJECTIVES)}")
        return name

    @field_validator("constraints")
    @classmethod
    def _holdable(cls, limits: dict[str, float]) -> dict[str, float]:
        for name, allowed in limits.items():
            if name not in CONSTRAINTS:
                raise ValueError(f"{name!r} cannot be a constraint. {suggestion(name, CONSTRAINTS)}")
            if not 0 <= allowed <= 2:
                raise ValueError(f"{name} may lose a share from 0 to 1, not {allowed:g}")
        return dict(sorted(limits.items()))

    @property
    def where(self) -> str:
        """File of the recipe, for errors; its name if it is from no file."""
        return self._file or f"recipe {self.name}"

    @property
    def target(self) -> Objective:
        """The objective with its constraints and the price of tokens."""
        return Objective(
            self.objective, self.constraints, 0.0 if self.prefer == "quality" else self.token_price
        )

    @property
    def fingerprint(self) -> str:
        """SHA-256 over all that may change the result (:attr:`facts`)."""
        return sha256(self.facts)

    @property
    def facts(self) -> dict[str, Any]:
        """All but where the run is tracked, and how much is asked at once: these change no result."""
        return self.model_dump(mode="json", exclude={"tracking", "concurrency"})

    def in_words(self) -> str:
        """The settings that are not the default, one a line."""
        settings = self.model_dump(mode="json", exclude_defaults=True)
        return "\n".join(
            f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in settings.items()
        )


def read_recipe(path: str | Path, **changes: Any) -> Recipe:
    """Read a recipe, with single values changed.

    Args:
        path: TOML file.
        changes: Values to use instead, by name, those of the budget and the setting `api_base` too; None keeps the
            file's.

    Raises:
        RecipeError: the file is missing or no TOML, or a key or a value is not known; file, key and remedy
            are named.
    """
    remedy = "Name a TOML file, in UTF-8; see optimize/recipes/."
    with reading(path, "Cannot read the recipe", remedy, RecipeError):
        text = read_file(path)
    with reading(path, "Not valid TOML", "Correct the line.", RecipeError):
        data = from_toml(text)
    return recipe_from(data, str(path), **changes)


def recipe_from(data: Mapping[str, Any], where: str, **changes: Any) -> Recipe:
    """A recipe from its keys and values, with single values changed as :func:`read_recipe` changes them.

    Args:
        data: Keys and values.
        where: File or program that they are from.
        changes: Values to use instead, by name.

    Raises:
        RecipeError: a key or a value is not known.

    Example:
        >>> recipe_from({"name": "shop", "dataset": "data"}, "shop", seed=3, lm=None).seed
        3
    """
    given = {key: value for key, value in changes.items() if value is not None}
    budget = {key: given.pop(key) for key in BudgetPart.model_fields if key in given}
    if address := given.pop("api_base", None):
        given["lm_settings"] = {**data.get("lm_settings", {}), "api_base": address}
    data = {**data, **given}
    if budget:
        data["budget"] = {**data.get("budget", {}), **budget}
    try:
        recipe = Recipe.model_validate(data)
        recipe._file = where
        return recipe
    except ValidationError as error:
        raise _explained(error, where) from error


def _explained(error: ValidationError, where: str) -> RecipeError:
    first = error.errors()[0]
    key = ".".join(str(part) for part in first["loc"])
    if first["type"] == "extra_forbidden":
        part: Any = Recipe
        for step in first["loc"][:-1]:
            part = part.model_fields[str(step)].annotation
        return RecipeError(
            f"Unknown key {key!r}", where=where, remedy=suggestion(str(first["loc"][-1]), part.model_fields)
        )
    return RecipeError(f"Key {key!r}: {first['msg']}", where=where, remedy="Correct the value.")
