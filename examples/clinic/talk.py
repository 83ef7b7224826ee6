"""An assistant for an animal clinic. Run: python examples/clinic/talk.py (--help shows the options)."""

from __future__ import annotations

import argparse
import asyncio
import sqlite3
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import dspy
import yaml
from clinic import Clinic
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from jazzmine_dspy import FlowRegistry, JazzmineError, Runtime, ValidatorRegistry, load
from jazzmine_dspy.integrations.langgraph import build_graph
from jazzmine_dspy.lm import resolve_lm

FOLDER = Path(__file__).parent
CHECKS = ("pet", "code", "day", "time")
CONFIG: Any = {"configurable": {"thread_id": "talk"}}
# Answers to questions; without a language model, parts of words choose among them.
FACTS = {
    ("park",): "There is free parking behind the house.",
    ("pay", "card", "cash"): "You can pay by card or in cash.",
    ("where", "address", "find you"): "You find us at 12 Willow Lane.",
    (
        "open",
        "close",
        "hour",
    ): "We are open Monday to Friday from 9:00 to 18:00, Saturday from 9:00 to 13:00.",
}


def flows_with_checks(clinic: Clinic) -> FlowRegistry:
    """The flows of the file, with the clinic's checks. The command line reads the same file without them."""
    settings = yaml.safe_load((FOLDER / "flows.yaml").read_text("utf-8"))
    flows = settings.pop("flows")
    for name in CHECKS:
        ValidatorRegistry.register(name, getattr(clinic, f"check_{name}"))
    for slot in (slot for flow in flows for slot in flow.get("slots", ())):
        if slot["name"] in CHECKS:
            slot["validator"] = slot["name"]
    return FlowRegistry(flows, **settings)


class Assistant:
    """One conversation.

    Args:
        clinic: Where checks and actions read and write.
        program: Folder of a compiled program, or "base" for the program that has not seen the labels.
        lm: A language model; None for none.
    """

    def __init__(self, clinic: Clinic, program: str = "base", lm: dspy.LM | None = None) -> None:
        self._clinic, self._lm = clinic, lm
        base = load(program, flows=flows_with_checks(clinic), lm=lm)
        self._service = Runtime(base, deadline=60, clock=clinic.clock)
        actions = {name: getattr(clinic, name) for name in self._service.registry if hasattr(clinic, name)}
        self._graph = build_graph(self._service, InMemorySaver(), actions=actions, answer=self._answer)

    async def reply(self, text: str) -> str:
        """Take a message, run what it sets off, and return what to say."""
        waits = (await self._graph.aget_state(CONFIG)).interrupts
        state = await self._graph.ainvoke(Command(resume=text) if waits else {"user_message": text}, CONFIG)
        return str(state["last_response"])

    async def _answer(self, state: Mapping[str, Any]) -> str:
        """Answer a question that no flow answers; an empty text leaves the answer to the package."""
        if not any(command["type"] == "ask" for command in state["decision"]["commands"]):
            return ""
        question = state["user_message"]
        facts = FACTS | {("cost", "price", "how much"): self._clinic.prices()}
        if self._lm is None:
            known = [fact for parts, fact in facts.items() if any(part in question.lower() for part in parts)]
            return " ".join(known) or "I can't answer that. Please call us on 020 7946 0123."
        answer = dspy.Predict(
            dspy.Signature("facts, question -> answer", "Answer in one sentence, by the facts.")
        )
        with dspy.context(lm=self._lm):
            return str((await answer.acall(facts=" ".join(facts.values()), question=question)).answer)


def messages(script: bool) -> Iterator[str]:
    """The lines of the script, of a terminal, or of a pipe."""
    lines = iter((FOLDER / "script.txt").read_text("utf-8").splitlines()) if script else sys.stdin
    typed = sys.stdin.isatty() and not script
    try:
        while (line := input("you> ") if typed else next(lines, None)) is not None:
            if line.strip():
                print("" if typed else f"you> {line.strip()}\n", end="")
                yield line.strip()
    except (EOFError, KeyboardInterrupt):
        print()


def main() -> None:
    """Hold a conversation."""
    parser = argparse.ArgumentParser(description="Talk to an animal clinic.")
    parser.add_argument("--script", action="store_true", help="a demonstration, on a database of its own")
    parser.add_argument("--program", default="base", help="folder of a compiled program (default: base)")
    parser.add_argument("--lm", help="language model, such as openai/gpt-4o-mini (default: none)")
    parser.add_argument("--api-base", help="address of the language model's server")
    parser.add_argument(
        "--db", default=FOLDER / "clinic.db", help="SQLite file (default: clinic.db in this folder)"
    )
    options = parser.parse_args()
    if options.api_base and not options.lm:
        parser.error("--api-base is the address of a language model: name the model with --lm")
    settings = {"api_base": options.api_base} if options.api_base else {}
    with tempfile.TemporaryDirectory() as folder, asyncio.Runner() as runner:
        database = Path(folder) / "clinic.db" if options.script else options.db
        try:
            lm = resolve_lm(options.lm, **settings) if options.lm else None
            clinic = Clinic(database)
            assistant = Assistant(clinic, options.program, lm)
        except JazzmineError as error:
            sys.exit(str(error))
        except sqlite3.Error as error:
            sys.exit(f"Cannot use {database}: {error}. Name a database that can be written with --db.")
        for text in messages(options.script):
            try:
                reply = runner.run(assistant.reply(text))
            except JazzmineError as error:
                reply = str(error)
            print(f"bot> {reply}", flush=True)


if __name__ == "__main__":
    main()
