"""What is wrong with flows that are well formed: texts, and what makes flows hard to tell apart."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator
from functools import partial

from jazzmine_dspy.cli._output import count
from jazzmine_dspy.datasets.label_checks import Fault
from jazzmine_dspy.models.flows import Flow
from jazzmine_dspy.models.registry import FlowRegistry
from jazzmine_dspy.models.templates import FIELD
from jazzmine_dspy.models.turn import Turn

_FEW = 3
_MOST_FLOWS = 200
_MOST_TEXTS = 1000

_warning = partial(Fault, "warning")


def flow_problems(registry: FlowRegistry) -> Iterator[Fault]:
    """Problems of flows in their order: examples, conditions, questions, and texts of the flow and its subflows.

    The first one is a missing line about the business.
    """
    if not registry:
        yield _warning("flows", "There is no flow", "Write one; without flows, the program selects nothing.")
    elif not registry.about:
        yield _warning(
            "about",
            "There is no line about the business for language models",
            "Write it next to 'flows', such as `about: a web shop for home goods`.",
        )
    if len(registry) > 1 and len(registry.never_miss) == len(registry):
        remedy = "Mark only the flows that are urgent: of flows that are all marked none goes first."
        yield _warning("flows, never_miss", "Every flow is marked", remedy)
    for name in registry.never_miss:
        if registry[name].guards:
            remedy = "Remove the guards if it must not be missed: a hidden flow is neither started nor asked about."
            yield _warning(f"flow {name!r}, never_miss", "Its guards may hide it", remedy)
    examples: dict[str, str] = {}
    words: dict[str, tuple[str, str]] = {}
    for flow in registry.values():
        yield from _example_problems(flow, examples, words)
        place = f"flow {flow.name!r}"
        if not flow.condition:
            remedy = "Describe when the flow is right: language models choose by it."
            yield _warning(f"{place}, condition", "No condition", remedy)
        for slot in flow.slots:
            if slot.required and not slot.ask:
                field, remedy = f"{place}, slot {slot.name!r}", "Write the question that gets the value."
                yield _warning(field, "A required slot has no 'ask'", remedy)
        for part in _with_subflows(flow):
            for problem in _text_problems(part):
                yield problem._replace(field=f"flow {part.name!r}, {problem.field}")
    # A name of one word reads well.
    slots = [
        slot
        for flow in registry.values()
        for part in _with_subflows(flow)
        for slot in part.slots
        if "_" in slot.name and not slot.title
    ]
    if slots:
        yield _warning(
            "title",
            f"{count(len(slots), 'slot')} without a title: customers read {slots[0].name.replace('_', ' ')!r}",
            "Write what they should read, such as `title: the day of arrival`.",
        )


def _example_problems(
    flow: Flow, flow_by_example: dict[str, str], example_by_words: dict[str, tuple[str, str]]
) -> Iterator[Fault]:
    """Too few examples, and those that another flow has too: letter for letter, or in another order."""
    field = f"flow {flow.name!r}, examples"
    if (number := len(flow.examples)) < _FEW:
        yield _warning(
            field, count(number, "example"), f"Write {_FEW} or more messages that should start it."
        )
    for example in flow.examples:
        key = " ".join(example.casefold().split())
        if (other := flow_by_example.setdefault(key, flow.name)) != flow.name:
            message = f"Example {example!r} is also one of {other!r}"
            yield Fault("error", field, message, "Keep it only in the flow that it should start.")
        elif words := " ".join(sorted(re.findall(r"\w+", key))):
            other, theirs = example_by_words.setdefault(words, (flow.name, example))
            if other != flow.name:
                message = f"Example {example!r} has the words of {theirs!r} of {other!r}"
                yield _warning(field, message, "Write in each what distinguishes the flows.")


def _with_subflows(flow: Flow) -> Iterator[Flow]:
    yield flow
    for part in flow.subflows:
        yield from _with_subflows(part)


def _text_problems(flow: Flow) -> Iterator[Fault]:
    """Actions without a confirmation, and slots that it never shows."""
    if flow.tools and not flow.confirm:
        remedy = "Write a 'confirm' text, unless the tools only look something up."
        yield _warning("confirm", "The flow has tools and runs them without asking", remedy)
    fields = {field[1] for field in FIELD.finditer(flow.confirm)}
    for slot in flow.slots if flow.confirm else ():
        if slot.required and slot.name not in fields:
            message = f"The confirmation never shows the slot {slot.name!r}, which the flow needs"
            remedy = f"Write {{{slot.name}}} into the text, so that users see what they agree to."
            yield _warning("confirm", message, remedy)


def misrouted(registry: FlowRegistry) -> tuple[list[Fault], int, int]:
    """Run examples and keywords through the base program, which knows no labels and asks no language model.

    At most 200 flows and 1,000 texts are run; those of flows with guards are not.

    Returns:
        The texts that select another flow, how many were run, and how many there are.
    """
    from jazzmine_dspy.artifacts import load

    texts = [
        (flow, field, text)
        for flow in registry.values()
        for field in ("examples", "keywords")
        for text in getattr(flow, field)
    ]
    program = load("base", flows=[*registry.values()][:_MOST_FLOWS], lm=None)
    usable = [
        each for each in texts if each[0].name in program.registry and not each[0].guards and each[2].strip()
    ]
    # Without an embedding model, which a warning names, nothing is recalled.
    run = usable[:_MOST_TEXTS] if program.bindings.recall is not None else []
    turns = [Turn(text=each[2], date=dt.date.today()) for each in run]
    problems = [
        _warning(
            f"flow {flow.name!r}, {field}",
            f"{text!r} selects {' and '.join(map(repr, names))}",
            "Reword it, or write examples for both flows that tell them apart.",
        )
        for (flow, field, text), decision in zip(run, program.decide_many(turns, deadline=None), strict=True)
        if (names := decision.selection.flows)
        and flow.name not in names
        and text not in getattr(registry[names[0]], field)
    ]
    return problems, len(run), len(texts)
