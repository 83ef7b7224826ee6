"""Takes a package that has the kind ``redo_slot`` from prompt to score, and prints what came of it as JSON."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from dspy.lm15 import Request

import jazzmine_dspy
from jazzmine_dspy.datasets import check_dataset, write_splits
from jazzmine_dspy.eval.metrics import score_turn
from jazzmine_dspy.lm.engines import response_schema, scripted_lm, system_text, user_text
from jazzmine_dspy.models import COMMAND_KINDS, FlowRegistry, Turn
from jazzmine_dspy.models.labels import Labels
from jazzmine_dspy.program.lm.render import Addresses
from jazzmine_dspy.program.policy import Policy
from jazzmine_dspy.program.turn import TurnProgram
from jazzmine_dspy.runtime import Runtime

FLOWS = """
flows:
  - name: book_table
    description: Book a table.
    slots:
      - {name: guests, type: number, ask: "For how many?"}
      - {name: day, type: text, ask: "For which day?"}
"""
FIRST = {"type": "set_slot", "name": "guests", "value": 4}
AGAIN = {"type": "redo_slot", "name": "guests"}


def _program(requests: list[Request]) -> TurnProgram:
    def answer(request: Request) -> str:
        requests.append(request)
        again = "wrong" in user_text(request).rpartition("message:")[2]
        return json.dumps(
            {
                "enhanced_query": "A table.",
                "sentiment_score": 0.0,
                "intent": "book_table",
                "entities": [],
                "is_cancellation": again,
                "is_continuation": again,
                "commands": [AGAIN] if again else ["A", FIRST],
            }
        )

    registry = FlowRegistry.from_yaml("flows.yaml")
    program = TurnProgram(registry, policy=Policy(shape="fused").named("lm"))
    return program.bind(lm=scripted_lm(answer))


async def _talk(requests: list[Request]) -> list[Any]:
    runtime = Runtime(_program(requests))
    said = ("a table for four", "that number is wrong")
    return [await runtime.process(conversation_id="c", user_id="u", text=text) for text in said]


def _check(commands: list[dict[str, Any]]) -> list[str]:
    before = {"status": "collecting_slots", "flow": "book_table", "awaiting": "day", "slots": {"guests": 4}}
    turn = {"role": "user", "text": "wrong", "before": before, "labels": {"commands": commands}}
    Path("conversations.jsonl").write_text(json.dumps({"id": "c1", "turns": [turn]}) + "\n", "utf-8")
    write_splits(Path.cwd(), {"c1": "train"}, replace=True)
    return [problem.message for problem in check_dataset(Path.cwd()).problems if problem.severity == "error"]


def main() -> None:
    Path("flows.yaml").write_text(FLOWS, "utf-8")
    Path("card.md").write_text("# tables\n", "utf-8")
    requests: list[Request] = []
    first, second = asyncio.run(_talk(requests))
    labels = Labels.model_validate({"commands": [AGAIN]})
    turn = Turn(text="wrong", flow="book_table", slots={"guests": 4})
    offered = [
        option
        for option in response_schema(requests[-1])["properties"]["commands"]["items"]["anyOf"]  # type: ignore[index]
        if "redo_slot" in option.get("properties", ())
    ]
    told = {
        "package": str(Path(jazzmine_dspy.__file__).parent),
        "kinds": len(COMMAND_KINDS),
        "prompt": system_text(requests[-1]),
        "offered at first": "redo_slot" in json.dumps(response_schema(requests[0])),
        "offered": offered,
        "commands": [command.model_dump(mode="json") for command in second.decision.commands],
        "flagged": second.decision.enhancement.is_cancellation,
        "asked before": first.next.slot,
        "reply": second.reply,
        "values": second.state.active_flow.values,
        "right labels": _check([AGAIN]),
        "wrong labels": _check([{**AGAIN, "name": "gests"}]),
        "score": score_turn(second.decision, labels, turn)["command_f1/redo_slot"].value,
        "missed": score_turn(first.decision, labels, turn)["command_f1/redo_slot"].value,
        "demonstration": Addresses(turn, FlowRegistry.from_yaml("flows.yaml")).written(labels.commands or ()),
    }
    json.dump(told, sys.stdout)


if __name__ == "__main__":
    main()
