"""The turns that a program decides wrongly: what was expected, what was answered, and by which source."""

from __future__ import annotations

from dataclasses import dataclass

from jazzmine_dspy.eval.evaluation import Evaluation
from jazzmine_dspy.eval.feedback import describe_decision, describe_labels, describe_state


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
