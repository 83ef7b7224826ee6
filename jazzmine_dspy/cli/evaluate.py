"""``evaluate``."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jazzmine_dspy.cli._errors import CHECK_FAILED
from jazzmine_dspy.cli._output import AsJson, Quiet, output
from jazzmine_dspy.cli._programs import LM, APIBase, Name, PolicyOption, WordingOption, open_program

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jazzmine_dspy.datasets import Dataset, Example
    from jazzmine_dspy.eval import Evaluation
    from jazzmine_dspy.lm.prices import Price


def evaluate(
    program: Name,
    dataset: Annotated[Path, typer.Argument(metavar="DATASET", help="Folder of a labelled dataset.")],
    split: Annotated[
        str, typer.Option(help="test, train, dev_a or dev_b. Opening test is logged in the dataset.")
    ] = "test",
    lm: LM = None,
    api_base: APIBase = None,
    policy: PolicyOption = "shipped",
    wording: WordingOption = None,
    sample: Annotated[int | None, typer.Option(min=1, help="Score that many turns, drawn by seed.")] = None,
    spread: Annotated[
        bool, typer.Option("--spread", help="Draw the sample from as many conversations as there are.")
    ] = False,
    seed: Annotated[
        int, typer.Option(min=0, help="Of the sample and of the draws behind the intervals.")
    ] = 0,
    report: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write report.html, report.md and report.json.")
    ] = None,
    concurrency: Annotated[
        int, typer.Option(metavar="N", min=1, max=256, help="Turns that a hosted LM is asked about at once.")
    ] = 8,
    quiet: Quiet = False,
    _json: AsJson = False,
) -> None:
    """Score a program on labelled turns, with 95 % intervals, cost and latency."""
    from jazzmine_dspy import eval as scoring
    from jazzmine_dspy.artifacts import find, read_manifest
    from jazzmine_dspy.datasets import load_dataset
    from jazzmine_dspy.lm.recording import in_words, recordings_of

    out = output()
    labelled = load_dataset(dataset)
    manifest = read_manifest(find(program))
    flows = None
    if manifest.get("flows") != labelled.flows.checksum:
        out.note("note: the dataset's flows are not those of the program; the dataset's are used.")
        flows = labelled.flows
    if split == "test":
        labelled.open_test(f"evaluate {manifest.get('name', program)}")
    examples = _examples(labelled, split, sample, seed, spread)
    opened = open_program(
        program, lm=lm, api_base=api_base, serving=False, flows=flows, policy=policy, wording=wording
    )
    price = _price(manifest, opened.lm)
    progress = None
    if not quiet:
        from jazzmine_dspy.cli._progress import RichProgress

        progress = RichProgress(out.err)
        progress.phase("evaluating", len(examples))
    try:
        found = scoring.evaluate(
            opened.program,
            examples,
            concurrency=concurrency if _hosted(opened.lm) else 1,
            progress=None
            if progress is None
            else lambda done, n: progress.step(done, n, best=None, spent={}),
            # A turn of the training part would else find itself among the examples.
            exclude=lambda example: (example.conversation_id,),
            price=None if price is None else (price.prompt, price.completion),
            seed=seed,
        )
    finally:
        if progress is not None:
            progress.close()
    title = f"{manifest.get('name', program)} on {labelled.name}, {split}"
    money = _money(found, opened.lm, price)
    recorded = recordings_of([opened.program.bindings.lm])
    priced = {"money": _total(found), "price": None if price is None else price.to_json()}
    out.document({**found.to_json(), **priced, "recording": recorded})
    _show(found, title, opened.lm, money, "" if price is None else price.currency)
    if recorded is not None:
        out.show(f"recording: {in_words(recorded)}")
    if report is not None:
        facts = {
            "program": f"{manifest.get('name', '')} {opened.program.fingerprint[:12]}",
            "dataset": f"{labelled.name} {labelled.fingerprint[:12]}, split {split}",
            "turns": f"{found.n} of {len(labelled.examples(split))}, drawn with seed {seed}",
            "language model": opened.lm or "none",
            "order of sources": policy,
            "wording of prompts": opened.program.policy.wording,
            "money": money,
            **({} if recorded is None else {"recording": in_words(recorded)}),
        }
        reproduce = (
            f"jazzmine-dspy evaluate {program} {dataset} --split {split} --policy {policy} --seed {seed}"
        )
        reproduce += f" --sample {sample}" if sample else ""
        reproduce += " --spread" if sample and spread else ""
        reproduce += f" --lm {lm}" if lm else ""
        reproduce += f" --wording {wording}" if wording else ""
        out.note(f"report: {_write(found, report, title, policy, facts, reproduce, labelled.card)}")
    if found.decides_nothing:
        out.note(found.decides_nothing)
        raise typer.Exit(CHECK_FAILED)
    if found.crashed + found.degraded == found.n:
        out.note("every turn crashed or is degraded: these are no figures of the program")
        raise typer.Exit(CHECK_FAILED)


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


def _total(found: Evaluation) -> float | None:
    """Money for all turns; None where it is not known."""
    per_turn = found.usage["cost_per_turn"]
    decided = sum(turn.decision is not None for turn in found.turns)
    return None if per_turn is None else round(per_turn * decided, 9)


def _money(found: Evaluation, lm: str | None, price: Price | None) -> str:
    """The same in words, with the price and who says so."""
    from jazzmine_dspy.optimize.budget import price_in_words

    if lm is None:
        return "no language model is asked"
    total, words = _total(found), price_in_words(lm, price)
    if not total or price is None:
        return words
    return f"{price.amount(total)} for {found.n} turns, {total / max(1, found.n):.6f} a turn; price: {words}"


def _examples(dataset: Dataset, split: str, sample: int | None, seed: int, spread: bool) -> Sequence[Example]:
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


def _show(found: Evaluation, title: str, lm: str | None, money: str, currency: str) -> None:
    from rich.table import Table

    out = output()
    table = Table(title=title, title_justify="left", box=None)
    for column, side in (("metric", "left"), ("value", "right"), ("95 % interval", "right"), ("n", "right")):
        table.add_column(column, justify=side)  # type: ignore[arg-type]
    for name, metric in found.metrics.items():
        few = metric.low is None or metric.high is None
        bounds = "too few" if few else f"{metric.low:.3f} to {metric.high:.3f}"
        table.add_row(name, f"{metric.value:.3f}", bounds, str(metric.n))
    out.show(table)
    usage: dict[str, Any] = found.usage
    for stage, shares in found.sources.items():
        held = ", ".join(f"{source} {share:.1%}" for source, share in shares.items())
        out.show(f"{stage}: {held}; {_cost(usage['by_stage'][stage], currency)}")
    out.show(
        f"{found.n} turns, {found.crashed} crashed, {found.degraded} degraded, "
        f"{found.unanswered} unanswered; LM: {lm or 'none'}",
        _cost(usage, currency),
        f"money: {money}",
    )


def _cost(usage: dict[str, Any], currency: str) -> str:
    """Calls, tokens, money and latency of a stage, or of all."""
    calls, sent, brought, money, latency = (
        usage[key]
        for key in (
            "lm_calls_per_turn",
            "prompt_tokens_per_turn",
            "completion_tokens_per_turn",
            "cost_per_turn",
            "latency_ms",
        )
    )
    spent = "" if not calls else f"{calls:.2f} calls, {sent:.0f} prompt and {brought:.0f} answer tokens"
    spent += "" if not calls or not money else f" and {money:.6f} {currency or 'in money'}"
    spent += " a turn; " if calls else ""
    return f"{spent}latency p50 {latency['p50']:.1f} ms, p95 {latency['p95']:.1f} ms"


def _write(
    found: Evaluation, folder: Path, title: str, policy: str, facts: dict[str, str], reproduce: str, card: str
) -> Path:
    from jazzmine_dspy.eval.report import Report, System, write_report

    right = found.outcomes["right"]
    line = f"{right} of {found.n} turns are right in all flows and commands; {found.degraded} are degraded."
    systems = [System(policy, found, shipped=True)]
    made = Report(title, line, systems, facts=facts, reproduce=reproduce, card=card)
    return write_report(made, folder).html
