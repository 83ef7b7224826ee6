"""``decide`` and ``chat``: one turn, or a conversation, with a compiled program."""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jazzmine_dspy.cli._output import AsJson, failure_of, output, table
from jazzmine_dspy.cli._program_options import LM, APIBase, Name, PolicyOption, open_program

if TYPE_CHECKING:
    from jazzmine_dspy.models.decision import TurnDecision
    from jazzmine_dspy.models.turn import Turn
    from jazzmine_dspy.runtime import Runtime

_DEADLINE = 60.0
"""Seconds for one decision: a server may load its model in the first."""


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
    policy: PolicyOption = None,
    _json: AsJson = False,
) -> None:
    """Decide one turn: what the message means, which flows it starts, and which commands it gives."""
    out = output()
    parsed = _read_turn(text, turn)
    opened = open_program(program, lm=lm, api_base=api_base, policy=policy)
    decision = opened.program.decide(parsed, deadline=_DEADLINE)
    for stage, record in decision.stages.items():
        if record.degraded:
            out.warn(f"stage {stage} is degraded: {record.cause}")
    out.document(decision.model_dump(mode="json"))
    show_decision(decision)


def _read_turn(text: str | None, file: Path | None) -> Turn:
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
        said = as_turn(data.get("text") or "")
    except InputError as error:
        where = "--text" if text is not None else f"{file}, field text"
        raise InputError(error.message, where=where, remedy=error.remedy) from error
    # A bare text is said today; a turn has the date that it has.
    return said if file is None else Turn.model_validate(data)


def _object(file: Path) -> dict[str, Any]:
    from jazzmine_dspy.models.errors import InputError, reading
    from jazzmine_dspy.models.parsing import from_json, read_file

    remedy = "Name a file with one JSON object, with the key 'text'."
    with reading(file, "Cannot read the turn", remedy, InputError):
        text = read_file(file)
    with reading(file, "The turn is not JSON", remedy, InputError):
        data = from_json(text)
    if not isinstance(data, dict):
        raise InputError("The turn is not a JSON object", where=str(file), remedy=remedy)
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


_QUIT = ("/quit", "/exit")
_RESTART = "/restart"
_TAKEN_OVER = "     [a person would take over here; ask for something else, or start again with /restart]"


def chat(
    program: Name,
    lm: LM = None,
    api_base: APIBase = None,
    flows: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="YAML file of flows to use instead of the compiled ones."),
    ] = None,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Show the commands and sources of every turn.")
    ] = False,
    _json: AsJson = False,
) -> None:
    """Talk to a program. A line is a message; /restart starts again, /quit or the end of the input ends it.

    No action is really carried out: a flow that has all its values counts as run with success.
    """
    from jazzmine_dspy.runtime import Runtime

    out = output()
    opened = open_program(program, lm=lm, api_base=api_base, flows=flows)
    runtime = Runtime(opened.program, agent_id=str(opened.manifest.get("agent_id") or ""), deadline=_DEADLINE)
    turns: list[dict[str, Any]] = []
    number = 1
    # Lines are read outside the loop, which would hold back an interrupt until the next line.
    with asyncio.Runner() as runner:
        for line in _lines():
            if line == _RESTART:
                number += 1
            else:
                turns += runner.run(_answer(runtime, f"chat {number}", line, verbose))
    out.document({"program": str(opened.manifest.get("name")), "turns": turns})


def _lines() -> Iterator[str]:
    """Messages, without empty lines; a prompt is shown only where somebody types."""
    if interactive := sys.stdin.isatty():
        output().note("Type a message; /restart starts again, /quit ends.")
    while True:
        try:
            if interactive:
                line = input("you> ")
            elif not (line := sys.stdin.readline()):
                return
        except EOFError:
            return
        if (line := line.strip()) in _QUIT:
            return
        if line:
            yield line


async def _answer(runtime: Runtime, conversation: str, text: str, verbose: bool) -> list[dict[str, Any]]:
    """One message, and the actions that it sets off. A message that is refused ends nothing."""
    from jazzmine_dspy.models.errors import JazzmineError

    out = output()
    if not sys.stdin.isatty():
        out.show(f"you> {text}")
    try:
        # The user's own date: "tomorrow" counts from it.
        outcome = await runtime.process(
            conversation_id=conversation, user_id="you", text=text, now=dt.datetime.now().astimezone()
        )
    except (JazzmineError, ValueError) as error:
        failure = failure_of(error)
        out.note(f"error: {failure.message} {failure.remedy}")
        problem = {"type": failure.kind, "message": failure.message, "remedy": failure.remedy}
        return [{"text": text, "error": problem}]
    if verbose and outcome.decision is not None:
        show_decision(outcome.decision)
        parts = (("flow", outcome.next.flow), ("slot", outcome.next.slot))
        expected = ", ".join(f"{name} {value}" for name, value in parts if value)
        out.show(f"next         {outcome.next.kind} {expected}".rstrip())
    turns: list[dict[str, Any]] = [
        {
            "text": text,
            "reply": outcome.reply,
            "answer": outcome.answer,
            "question": outcome.question,
            "next": outcome.next.model_dump(mode="json"),
            "decision": None if outcome.decision is None else outcome.decision.model_dump(mode="json"),
        }
    ]
    step, reply = outcome.next, outcome.reply
    while step.kind == "run_flow":
        await _say(runtime, conversation, reply)
        # Pretend that the flow was carried out.
        out.show(f"     [{step.flow} runs here]")
        await runtime.begin_action(conversation)
        after = await runtime.finish_action(conversation, {"status": "ok"})
        turns.append({"action": step.flow, "reply": after.reply, "next": after.next.model_dump(mode="json")})
        step, reply = after.next, after.reply
    await _say(runtime, conversation, reply)
    if outcome.next.kind == "handoff":
        out.show(_TAKEN_OVER)
    return turns


async def _say(runtime: Runtime, conversation: str, reply: str) -> None:
    """Show a reply, and store it: the next turn sees it in the history."""
    if reply:
        output().show(f"bot> {reply}")
        await runtime.record_reply(conversation, reply)
