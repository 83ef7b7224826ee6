"""``evaluate`` and ``compare``."""

from __future__ import annotations

from dataclasses import asdict, astuple, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jazzmine_dspy.cli._evaluation import (
    DASH,
    NO_INTERVAL,
    Concurrency,
    DatasetFolder,
    EvaluationOptions,
    ReportFolder,
    Sample,
    ScoredProgram,
    Seed,
    Split,
    Spread,
    is_record,
    manifest_of,
    objective_of,
    open_turns,
    record_of,
    replay_conversations,
    reproduce,
    run_tasks,
    score,
    show_comparison,
    side,
)
from jazzmine_dspy.cli._output import CHECK_FAILED, AsJson, Quiet, output, table
from jazzmine_dspy.cli._program_options import LM, APIBase, Name, PolicyOption, Timeout

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from jazzmine_dspy.eval import Evaluation, WrongTurn
    from jazzmine_dspy.eval.suite import Replayed
    from jazzmine_dspy.lm.prices import Price


def evaluate(
    context: typer.Context,
    program: Name,
    dataset: DatasetFolder,
    split: Split = "test",
    lm: LM = None,
    api_base: APIBase = None,
    policy: PolicyOption = None,
    sample: Sample = None,
    spread: Spread = False,
    seed: Seed = 0,
    against: Annotated[
        str | None,
        typer.Option(
            metavar="BASELINE",
            help="Fail on a significant loss against a program, or an earlier evaluation's JSON.",
        ),
    ] = None,
    margin: Annotated[
        float, typer.Option(metavar="SHARE", min=0, max=1, help="Loss that is allowed against the baseline.")
    ] = 0.0,
    objective: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Metric of the gate. Default: that of the program's recipe."),
    ] = None,
    replay: Annotated[
        bool,
        typer.Option(
            "--replay", help="Also run whole conversations with the program's own state, each twice."
        ),
    ] = False,
    audit: Annotated[
        bool,
        typer.Option(
            "--audit", help="Also check how many of the turns that are decided without the LM are wrong."
        ),
    ] = False,
    wrong: Annotated[
        bool, typer.Option("--wrong", help="Also list the turns with a wrong flow or command.")
    ] = False,
    csv: Annotated[
        Path | None, typer.Option("--csv", metavar="FILE", help="Write the list of --wrong as a table.")
    ] = None,
    report: ReportFolder = None,
    concurrency: Concurrency = 8,
    timeout: Timeout = None,
    quiet: Quiet = False,
    _json: AsJson = False,
) -> None:
    """Score a program on labelled turns, with 95 % intervals, cost and latency.

    Exit code 1 with --against: it loses significantly more than --margin. With --audit: more turns are wrong than the
    target of its gate allows.
    """
    from jazzmine_dspy import eval as scoring
    from jazzmine_dspy.eval.report import Report, System, write_report
    from jazzmine_dspy.lm.replay import describe, recording_summary

    out = output()
    reason = f"evaluate {manifest_of(program).get('name', program)}"
    labelled, examples = open_turns(dataset, split, reason, sample, seed, spread)
    options = EvaluationOptions(split, lm, api_base, policy, seed, concurrency, quiet, timeout)
    # Reads a baseline file first, so that a wrong file fails before the LM is asked.
    tasks: list[Callable[[], Any]] = [lambda: score(program, labelled, examples, options)]
    if against is not None:
        own = replace(options, policy="shipped")
        baseline = side(against, labelled, examples, own) if is_record(against) else None
        tasks.append(lambda: baseline or side(against, labelled, examples, own))
    if replay:
        tasks.append(lambda: replay_conversations(program, labelled, options))
    scored, *others = run_tasks(*tasks)
    whole = others.pop() if replay else None
    evaluation, opened, price = scored.evaluation, scored.opened, scored.price
    title = f"{scored.name} on {labelled.name}, {split}"
    money = _money(evaluation, opened.lm, price)
    recorded = recording_summary([opened.program.bindings.lm])
    priced = {"money": _total(evaluation), "price": None if price is None else price._asdict()}
    document = {**evaluation.to_json(), **priced, "recording": recorded, "record": scored.record().to_json()}
    compared = gated = None
    if others and not evaluation.inconclusive_reason:
        aim, old, new = objective_of(scored, name=objective), record_of(others[0]), scored.record()
        compared = scoring.compare(old, new, objective=aim, names=("baseline", "program"), seed=seed)
        gated = scoring.gate(old, new, objective=aim, margin=margin, seed=seed)
        document["against"] = {**compared.to_json(), "gate": gated.to_json()}
    if whole is not None:
        document["replay"] = whole.to_json()
    audited = None
    if audit:
        from jazzmine_dspy.optimize.confidence import audit as audit_program

        part = (opened.manifest.get("recipe") or {}).get("gates") or {}
        targets = {key: part[key] for key in ("target_error", "delta") if key in part}
        audited = audit_program(opened.program, [turn.example for turn in evaluation.turns], **targets)
        document["audit"] = audited.to_json()
    if wrong or csv is not None:
        turns = scoring.wrong_turns(evaluation)
        document["wrong"] = [asdict(turn) for turn in turns]
        if csv is not None:
            _write_csv(csv, turns)
    out.document(document)
    _show_evaluation(evaluation, title, opened.lm, money, "" if price is None else price.currency)
    if wrong:
        out.show(*_wrong_lines(turns))
    if whole is not None:
        out.show(*_replay_lines(whole))
    if recorded is not None:
        out.show(f"recording: {describe(recorded)}")
    if audited is not None:
        out.show(audited.in_words())
    if report is not None:
        right = evaluation.outcomes["right"]
        page = Report(
            title,
            f"{right} of {evaluation.n} turns are right in all flows and commands; {evaluation.degraded} are degraded.",
            [System(opened.policy, evaluation, shipped=True)],
            facts={
                "program": f"{scored.name} {opened.program.fingerprint[:12]}",
                "dataset": f"{labelled.name} {labelled.fingerprint[:12]}, split {split}",
                "turns": f"{evaluation.n} of {len(labelled.examples(split))}, drawn with seed {seed}",
                "language model": opened.lm or "none",
                "policy": opened.policy,
                "money": money,
                **({"seen before": scored.exposure} if scored.exposure else {}),
                **({} if whole is None else {"whole conversations": whole.in_words()}),
                **({} if recorded is None else {"recording": describe(recorded)}),
            },
            reproduce=reproduce(context),
            card=labelled.card,
            comparison=compared,
            replay=None if whole is None else whole.to_json(),
        )
        out.note(f"report: {write_report(page, report).html}")
    reason, broken = evaluation.inconclusive_reason, audited is not None and audited.broken
    if not reason and evaluation.crashed + evaluation.degraded == evaluation.n:
        reason = "every turn crashed or is degraded, so these figures say nothing about the program"
    if compared is not None and gated is not None and not reason and not broken:
        show_comparison(compared)
        out.show(f"gate {gated.why}")
        if why := record_of(others[0]).inconclusive_reason:
            reason = f"the baseline decides nothing: {why}"
        elif not gated.ok:
            reason = f"gate {gated.why}"
    if reason:
        out.note(reason)
    if reason or broken:
        raise typer.Exit(CHECK_FAILED)


def _wrong_lines(turns: Sequence[WrongTurn]) -> Iterator[str]:
    for turn in turns:
        sure = "" if turn.confidence is None else f" ({turn.source}; confidence {turn.confidence:.2f})"
        refused = f"\n  refused   {turn.refused}" if turn.refused else ""
        yield f"\n{turn.message!r} ({turn.key}; {turn.state})\n  expected  {turn.expected}"
        yield f"  answered  {turn.answered}{sure}{refused}"
    yield f"\n{len(turns)} turns with a wrong flow or command"


def _write_csv(path: Path, turns: Sequence[WrongTurn]) -> None:
    import csv

    from jazzmine_dspy.eval import WrongTurn

    # With a mark of the encoding, without which spreadsheets garble letters that are not English.
    with path.open("w", encoding="utf-8-sig", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow([field.name for field in fields(WrongTurn)])
        # A cell that begins like a formula would be executed by a spreadsheet.
        writer.writerows(
            [f"'{cell}" if str(cell).startswith(tuple("=+-@\t\r")) else cell for cell in astuple(turn)]
            for turn in turns
        )


def _replay_lines(whole: Replayed) -> list[str]:
    """Lines about the replay: shares, where conversations go wrong, and what could not be replayed."""
    causes = ", ".join(f"{cause} {count}" for cause, count in whole.first_errors.items()) or "none"
    places = ", ".join(f"turn {number}: {count}" for number, count in whole.first_error_at.items())
    lines = [whole.in_words(), f"first errors: {causes}" + (f" ({places})" if places else "")]
    return lines + [f"left out: {one}" for one in whole.left_out]


def _total(evaluation: Evaluation) -> float | None:
    """Money for all turns; None where it is not known."""
    per_turn = evaluation.usage["cost_per_turn"]
    decided = sum(turn.decision is not None for turn in evaluation.turns)
    return None if per_turn is None else round(per_turn * decided, 9)


def _money(evaluation: Evaluation, lm: str | None, price: Price | None) -> str:
    """Money for all turns in words, with the price and its source."""
    from jazzmine_dspy.optimize.budget import price_in_words

    if lm is None:
        return "no language model is asked"
    total, words = _total(evaluation), price_in_words(lm, price)
    if not total or price is None:
        return words
    return f"{price.amount(total)} for {evaluation.n} turns, {total / max(1, evaluation.n):.6f} a turn; price: {words}"


def _show_evaluation(evaluation: Evaluation, title: str, lm: str | None, money: str, currency: str) -> None:
    out = output()
    rows = [
        (
            name,
            f"{metric.value:.3f}",
            DASH if metric.low is None or metric.high is None else f"{metric.low:.3f} to {metric.high:.3f}",
            str(metric.n),
        )
        for name, metric in evaluation.metrics.items()
    ]
    out.show(table(("metric", "value", "95 % interval", "n"), rows, title=title, numbers=True))
    if any(metric.low is None for metric in evaluation.metrics.values()):
        out.show(NO_INTERVAL)
    usage: dict[str, Any] = evaluation.usage
    for stage, shares in evaluation.sources.items():
        parts = ", ".join(f"{source} {share:.1%}" for source, share in shares.items())
        out.show(f"{stage}: {parts}; {_cost(usage['by_stage'][stage], currency)}")
    out.show(
        f"{evaluation.n} turns, {evaluation.crashed} crashed, {evaluation.degraded} degraded, "
        f"{evaluation.refused} refused, {evaluation.unanswered} unanswered; LM: {lm or 'none'}",
        _cost(usage, currency),
        f"money: {money}",
    )


def _cost(usage: dict[str, Any], currency: str) -> str:
    """Calls, tokens, money and latency of one stage, or of all stages."""
    calls, sent, brought, money, latency = (
        usage[key]
        for key in (
            "lm_calls_per_turn", "prompt_tokens_per_turn", "completion_tokens_per_turn", "cost_per_turn",
            "latency_ms",
        )
    )  # fmt: skip
    tokens = "" if sent is None else f", {sent:.0f} prompt and {brought:.0f} answer tokens"
    price = f" and {money:.6f} {currency or 'in money'}" if money else ""
    spent = f"{calls:.2f} calls{tokens}{price} a turn; " if calls else ""
    return f"{spent}latency p50 {latency['p50']:.1f} ms, p95 {latency['p95']:.1f} ms"


Side = Annotated[
    str,
    typer.Argument(
        help="Folder or name of a program, MLflow URI, or what 'evaluate --json' printed (FILE.json)."
    ),
]


# --- compare ---------------------------------------------------------------------------------------------


def compare(
    context: typer.Context,
    a: Side,
    b: Side,
    dataset: DatasetFolder,
    split: Split = "test",
    objective: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Metric that decides. Default: that of B's recipe, or of A's."),
    ] = None,
    lm: LM = None,
    api_base: APIBase = None,
    policy: PolicyOption = None,
    sample: Sample = None,
    spread: Spread = False,
    seed: Seed = 0,
    report: ReportFolder = None,
    concurrency: Concurrency = 8,
    quiet: Quiet = False,
    _json: AsJson = False,
) -> None:
    """Compare two programs on the same turns: paired tests, slices, and the turns that changed.

    B is measured against A. The options --lm, --api-base and --policy apply to both. If they differ, evaluate
    each program with --json, and compare the files.
    """
    from jazzmine_dspy import eval as scoring
    from jazzmine_dspy.eval.report import Report, System, write_report

    out = output()
    labelled, examples = open_turns(dataset, split, f"compare {a} {b}", sample, seed, spread)
    options = EvaluationOptions(split, lm, api_base, policy, seed, concurrency, quiet)
    sides = [side(one, labelled, examples, options) for one in (a, b) if is_record(one)]
    if len(sides) == 1:
        # Evaluate the program on the turns of the file.
        examples = [turn.example for turn in record_of(sides[0]).turns]
    old, new = run_tasks(*(lambda one=one: side(one, labelled, examples, options) for one in (a, b)))
    aim = objective_of(old, new, name=objective)
    names = ("A", "B")
    comparison = scoring.compare(record_of(old), record_of(new), objective=aim, names=names, seed=seed)
    out.document({**comparison.to_json(), "dataset": labelled.name, "split": split})
    show_comparison(comparison)
    for name, one in zip(names, comparison.facts, strict=True):
        out.show(f"{name}: {', '.join(f'{what} {value}' for what, value in one.items() if what != 'flows')}")
    if report is not None:
        page = Report(
            f"A and B on {labelled.name}, {split}",
            comparison.verdict,
            [
                System(name, one.evaluation, note=one.name, shipped=name == "B")
                for name, one in zip(names, (old, new), strict=True)
                if isinstance(one, ScoredProgram)
            ],
            facts={
                f"{of}: {name}": value
                for of, values in zip(comparison.names, comparison.facts, strict=True)
                for name, value in values.items()
            },
            reproduce=reproduce(context),
            comparison=comparison,
        )
        out.note(f"report: {write_report(page, report).html}")
    if why := record_of(old).inconclusive_reason or record_of(new).inconclusive_reason:
        out.note(why)
        raise typer.Exit(CHECK_FAILED)
