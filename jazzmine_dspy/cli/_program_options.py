"""Opening a program for a command: its flows, its policy, and the language model that it asks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

if TYPE_CHECKING:
    from jazzmine_dspy.program.turn import TurnProgram

Name = Annotated[
    str,
    typer.Argument(metavar="PROGRAM", help="Folder or name of a compiled program, MLflow URI, or base."),
]
LM = Annotated[
    str | None,
    typer.Option(
        "--lm",
        help="Language model, such as openai/gpt-4o-mini, or none. Default: that of the compile.",
    ),
]
APIBase = Annotated[
    str | None,
    typer.Option(
        "--api-base",
        metavar="URL",
        help="Address of the language model's server, as its documentation gives it.",
    ),
]
Timeout = Annotated[
    float | None,
    typer.Option(
        "--timeout", metavar="SECONDS", min=1, help="Seconds that the language model may take for an answer."
    ),
]
PolicyOption = Annotated[
    str | None,
    typer.Option(
        "--policy",
        metavar="NAME",
        help="Who decides: shipped, local, lm, cascade or fallback. Default: shipped, or cascade where --lm names a "
        "model that shipped does not use.",
    ),
]


class Opened(NamedTuple):
    """A program that is ready to decide. ``lm`` names the bound language model, ``policy`` who decides."""

    program: TurnProgram
    manifest: dict[str, Any]
    lm: str | None
    policy: str


def open_program(
    name: str,
    *,
    lm: str | None,
    flows: Any = None,
    policy: str | None = None,
    api_base: str | None = None,
    timeout: float | None = None,
) -> Opened:
    """Load a program and bind what it needs.

    Args:
        name: What :func:`jazzmine_dspy.load` takes.
        lm: Name of a language model; ``none`` for none; None for the one it was compiled for, if it asks one.
        flows: Other flows than the compiled ones.
        policy: ``shipped``, ``local``, ``lm``, ``cascade`` or ``fallback``; None as with :func:`jazzmine_dspy.load`.
        api_base: Address of the language model's server; None for the recipe's, or the provider's own.
        timeout: Seconds that it may take for an answer; None for the recipe's, or the client's own.

    Raises:
        JazzmineError: there is no such policy, the program cannot be loaded, or ``lm`` does not resolve. Where the
            model that it was compiled for is not available, there is a warning, and decisions are degraded.
    """
    from jazzmine_dspy.artifacts import load_with_manifest
    from jazzmine_dspy.artifacts.language_model import COMPILED, compiled_model, with_language_model

    loaded = load_with_manifest(name, flows=flows, lm=None)
    program: TurnProgram = loaded.program
    named = lm if lm is not None else compiled_model(loaded.manifest) or ""
    settings: dict[str, Any] = {"api_base": api_base} if api_base else {}
    settings |= {"timeout": timeout} if timeout else {}
    asked = bool(program.active_predictors())
    chosen: Any = policy
    program = with_language_model(
        program, loaded.manifest, COMPILED if lm is None else lm, chosen, **settings
    )
    policy = policy or ("cascade" if program.active_predictors() and not asked else "shipped")
    bound = named if program.bindings.lm is not None else None
    return Opened(program, loaded.manifest, bound, policy)
