"""A language model for optimizers: better where its prompt was improved, and able to write prompts itself."""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from jazzmine_dspy.models.commands import command
from jazzmine_dspy.signatures.definitions import SECTIONS

CAREFUL = "Work with the care of a cartographer."
"""What it writes into every instruction that it is asked for."""

UNREADABLE = "I would rather talk about the weather."
"""What it says where it is to be broken."""

_MARK = re.compile(r"Your output fields are:\n(.*?)\n\s*All interactions", re.S)


def texts(body: dict[str, Any], role: str) -> list[str]:
    """The texts of a role's messages in a request."""
    return [str(each["content"]) for each in body["messages"] if each["role"] == role]


def brain(
    folder: Path, *, broken: Callable[[str], bool] = lambda _: False, right: bool = False
) -> Callable[[dict[str, Any]], str]:
    """What a server answers: the labels of a dataset where the prompt has demonstrations or the careful words, else for
    about half of the messages.

    Args:
        folder: The dataset.
        broken: Messages that are answered with what is no JSON.
        right: Whether it answers every message by its labels, whatever the prompt.
    """
    turns = [
        turn
        for line in (folder / "conversations.jsonl").read_text("utf-8").splitlines()
        for turn in json.loads(line)["turns"]
    ]
    labels = {turn["text"]: turn["labels"] for turn in turns if turn.get("labels")}

    def answer(body: dict[str, Any]) -> str:
        system = "\n".join(texts(body, "system"))
        if "Answer as JSON:" not in system:
            return _meta(system)
        asked = texts(body, "user")[-1]
        said = asked.rpartition("message: ")[2]
        message = json.JSONDecoder().raw_decode(said)[0]
        improved = right or CAREFUL in system or bool(texts(body, "assistant"))
        if broken(message) and not improved:
            return UNREADABLE
        whole = labels.get(message)
        if whole is None or not (improved or zlib.crc32(message.encode()) % 2):
            return _asked_for(body, _nothing(message))
        offered = re.findall(r"^(?:flows_offered: )?([A-H]) ([^\s:]+)", asked, re.M)
        letters = {name: letter for letter, name in offered}
        kept = [each for each in whole["commands"] if each["type"] != "start_flow"]
        return _asked_for(
            body,
            {
                "enhanced_query": whole["enhanced"],
                "sentiment_score": whole["sentiment"],
                "intent": whole["intent"],
                "entities": [{"name": entity["name"]} for entity in whole["entities"]],
                "is_cancellation": whole["is_cancellation"],
                "is_continuation": whole["is_continuation"],
                "flows": [letters[name] for name in whole["flows"] if name in letters],
                "commands": [command(each).as_answer() for each in kept],
            },
        )

    return answer


def _asked_for(body: dict[str, Any], answer: dict[str, Any]) -> str:
    """An answer with the fields that the request's schema has."""
    schema = body.get("format") or body["response_format"]["json_schema"]["schema"]
    fields = schema["properties"]
    if "flows" not in fields:
        # In one call letters stand among the commands.
        letters = answer["flows"] if "enhanced_query" in fields else []
        answer = {**answer, "commands": [*letters, *answer["commands"]]}
    return json.dumps({name: value for name, value in answer.items() if name in fields})


def _nothing(message: str) -> dict[str, Any]:
    plain = {"enhanced_query": message, "sentiment_score": 0.0, "intent": "question", "entities": []}
    return plain | {"is_cancellation": False, "is_continuation": True, "flows": [], "commands": []}


def _meta(system: str) -> str:
    """What an optimizer's own prompts ask for: every field of theirs."""
    found = _MARK.search(system)
    names = re.findall(r"^\s*\d+\. `(\w+)`", found[1], re.M) if found else []
    headings = "\n".join(f"# {part.heading}" for part in SECTIONS)
    fields: dict[str, Any] = {name: f"{headings}\n{CAREFUL} ({name})" for name in names}
    if "module_advice" in names:
        fields["module_advice"] = dict.fromkeys(("fused", "enhance", "select", "understand"), CAREFUL)
    if "JSON object" in system:
        return json.dumps(fields)
    parts = [
        f"[[ ## {name} ## ]]\n{value if isinstance(value, str) else json.dumps(value)}"
        for name, value in fields.items()
    ]
    return "\n\n".join([*parts, "[[ ## completed ## ]]"])
