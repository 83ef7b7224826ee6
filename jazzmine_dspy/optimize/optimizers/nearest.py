"""KNN few-shot: demonstrations of the labelled turns that are nearest to each message."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence

from jazzmine_dspy.datasets.demos import to_demo
from jazzmine_dspy.datasets.schema import Example
from jazzmine_dspy.models.errors import JazzmineError
from jazzmine_dspy.optimize.optimizers.candidates import Attempt, Candidate, assert_alive
from jazzmine_dspy.optimize.optimizers.means import Means
from jazzmine_dspy.optimize.registered import optimizer
from jazzmine_dspy.program.driver import drive
from jazzmine_dspy.program.nearest import CONVERSATION, NEAREST, SAID, found_by, shown
from jazzmine_dspy.program.sources.lm import call_for
from jazzmine_dspy.program.turn import TurnProgram
from jazzmine_dspy.signatures.adapter import DecisionAdapter

_LOOKED_AT = 8
"""Turns whose prompts are written out to see what stays the same."""

_CHARACTERS = 4
"""Of text, in a token."""


@optimizer("knn_few_shot")
def knn_few_shot(base: TurnProgram, train: Sequence[Example], means: Means) -> Iterator[Attempt]:
    """All labelled turns are kept as demonstrations, and each call is shown the nearest few."""
    if means.recipe.demos.labeled:
        yield Attempt("nearest", 0, functools.partial(nearest, "nearest", base, train, means))


def nearest(name: str, base: TurnProgram, train: Sequence[Example], means: Means) -> Candidate:
    """A program that is shown the nearest labelled turns; none of the turn's own conversation while it is fitted."""
    program = base.deepcopy()
    for predictor in program.active_predictors():
        pool = []
        for example in train:
            demo = to_demo(predictor, example, base)
            if demo is not None:
                demo[SAID], demo[CONVERSATION] = found_by(example.turn), example.conversation_id
                pool.append(demo)
        program.predictor(predictor).demos = pool
        setattr(program.predictor(predictor), NEAREST, means.recipe.demos.labeled)
    candidate = Candidate(name, program, (_prefix(program, base, means.turns(means.dev, _LOOKED_AT)),))
    assert_alive(candidate, base)
    return candidate


def _prefix(program: TurnProgram, base: TurnProgram, turns: Sequence[Example]) -> str:
    """What it takes: how much of the prompts is the same in each call, so that prefix caches hold it."""
    same = whole = 0
    for name in program.active_predictors():
        sent = [text for text in (_sent(program, base, name, example) for example in turns) if text]
        if sent:
            same += _common(sent) // _CHARACTERS
            whole += sum(map(len, sent)) // len(sent) // _CHARACTERS
    return (
        f"its demonstrations are chosen per call, so of about {whole:,} prompt tokens a turn a prefix cache holds "
        f"the first {same:,} alone"
    )


def _common(texts: Sequence[str]) -> int:
    """Characters that all texts begin with."""
    first, last = min(texts), max(texts)
    differ = (at for at, (one, other) in enumerate(zip(first, last, strict=False)) if one != other)
    return next(differ, min(len(first), len(last)))


def _sent(program: TurnProgram, base: TurnProgram, name: str, example: Example) -> str:
    floor = base.with_policy("floor")
    exclude = (example.conversation_id,)
    context = drive(floor.steps_to("select", example.turn, exclude), floor, floor.bindings)
    call, predictor = call_for(context, name, program.policy), program.predictor(name)
    demos = shown(predictor, program.bindings.embedder, call.said, call.exclude).get("demos", predictor.demos)
    try:
        messages = DecisionAdapter().format(predictor.signature, demos, dict(call.inputs))
    except JazzmineError:
        return ""
    return "\n".join(f"{message['role']}: {message['content']}" for message in messages)
