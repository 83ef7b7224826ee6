"""``optimize``, the main job, and ``report``: where the report of a run is."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jazzmine_dspy.cli._output import AsJson, Quiet, output, table
from jazzmine_dspy.cli._program_options import APIBase

if TYPE_CHECKING:
    from jazzmine_dspy.optimize.planning import Plan
    from jazzmine_dspy.optimize.recipe import Recipe
    from jazzmine_dspy.optimize.state import RunResult

_OWN_LM = "openai/gpt-4o-mini"


def optimize(
    recipe: Annotated[
        Path | None,
        typer.Argument(
            metavar="RECIPE",
            help="TOML file; see optimize/recipes/. Default with --from: the program's own recipe.",
        ),
    ] = None,
    dataset: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Dataset to use instead of the recipe's.")
    ] = None,
    lm: Annotated[
        str | None,
        typer.Option(help="Language model instead of the recipe's, such as openai/gpt-4o-mini, or none."),
    ] = None,
    api_base: APIBase = None,
    budget_minutes: Annotated[
        float | None, typer.Option(metavar="M", help="Minutes that the run may take.")
    ] = None,
    lm_calls: Annotated[
        int | None, typer.Option(metavar="N", min=0, help="Calls that the run may make.")
    ] = None,
    budget_tokens: Annotated[
        int | None, typer.Option(metavar="N", min=0, help="Prompt and answer tokens that the run may use.")
    ] = None,
    budget_money: Annotated[
        float | None,
        typer.Option(
            metavar="M", min=0, help="Money that the run may cost, by the recipe's price or LiteLLM's."
        ),
    ] = None,
    concurrency: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, max=256, help="Turns for which the LM is called at the same time."),
    ] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Seed to use instead of the recipe's.")] = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Folder of the program (default: optimize/programs/NAME)."),
    ] = None,
    start_from: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="PROGRAM",
            help="Start from a compiled program. It ships again unless another one is better on the flows and turns.",
        ),
    ] = None,
    _resume: Annotated[
        bool,
        typer.Option(
            "--resume", help="Continue a stopped run. The same command without this option does it too."
        ),
    ] = False,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Call the LM again instead of using its answers of earlier runs.")
    ] = False,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Print the calls and the cost that the run needs at most, and stop."),
    ] = False,
    quiet: Quiet = False,
    _json: AsJson = False,
) -> None:
    """Compile a program on labelled conversations, and compare it with the base.

    The table also has the language model as written and a classic baseline, all on unseen turns, and with --from the
    earlier program. After a stop, the same command continues and repeats no call.
    """
    import logging

    from jazzmine_dspy.cli._progress import RichProgress

    to = output()
    changes: dict[str, Any] = {
        "dataset": None if dataset is None else str(dataset),
        "lm": lm,
        "api_base": api_base,
        "seed": seed,
        "concurrency": concurrency,
        "minutes": budget_minutes,
        "lm_calls": lm_calls,
        "tokens": budget_tokens,
        "money": budget_money,
    }
    chosen = _recipe(recipe, start_from, changes)
    # MLflow logs every table that it creates.
    for logger in ("alembic", "mlflow", "dspy"):
        logging.getLogger(logger).setLevel(logging.WARNING)
    if dry_run:
        from jazzmine_dspy.optimize.planning import plan

        run_plan = plan(chosen, start_from=start_from)
        to.document(run_plan.to_json())
        _show_plan(run_plan)
        return
    from jazzmine_dspy.optimize import run

    progress = None if quiet else RichProgress(to.err)
    result = run.optimize(chosen, out=out, progress=progress, start_from=start_from, fresh=fresh)
    to.document(_document(result))
    _show(result, recipe)


def _recipe(recipe: Path | None, start_from: str | None, changes: dict[str, Any]) -> Recipe:
    """The named recipe, else that of the program that the run starts from."""
    from jazzmine_dspy.optimize.previous import recipe_of
    from jazzmine_dspy.optimize.recipe import read_recipe

    if recipe is not None:
        return read_recipe(recipe, **changes)
    if start_from is None:
        raise typer.BadParameter("name a recipe, or a program to start --from", param_hint="RECIPE")
    return recipe_of(start_from, **changes)


def _document(result: RunResult) -> dict[str, Any]:
    return {
        "program": str(result.folder),
        "first_line": result.first_line,
        "verdict": result.report.verdict,
        "shipped": result.shipped,
        "report": {name: str(path) for name, path in result.report_paths._asdict().items()},
        "spent": result.spent,
        "scores": result.manifest.get("scores", {}),
        "manifest": str(result.folder / "manifest.json"),
        **({"from": result.manifest["from"]} if "from" in result.manifest else {}),
        **({"untracked": result.untracked} if result.untracked else {}),
    }


def _show_plan(run_plan: Plan) -> None:
    rows = [
        (step.name, f"{step.calls:,}", f"{step.prompt_tokens:,}", f"{step.completion_tokens:,}")
        for step in run_plan.steps
    ]
    if rows:
        output().show(table(("phase", "calls", "prompt tokens", "answer tokens"), rows, numbers=True))
    output().show(*run_plan.in_words())


def _show(result: RunResult, recipe: Path | None) -> None:
    from jazzmine_dspy.eval.report import terminal_table
    from jazzmine_dspy.lm.prices import Price
    from jazzmine_dspy.optimize.budget import price_in_words, spending

    spent, lm = result.spent, result.manifest["recipe"]["lm"]
    price = Price(**spent["price"]) if spent["price"] else None
    lines = [
        f"ships: {result.shipped}",
        f"spent: {spending(spent, price)}, {spent['minutes']:.1f} minutes",
    ]
    if lm != "none":
        lines.append(f"of it for the report: {spending(spent['report'], price)}")
        lines.append(f"price: {price_in_words(lm, price)}")
    if (teacher := spent.get("teacher")) is not None:
        teacher_price = Price(**teacher["price"]) if teacher["price"] else None
        lines.append(f"on the teacher: {spending(teacher, teacher_price)}")
    lines += [f"program: {result.folder}", f"report: {result.report_paths.html}"]
    if result.untracked:
        lines.append(f"MLflow does not have the whole run: {result.untracked}")
    if recipe is not None and lm == "none":
        lines += ["", f"With a language model of your own: jazzmine-dspy optimize {recipe} --lm {_OWN_LM}"]
    first = (terminal_table(result.report), result.report.verdict, result.first_line, "")
    output().show(*first, *_since(result), *lines)


def _since(result: RunResult) -> list[str]:
    """Lines about changes since the previous program was compiled, and whether the shipped program is better."""
    changes, compared = result.manifest.get("from"), result.report.comparison
    if changes is None:
        return []
    named = [
        f"{kind} {', '.join(changes[kind])}" for kind in ("added", "removed", "changed") if changes[kind]
    ]
    lines = [f"flows: {'; '.join(named) if named else 'none changed'}"]
    lines += [compared.verdict] if compared is not None else []
    return [
        *lines,
        *(["the program does not change: no other one has a higher expected gain"] * changes["stays"]),
        "",
    ]


_AGAIN = "Run 'jazzmine-dspy optimize' again."


def report(
    run: Annotated[
        str, typer.Argument(metavar="RUN", help="Folder or name of a program, of its report, or report.json.")
    ],
    rebuild: Annotated[
        bool, typer.Option("--rebuild", help="Write report.html and report.md again.")
    ] = False,
    _json: AsJson = False,
) -> None:
    """Print where the report of a run is. Missing files are written again from report.json."""
    from jazzmine_dspy.eval.report import Paths, write_document
    from jazzmine_dspy.models.errors import InputError

    source = _find_report(run)
    data = _read_report(source)
    paths = Paths(source.with_name("report.html"), source.with_name("report.md"), source)
    if rebuild or not (paths.html.is_file() and paths.markdown.is_file()):
        try:
            paths = write_document(data, source.parent)
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            raise InputError(
                f"The report is damaged ({type(error).__name__})", where=str(source), remedy=_AGAIN
            ) from error
    names = {name: str(path) for name, path in paths._asdict().items()}
    output().show(
        str(data.get("title", "")),
        str(data.get("first_line", "")),
        *(f"{name}: {path}" for name, path in names.items()),
        document={"title": data.get("title"), "first_line": data.get("first_line"), "report": names},
    )


def _find_report(run: str) -> Path:
    from jazzmine_dspy.artifacts import find
    from jazzmine_dspy.models.errors import ArtifactError, InputError

    folders = [Path(run), Path(run) / "report"]
    with contextlib.suppress(ArtifactError):
        folders.append(find(run) / "report")
    places = [folder / "report.json" for folder in (*folders, Path("eval/reports") / run)]
    for place in (Path(run), *places):
        if place.is_file() and place.suffix == ".json":
            return place
    raise InputError(
        f"No report of {run!r}", where=", ".join(map(str, places)),
        remedy="Name the folder that 'jazzmine-dspy optimize' wrote; it has report/report.json.",
    )  # fmt: skip


def _read_report(path: Path) -> dict[str, Any]:
    from jazzmine_dspy.models.errors import InputError, reading
    from jazzmine_dspy.models.parsing import from_json, read_file

    with reading(path, "The report is damaged", _AGAIN, InputError):
        data = from_json(read_file(path))
    if not isinstance(data, dict) or "systems" not in data:
        raise InputError(
            "This is not a report", where=str(path), remedy="Name a report.json that 'optimize' wrote."
        )
    return data
