"""Open a run: its metered language models with replay, its budget, and the program before any training."""

from __future__ import annotations

import contextlib
import functools
import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import dspy

from jazzmine_dspy import artifacts
from jazzmine_dspy.datasets import Dataset
from jazzmine_dspy.datasets.schema import Example
from jazzmine_dspy.lm import lm_identity, metered, replayed, resolve_lm
from jazzmine_dspy.lm.deferred import PREFIX, DeferredEngine
from jazzmine_dspy.lm.dspy_api import Request, Response
from jazzmine_dspy.lm.engines import request_key, unwrap
from jazzmine_dspy.lm.meter import Meter
from jazzmine_dspy.lm.prices import price_of
from jazzmine_dspy.lm.replay import RecordedEngine, ReplayStore
from jazzmine_dspy.models.errors import RecipeError
from jazzmine_dspy.optimize.budget import Budget, price_for
from jazzmine_dspy.optimize.context import Progress, RunContext
from jazzmine_dspy.optimize.recipe import BudgetPart, Recipe
from jazzmine_dspy.program.demonstrations import label_of
from jazzmine_dspy.program.policy import Policy
from jazzmine_dspy.program.turn import TurnProgram
from jazzmine_dspy.signatures.contract import ANSWERED


def open_context(
    recipe: Recipe,
    dataset: Dataset,
    progress: Progress,
    work: Path,
    *,
    started_from: str | None = None,
    lm: dspy.LM | None = None,
    teacher: dspy.LM | None = None,
    fresh: bool = False,
) -> RunContext:
    """Open the context that the steps of a run share.

    Args:
        recipe: The recipe.
        dataset: The labelled conversations.
        progress: Watches the run.
        work: Folder of the replay store, which later runs reuse.
        started_from: Hash of the program whose prompts are the start.
        lm: A language model instead of the recipe's.
        teacher: A teacher instead of the recipe's.
        fresh: Whether to ignore the answers of earlier runs.

    Raises:
        LMNotFoundError: the name of a language model does not resolve.
        RecipeError: the budget limits money and the price is unknown, or a language model answers by file.
    """
    budget = Budget(recipe.budget, price=price_for(recipe))
    values: dict[str, Any] = {"started_from": started_from, "work": work}
    if recipe.lm != "none":
        answers = functools.partial(RunAnswers, work / "replay.db", recipe.fingerprint, fresh=fresh)
        lm = lm or resolve_lm(recipe.lm, **recipe.lm_settings)
        values["lm_facts"] = {"model": lm.model, "identity": lm_identity(lm)}
        values["lm"] = _replayed(lm, budget.meter, answers)
        if teacher is not None or recipe.teacher.lm:
            part = recipe.teacher
            teacher = teacher or resolve_lm(part.lm, **part.lm_settings)
            values["teacher_budget"] = teacher_budget = Budget(
                BudgetPart(lm_calls=part.lm_calls, tokens=part.tokens),
                price=price_of(teacher.model, part.price),
            )
            values["teacher"] = _replayed(teacher, teacher_budget.meter, answers)
            values["lm_facts"]["teacher"] = {"model": teacher.model, "identity": lm_identity(teacher)}
    elif recipe.optimizer.name != "none":
        progress.note("no language model is asked, so no prompt is compiled")
    return RunContext(recipe, dataset, progress, budget, **values)


def start_program(
    recipe: Recipe, dataset: Dataset, start_from: str | Path | None = None
) -> tuple[TurnProgram, str | None]:
    """The program before any training, with an embedder and an index of the flows, and the hash that it started from.

    Raises:
        EmbeddingError: the recipe's embedding model is missing or damaged.
    """
    from jazzmine_dspy.memory.procedural.embedder import FastembedEmbedder

    settings: dict[str, Any] = {
        "shape": recipe.shape,
        "top_k": recipe.top_k,
        "history_window": recipe.history_window,
        "history_shown": recipe.history_shown,
        "max_commands": recipe.max_commands,
        "unasked": unlabelled_fields(dataset.examples("train")),
        "deciders": (("local", None),),
    }
    started_from = None
    if start_from is not None:
        loaded = artifacts.load_with_manifest(start_from, flows=dataset.flows, bind=False)
        # Takes over the prompts; this run trains its own heads and gates.
        program, started_from = loaded.program, str(loaded.manifest["sha256"])
        program.bind(heads=dict.fromkeys(program.bindings.heads))
        program = program.with_policy(Policy.model_validate(settings))
    else:
        program = TurnProgram(
            dataset.flows,
            policy=Policy.model_validate(settings),
            signatures=Path(recipe.signatures) if recipe.signatures else None,
        )
    embedder = FastembedEmbedder(recipe.embedder)
    # Fails here without the embedding model. In service a program works without it, but a run would train another one.
    embedder.embed(["ready?"])
    artifacts.bind_recall(program, embedder)
    return program, started_from


def unlabelled_fields(examples: Sequence[Example]) -> tuple[str, ...]:
    """Fields of an answer that no turn labels: prompts of programs for these turns leave them out.

    Example:
        >>> from jazzmine_dspy.models.labels import Labels
        >>> from jazzmine_dspy.models.turn import Turn
        >>> labels, turn = Labels(flows=(), commands=()), Turn(text="x")
        >>> one = Example(conversation_id="c", turn_id="t", turn=turn, labels=labels, role="train", line=1)
        >>> unlabelled_fields([one])[:3]
        ('enhanced_query', 'sentiment_score', 'intent')
    """
    return tuple(name for name in ANSWERED if all(label_of(name, each.labels) is None for each in examples))


def _replayed(lm: dspy.LM, meter: Meter, answers: Callable[[], RunAnswers]) -> dspy.LM:
    """The model with a meter and a replay store, so that no run asks it the same again.

    Raises:
        RecipeError: the model answers by file.
    """
    if type(unwrap(lm)[1]) is DeferredEngine:
        raise RecipeError(
            "A run needs a language model that answers while the run waits",
            where=f"lm = {PREFIX!r}…",
            remedy="Name a live model, or let people be one with tools/answer_server.py; evaluations take "
            "deferred answers.",
        )
    # DSPy's own cache would answer even a fresh run.
    lm = lm.copy(cache=False) if lm.cache else lm
    # A recording is its own store. A second one would hide that it is stale.
    stored = lm if isinstance(unwrap(lm)[1], RecordedEngine) else replayed(lm, answers())
    # Repeated requests at temperature 0 cost no call.
    return replayed(metered(stored, meter), ReplayStore(":memory:"))


@contextlib.contextmanager
def alone(out: Path) -> Iterator[None]:
    """Context in which no other run writes into a folder.

    Raises:
        RecipeError: another run is writing into it.
    """
    import portalocker

    path = out.parent / f".{out.name}.lock"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab") as file:
        try:
            portalocker.lock(file, portalocker.LockFlags.EXCLUSIVE | portalocker.LockFlags.NON_BLOCKING)
            # Another run may just have ended and removed this file.
            if not path.exists() or path.stat().st_ino != os.fstat(file.fileno()).st_ino:
                raise portalocker.exceptions.AlreadyLocked("taken away")
        except portalocker.exceptions.LockException as error:
            raise RecipeError(
                "Another run is under way into this folder",
                where=str(out),
                remedy="Wait for it, or name another --out.",
            ) from error
        try:
            yield
        finally:
            path.unlink(missing_ok=True)
            portalocker.unlock(file)


_SAMPLED = "~"


class RunAnswers(ReplayStore):
    """A replay store that also stores sampled answers, numbered by request.

    A run is deterministic except for its answers. A restarted run replays them, continues from there, and ends in the
    same bytes as an uninterrupted one. Answers are written when they arrive, so a killed process loses only those that
    it waits for. All runs share answers at temperature 0; sampled answers belong to a recipe.

    Args:
        path: The file; created if it is missing.
        recipe: Fingerprint of the recipe.
        fresh: Whether to ignore stored answers and replace them.
    """

    def __init__(self, path: Path, recipe: str, *, fresh: bool = False) -> None:
        super().__init__(path, fresh=fresh)
        self._recipe = recipe
        self._given: Counter[str] = Counter()

    def key(self, request: Request, identity: str) -> str:
        """The key of a request; the key of a sampled one is marked."""
        sampled = "" if request.config.temperature == 0 else f"{_SAMPLED}{self._recipe}"
        return request_key(request, identity) + sampled

    def get(self, key: str) -> Response | None:
        """The stored answer; for a sampled request, the first one that this process has not used yet."""
        answer = super().get(self._numbered(key))
        self._given[key] += answer is not None
        return answer

    def put(self, key: str, response: Response) -> None:
        """Store an answer and count it as used."""
        super().put(self._numbered(key), response)
        self._given[key] += 1

    def _numbered(self, key: str) -> str:
        return f"{key}#{self._given[key]}" if _SAMPLED in key else key
