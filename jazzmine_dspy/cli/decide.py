"""``decide``."""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jazzmine_dspy.cli._output import AsJson, output, table
from jazzmine_dspy.cli._program_options import LM, APIBase, Name, PolicyOption, WordingOption, open_program

if TYPE_CHECKING:
    from jazzmine_dspy.models.decision import TurnDecision
    from jazzmine_dspy.models.turn import Turn


_TURN_BYTES = 16 * 2**20
_DEADLINE = 60.0


def decide(
    program: Name,
    text: Annotated[str | None, typer.Option(help="What the user wrote.")] = None,
    turn: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="JSON of a Turn: state, history and text; --text replaces its text."
        ),
    ] = None,
    lm: LM = None,
    api_base: APIBase = None,
    policy: PolicyOption = "shipped",
    wording: WordingOption = None,
    _json: AsJson = False,
) -> None:
    """Decide one turn: what the message means, which flows it wants, which commands it comes down to."""
    out = output()
    parsed = _turn(text, turn)
    # A local model is loaded for this one turn.
    opened = open_program(program, lm=lm, api_base=api_base, serving=True, policy=policy, wording=wording)
    decision = opened.program.decide(parsed, deadline=_DEADLINE)
    for stage, record in decision.stages.items():
        if record.degraded:
            out.warn(f"stage {stage} is degraded: {record.cause}")
    out.document(decision.model_dump(mode="json"))
    show_decision(decision)


def _turn(text: str | None, file: Path | None) -> Turn:
    from jazzmine_dspy.models.errors import InputError
    from jazzmine_dspy.models.turn import Turn
    from jazzmine_dspy.program.state import as_turn

    if text is None and file is None:
        raise InputError("Nothing to decide", where="--text", remedy="Pass --text '…', or --turn FILE.")
    data = {} if file is None else _object(file)
    if text is not None:
        with contextlib.suppress(UnicodeError):
            # Where the locale is POSIX, Python may take the bytes of the command line for ASCII.
            text = os.fsencode(text).decode("utf-8")
        data["text"] = text
    try:
        as_turn(data.get("text") or "")
    except InputError as error:
        where = "--text" if text is not None else f"{file}, field text"
        raise InputError(error.message, where=where, remedy=error.remedy) from error
    return Turn.model_validate(data)


def _object(file: Path) -> dict[str, Any]:
    from jazzmine_dspy.models.errors import InputError
    from jazzmine_dspy.models.parsing import MalformedError, from_json, read_file

    remedy = "Name a file with one JSON object, with the key 'text'."
    try:
        data = from_json(read_file(file, limit=_TURN_BYTES))
    except OSError as error:
        problem = f"Cannot read the turn: {error.strerror}"
        raise InputError(problem, where=str(file), remedy=remedy) from error
    except MalformedError as error:
        problem = f"The turn is not JSON: {error.problem}"
        raise InputError(problem, where=error.at(file), remedy=remedy) from error
    if not isinstance(data, dict):
        raise InputError("The turn is no JSON object", where=str(file), remedy=remedy)
    return data


def show_decision(decision: TurnDecision) -> None:
    """Print a decision for people."""
    enhancement, selection = decision.enhancement, decision.selection
    facts = {
        "message": enhancement.enhanced_query,
        "intent": f"{enhancement.intent}, sentiment {enhancement.sentiment_score:+.1f}",
        "escalates": decision.escalation.reason,
        "flows": ", ".join(selection.flows) or "none",
        "asks which": " or ".join(selection.clarify),
        "candidates": ", ".join(f"{name} {score:.2f}" for name, score in selection.candidates),
        "entities": ", ".join(entity.name for entity in enhancement.entities),
        "commands": "\n".join(map(_command, decision.commands)) or "none",
    }
    stages = (
        (
            stage, record.source, f"{record.confidence:.2f}", str(record.usage.lm_calls),
            f"{record.latency_ms:.1f}", (record.cause or "yes") if record.degraded else "",
        )
        for stage, record in decision.stages.items()
    )  # fmt: skip
    output().show(
        table((), ((name, value) for name, value in facts.items() if value)),
        table(("stage", "source", "confidence", "LM calls", "ms", "degraded"), stages),
    )


def _command(command: Any) -> str:
    data = command.model_dump(mode="json", exclude_none=True)
    kind = data.pop("type")
    return " ".join(
        [kind, *(f"{key}={json.dumps(value, ensure_ascii=False)}" for key, value in data.items())]
    )
