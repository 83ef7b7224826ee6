"""Evaluate programs for a command: select the turns, run with progress, price the run, and compare two programs."""

from __future__ import annotations

import contextlib
import itertools
import random
import shlex
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from jazzmine_dspy.cli._output import output, table
from jazzmine_dspy.cli._program_options import Opened, open_program

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from jazzmine_dspy.datasets import Dataset, Example
    from jazzmine_dspy.eval import Comparison, Evaluation, Objective, Record
    from jazzmine_dspy.eval.significance import Paired
    from jazzmine_dspy.eval.suite import Replayed
    from jazzmine_dspy.lm.prices import Price
    from jazzmine_dspy.models.registry import FlowRegistry

T = TypeVar("T")
DASH = "\u2013"
NO_INTERVAL = f"{DASH}: under 10 conversations, too few for an interval."
_EXAMPLES = 5

DatasetFolder = Annotated[Path, typer.Argument(metavar="DATASET", help="Folder of a labelled dataset.")]
Split = Annotated[
    str, typer.Option(help="test, train, dev_a or dev_b. Opening test is logged in the dataset.")
]
Sample = Annotated[int | None, typer.Option(min=1, help="Score only this many turns, drawn by seed.")]
Spread = Annotated[
    bool, typer.Option("--spread", help="Spread the sample over as many conversations as possible.")
]
Seed = Annotated[int, typer.Option(min=0, help="Seed of the sample and of the intervals.")]
ReportFolder = Annotated[
    Path | None, typer.Option(metavar="DIR", help="Write report.html, report.md and report.json.")
]
Concurrency = Annotated[
    int, typer.Option(metavar="N", min=1, max=256, help="Turns for which the LM is called at the same time.")
]

_OUTPUT = ("report", "wrong", "csv", "quiet", "_json", "concurrency", "timeout")
"""Parameters that do not change the results."""


@dataclass(frozen=True)
class EvaluationOptions:
    """Options of a command that evaluates a program."""

    split: str
    lm: str | None = None
    api_base: str | None = None
    policy: str | None = None
    seed: int = 0
    concurrency: int = 8
    quiet: bool = False
    timeout: float | None = None


@dataclass(frozen=True)
class ScoredProgram:
    """A program that was evaluated."""

    evaluation: Evaluation
    opened: Opened
    name: str
    price: Price | None
    options: EvaluationOptions
    dataset: Dataset
    exposure: str = ""
    """Which of the turns the program has learnt from, in words; empty if none."""

    def record(self) -> Record:
        """Its turns, with the facts that a comparison checks and prints."""
        from jazzmine_dspy.eval import Record

        return Record.of(
            self.evaluation,
            {
                **facts_in_common(self.dataset, self.options.split),
                "program": f"{self.name} {self.opened.program.fingerprint[:12]}",
                "dataset": self.dataset.name,
                "language model": self.opened.lm or "none",
                "policy": self.opened.policy,
            },
        )


def reproduce(context: typer.Context) -> str:
    """The running command with its arguments and all options that change the results."""
    words = context.command_path.split()
    for parameter in context.command.params:
        value = context.params.get(parameter.name or "")
        if value is None or value is False or parameter.name in _OUTPUT:
            continue
        if parameter.param_type_name == "option":
            words.append(parameter.opts[0])
        if value is not True:
            words.append(str(value))
    return shlex.join(words)


def facts_in_common(dataset: Dataset, split: str) -> dict[str, str]:
    """Facts that two evaluations must share to be comparable."""
    return {"split": split, "flows": dataset.flows.checksum}


def manifest_of(program: str) -> dict[str, Any]:
    """The manifest of a program; of the base its name."""
    from jazzmine_dspy.artifacts import BASE, find, read_manifest

    return {"name": BASE} if program == BASE else read_manifest(find(program))


def score(
    program: str, dataset: Dataset, examples: Sequence[Example], options: EvaluationOptions
) -> ScoredProgram:
    """Load a program and evaluate it over the flows of the dataset."""
    from jazzmine_dspy import eval as scoring
    from jazzmine_dspy.artifacts import BASE
    from jazzmine_dspy.datasets.load import describe_exposure

    out = output()
    manifest = manifest_of(program)
    flows = dataset.flows if program == BASE else None
    if flows is None and manifest.get("flows") != dataset.flows.checksum:
        out.note("note: dataset and program have different flows; the dataset's flows are used.")
        flows = dataset.flows
    if exposure := describe_exposure(manifest, dataset, options.split):  # type: ignore[arg-type]
        out.note(f"note: {exposure}.")
    opened = _open(program, options, flows)
    price = _price(manifest, opened.lm)
    with _progress("evaluating", len(examples), options.quiet) as progress:
        evaluation = scoring.evaluate(
            opened.program,
            examples,
            concurrency=options.concurrency if opened.lm else 1,
            progress=progress,
            # Without this, the index would return a training turn as its own example.
            exclude=lambda example: (example.conversation_id,),
            price=None if price is None else (price.prompt, price.completion),
            seed=options.seed,
        )
    return ScoredProgram(
        evaluation, opened, str(manifest.get("name", program)), price, options, dataset, exposure
    )


def _open(program: str, options: EvaluationOptions, flows: FlowRegistry | None) -> Opened:
    return open_program(
        program,
        lm=options.lm,
        api_base=options.api_base,
        timeout=options.timeout,
        flows=flows,
        policy=options.policy,
    )


def replay_conversations(program: str, dataset: Dataset, options: EvaluationOptions) -> Replayed:
    """Load a program and replay the conversations of a split with it (`replay_dataset`)."""
    from jazzmine_dspy.eval.suite import replay_dataset

    opened = _open(program, options, dataset.flows)
    with _progress("holding conversations", None, options.quiet) as progress:
        return replay_dataset(dataset, options.split, opened.program, progress=progress)  # type: ignore[arg-type]


@contextlib.contextmanager
def _progress(phase: str, total: int | None, quiet: bool) -> Iterator[Callable[[int, int], None] | None]:
    """Yield a callback that takes the number of finished turns and the total; None if ``quiet``."""
    if quiet:
        yield None
        return
    from jazzmine_dspy.cli._progress import RichProgress

    progress = RichProgress(output().err)
    progress.phase(phase, total)
    try:
        yield lambda done, n: progress.step(done, n, best=None, spent={})
    finally:
        progress.close()


def _price(manifest: dict[str, Any], lm: str | None) -> Price | None:
    """Price of the bound LM. The price in the recipe applies only to the LM that the program was compiled for."""
    from jazzmine_dspy.lm.prices import price_of

    if lm is None:
        return None
    recipe_price = (manifest.get("recipe") or {}).get("price")
    compiled_for = lm == (manifest.get("lm") or {}).get("model")
    return price_of(
        lm, (float(recipe_price[0]), float(recipe_price[1])) if recipe_price and compiled_for else None
    )


def open_turns(
    folder: Path, split: str, reason: str, sample: int | None, seed: int, spread: bool
) -> tuple[Dataset, Sequence[Example]]:
    """The dataset, and the turns of a split, or a sample of them in the order of the split."""
    from jazzmine_dspy.datasets.load import draw, load_dataset

    dataset = load_dataset(folder)
    if split == "test":
        dataset.open_test(reason)
    examples = dataset.examples(split)
    if sample is None or sample >= len(examples) or not spread:
        return dataset, draw(examples, sample or len(examples), seed)
    indices = random.Random(seed).sample(range(len(examples)), len(examples))
    numbers = defaultdict[str, Iterator[int]](itertools.count)
    # The first turn drawn of each conversation, then the second of each, and so on.
    indices = sorted(indices, key=lambda index: next(numbers[examples[index].conversation_id]))[:sample]
    return dataset, [examples[index] for index in sorted(indices)]


# --- two programs on the same turns ----------------------------------------------------------------------


def is_record(name: str) -> bool:
    """Whether the name is a file of an earlier evaluation instead of a program."""
    return name.endswith(".json") and Path(name).is_file()


def side(
    name: str, dataset: Dataset, examples: Sequence[Example], options: EvaluationOptions
) -> Record | ScoredProgram:
    """Evaluate a program on the turns, or read an earlier evaluation from a file.

    Raises:
        JazzmineError: the program does not exist, or the file belongs to another dataset, split or registry.
    """
    if not is_record(name):
        return score(name, dataset, examples, options)
    from jazzmine_dspy.eval import read_record

    return read_record(name, dataset.examples(options.split), facts_in_common(dataset, options.split))


def run_tasks(*tasks: Callable[[], T]) -> list[T]:
    """Run all tasks and return their results. A task that awaits LM answers does not stop the others.

    Raises:
        Awaiting: at least one task awaits answers.
    """
    from jazzmine_dspy.models.awaiting import AwaitingGroup

    with AwaitingGroup() as group:
        results = [group.attempt(task) for task in tasks]
    return [result for result in results if result is not None]


def objective_of(*sides: Record | ScoredProgram, name: str | None = None) -> Objective:
    """The named metric, else the objective and constraints of the last program's recipe."""
    from jazzmine_dspy.eval import OBJECTIVES, Objective
    from jazzmine_dspy.models.errors import InputError

    if name is not None and name not in OBJECTIVES:
        raise InputError(
            f"No objective is named {name!r}", where="--objective", remedy=f"Use: {', '.join(OBJECTIVES)}."
        )
    recipes = [
        one.opened.manifest.get("recipe") or {} for one in reversed(sides) if isinstance(one, ScoredProgram)
    ]
    recipe: dict[str, Any] = next((one for one in recipes if one.get("objective")), {})
    if name is not None and name != recipe.get("objective"):
        return Objective(name)
    return Objective(str(recipe.get("objective", OBJECTIVES[0])), dict(recipe.get("constraints") or {}))


def record_of(one: Record | ScoredProgram) -> Record:
    """The record of a program or of a file."""
    return one.record() if isinstance(one, ScoredProgram) else one


def show_comparison(comparison: Comparison, examples: int = _EXAMPLES) -> None:
    """Print a comparison for people."""
    out = output()
    columns = (*comparison.names, "difference", "95 % interval", "p", "gained", "lost", "n")
    rows = [(one.metric, *_cells(one)) for one in (comparison.main, *comparison.others)]
    out.show(table(("metric", *columns), rows, title=" → ".join(comparison.names), numbers=True))
    if comparison.slices:
        rows = [(f"{part.kind}: {part.name}", *_cells(part.found, part.tested)) for part in comparison.slices]
        out.show(table(("slice", *columns), rows, title=f"{comparison.objective} by slice", numbers=True))
    out.show(f"p of further metrics and of slices: adjusted for their number (Holm). {NO_INTERVAL}")
    before, after = comparison.names
    for title, turns in (("gained", comparison.gained), ("lost", comparison.lost)):
        for turn in turns[:examples]:
            out.show(
                "", f"{title}: {turn.message!r} ({turn.key}; {turn.state})", f"  expected  {turn.expected}"
            )
            out.show(f"  {before}  {turn.before}", f"  {after}  {turn.after}")
        if len(turns) > examples:
            out.show(f"… and {len(turns) - examples} more {title}; --json and --report have all of them.")
    moved = ", ".join(
        f"{n} {old} → {new}" for (old, new), n in sorted(comparison.outcomes.items()) if old != new
    )
    out.show(
        "", f"outcomes that changed: {moved or 'none'}; {comparison.left_out} turns left out as unanswered"
    )
    out.show(comparison.verdict)


def _cells(one: Paired, tested: bool = True) -> tuple[str, ...]:
    bounds = DASH if one.low is None else f"{one.low:+.3f} to {one.high:+.3f}"
    p = one.p if one.adjusted is None else one.adjusted
    chance = f"{p:.3g}" if tested else DASH
    figures = (f"{one.before:.3f}", f"{one.after:.3f}", f"{one.difference:+.3f}", bounds, chance)
    return (*figures, str(one.gained), str(one.lost), str(one.n))
