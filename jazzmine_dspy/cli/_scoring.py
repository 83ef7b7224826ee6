"""Evaluating a program for a command: the turns, the run with its progress, and what it costs."""

from __future__ import annotations

import random
import shlex
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jazzmine_dspy.cli._output import output
from jazzmine_dspy.cli._program_options import Opened, open_program

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jazzmine_dspy.datasets import Dataset, Example
    from jazzmine_dspy.eval import Evaluation, Record
    from jazzmine_dspy.eval.suite import Replayed
    from jazzmine_dspy.lm.prices import Price
    from jazzmine_dspy.models.registry import FlowRegistry

DatasetFolder = Annotated[Path, typer.Argument(metavar="DATASET", help="Folder of a labelled dataset.")]
Split = Annotated[
    str, typer.Option(help="test, train, dev_a or dev_b. Opening test is logged in the dataset.")
]
Sample = Annotated[int | None, typer.Option(min=1, help="Score that many turns, drawn by seed.")]
Spread = Annotated[
    bool, typer.Option("--spread", help="Draw the sample from as many conversations as there are.")
]
Seed = Annotated[int, typer.Option(min=0, help="Of the sample and of the draws behind the intervals.")]
ReportFolder = Annotated[
    Path | None, typer.Option(metavar="DIR", help="Write report.html, report.md and report.json.")
]
Concurrency = Annotated[
    int, typer.Option(metavar="N", min=1, max=256, help="Turns that a hosted LM is asked about at once.")
]

_OUTPUT = ("report", "quiet", "_json", "concurrency")
"""Parameters that change no figure."""


@dataclass(frozen=True)
class Asked:
    """What a command was told of the run."""

    split: str
    lm: str | None = None
    api_base: str | None = None
    policy: str = "shipped"
    wording: str | None = None
    seed: int = 0
    concurrency: int = 8
    quiet: bool = False


@dataclass(frozen=True)
class Scored:
    """A program that was evaluated."""

    found: Evaluation
    opened: Opened
    name: str
    price: Price | None
    asked: Asked
    dataset: Dataset
    seen: str = ""

    def record(self) -> Record:
        """Its turns, with what they may be compared by."""
        from jazzmine_dspy.eval import Record

        facts = {
            **held_by(self.dataset, self.asked.split),
            "program": f"{self.name} {self.opened.program.fingerprint[:12]}",
            "dataset": self.dataset.name,
            "language model": self.opened.lm or "none",
            "policy": self.asked.policy,
            "wording of prompts": self.opened.program.policy.wording,
        }
        return Record.of(self.found, facts)


def reproduce(context: typer.Context) -> str:
    """The command that runs, with its arguments and all options that change a figure."""
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


def held_by(dataset: Dataset, split: str) -> dict[str, str]:
    """What two evaluations must have in common."""
    return {"split": split, "flows": dataset.flows.checksum}


def score(program: str, dataset: Dataset, examples: Sequence[Example], asked: Asked) -> Scored:
    """Load a program and evaluate it, over the dataset's flows where those are others."""
    from jazzmine_dspy import eval as scoring
    from jazzmine_dspy.artifacts import BASE, find, read_manifest
    from jazzmine_dspy.datasets.exposure import describe_exposure

    out = output()
    manifest = {"name": BASE} if program == BASE else read_manifest(find(program))
    flows = dataset.flows if program == BASE else None
    if flows is None and manifest.get("flows") != dataset.flows.checksum:
        out.note("note: the dataset's flows are not those of the program; the dataset's are used.")
        flows = dataset.flows
    if seen := describe_exposure(manifest, dataset, asked.split):  # type: ignore[arg-type]
        out.note(f"note: {seen}.")
    opened = _opened(program, asked, flows)
    price = _price(manifest, opened.lm)
    progress = None
    if not asked.quiet:
        from jazzmine_dspy.cli._progress import RichProgress

        progress = RichProgress(out.err)
        progress.phase("evaluating", len(examples))
    try:
        found = scoring.evaluate(
            opened.program,
            examples,
            concurrency=asked.concurrency if _hosted(opened.lm) else 1,
            progress=None
            if progress is None
            else lambda done, n: progress.step(done, n, best=None, spent={}),
            # A turn of the training part would else find itself among the examples.
            exclude=lambda example: (example.conversation_id,),
            price=None if price is None else (price.prompt, price.completion),
            seed=asked.seed,
        )
    finally:
        if progress is not None:
            progress.close()
    return Scored(found, opened, str(manifest.get("name", program)), price, asked, dataset, seen)


def _opened(program: str, asked: Asked, flows: FlowRegistry | None) -> Opened:
    return open_program(
        program,
        lm=asked.lm,
        api_base=asked.api_base,
        serving=False,
        flows=flows,
        policy=asked.policy,
        wording=asked.wording,
    )


def replayed(program: str, dataset: Dataset, asked: Asked) -> Replayed:
    """Load a program and hold a part's conversations with it (`replay_dataset`)."""
    from jazzmine_dspy.eval.suite import replay_dataset

    opened = _opened(program, asked, dataset.flows)
    if asked.quiet:
        return replay_dataset(dataset, asked.split, opened.program)  # type: ignore[arg-type]
    from jazzmine_dspy.cli._progress import RichProgress

    progress = RichProgress(output().err)
    progress.phase("holding conversations", None)
    try:
        return replay_dataset(
            dataset,
            asked.split,  # type: ignore[arg-type]
            opened.program,
            progress=lambda done, n: progress.step(done, n, best=None, spent={}),
        )
    finally:
        progress.close()


def _hosted(lm: str | None) -> bool:
    return lm is not None and not lm.startswith("local/")


def _price(manifest: dict[str, Any], lm: str | None) -> Price | None:
    """What the bound language model costs; the recipe's price is that of the one it was compiled for."""
    from jazzmine_dspy.lm.prices import price_of

    if lm is None:
        return None
    given = (manifest.get("recipe") or {}).get("price")
    compiled_for = lm == (manifest.get("lm") or {}).get("model")
    return price_of(lm, (float(given[0]), float(given[1])) if given and compiled_for else None)


def drawn(dataset: Dataset, split: str, sample: int | None, seed: int, spread: bool) -> Sequence[Example]:
    """The turns of a split, or a sample of them."""
    examples = dataset.examples(split)
    if sample is None or sample >= len(examples):
        return examples
    draw = random.Random(seed)
    chosen = draw.sample(range(len(examples)), len(examples) if spread else sample)
    if spread:
        # The first turn drawn of each conversation, then the second of each, and so on.
        held: Counter[str] = Counter()
        places = []
        for index in chosen:
            held[examples[index].conversation_id] += 1
            places.append(held[examples[index].conversation_id])
        chosen = [index for _, index in sorted(zip(places, chosen, strict=True), key=lambda each: each[0])]
        chosen = chosen[:sample]
    return [examples[index] for index in sorted(chosen)]
