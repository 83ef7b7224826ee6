"""Turns that stand for messages out of scope, where the labels have none."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from jazzmine_dspy import load
from jazzmine_dspy.datasets import load_dataset
from jazzmine_dspy.optimize.pipeline.heads import fit_head
from jazzmine_dspy.optimize.pipeline.rows import Exclusions, collect_rows
from jazzmine_dspy.optimize.pipeline.synthetic_oos import synthetic_oos
from shop_dataset import write_shop

TOLD = {
    "refund": ("Pay money back.", "refund it"),
    "repair": ("Mend a broken thing.", "repair it"),
    "track": ("Tell where a parcel is.", "track it"),
    "invoice": ("Send an invoice.", "the bill of it"),
    "gift": ("Wrap a present.", "wrap it up"),
}
SAID = {
    "refund": ["i want my money back for {}", "pay me back for {}", "reimburse me for {}"],
    "repair": ["can you fix {}", "mend {}", "someone should repair {}"],
    "track": ["where is {}", "has {} been sent", "when will {} come"],
    "invoice": ["send me the bill of {}", "i need an invoice for {}", "the receipt of {} please"],
    "gift": ["wrap up {} as a present", "{} is a gift, put paper around it", "a ribbon around {}"],
}
THINGS = ["the lamp", "my new phone", "the kettle", "a chair", "the blue bag", "this watch", "my bicycle"]
FOREIGN = [
    "how tall is the eiffel tower",
    "sing a song about rain",
    "who won the match last night",
    "do you like tea",
]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Any:
    """Runs on turns that all want a flow, by the share of messages out of scope that the recipe names."""
    said = [
        (text.format(thing), flow)
        for flow, texts in SAID.items()
        for text, thing in itertools.product(texts, THINGS)
    ]
    shop = write_shop(tmp_path_factory.mktemp("shop"), TOLD, said)
    run_in, recipe_of = request.getfixturevalue("runner")
    made: dict[float, Any] = {}

    def of(share: float) -> Any:
        if share not in made:
            named = {"name": "all-in-scope", "lm": "none", "head": True}
            recipe = recipe_of(shop, objective="flow_set_exact", open_set={"share": share}, **named)
            made[share] = run_in(tmp_path_factory.mktemp("ran"), recipe)
        return made[share]

    return of


@pytest.mark.row("C4")
def test_the_sources_are_compared_on_messages_out_of_scope_too(runs: Any) -> None:
    told = runs(0.5).result.manifest["selection"]
    assert told["flows_left_out"]["turns"] > 20
    assert told["flows_left_out"]["head"] > 0.6
    (heat,) = [each for each in runs(0.5).result.manifest["race"] if each["stage"] == "select"]
    assert heat["out_of_fold"] == told["unruled_turns"] + told["flows_left_out"]["turns"]
    assert runs(0.0).result.manifest["selection"]["flows_left_out"]["turns"] == 0


@pytest.mark.row("C4")
def test_foreign_messages_are_refused_where_they_are_expected(runs: Any) -> None:
    """Though the labels have none."""
    program = load(runs(0.5).result.folder)
    assert sum(not program.decide(text=text).selection.flows for text in FOREIGN) >= 3
    kept = [
        program.decide(text=texts[0].format("my old radio")).selection.flows == [flow]
        for flow, texts in SAID.items()
    ]
    assert sum(kept) >= 4


def test_the_flow_is_hidden_from_all_that_judge_it(runs: Any) -> None:
    ran = runs(0.5)
    program, examples = load(ran.result.folder), load_dataset(ran.recipe.dataset).examples("train")
    rows = collect_rows(program, examples, exclude=Exclusions(examples))
    trained = fit_head(program, rows, 0, out_of_scope_share=0.2)
    found = synthetic_oos(program, rows, trained, seed=0, exclude=Exclusions(examples))
    assert len(found) == round(0.25 * len(rows))
    assert not any(each.flows & set(each.head.labels) for each in trained.without)
    wanted = {row.example.key: row.wanted[0] for row in rows}
    for each in found:
        flow = wanted[each.row.example.key.removesuffix("#without")]
        assert each.row.wanted == ()
        assert flow not in {one.name for one in each.row.recalled}
        assert flow not in {name for name, _ in each.output.ranking}
    assert synthetic_oos(program, rows, trained, seed=0, exclude=Exclusions(examples)) == found
    assert not synthetic_oos(program, rows, fit_head(program, rows, 0, out_of_scope_share=0.0), seed=0)
