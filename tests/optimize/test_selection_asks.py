"""A run that keeps the question "which of these do you mean?", since it pays."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest

from jazzmine_dspy import load
from shop_dataset import write_shop

TOLD = {
    "refund": ("Case A.", "refund it"),
    "repair": ("Case B.", "repair it"),
    "track": ("Case C.", "track it"),
}
CLEAR = {
    "refund": ["i want my money back for {}", "pay me back for {}", "return the price of {}", "reimburse me for {}"],
    "repair": ["can you fix {}", "mend {}", "someone should repair {}", "send a mechanic for {}"],
    "track": ["where is {}", "has {} been sent", "when will {} come", "is {} on its way"],
}  # fmt: skip
EITHER = ["{} is broken", "{} does not switch on", "i am not happy with {}", "{} has a crack"]
THINGS = [
    f"{how} {what}"
    for how in ("the", "my new")
    for what in ("lamp", "phone", "kettle", "chair", "bag", "watch")
]


@pytest.fixture(scope="module")
def asking(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Any:
    """Half of those whose thing is broken want it repaired, the others their money; their words don't say."""
    said = [
        (text.format(thing), flow)
        for flow, texts in CLEAR.items()
        for text, thing in itertools.product(texts, THINGS)
    ]
    flows = itertools.cycle(("refund", "repair", "repair", "refund", "repair", "refund", "refund"))
    said += [(text.format(thing), next(flows)) for text, thing in itertools.product(EITHER, THINGS)]
    shop = write_shop(tmp_path_factory.mktemp("asking"), TOLD, said)
    run_in, recipe_of = request.getfixturevalue("runner")
    settings = {"lm": "none", "objective": "flow_set_exact", "head": True, "clarify": {"cost": 0.2}}
    return run_in(tmp_path_factory.mktemp("asked"), recipe_of(shop, name="asking", **settings))


@pytest.mark.row("F11")
def test_a_question_that_pays_is_kept_and_asked(asking: Any) -> None:
    told = asking.result.manifest["selection"]["clarify"]
    assert told["kept"]
    for part in (told["out_of_fold"], told["dev_b"]):
        assert part["avoided"] > 0.2 * part["questions"] > 0
    assert asking.result.program.policy.clarify == {told["source"]: told["out_of_fold"]["margin"]}


@pytest.mark.row("F11")
def test_it_is_asked_where_words_do_not_say(asking: Any) -> None:
    program = load(asking.result.folder)
    asked = [
        tuple(sorted(program.decide(text=text.format("my old radio")).selection.clarify)) for text in EITHER
    ]
    assert ("refund", "repair") in asked
    clear = [program.decide(text=text.format("my old radio")).selection for text in CLEAR["track"]]
    assert [(one.flows, list(one.clarify)) for one in clear] == [(["track"], [])] * 4


@pytest.mark.row("F11")
def test_questions_that_break_a_constraint_are_not_asked(
    asking: Any, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    # A question that is asked where the flow was right costs that turn its flow.
    run_in, _ = request.getfixturevalue("runner")
    recipe = asking.recipe.model_copy(update={"constraints": {"in_scope_accuracy": 0.0}})
    held = run_in(tmp_path, recipe).result
    told = held.manifest["selection"]["clarify"]
    assert not told["kept"]
    assert held.program.policy.clarify == {}
    assert told["out_of_fold"] == asking.result.manifest["selection"]["clarify"]["out_of_fold"]
    said = (tmp_path / held.report_paths.markdown).read_text()
    assert r"in\_scope\_accuracy loses" in said
