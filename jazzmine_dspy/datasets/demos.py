"""Demonstrations of single stages, built from labelled turns (never whole turns: no predictor takes one)."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import dspy

from jazzmine_dspy.datasets.schema import Example, Labels
from jazzmine_dspy.models.errors import MemoryUnavailableError
from jazzmine_dspy.models.turn import Turn
from jazzmine_dspy.program.lm_requests import addresses_of, request_for
from jazzmine_dspy.program.ports import Recalled
from jazzmine_dspy.program.render import Addresses
from jazzmine_dspy.program.state import TurnState
from jazzmine_dspy.program.trainable import STAGES_FIELD
from jazzmine_dspy.program.turn import TurnProgram
from jazzmine_dspy.signatures.answers import ALIASES
from jazzmine_dspy.signatures.contract import ANSWERED
from jazzmine_dspy.signatures.schema import DOUBT

_SHORT = 110
"""Characters of a message that is shown; longer ones are where all are."""

_LABEL = {"enhanced_query": "enhanced", "sentiment_score": "sentiment"}
"""Labels that are named otherwise than the fields of an answer that they are for."""


def unlabelled_fields(examples: Sequence[Example]) -> tuple[str, ...]:
    """Fields of an answer that no turn labels: prompts of programs for these turns leave them out.

    Example:
        >>> from jazzmine_dspy.models.turn import Turn
        >>> labels, turn = Labels(flows=(), commands=()), Turn(text="x")
        >>> one = Example(conversation_id="c", turn_id="t", turn=turn, labels=labels, role="train", line=1)
        >>> unlabelled_fields([one])[:3]
        ('enhanced_query', 'sentiment_score', 'intent')
    """
    return tuple(name for name in ANSWERED if all(label_of(name, each.labels) is None for each in examples))


def label_of(field: str, labels: Labels) -> Any:
    """The label for a field of an answer; None where it was not made."""
    return getattr(labels, _LABEL.get(field, field))


def to_demo(predictor: str, example: Example, program: TurnProgram) -> dspy.Example | None:
    """The demonstration that a labelled turn gives for a predictor; None where it has none of the labels.

    All inputs of the predictor's signature are filled, and of its answers those that the turn labels: the others are
    left out of what the demonstration says.

    The candidates are what recall finds without the turn's own conversation, the right flows put among them
    where recall missed them, so that the letters are valid for this demonstration. Recall is asked as in service:
    for the message where one call does all, else for the rewrite that the demonstration shows.
    """
    labels, turn = example.labels, example.turn
    asked = program.predictor(predictor).signature.output_fields
    said = [field for field in asked if label_of(field, labels) is not None]
    if not said:
        return None
    gold = list(labels.flows or ())
    query = labels.enhanced or "" if predictor in ("select", "understand") else ""
    state = _with_candidates(program, turn, example.conversation_id, query, gold)
    if predictor == "understand":
        state = replace(state, selected=tuple(gold))
    call = request_for(state, predictor)
    shown = [candidate.name for candidate in state.recalled[: program.policy.offers]]
    outputs = _outputs(labels, shown)
    if program.policy.wording == "full":
        outputs |= _in_full(labels, shown, addresses_of(state, predictor))
    return dspy.Example(**call.inputs, **{field: outputs[field] for field in said}).with_inputs(*call.inputs)


def _with_candidates(
    program: TurnProgram, turn: Turn, conversation: str, query: str, gold: Sequence[str]
) -> TurnState:
    """The state of a turn with the flows that its demonstration offers."""
    state = TurnState(
        turn, program.registry, program.policy, program.bindings, frozenset([conversation]), query=query
    )
    if program.bindings.recall is not None:
        search = query if program.shape == "staged" and query else turn.text
        state = replace(state.with_query(search), query=query)
    if state.recall_failure:
        raise MemoryUnavailableError(
            f"No demonstration can be built: {state.recall_failure}", remedy="Mend recall, and run again."
        )
    # Without the nearest examples, which would make each demonstration as long as several.
    shown = [candidate._replace(near=()) for candidate in state.recalled[: program.policy.offers]]
    missing = [
        Recalled(name, 0.0)
        for name in gold
        if name in program.registry and name not in [c.name for c in shown]
    ]
    keep = [c for c in shown if c.name in gold or len(shown) + len(missing) <= program.policy.offers]
    keep = keep or shown[: max(0, program.policy.offers - len(missing))]
    others = [c for c in shown if c not in keep][: max(0, program.policy.offers - len(missing) - len(keep))]
    return replace(state, recalled=(*sorted([*keep, *others], key=shown.index), *missing))


def _outputs(labels: Labels, shown: Sequence[str]) -> dict[str, Any]:
    """Every field of an answer by the labels, as a prompt shows it."""
    entities = [{"name": e.name, "attributes": list(e.attributes)} for e in (labels.entities or ())[:2]]
    made: dict[str, Any] = {field: label_of(field, labels) for field in ANSWERED}
    return made | {
        "entities": entities,
        "flows": [ALIASES[shown.index(name)] for name in labels.flows or () if name in shown],
        "commands": [c.as_answer() for c in labels.commands or () if c.understood],
    }


def _in_full(labels: Labels, shown: Sequence[str], addresses: Addresses) -> dict[str, Any]:
    """What the full wording says otherwise: doubt between flows, and slots under their flows."""
    commands = labels.commands or ()
    asking = [command for command in commands if "flows" in command.flow_fields]
    doubted = [flow for command in asking for flow in getattr(command, "flows", ())]
    letters = [ALIASES[shown.index(name)] + DOUBT for name in doubted if name in shown]
    found: dict[str, Any] = {"commands": addresses.written(commands)}
    return found | ({"flows": letters} if len(letters) > 1 else {})


def demo_pool(
    predictor: str, examples: Sequence[Example], program: TurnProgram, seed: int, size: int
) -> list[Any]:
    """Demonstrations to draw from: shuffled, and such that kinds of turns alternate.

    Short turns come first within a kind, since a small model's prompt has little room. Turns that lack the label of a
    field that the prompt asks for are shown only where no turn has all of them.
    """
    asked = program.predictor(predictor).signature.output_fields
    whole = [e for e in examples if all(label_of(field, e.labels) is not None for field in asked)]
    examples = whole or examples
    examples = [example for example in examples if len(example.turn.text) <= _SHORT] or examples
    rng = random.Random(seed)
    kinds: dict[str, list[Example]] = {}
    for example in rng.sample(list(examples), len(examples)):
        commands = example.labels.commands or ()
        kind: str = commands[0].type if commands else "none"
        kinds.setdefault(kind, []).append(example)
    # Starting a flow and filling a slot are most of what turns do, so they are shown first.
    first = ("start_flow", "set_slot")
    order = sorted(kinds, key=lambda kind: (first.index(kind) if kind in first else 2, rng.random()))
    pool: list[Any] = []
    while len(pool) < size and any(kinds.values()):
        for kind in order:
            if kinds[kind] and len(pool) < size:
                demo = to_demo(predictor, kinds[kind].pop(), program)
                if demo is not None:
                    pool.append(demo)
    return pool


INPUTS = ("turn", "exclude")


def to_dspy(example: Example, program: TurnProgram) -> dspy.Example:
    """A labelled turn for ``program.trainable()``: as :meth:`~jazzmine_dspy.datasets.load.Dataset.to_dspy` says."""
    asking = program.with_policy("lm")
    fields: dict[str, Any] = {}
    special: dict[str, dict[str, Any]] = {}
    for name in asking.active_predictors():
        demo = to_demo(name, example, asking)
        values = demo.toDict() if demo is not None else {}
        special[name] = {
            field: value for field, value in values.items() if fields.setdefault(field, value) != value
        }
    # Inputs of a later stage that differ from an earlier one's, such as the message next to its rewrite.
    stages = {name: other for name, other in special.items() if other}
    whole = dspy.Example(
        turn=example.turn.model_dump(mode="json", exclude_defaults=True),
        exclude=[example.conversation_id],
        # Not under the name 'labels', which is a method of DSPy's examples.
        gold=example.labels.model_dump(mode="json", exclude_none=True),
        **fields,
        **({STAGES_FIELD: stages} if stages else {}),
    )
    return whole.with_inputs(*INPUTS)
