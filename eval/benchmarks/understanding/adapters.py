"""The same turns through the adapter of programs and those of DSPy: the tokens of each, and the requests to answer."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import dspy
import numpy as np
from dspy.adapters.json_adapter import _get_structured_outputs_response_format
from dspy.utils.exceptions import AdapterParseError

from jazzmine_dspy.artifacts import bind_recall
from jazzmine_dspy.datasets.schema import Example
from jazzmine_dspy.eval import evaluate
from jazzmine_dspy.lm import scripted_lm
from jazzmine_dspy.lm.deferred import read_answers
from jazzmine_dspy.models.base import canonical_json, sha256
from jazzmine_dspy.models.registry import FlowRegistry
from jazzmine_dspy.models.turn import Turn
from jazzmine_dspy.program.deadline import Deadline
from jazzmine_dspy.program.decide import read
from jazzmine_dspy.program.lm.render import Addresses, flows_offered
from jazzmine_dspy.program.lm.requests import request_for
from jazzmine_dspy.program.policy import Policy
from jazzmine_dspy.program.turn import TurnProgram
from jazzmine_dspy.signatures import DecisionAdapter
from jazzmine_dspy.signatures.adapter import sent_format
from understanding.tokens import count

ADAPTERS: dict[str, dspy.Adapter] = {
    "DecisionAdapter": DecisionAdapter(),
    "JSONAdapter": dspy.JSONAdapter(),
    "XMLAdapter": dspy.XMLAdapter(),
    "ChatAdapter": dspy.ChatAdapter(),
}


class Sent(NamedTuple):
    """What an adapter sends for a turn."""

    key: str
    messages: list[dict[str, Any]]
    response_format: dict[str, Any] | None

    @property
    def tokens(self) -> tuple[int, int, int]:
        """Of the system message, of the others, and of the schema."""
        system = [each["content"] for each in self.messages if each["role"] == "system"]
        others = [each["content"] for each in self.messages if each["role"] != "system"]
        schema = self.response_format["json_schema"]["schema"] if self.response_format else None
        written = "" if schema is None else json.dumps(schema, separators=(",", ":"))
        return sum(map(count, system)), sum(map(count, others)), count(written)

    def request(self, model: str, adapter: str) -> str:
        """A line of the batch format."""
        body: dict[str, Any] = {"model": model, "messages": self.messages, "temperature": 0}
        body |= {"response_format": self.response_format} if self.response_format else {}
        line = {
            "custom_id": sha256([adapter, body]),
            "method": "POST",
            "url": "/v1/chat/completions",
            "body": body,
        }
        return canonical_json(line)


def asking(flows: FlowRegistry) -> TurnProgram:
    """A program that asks a language model for every turn, with its prompts as written."""
    program = TurnProgram(flows, policy=Policy(deciders=(("lm", None),)))
    bind_recall(program, "minilm")
    return program


def sent(program: TurnProgram, adapter: str, turns: Iterable[tuple[str, Turn]]) -> Iterator[Sent]:
    """What an adapter sends for turns, with no language model asked."""
    signature, one = program.fused.signature, ADAPTERS[adapter]
    for key, turn in turns:
        call = request_for(read(program, turn, (), Deadline(None)), "fused")
        inputs = dict(call.inputs)
        form: dict[str, Any] | None = None
        if isinstance(one, DecisionAdapter):
            form = sent_format(call.config["response_format"], signature)
        elif type(one) is dspy.JSONAdapter:
            schema = _get_structured_outputs_response_format(signature).model_json_schema()
            form = {
                "type": "json_schema",
                "json_schema": {"name": "answer", "strict": True, "schema": schema},
            }
        yield Sent(key, one.format(signature, demos=[], inputs=inputs), form)


def judged(
    flows: FlowRegistry, adapter: str, examples: Sequence[Example], folder: Path
) -> tuple[int, int] | None:
    """How many recorded answers are right, and how many the adapter cannot read; None if some are missing."""
    program = asking(flows)
    turns = list(sent(program, adapter, [(each.key, each.turn) for each in examples]))
    answers = read_answers(folder, None) if folder.is_dir() else {}
    keys = [json.loads(each.request("large", adapter))["custom_id"] for each in turns]
    if not keys or not answers.keys() >= set(keys):
        return None
    right = broken = 0
    for example, key in zip(examples, keys, strict=True):
        text = answers[key][0]
        if adapter != "DecisionAdapter":
            try:
                said = ADAPTERS[adapter].parse(program.fused.signature, text)
            except AdapterParseError:
                broken += 1
                continue
            text = json.dumps(said, default=lambda each: each.model_dump(mode="json", exclude_defaults=True))
        program.set_lm(scripted_lm(lambda _, text=text: text))
        score = evaluate(program, [example], concurrency=1).turns[0].scores.get("commands_exact")
        right += bool(score and score.value)
    return right, broken


def row(name: str, turns: Sequence[Sent], judged: tuple[int, int] | None = None) -> str:
    """A line of the table: means of all turns, how long the longest twentieth begins, and what is right and broken."""
    parts = np.array([each.tokens for each in turns])
    totals = parts.sum(axis=1)
    system, user, schema = parts.mean(axis=0)
    told = "- | -" if judged is None else f"{judged[0]} | {judged[1]}"
    return (
        f"| {name} | {len(turns)} | {system:,.0f} | {user:,.0f} | {schema:,.0f} | {totals.mean():,.0f} "
        f"| {np.quantile(totals, 0.95):,.0f} | {told} |"
    )


HEAD = (
    "| turns of | n | system | user | schema | all | p95 | right | broken answers |\n"
    "|---|---|---|---|---|---|---|---|---|"
)


CACHED = 1024
"""Tokens from which on providers keep a prefix of a prompt."""
SHARES = (0.1, 0.25, 0.5)
"""What they bill of each token in a kept prefix."""
MANY = 60
"""Flows of a larger registry."""


def billed(program: TurnProgram, turns: Sequence[tuple[str, Turn]]) -> str:
    """A table of what a turn bills where a prefix is kept: as sent, and with every flow in a head that never changes.

    The head is the system message and each flow as a likely one is described; of the turn, its flows are left out.
    """
    registry, asked = program.registry, list(sent(program, "DecisionAdapter", turns))
    flows = [flows_offered(Addresses(Turn(text="-"), registry, [name]), {name: ()}) for name in registry]
    system, described = asked[0].tokens[0], sum(map(count, flows))
    whole = float(np.mean([sum(each.tokens) for each in asked]))
    rest = float(
        np.mean([each.tokens[2] + count(_without_flows(each.messages[-1]["content"])) for each in asked])
    )
    lines = [
        "| layout | head | other | billed at 10 % | at 25 % | at 50 % |\n|---|---|---|---|---|---|",
        _billed_row("as sent", system, whole - system),
        _billed_row(f"all {len(flows)} flows in the head", system + described, rest),
        _billed_row(f"all of {MANY} such flows", system + round(described / len(flows) * MANY), rest),
    ]
    return "\n".join(lines)


def _billed_row(name: str, head: int, other: float) -> str:
    bills = [(share if head >= CACHED else 1) * head + other for share in SHARES]
    return f"| {name} | {head:,} | {other:,.0f} | " + " | ".join(f"{each:,.0f}" for each in bills) + " |"


def _without_flows(text: str) -> str:
    """A user message after the flows that it offers."""
    return "situation: " + text.partition("\nsituation: ")[2]


def write_requests(folder: Path, adapter: str, turns: Sequence[Sent], model: str) -> Path:
    """Write the requests of an adapter, to be answered later; the file."""
    file = folder / adapter / "requests.jsonl"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(f"{each.request(model, adapter)}\n" for each in turns), "utf-8")
    return file
