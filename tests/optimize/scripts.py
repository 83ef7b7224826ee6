"""Language models for these tests: they answer by what is asked, out of the labels of a dataset."""

from __future__ import annotations

import hashlib
import json
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dspy
from dspy.lm15 import Request

from demonstrations import demo_texts
from jazzmine_dspy.lm import scripted_lm
from jazzmine_dspy.lm.engines import chat_messages, system_text, user_text
from jazzmine_dspy.models.base import canonical_json
from jazzmine_dspy.models.commands import command

LIBRARY = Path(__file__).parent / "library"
WRONG = {
    "enhanced_query": "nothing of the kind",
    "sentiment_score": 1.0,
    "intent": "question",
    "entities": [],
    "is_cancellation": True,
    "is_continuation": False,
    "flows": [],
    "commands": ["out_of_scope"],
}


def message_of(request: Request) -> str:
    """The user's message that a request asks about."""
    line = [line for line in user_text(request).splitlines() if line.startswith("message: ")][-1]
    return str(json.JSONDecoder().raw_decode(line.removeprefix("message: "))[0])


def everything_in(request: Request) -> str:
    """All text of a request."""
    return "\n".join(message["content"] for message in chat_messages(request))


class Labels:
    """Right answers by message, for any of the four prompts."""

    def __init__(self, folder: Path) -> None:
        lines = (folder / "conversations.jsonl").read_text("utf-8").splitlines()
        turns = [turn for line in lines for turn in json.loads(line)["turns"]]
        self.by_text = {turn["text"]: turn["labels"] for turn in turns if turn.get("labels")}

    def right(self, request: Request) -> str:
        labels = self.by_text[message_of(request)]
        offered = re.findall(r"^(?:flows_offered: )?([A-H]) ([^\s:]+)", user_text(request), re.MULTILINE)
        letters = {name: letter for letter, name in offered}
        kept = [each for each in labels["commands"] if each["type"] != "start_flow"]
        starts = [letters[name] for name in labels["flows"] if name in letters]
        alone = "letter (starts its flow)" in system_text(request)
        return json.dumps(
            {
                "enhanced_query": labels["enhanced"],
                "sentiment_score": labels["sentiment"],
                "intent": labels["intent"],
                "entities": [{"name": entity["name"]} for entity in labels["entities"]],
                "is_cancellation": labels["is_cancellation"],
                "is_continuation": labels["is_continuation"],
                "flows": starts,
                "commands": [*(starts if alone else ()), *(command(each).as_answer() for each in kept)],
            }
        )


def wrong(request: Request) -> str:
    """A well-formed answer that is right in nothing."""
    return json.dumps(WRONG)


def garbage(request: Request) -> str:
    """Characters drawn by the request, one in four times well-formed JSON of random content."""
    chance = random.Random(hashlib.sha256(canonical_json(chat_messages(request)).encode()).digest())
    if chance.random() < 0.75:
        return "".join(chr(chance.randrange(33, 1000)) for _ in range(1 + chance.randrange(200)))
    answer = WRONG | {
        "enhanced_query": "".join(chance.choices("abcdefgh ", k=30)) + "x",
        "sentiment_score": chance.uniform(-2, 2),
        "flows": chance.sample("ABCDEFGH", chance.randrange(4)),
        "commands": [chance.choice(["chitchat", "handoff", "restart", "repeat"])],
    }
    if "letter (starts its flow)" in system_text(request):
        answer["commands"] = [*answer["flows"], *answer["commands"]]
    return json.dumps(answer)


def taught(folder: Path) -> Callable[[Request], Any]:
    """Right where the prompt holds demonstrations, wrong where it holds none."""
    labels = Labels(folder)
    return lambda request: labels.right(request) if demo_texts(request) else wrong(request)


def lm_of(kind: str, folder: Path = LIBRARY) -> dspy.LM:
    """A scripted model: ``taught``, ``right``, ``wrong`` or ``garbage``."""
    scripts = {"taught": taught(folder), "right": Labels(folder).right, "wrong": wrong, "garbage": garbage}
    lm = scripted_lm(scripts[kind], model=f"scripted/{kind}")
    # What is refused is not asked for again: tests count requests.
    lm.engine.asks_again = False
    return lm
