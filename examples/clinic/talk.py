"""An assistant for an animal clinic. Run: python examples/clinic/talk.py (--help shows the options)."""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import dspy
import yaml
from clinic import Clinic
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from jazzmine_dspy import FlowRegistry, Runtime, ValidatorRegistry, load
from jazzmine_dspy.integrations.langgraph import build_graph
from jazzmine_dspy.lm import resolve_lm

FOLDER = Path(__file__).resolve().parent
FACTS = """The animal clinic is at 12 Willow Lane. It is open Monday to Friday from 9:00 to 18:00 and Saturday from
9:00 to 13:00. There is free parking behind the house. Clients pay by card or in cash. Phone: 020 7946 0123."""
ACTIONS = (
    "book_appointment", "move_appointment", "cancel_appointment", "find_appointment", "ask_price", "register_patient",
)  # fmt: skip
CHECKS = ("pet", "code", "day", "time")
SCRIPT = (
    "hi, I'd like an appointment for Bella",
    "a check-up",
    "next tuesday",
    "what does a nail trim cost?",
    "yes",
    "at half past ten",
    "no, 11 o'clock",
    "yes please",
    "I need to cancel my other appointment",
    "A101",
    "yes",
    "thanks, bye",
)


class Assistant:
    """One conversation.

    Args:
        clinic: Where actions and checks read and write.
        program: Folder of a compiled program, or "base" for the program that has not seen the labels.
        lm: A language model; None for none.
    """

    def __init__(self, clinic: Clinic, program: str = "base", lm: dspy.LM | None = None) -> None:
        flows = self._flows(clinic)
        self._lm = lm
        self._service = Runtime(load(program, flows=flows, lm=lm), deadline=60)
        actions = {name: getattr(clinic, name) for name in ACTIONS}
        self._graph = build_graph(self._service, InMemorySaver(), actions=actions, answer=self._answer)
        self._thread = uuid.uuid4().hex

    @staticmethod
    def _flows(clinic: Clinic) -> FlowRegistry:
        """The flows of the file, with the checks, which commands such as `optimize` do not know."""
        settings = yaml.safe_load((FOLDER / "flows.yaml").read_text("utf-8"))
        flows = settings.pop("flows")
        for name in CHECKS:
            ValidatorRegistry.register(f"clinic.{name}", getattr(clinic, f"check_{name}"))
        for slot in (slot for flow in flows for slot in flow.get("slots", ()) if slot["name"] in CHECKS):
            slot["validator"] = f"clinic.{slot['name']}"
        return FlowRegistry(flows, **settings)

    async def reply(self, text: str) -> str:
        """Take a message, run what it sets off, and return what to say."""
        config: Any = {"configurable": {"thread_id": self._thread}}
        before = len(await self._ended())
        snapshot = await self._graph.aget_state(config)
        message: Any = Command(resume=text) if snapshot.interrupts else {"user_message": text}
        state = await self._graph.ainvoke(message, config)
        results = [flow.result for flow in (await self._ended())[before:] if flow.result]
        return " ".join([*(result["text"] for result in results if "text" in result), state["last_response"]])

    async def _ended(self) -> list[Any]:
        """The flows that have ended, with the results of their actions."""
        memory = await self._service.working_memory.get(self._thread)
        return memory.flow_history if memory else []

    async def _answer(self, state: Mapping[str, Any]) -> str:
        """Answer a question that no flow answers; an empty text leaves the answer to the package."""
        if not any(command["type"] == "ask" for command in state["decision"]["commands"]):
            return ""
        if self._lm is None:
            return FACTS.replace("\n", " ")
        with dspy.context(lm=self._lm):
            signature = dspy.Signature("facts, question -> answer", "Answer in one sentence, from the facts alone.")
            prediction = await dspy.Predict(signature).acall(facts=FACTS, question=state["user_message"])
        return str(prediction.answer)


def messages(script: bool) -> Iterator[str]:
    """The messages of the script, of a terminal, or of a pipe."""
    typed = sys.stdin.isatty() and not script
    lines = iter(SCRIPT) if script else sys.stdin
    while True:
        try:
            line = input("you> ") if typed else next(lines, None)
        except EOFError:
            return
        if line is None:
            return
        if line.strip():
            if not typed:
                print(f"you> {line.strip()}")
            yield line.strip()


def main() -> None:
    """Hold a conversation."""
    parser = argparse.ArgumentParser(description="Talk to an animal clinic.")
    parser.add_argument("--script", action="store_true", help="hold a demonstration, on a database of its own")
    parser.add_argument("--program", default="base", help="folder of a compiled program (default: base)")
    parser.add_argument("--lm", help="language model, such as openai/gpt-4o-mini (default: none)")
    parser.add_argument("--api-base", help="address of the language model's server")
    parser.add_argument("--db", default=FOLDER / "clinic.db", help="SQLite file (default: clinic.db next to this file)")
    options = parser.parse_args()
    settings = {"api_base": options.api_base} if options.api_base else {}
    lm = resolve_lm(options.lm, **settings) if options.lm else None
    with tempfile.TemporaryDirectory() as folder, asyncio.Runner() as runner:
        clinic = Clinic(Path(folder) / "clinic.db" if options.script else options.db)
        assistant = Assistant(clinic, options.program, lm)
        for text in messages(options.script):
            print(f"bot> {runner.run(assistant.reply(text))}")


if __name__ == "__main__":
    main()
