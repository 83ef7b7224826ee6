"""Feedback on answers for optimizers that write prompts; labels, decisions and states in words; wrong turns."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jazzmine_dspy.eval.equality import command_keys, in_order
from jazzmine_dspy.eval.evaluation import Evaluation
from jazzmine_dspy.eval.metrics import stage_score
from jazzmine_dspy.models.base import thaw
from jazzmine_dspy.models.commands import Command
from jazzmine_dspy.models.decision import STAGES, Stage, TurnDecision
from jazzmine_dspy.models.labels import Labels
from jazzmine_dspy.models.turn import Turn

_SHOWN = 200
"""Characters of a message that feedback quotes."""

_UNTOLD = {"type", "topic"}
"""Of a command: its type stands first, and the topic of a question is compared with nothing and asked of no model."""

LABELLED: Mapping[Stage, tuple[tuple[str, str], ...]] = {
    "enhance": (
        ("enhanced", "enhanced_query"), ("sentiment", "sentiment_score"), ("intent", "intent"),
        ("is_cancellation", "is_cancellation"), ("is_continuation", "is_continuation"),
    ),
    "select": (("flows", "flows"),),
    "understand": (("commands", "commands"),),
}  # fmt: skip
"""The labels of each stage, with the fields of an answer that they are for."""


def feedback(
    decision: TurnDecision, failed: str, labels: Labels, turn: Turn, stages: Sequence[Stage] = STAGES
) -> list[str]:
    """What is wrong with an answer, by the labels of its turn: one text for each fault.

    Args:
        decision: The answer.
        failed: Why it could not be used, "" where it could.
        labels: What is right; what was not labelled is never wrong.
        turn: What was asked about.
        stages: The stages that are looked at.

    Example:
        >>> from jazzmine_dspy.models import Enhancement, Selection
        >>> right = {"type": "correct_slot", "name": "day", "value": "2026-03-14"}
        >>> labels = Labels.model_validate({"commands": [right]})
        >>> said = {"enhancement": Enhancement(enhanced_query="x"), "selection": Selection()}
        >>> found = TurnDecision(**said, commands=[{**right, "type": "set_slot"}])
        >>> print(feedback(found, "", labels, Turn(text="no, the 14th"))[0])
        wrong: expected correct_slot day=2026-03-14, got set_slot; the user said 'no, the 14th' (state: no task)
    """
    said = " ".join(turn.text.split())[:_SHOWN]
    if failed:
        return [f"The answer could not be used: {failed.rstrip('.')}."]
    wanted = labels.model_dump(mode="json")
    given = {**decision.enhancement.model_dump(mode="json"), "flows": list(decision.selection.flows)}
    faults: list[str] = []
    for stage in stages:
        if stage != "enhance" and stage_score(stage, decision, labels, turn) == 1.0:
            continue
        for label, field in LABELLED[stage]:
            if wanted[label] is None:
                continue
            if field == "commands":
                faults += _command_faults(decision.commands, labels.commands or (), turn, said)
            elif wanted[label] != given[field]:
                faults.append(f"{field} should be {_shown(wanted[label])}, not {_shown(given[field])}.")
    return faults


def in_words(command: Command, beside: Command | None = None) -> str:
    """A command in words; of one that has the same arguments as another its type alone.

    Example:
        >>> from jazzmine_dspy.models.commands import command
        >>> in_words(command({"type": "set_slot", "name": "day", "value": "Monday"}))
        'set_slot day=Monday'
    """
    mine = command.model_dump(mode="json", exclude=_UNTOLD, exclude_none=True)
    if beside is not None and mine == beside.model_dump(mode="json", exclude=_UNTOLD, exclude_none=True):
        return command.type
    if "name" in mine and "value" in mine:
        value = mine.pop("value")
        mine["name"] = f"{mine['name']}={value if isinstance(value, str) else _shown(value)}"
    return " ".join(
        [command.type, *(each if isinstance(each, str) else _shown(each) for each in mine.values())]
    )


def _command_faults(given: Sequence[Command], wanted: Sequence[Command], turn: Turn, said: str) -> list[str]:
    """What is missing, wrong or too much; what lies nearest together is told as one."""
    given, wanted = in_order(given, turn), in_order(wanted, turn)
    mine, right = command_keys(given, turn), command_keys(wanted, turn)
    missing = [one for one, key in zip(wanted, right, strict=True) if key not in mine]
    extra = [one for one, key in zip(given, mine, strict=True) if key not in right]
    faults = []
    for lost in missing:
        if not extra:
            faults.append(f"missing: {in_words(lost)}")
            continue
        alike = [_alike(lost, each) for each in extra]
        near = extra.pop(alike.index(max(alike)))
        faults.append(f"wrong: expected {in_words(lost)}, got {in_words(near, lost)}")
    faults += [f"too much: {in_words(each)}" for each in extra]
    if not faults:
        expected, got = (", ".join(map(in_words, commands)) for commands in (wanted, given))
        faults.append(f"wrong order: expected {expected}; got {got}")
    return [f"{fault}; the user said {said!r} (state: {describe_state(turn)})" for fault in faults]


def _alike(one: Command, other: Command) -> int:
    name, theirs = (getattr(each, "name", getattr(each, "flow", None)) for each in (one, other))
    return 2 * (name is not None and name == theirs) + (one.type == other.type)


def _shown(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


# --- one line for people ---------------------------------------------------------------------------


def describe_decision(decision: TurnDecision | None) -> str:
    """Rewrite, flows and commands of a decision; ``crashed`` where there is none."""
    if decision is None:
        return "crashed"
    query, flows = decision.enhancement.enhanced_query, decision.selection.flows
    said = f"“{query}” · flows {flows} · {describe_commands(decision.commands)}"
    return f"{said} · degraded" if decision.degraded else said


def describe_labels(labels: Labels) -> str:
    """The same of labels; what is not labelled is left out."""
    parts = [] if labels.enhanced is None else [f"“{labels.enhanced}”"]
    parts += [] if labels.flows is None else [f"flows {list(labels.flows)}"]
    parts += [] if labels.commands is None else [describe_commands(labels.commands)]
    return " · ".join(parts) or "no label"


def describe_commands(commands: Sequence[Command]) -> str:
    """Commands with their arguments.

    Example:
        >>> from jazzmine_dspy.models.commands import command
        >>> describe_commands([command({"type": "set_slot", "name": "size", "value": "XL"})])
        'set_slot(size, XL)'
    """
    shown = []
    for each in commands:
        data = each.model_dump(mode="json")
        rest = ", ".join(
            str(value) for key, value in data.items() if key != "type" and value not in (None, "")
        )
        shown.append(f"{data['type']}({rest})" if rest else data["type"])
    return " ".join(shown) or "no command"


def describe_state(turn: Turn) -> str:
    """The state that a message came into.

    Example:
        >>> describe_state(Turn(text="4471", flow="track_order", awaiting="order_id"))
        'track_order, asked for order_id'
    """
    if turn.flow is None:
        parts = ["no task"]
    else:
        parts = [turn.flow, *([f"asked for {turn.awaiting}"] if turn.awaiting else [])]
        parts += ["asked to confirm"] if turn.confirming is not None else []
    values = ", ".join(f"{name}={thaw(value)}" for name, value in turn.slots)
    parts += [f"holds {values}"] if values else []
    parts += [f"paused: {', '.join(turn.paused)}"] if turn.paused else []
    return ", ".join(parts)


@dataclass(frozen=True)
class WrongTurn:
    """A turn with a wrong flow or command.

    Args:
        key: Ids of the conversation and of the turn.
        message: What the user wrote.
        state: State of the conversation before the message, in words.
        expected: The labels, in words.
        answered: The decision, in words; the error if the turn crashed.
        source: What answered each stage of flows and commands.
        confidence: Lowest confidence of these stages, from 0 to 1; None if the turn crashed.
        refused: Parts of a language model's answer that a rule left out, with the reasons.
    """

    key: str
    message: str
    state: str
    expected: str
    answered: str
    source: str
    confidence: float | None
    refused: str


def wrong_turns(evaluation: Evaluation) -> list[WrongTurn]:
    """List the turns of which a flow or command is wrong, crashed and degraded ones too, in the order of the dataset.

    Example:
        >>> from jazzmine_dspy.datasets import Example, Labels
        >>> from jazzmine_dspy.eval import evaluate
        >>> from jazzmine_dspy.models import Flow, FlowRegistry, Turn
        >>> from jazzmine_dspy.program.turn import TurnProgram
        >>> program = TurnProgram(FlowRegistry([Flow(name="track", description="Tell where an order is.")]))
        >>> labels = Labels.model_validate({"commands": [{"type": "handoff"}]})
        >>> turn = Example(conversation_id="c", turn_id="t1", turn=Turn(text="hi"), labels=labels, role="test", line=1)
        >>> [wrong.expected for wrong in wrong_turns(evaluate(program, [turn]))]
        ['handoff']
    """
    rows = []
    for turn in evaluation.turns:
        if not turn.wrong:
            continue
        stages = turn.decision.stages if turn.decision is not None else {}
        deciding = {stage: stages[stage] for stage in ("select", "understand") if stage in stages}
        rows.append(
            WrongTurn(
                turn.example.key,
                turn.example.turn.text,
                describe_state(turn.example.turn),
                describe_labels(turn.example.labels),
                describe_decision(turn.decision) if turn.decision is not None else f"crashed: {turn.error}",
                ", ".join(f"{stage} {record.source}" for stage, record in deciding.items()),
                min((round(record.confidence, 3) for record in deciding.values()), default=None),
                "; ".join(dict.fromkeys(reason for record in stages.values() for reason in record.refused)),
            )
        )
    return rows
