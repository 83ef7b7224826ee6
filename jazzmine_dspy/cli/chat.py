"""``chat``: a conversation with a compiled program, in the terminal or through a pipe."""

from __future__ import annotations

import asyncio
import datetime as dt
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jazzmine_dspy.cli._errors import failure_of
from jazzmine_dspy.cli._output import AsJson, output
from jazzmine_dspy.cli._programs import LM, APIBase, Name, open_program

if TYPE_CHECKING:
    from jazzmine_dspy.runtime import Runtime

_QUIT = ("/quit", "/exit")
_CONVERSATION = "chat"
_PATIENCE = 60.0
"""Seconds for one decision: the embedded model loads in the first."""


def chat(
    program: Name,
    lm: LM = None,
    api_base: APIBase = None,
    flows: Annotated[
        Path | None, typer.Option(metavar="FILE", help="YAML file of other flows than the compiled ones.")
    ] = None,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Show the commands and sources of every turn.")
    ] = False,
    _json: AsJson = False,
) -> None:
    """Hold a conversation. A line is a message; /quit or the end of the input ends it.

    No action is really carried out: a flow that has all its values is said to run, and to have succeeded.
    """
    from jazzmine_dspy.runtime import Runtime

    out = output()
    opened = open_program(program, lm=lm, api_base=api_base, serving=True, flows=flows)
    runtime = Runtime(opened.program, agent_id=str(opened.manifest.get("agent_id") or ""), deadline=_PATIENCE)
    turns: list[dict[str, Any]] = []
    # Lines are read outside the loop, which would hold back an interrupt until the next line.
    with asyncio.Runner() as runner:
        for line in _lines():
            turns += runner.run(_turn(runtime, line, verbose))
    out.document({"program": str(opened.manifest.get("name")), "turns": turns})


def _lines() -> Iterator[str]:
    """Messages, without empty lines; a prompt is shown only where somebody types."""
    interactive = sys.stdin.isatty()
    if interactive:
        output().note("Type a message; /quit ends.")
    while True:
        try:
            if interactive:
                line = input("you> ")
            elif not (line := sys.stdin.readline()):
                return
        except EOFError:
            return
        line = line.strip()
        if line in _QUIT:
            return
        if line:
            yield line


async def _turn(runtime: Runtime, text: str, verbose: bool) -> list[dict[str, Any]]:
    """One message, and the actions that it sets off. A message that is refused ends nothing."""
    from jazzmine_dspy.models.errors import JazzmineError

    out = output()
    if not sys.stdin.isatty():
        out.show(f"you> {text}")
    try:
        # The user's own date: "tomorrow" counts from it.
        now = dt.datetime.now().astimezone()
        outcome = await runtime.process(conversation_id=_CONVERSATION, user_id="you", text=text, now=now)
    except (JazzmineError, ValueError) as error:
        failure = failure_of(error)
        out.note(f"error: {failure.message} {failure.remedy}")
        return [
            {
                "text": text,
                "error": {"type": failure.kind, "message": failure.message, "remedy": failure.remedy},
            }
        ]
    if verbose and outcome.decision is not None:
        from jazzmine_dspy.cli.decide import show_decision

        show_decision(outcome.decision)
    await _say(runtime, outcome.reply)
    decided = None if outcome.decision is None else outcome.decision.model_dump(mode="json")
    turns = [
        {
            "text": text,
            "reply": outcome.reply,
            "next": outcome.next.model_dump(mode="json"),
            "decision": decided,
        }
    ]
    if outcome.next.kind == "run_flow":
        turns.append(await _action(runtime, outcome.next.flow))
    return turns


async def _action(runtime: Runtime, flow: str | None) -> dict[str, Any]:
    """Pretend that the flow was carried out."""
    output().show(f"     [{flow} runs here]")
    await runtime.begin_action(_CONVERSATION)
    done = await runtime.finish_action(_CONVERSATION, {"status": "ok"})
    await _say(runtime, done.reply)
    return {"action": flow, "reply": done.reply, "next": done.next.model_dump(mode="json")}


async def _say(runtime: Runtime, reply: str) -> None:
    """Show a reply, and put it into the history that the next turn sees."""
    if reply:
        output().show(f"bot> {reply}")
        await runtime.record_reply(_CONVERSATION, reply)
