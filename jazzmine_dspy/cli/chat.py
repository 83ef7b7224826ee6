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
from jazzmine_dspy.cli._program_options import LM, APIBase, Name, open_program

if TYPE_CHECKING:
    from jazzmine_dspy.runtime import Runtime

_QUIT = ("/quit", "/exit")
_RESTART = "/restart"
_TAKEN_OVER = "     [a person would take over here; ask for something else, or begin anew with /restart]"
_DEADLINE = 60.0
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
    """Hold a conversation. A line is a message; /restart begins anew, /quit or the end of the input ends it.

    No action is really carried out: a flow that has all its values is said to run, and to have succeeded.
    """
    from jazzmine_dspy.runtime import Runtime

    out = output()
    opened = open_program(program, lm=lm, api_base=api_base, serving=True, flows=flows)
    runtime = Runtime(opened.program, agent_id=str(opened.manifest.get("agent_id") or ""), deadline=_DEADLINE)
    turns: list[dict[str, Any]] = []
    number = 1
    # Lines are read outside the loop, which would hold back an interrupt until the next line.
    with asyncio.Runner() as runner:
        for line in _lines():
            if line == _RESTART:
                number += 1
            else:
                turns += runner.run(_turn(runtime, f"chat {number}", line, verbose))
    out.document({"program": str(opened.manifest.get("name")), "turns": turns})


def _lines() -> Iterator[str]:
    """Messages, without empty lines; a prompt is shown only where somebody types."""
    interactive = sys.stdin.isatty()
    if interactive:
        output().note("Type a message; /restart begins anew, /quit ends.")
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


async def _turn(runtime: Runtime, conversation: str, text: str, verbose: bool) -> list[dict[str, Any]]:
    """One message, and the actions that it sets off. A message that is refused ends nothing."""
    from jazzmine_dspy.models.errors import JazzmineError

    out = output()
    if not sys.stdin.isatty():
        out.show(f"you> {text}")
    try:
        # The user's own date: "tomorrow" counts from it.
        now = dt.datetime.now().astimezone()
        outcome = await runtime.process(conversation_id=conversation, user_id="you", text=text, now=now)
    except (JazzmineError, ValueError) as error:
        failure = failure_of(error)
        out.note(f"error: {failure.message} {failure.remedy}")
        problem = {"type": failure.kind, "message": failure.message, "remedy": failure.remedy}
        return [{"text": text, "error": problem}]
    if verbose and outcome.decision is not None:
        from jazzmine_dspy.cli.decide import show_decision

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
