"""The local decider in a run, from end to end: index, head, refit, learning curve, and what is told of them."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest

from jazzmine_dspy import load
from jazzmine_dspy.artifacts.loading import bind_recall, recall_settings
from jazzmine_dspy.datasets import load_dataset, write_splits
from jazzmine_dspy.optimize.local.rows import Exclusions
from jazzmine_dspy.program.heads.selection import SelectionHead
from shop_dataset import write_shop

pytest.importorskip("sklearn")

FLOWS = {
    "track": ("Case A.", ["where is {}", "has {} been sent", "when will {} come", "{} has not arrived",
                          "is {} on its way", "how long until {} gets here", "which day does {} arrive",
                          "did {} leave the depot"]),
    "refund": ("Case B.", ["i want my money back for {}", "refund {}", "pay me back for {}", "return the price of {}",
                           "when is the money for {} repaid", "the refund of {} is missing", "reimburse me for {}",
                           "i was charged for {} and want it back"]),
    "repair": ("Case C.", ["{} is broken", "can you fix {}", "{} stopped working", "{} has a crack", "mend {}",
                           "someone should repair {}", "{} makes a strange noise", "{} does not switch on"]),
    "": ("", ["i like {}", "my mother has {} too", "what do you think of {}", "{} is a nice colour",
              "tell a joke about {}", "we talked about {} yesterday", "{} reminds me of you", "do you dream of {}"]),
}  # fmt: skip
THINGS = ["the lamp", "my new phone", "the kettle", "a chair", "the blue bag", "this watch"]


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Descriptions say nothing of what people write: only labelled turns can teach it. No command is labelled."""
    conversations = [
        (text.format(thing), name)
        for name, (_, texts) in FLOWS.items()
        for text, thing in itertools.product(texts, THINGS)
    ]
    flows = {
        name: (description, texts[0].format("it")) for name, (description, texts) in FLOWS.items() if name
    }
    return write_shop(tmp_path_factory.mktemp("shop"), flows, conversations)


@pytest.fixture(scope="module")
def routed(shop: Path, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Any:
    settings = {"lm": "none", "objective": "flow_set_exact", "head": True, "recall": True, "refit": True}
    run_in, recipe_of = request.getfixturevalue("runner")
    return run_in(tmp_path_factory.mktemp("routed"), recipe_of(shop, name="routed", **settings))


@pytest.mark.row("C2", "C5", "C6", "D1")
def test_what_labels_teach_ships(routed: Any) -> None:
    """Also where no command is labelled, so that no gate can be set."""
    result = routed.result
    assert result.shipped == "local"
    programs = {each["name"]: each for each in result.manifest["programs"]}
    local = programs["local"]
    dataset = load_dataset(routed.recipe.dataset)
    assert local["n"] == len(dataset.examples("dev_a", "dev_b"))
    assert local["lower_bound"] > 0
    assert local["expected"] == local["worth"] == pytest.approx(local["difference"])
    assert result.manifest["gate"] is None
    scores = result.manifest["scores"]
    assert scores["shipped"]["flow_set_exact"][0] > scores["base"]["flow_set_exact"][0]
    assert result.program.policy.names == ("local",)
    # Of each flow dozens of messages are labelled, and none while another flow runs.
    assert (result.program.policy.head_weight > 0.9, result.program.policy.busy_head_weight) == (True, 0.0)
    record = load(result.folder).decide(text="my old kettle stopped working").stages["select"]
    assert record.source == "local"
    assert 0.0 < record.confidence <= 1.0


@pytest.mark.row("C5")
def test_it_says_in_one_sentence_what_ships_and_how_sure_that_is(routed: Any) -> None:
    score = routed.result.manifest["scores"]["shipped"]["flow_set_exact"]
    sentence = routed.result.report.verdict
    assert sentence.startswith(f"Flows right: {100 * score[0]:.1f} % on {score[3]} test turns by local, ")
    assert " points more than the base" in sentence
    assert sentence.endswith("; no language model is asked.")


@pytest.mark.row("V4", "C5")
def test_the_report_draws_a_learning_curve_from_the_base_on(routed: Any) -> None:
    report, dataset = routed.result.report, load_dataset(routed.recipe.dataset)
    train = len({example.conversation_id for example in dataset.examples("train")})
    points = report.learning
    assert [point.conversations for point in points] == [
        0, round(train / 8), round(train / 4), round(train / 2), train,
    ]  # fmt: skip
    dev = len(dataset.examples("dev_a", "dev_b"))
    assert {point.score.n for point in points} == {dev}
    base, *_, whole = (point.score.value for point in points)
    assert whole > base
    assert f"From {round(train / 2)} to {train} labelled conversations" in report.learning_words
    page = (routed.result.folder / "report" / "report.html").read_text("utf-8")
    assert "What more labels bring" in page
    assert report.learning_words in page


@pytest.mark.row("F6")
def test_recall_is_compiled_and_loads_as_it_was_made(routed: Any) -> None:
    result = routed.result
    lines = (result.folder / "examples.jsonl").read_text("utf-8").splitlines()
    examples = [json.loads(line) for line in lines]
    assert all(set(example) == {"text", "flow", "conversation"} for example in examples)
    choices = [choice for choice in result.manifest["local"]["recall"]["choices"] if choice["kept"]]
    assert choices[0]["name"] == "one for each text and each labelled turn"
    loaded = load(result.folder)
    assert loaded.fingerprint == result.program.fingerprint
    assert isinstance(loaded.bindings.heads["select"], SelectionHead)
    assert loaded.bindings.recall is not None
    assert loaded.bindings.recall.settings == recall_settings(result.program.policy.recall)
    assert loaded.bindings.recall.recall("the chair has a crack", k=1)[0].name == "repair"


@pytest.mark.row("C2")
def test_the_last_fit_learns_from_all_parts_but_the_test(routed: Any) -> None:
    dataset = load_dataset(routed.recipe.dataset)
    lines = (routed.result.folder / "examples.jsonl").read_text("utf-8").splitlines()
    roles = {dataset.roles[json.loads(line)["conversation"]] for line in lines}
    assert roles == {"train", "dev_a", "dev_b"}
    assert routed.result.manifest["refit_turns"] == len(dataset.examples("train", "dev_a", "dev_b"))
    before = routed.result.manifest["head"]
    assert before["rows"] == len(dataset.examples("train"))  # what was chosen was chosen on these


@pytest.mark.row("C2")
def test_no_turn_is_judged_by_what_saw_its_conversation(shop: Path, routed: Any) -> None:
    """A turn is found by everyone but itself: without the exclusion it would be its own nearest example."""
    program, train = load(routed.result.folder), load_dataset(shop).examples("train")
    example, exclusions = train[0], Exclusions(train)
    assert program.bindings.recall is not None
    nearest = program.bindings.recall.recall(example.turn.text, k=1)[0]
    hidden = program.bindings.recall.recall(example.turn.text, k=1, exclude=exclusions.of(example))[0]
    assert nearest.similarity == pytest.approx(1.0, abs=1e-3)
    assert hidden.similarity < 0.999


def test_examples_of_flows_that_are_gone_are_left_out(routed: Any) -> None:
    program = load(routed.result.folder, flows=[{"name": "track", "description": "Tell where it is."}])
    assert {point.flow for point in program.bindings.recall.points} == {"track"}  # type: ignore[union-attr]
    bind_recall(program, program.bindings.embedder, [{"text": "x y", "flow": "gone"}])
    assert len(program.bindings.recall.points) == 1  # type: ignore[union-attr]


def test_a_dataset_without_flows_is_run_all_the_same(tmp_path: Path, runner: Any) -> None:
    """Rewrites alone, as some importers bring them: there is nothing to select, and the run says so."""
    folder = tmp_path / "rewrites"
    folder.mkdir()
    (folder / "flows.yaml").write_text("flows: []\n", "utf-8")
    (folder / "card.md").write_text("# rewrites\n", "utf-8")
    roles: dict[str, Any] = {f"r{i}": role for i, role in enumerate(["train", "dev_a", "dev_b", "test"] * 2)}
    turn = {"role": "user", "text": "and the other one", "labels": {"enhanced": "And the other lamp?"}}
    lines = [json.dumps({"id": name, "turns": [turn]}) for name in roles]
    (folder / "conversations.jsonl").write_text("\n".join(lines) + "\n", "utf-8")
    write_splits(folder, roles, replace=True)
    run_in, recipe_of = runner
    settings = {"name": "rewrites", "lm": "none", "head": True, "refit": True}
    ran = run_in(tmp_path, recipe_of(folder, objective="rewrite_token_f1", **settings))
    assert ran.result.manifest["head"] is None
    assert ran.result.manifest["scores"]["shipped"]["rewrite_token_f1"][3] == 2
