"""``decide``."""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jazzmine_dspy.cli._output import AsJson, output
from jazzmine_dspy.cli._programs import LM, APIBase, Name, PolicyOption, WordingOption, open_program

if TYPE_CHECKING:
    from jazzmine_dspy.models.decision import TurnDecision
    from jazzmine_dspy.models.turn import Turn


_TURN_BYTES = 16 * 2**20
_PATIENCE = 60.0


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
    read = _turn(text, turn)
    # A local model is loaded for this one turn.
    opened = open_program(program, lm=lm, api_base=api_base, serving=True, policy=policy, wording=wording)
    decision = opened.program.decide(read, deadline=_PATIENCE)
    for stage, record in decision.stages.items():
        if record.degraded:
            out.warn(f"stage {stage} is degraded: {record.cause}")
    out.document(decision.model_dump(mode="json"))
    show_decision(decision)


def _turn(text: str | None, file: Path | None) -> Turn:
    from jazzmine_dspy.models.errors import InputError
    from jazzmine_dspy.models.parsing import MalformedError, from_json, read_file
    from jazzmine_dspy.models.turn import MAX_TEXT, Turn

    data: Any = {}
    if file is not None:
        try:
            data = from_json(read_file(file, limit=_TURN_BYTES))
        except OSError as error:
            raise InputError(
                f"Cannot read the turn: {error.strerror}", where=str(file), remedy="Name a JSON file."
            ) from error
        except MalformedError as error:
            raise InputError(
                f"The turn is not JSON: {error.problem}",
                where=error.at(file),
                remedy="Write one JSON object.",
            ) from error
        if not isinstance(data, dict):
            raise InputError(
                "The turn is no JSON object", where=str(file), remedy="Write one, with the key 'text'."
            )
    elif text is None:
        raise InputError("Nothing to decide", where="--text", remedy="Pass --text '…', or --turn FILE.")
    if text is not None:
        with contextlib.suppress(UnicodeError):
            # Where the locale is POSIX, Python may take the bytes of the command line for ASCII.
            text = os.fsencode(text).decode("utf-8")
        data = {**data, "text": text}
    written = data.get("text")
    where = "--text" if text is not None else f"{file}, field text"
    if not isinstance(written, str) or not written.strip():
        raise InputError("The text is empty", where=where, remedy="Pass what the user wrote.")
    if len(written) > MAX_TEXT:
        remedy = f"Shorten it to {MAX_TEXT:,} at most."
        raise InputError(f"The text has {len(written):,} characters", where=where, remedy=remedy)
    try:
        written.encode()
    except UnicodeEncodeError as error:
        raise InputError("The text is not Unicode", where=where, remedy="Pass it as UTF-8.") from error
    return Turn.model_validate(data)


def show_decision(decision: TurnDecision) -> None:
    """Print a decision for people."""
    from rich.table import Table

    out = output()
    meant, chosen = decision.enhancement, decision.selection
    rows = [
        ("message", meant.enhanced_query),
        ("intent", f"{meant.intent}, sentiment {meant.sentiment_score:+.1f}"),
        ("escalates", decision.escalation.reason),
        ("flows", ", ".join(chosen.flows) or "none"),
        ("asks which", " or ".join(chosen.clarify)),
        ("candidates", ", ".join(f"{name} {score:.2f}" for name, score in chosen.candidates)),
        ("entities", ", ".join(entity.name for entity in meant.entities)),
        ("commands", "\n".join(map(_command, decision.commands)) or "none"),
    ]
    table = Table(box=None, show_header=False)
    for name, value in rows:
        if value:
            table.add_row(name, value)
    out.show(table)
    stages = Table(box=None)
    for column in ("stage", "source", "confidence", "LM calls", "ms", "degraded"):
        stages.add_column(column)
    for stage, record in decision.stages.items():
        cause = (record.cause or "yes") if record.degraded else ""
        stages.add_row(
            stage,
            record.source,
            f"{record.confidence:.2f}",
            str(record.usage.lm_calls),
            f"{record.latency_ms:.1f}",
            cause,
        )
    out.show(stages)


def _command(command: Any) -> str:
    data = command.model_dump(mode="json", exclude_none=True)
    kind = data.pop("type")
    return " ".join(
        [kind, *(f"{key}={json.dumps(value, ensure_ascii=False)}" for key, value in data.items())]
    )
