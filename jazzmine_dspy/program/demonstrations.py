"""Demonstrations of single predictors, built from labelled turns: no predictor takes a whole turn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import dspy

from jazzmine_dspy.models.commands import StartFlow
from jazzmine_dspy.models.errors import InputError, MemoryUnavailableError
from jazzmine_dspy.models.labels import LabelledMessage, Labels
from jazzmine_dspy.models.turn import Turn
from jazzmine_dspy.program.lm.render import Addresses
from jazzmine_dspy.program.lm.requests import addresses_of, offered, request_for
from jazzmine_dspy.program.module import DecidingModule
from jazzmine_dspy.program.ports import Recalled
from jazzmine_dspy.program.state import TurnState, as_turn
from jazzmine_dspy.signatures.answers import ALIASES
from jazzmine_dspy.signatures.contract import ANSWERED

_LABEL = {"enhanced_query": "enhanced", "sentiment_score": "sentiment"}
"""Labels that are named otherwise than the fields of an answer that they are for."""


def labelled_turn(example: Mapping[str, Any]) -> LabelledMessage:
    """The labelled turn of an example of DSPy's: one of ``Dataset.to_dspy``, or one that was written by hand.

    Args:
        example: Holds ``turn`` (a turn, or its plain form) or ``text``, and the labels: under ``gold``, or each by its
            own name (``flows``, ``commands``, ``enhanced`` and so on).

    Raises:
        InputError: it holds no turn, or no label.

    Example:
        >>> written = dspy.Example(text="where is 4471?", flows=["track_order"]).with_inputs("text")
        >>> labelled_turn(written).labels.flows
        ('track_order',)
    """
    try:
        given = {name: example[name] for name in Labels.model_fields if name in example}
        labels = Labels.model_validate(example.get("gold", given))
        turn = as_turn(example.get("turn"), example.get("text"))
        if labels == Labels():
            raise ValueError("no label")
    except (TypeError, ValueError, InputError) as error:
        raise InputError(
            f"The example has no labelled turn: {getattr(error, 'message', type(error).__name__)}",
            remedy="Use dataset.to_dspy(split), or dspy.Example(text=…, flows=[…]).with_inputs('text').",
        ) from error
    return LabelledMessage(
        turn=turn, labels=labels, conversation_id=next(iter(example.get("exclude") or ()), "")
    )


def demonstrations(name: str, demos: Sequence[Any], program: DecidingModule) -> list[Any]:
    """The demonstrations of a predictor as they are sent: DSPy puts examples of whole turns among them.

    Such an example is rendered for the predictor, and left out if it has no label for it.

    Args:
        name: Of the predictor.
        demos: What it holds.
        program: The program that asks it.

    Raises:
        InputError: an example names a flow that the program does not have.
    """
    whole = (
        to_demo(name, labelled_turn(demo), program) if "turn" in demo or "text" in demo else demo
        for demo in demos
    )
    return [demo for demo in whole if demo is not None]


def label_of(field: str, labels: Labels) -> Any:
    """The label for a field of an answer; None where it was not made."""
    return getattr(labels, _LABEL.get(field, field))


def to_demo(predictor: str, example: LabelledMessage, program: DecidingModule) -> dspy.Example | None:
    """The demonstration that a labelled turn gives for a predictor; None where it has none of the labels.

    All inputs of the predictor's signature are filled, and of its answers those that the turn labels: the others are
    left out of what the demonstration says.

    The candidates are what recall finds without the turn's own conversation, the right flows put among them
    where recall missed them, so that the letters are valid for this demonstration. Recall is asked as in service:
    for the message where one call does all, else for the rewrite that the demonstration shows.
    """
    labels, turn = example.labels, example.turn
    asked = program.predictor(predictor).signature.output_fields
    if predictor == "fused" and labels.commands is None and labels.flows is not None:
        # Flows that start are commands here.
        labels = labels.model_copy(update={"commands": tuple(StartFlow(flow=name) for name in labels.flows)})
    said = [field for field in asked if label_of(field, labels) is not None]
    if not said:
        return None
    gold = list(labels.flows or ())
    if strange := [name for name in gold if name not in program.registry]:
        remedy = f"Name flows of the program: {', '.join(program.registry)}."
        raise InputError(f"A demonstration names the unknown flow {strange[0]!r}", remedy=remedy)
    query = labels.enhanced or "" if predictor in ("select", "understand") else ""
    state = _with_candidates(program, turn, example.conversation_id, query, gold)
    if predictor == "understand":
        state = replace(state, selected=tuple(gold))
    call = request_for(state, predictor)
    outputs = _outputs(labels, [one.name for one in offered(state)], addresses_of(state, predictor))
    return dspy.Example(**call.inputs, **{field: outputs[field] for field in said}).with_inputs(*call.inputs)


def _with_candidates(
    program: DecidingModule, turn: Turn, conversation: str, query: str, gold: Sequence[str]
) -> TurnState:
    """The state of a turn with the flows that its demonstration offers."""
    state = TurnState(
        turn, program.registry, program.policy, program.bindings, frozenset([conversation]), query=query
    )
    if program.bindings.recall is not None:
        search = query if program.policy.shape == "staged" and query else turn.text
        state = replace(state.with_query(search), query=query)
    if state.recall_failure:
        raise MemoryUnavailableError(
            f"No demonstration can be built: {state.recall_failure}", remedy="Fix recall, and run again."
        )
    # Without the nearest examples, which would make each demonstration as long as several.
    shown = [candidate._replace(near=()) for candidate in state.recalled[: program.policy.top_k]]
    missing = [
        Recalled(name, 0.0)
        for name in gold
        if name in program.registry and name not in [c.name for c in shown]
    ]
    keep = [c for c in shown if c.name in gold or len(shown) + len(missing) <= program.policy.top_k]
    keep = keep or shown[: max(0, program.policy.top_k - len(missing))]
    others = [c for c in shown if c not in keep][: max(0, program.policy.top_k - len(missing) - len(keep))]
    return replace(state, recalled=(*sorted([*keep, *others], key=shown.index), *missing))


def _outputs(labels: Labels, shown: Sequence[str], addresses: Addresses) -> dict[str, Any]:
    """Every field of an answer by the labels, as a prompt shows it."""
    made: dict[str, Any] = {field: label_of(field, labels) for field in ANSWERED}
    commands = labels.commands or ()
    doubted = [flow for one in commands if one.type == "clarify" for flow in getattr(one, "flows", ())]
    return made | {
        "entities": [entity.name for entity in labels.entities or ()],
        "flows": [ALIASES[shown.index(name)] for name in doubted or labels.flows or () if name in shown],
        "commands": addresses.written(commands),
    }
