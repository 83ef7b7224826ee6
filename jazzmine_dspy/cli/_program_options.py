"""Opening a program for a command: its flows, its policy, and the language model that it asks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from jazzmine_dspy.cli._output import output

if TYPE_CHECKING:
    from pathlib import Path

    from jazzmine_dspy.program.turn import TurnProgram

Name = Annotated[
    str,
    typer.Argument(metavar="PROGRAM", help="Folder or name of a compiled program, MLflow URI, or base."),
]
LM = Annotated[
    str | None,
    typer.Option(
        "--lm", help="Language model, such as openai/gpt-4o-mini, or none. Default: the one compiled for."
    ),
]
APIBase = Annotated[
    str | None,
    typer.Option(
        "--api-base", metavar="URL", help="Address of the language model's server, as its documents give it."
    ),
]
PolicyOption = Annotated[
    str, typer.Option("--policy", help="Who decides: shipped, local, lm or fallback.", metavar="NAME")
]
WordingOption = Annotated[
    str | None,
    typer.Option(
        "--wording",
        metavar="NAME",
        help="How the LM is asked: brief, for tiny models, or full, for capable ones. Default: the program's.",
    ),
]
NO_LM = "none"


class Opened(NamedTuple):
    """A program that is ready to decide. ``lm`` is the name of the bound language model."""

    program: TurnProgram
    manifest: dict[str, Any]
    path: Path
    lm: str | None


def open_program(
    name: str,
    *,
    lm: str | None,
    flows: Any = None,
    policy: str = "shipped",
    wording: str | None = None,
    api_base: str | None = None,
) -> Opened:
    """Load a program and bind what it needs.

    Args:
        name: What :func:`jazzmine_dspy.load` takes.
        lm: Name of a language model; ``none`` for none; None for the one it was compiled for, if it asks one.
        flows: Other flows than the compiled ones.
        policy: ``shipped``, ``local``, ``lm`` or ``fallback``.
        wording: ``brief`` or ``full``; None for the program's own.
        api_base: Address of the language model's server; None for the recipe's, or the provider's own.

    Raises:
        JazzmineError: there is no such policy or wording, the program's demonstrations are in another wording, the
            program cannot be loaded, or ``lm`` does not resolve. Where the model that it was compiled for is not
            available, there is a warning, and decisions are degraded.
    """
    from jazzmine_dspy.artifacts import load_with_manifest

    loaded = load_with_manifest(name, flows=flows)
    program: TurnProgram = loaded.program
    if policy != "shipped":
        program = program.with_policy(policy)  # type: ignore[arg-type]
    if wording is not None:
        program = _with_wording(program, wording)
    bound = _bind(program, loaded.manifest, lm, api_base)
    return Opened(program, loaded.manifest, loaded.path, bound)


def _with_wording(program: TurnProgram, name: str) -> TurnProgram:
    from jazzmine_dspy.models.errors import InputError
    from jazzmine_dspy.program.prompts import in_wording
    from jazzmine_dspy.signatures.contract import WORDINGS

    if name not in WORDINGS:
        remedy = f"Use {' or '.join(WORDINGS)}."
        raise InputError(f"No wording is named {name!r}", where="--wording", remedy=remedy)
    return in_wording(program, name)


def _bind(program: TurnProgram, manifest: dict[str, Any], lm: str | None, api_base: str | None) -> str | None:
    from jazzmine_dspy.lm import LMNotFoundError, resolve_lm

    compiled_for = (manifest.get("lm") or {}).get("model")
    compiled_for = None if compiled_for in (None, "", NO_LM) else str(compiled_for)
    asks = bool(program.active_predictors())
    wanted = lm if lm is not None else (compiled_for if asks else None)
    if wanted is None or wanted == NO_LM:
        if asks:
            output().warn("the program asks a language model and has none; decisions are degraded. See --lm.")
        return None
    try:
        settings = (manifest.get("recipe") or {}).get("lm_settings") if wanted == compiled_for else None
        if api_base:
            settings = {**(settings or {}), "api_base": api_base}
        model = resolve_lm(wanted, **(settings or {}))
    except LMNotFoundError as error:
        if lm is not None:
            raise
        output().warn(f"without the model it was compiled for, decisions are degraded: {error}")
        return None
    if not asks:
        output().warn(
            f"{wanted} is not asked: no stage has a language model in its order. To have it asked, compile with it "
            f"(jazzmine-dspy optimize RECIPE --lm {wanted}), which ships it where it wins; to try it all the same: "
            "jazzmine-dspy evaluate --policy lm."
        )
    elif compiled_for is not None and wanted != compiled_for:
        output().warn(f"the program was compiled for {compiled_for} and runs with {wanted}.")
    program.bind(lm=model)
    return wanted
