"""Labels, decisions and states in one line, for people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jazzmine_dspy.datasets.schema import Labels
from jazzmine_dspy.models.base import thaw
from jazzmine_dspy.models.commands import Command
from jazzmine_dspy.models.decision import TurnDecision
from jazzmine_dspy.models.turn import Turn


def decision_told(decision: TurnDecision | None) -> str:
    """Rewrite, flows and commands of a decision; ``crashed`` where there is none."""
    if decision is None:
        return "crashed"
    query, flows = decision.enhancement.enhanced_query, decision.selection.flows
    said = f"“{query}” · flows {flows} · {commands_told(decision.commands)}"
    return f"{said} · degraded" if decision.degraded else said


def labels_told(labels: Labels) -> str:
    """The same of labels; what is not labelled is left out."""
    parts = [] if labels.enhanced is None else [f"“{labels.enhanced}”"]
    parts += [] if labels.flows is None else [f"flows {list(labels.flows)}"]
    parts += [] if labels.commands is None else [commands_told(labels.commands)]
    return " · ".join(parts) or "no label"


def commands_told(commands: Sequence[Command]) -> str:
    """Commands with their arguments.

    Example:
        >>> from jazzmine_dspy.models.commands import command
        >>> commands_told([command({"type": "set_slot", "name": "size", "value": "XL"})])
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


def state_told(turn: Turn) -> str:
    """The state that a message came into.

    Example:
        >>> state_told(Turn(text="4471", flow="track_order", awaiting="order_id"))
        'track_order, asked for order_id'
    """
    if turn.flow is None:
        parts = ["no task"]
    else:
        parts = [turn.flow, *([f"asked for {turn.awaiting}"] if turn.awaiting else [])]
        parts += ["asked to confirm"] if turn.confirming is not None else []
    held = ", ".join(f"{name}={_plain(value)}" for name, value in turn.slots)
    parts += [f"holds {held}"] if held else []
    parts += [f"paused: {', '.join(turn.paused)}"] if turn.paused else []
    return ", ".join(parts)


def _plain(value: Any) -> str:
    return str(thaw(value))
