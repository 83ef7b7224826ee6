"""What a run fits of the selection, from end to end: index, settings, head, gate, the last fit, and what is told."""

from __future__ import annotations

import itertools
import json
import random
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from jazzmine_dspy import load
from jazzmine_dspy.artifacts.recall import bind_recall, recall_settings
from jazzmine_dspy.datasets import load_dataset, write_splits
from jazzmine_dspy.lm.requests import user_text
from jazzmine_dspy.lm.scripted import scripted_lm
from jazzmine_dspy.optimize.pipeline.rows import Exclusions
from jazzmine_dspy.program.heads import SelectionHead
from shop_dataset import write_shop

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
    """Descriptions say nothing of what people write, so that only labelled turns can teach it."""
    said = [
        (text.format(thing), name)
        for name, (_, texts) in FLOWS.items()
        for text, thing in itertools.product(texts, THINGS)
    ]
    told = {
        name: (description, texts[0].format("it")) for name, (description, texts) in FLOWS.items() if name
    }
    return write_shop(tmp_path_factory.mktemp("shop"), told, said)


@pytest.fixture(scope="module")
def routed(shop: Path, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Any:
    settings = {
        "lm": "none",
        "objective": "flow_set_exact",
        "head": True,
        "refit": True,
        "clarify": {"cost": 0.3},
        "gates": {"target_error": 0.1},
    }
    run_in, recipe_of = request.getfixturevalue("runner")
    return run_in(tmp_path_factory.mktemp("routed"), recipe_of(shop, name="routed", **settings))


@pytest.mark.row("C1", "C2")
def test_a_head_that_is_surely_better_ships(routed: Any) -> None:
    result = routed.result
    assert result.shipped["select"] == "head"
    (heat,) = [heat for heat in result.manifest["race"] if heat["stage"] == "select"]
    assert heat["won"]
    assert heat["out_of_fold"] > 100
    assert heat["n"] == heat["out_of_fold"] + len(load_dataset(routed.recipe.dataset).examples("dev_b"))
    assert heat["dev_b"] >= 0
    assert heat["lower_bound"] > 0
    scores = result.manifest["scores"]
    assert scores["shipped"]["flow_set_exact"][0] > scores["floors alone"]["flow_set_exact"][0]
    assert result.program.policy.orders["select"] == ("rule", "head", "floor")
    record = load(result.folder).decide(text="my old kettle stopped working").stages["select"]
    assert record.source == "head"
    assert 0.0 < record.confidence <= 1.0


@pytest.mark.row("C1")
def test_the_first_line_says_what_the_head_spares(routed: Any) -> None:
    share = routed.result.report.systems[-1].evaluation.sources["select"]["head"]
    assert share > 0.5
    assert "; the LM answered 0% of turns, the head chose the flows of " in routed.result.first_line
    assert f"of {share:.0%}" in routed.result.first_line


@pytest.mark.row("F6")
def test_recall_is_compiled_and_loads_as_it_was_made(routed: Any) -> None:
    result = routed.result
    lines = (result.folder / "examples.jsonl").read_text("utf-8").splitlines()
    examples = [json.loads(line) for line in lines]
    assert all(set(example) == {"text", "flow", "conversation"} for example in examples)
    kept = [choice for choice in result.manifest["selection"]["recall"]["choices"] if choice["kept"]]
    assert kept[0]["name"] == "one for each text and each labelled turn"
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
    told = routed.result.manifest["selection"]["refit"]
    assert told["parts"] == ["train", "dev_a", "dev_b"]
    assert told["rows"] == len(dataset.examples("train", "dev_a", "dev_b"))
    assert told["index_examples"] == len(lines)
    before = routed.result.manifest["head"]
    assert before["rows"] == len(dataset.examples("train"))  # what was chosen was chosen on these


@pytest.mark.row("C3")
def test_gate_calibration_and_curve_are_in_manifest_and_report(routed: Any) -> None:
    facts = routed.result.manifest["selection"]
    certificate = facts["gates"]["certificate"]
    assert certificate["certified"]
    assert certificate["error"] <= certificate["bound"] <= 0.1
    assert certificate["accepted"] <= certificate["n"] == facts["unruled_turns"]
    assert 0.0 <= facts["out_of_fold"]["ece"] < 0.2
    data = json.loads((routed.cwd / routed.result.report_paths.json).read_text("utf-8"))["choosing"]
    assert data["words"][0].startswith("certified: ")
    assert data["reliability"]["ece"] == pytest.approx(facts["out_of_fold"]["ece"], abs=1e-4)
    assert sum(one["n"] for one in data["reliability"]["bins"]) == facts["unruled_turns"]
    measured, assumed = data["curves"]
    assert (measured["assumed"], assumed["assumed"]) == (False, True)
    assert measured["points"][0]["quality"] == pytest.approx(facts["out_of_fold"]["head"], abs=1e-4)
    assert measured["points"][-1]["quality"] == pytest.approx(facts["out_of_fold"]["floor"], abs=1e-4)
    assert assumed["points"][-1]["quality"] == 1.0
    assert [one["name"] for one in data["open_set"] if one["kept"]] == [
        routed.result.manifest["head"]["open_set"]["kept"]
    ]
    page = (routed.cwd / routed.result.report_paths.html).read_text("utf-8")
    for title in (
        "What decided the gates",
        "What sending turns on is worth",
        "Recall, by choice",
        "Open set",
    ):
        assert title in page


@pytest.mark.row("F11")
def test_questions_are_weighed_out_of_fold_and_on_dev_b(routed: Any) -> None:
    told = routed.result.manifest["selection"]["clarify"]
    assert told["source"] == "head"
    assert told["kept"] == (told["out_of_fold"]["margin"] > 0 and told["dev_b"]["saved"] > 0)
    for part in ("out_of_fold", "dev_b"):
        one = told[part]
        assert one["saved"] == pytest.approx(one["avoided"] - 0.3 * one["questions"])
    assert routed.result.program.policy.clarify == (
        {"head": told["out_of_fold"]["margin"]} if told["kept"] else {}
    )


@pytest.mark.row("C2")
def test_no_turn_is_judged_by_what_saw_its_conversation(shop: Path, routed: Any) -> None:
    """A turn is found by everyone but itself: without the exclusion it would be its own nearest example."""
    program, train = load(routed.result.folder), load_dataset(shop).examples("train")
    example, exclusions = train[0], Exclusions(train)
    assert program.bindings.recall is not None
    shown = program.bindings.recall.recall(example.turn.text, k=1)[0]
    hidden = program.bindings.recall.recall(example.turn.text, k=1, exclude=exclusions.of(example))[0]
    assert shown.similarity == pytest.approx(1.0, abs=1e-3)
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
    assert any("no head is trained" in note for note in ran.progress.notes)
    assert ran.result.manifest["head"] is None
    assert ran.result.manifest["scores"]["shipped"]["rewrite_token_f1"][3] == 2


# --- beside a language model -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def puzzles(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Half of the messages nobody can learn from each other: the flow hangs on a number that was drawn by lot."""
    folder, rng = tmp_path_factory.mktemp("puzzles"), random.Random(4)
    names = ["track", "refund", "repair"]
    flows = [{"name": name, "description": f"Case {name}.", "examples": [f"{name} it"]} for name in names]
    (folder / "flows.yaml").write_text(yaml.safe_dump({"flows": flows}), "utf-8")
    (folder / "card.md").write_text("# puzzles\n", "utf-8")
    lines, roles = [], {}
    for number, role in enumerate(["train"] * 90 + ["dev_a"] * 30 + ["dev_b"] * 40 + ["test"] * 8):
        name, case = rng.choice(names), f"case {rng.randrange(10**6)}"
        text = rng.choice(FLOWS[name][1]).format(f"my {case}") if number % 2 else f"it is about {case}"
        turn = {"role": "user", "text": text, "labels": {"flows": [name]}}
        lines.append(json.dumps({"id": f"p{number}", "turns": [turn]}))
        roles[f"p{number}"] = role
    (folder / "conversations.jsonl").write_text("\n".join(lines) + "\n", "utf-8")
    write_splits(folder, roles, replace=True)
    return folder


def _knowing(scripts: Any, folder: Path, share: float) -> Any:
    """A model that has looked up the flows of a share of the messages, and chooses none for the others."""
    turns = [
        json.loads(line)["turns"][0] for line in (folder / "conversations.jsonl").read_text().splitlines()
    ]
    known = {turn["text"]: turn["labels"]["flows"] for turn in turns[:: round(1 / share)]}

    def answer(request: Any) -> str:
        offered = re.findall(r"^(?:flows_offered: )?([A-H]) ([^\s:]+)", user_text(request), re.MULTILINE)
        letters = {name: letter for letter, name in offered}
        text = scripts.message_of(request)
        flows = [letters[name] for name in known.get(text, []) if name in letters]
        return json.dumps(scripts.WRONG | {"enhanced_query": text, "flows": flows, "commands": []})

    return scripted_lm(answer, model=f"scripted/{share}")


@pytest.mark.row("C1")
def test_a_language_model_gets_the_turns_on_which_it_is_better(
    puzzles: Path, tmp_path: Path, scripts: Any, runner: Any
) -> None:
    run_in, recipe_of = runner
    recipe = recipe_of(puzzles, name="asking", head=True, optimizer="none", objective="flow_set_exact")
    result = run_in(tmp_path, recipe, _knowing(scripts, puzzles, 1.0)).result
    assert result.shipped["select"] == "head, then LM"
    assert result.program.policy.orders["select"] == ("rule", "head", "lm", "floor")
    gates = result.manifest["selection"]["gates"]
    assert result.program.policy.gates["select"]["head"] == pytest.approx(gates["gate"], abs=1e-6)
    assert "they go to it" in gates["reasons"][-1]
    assert "the LM answered " in result.first_line
    sources = result.report.systems[-1].evaluation.sources["select"]
    assert 0.2 < sources["head"] < 0.8
    assert sources["lm"] == pytest.approx(1.0 - sources["head"])
    data = json.loads((tmp_path / result.report_paths.json).read_text("utf-8"))["choosing"]
    assert data["curves"][0]["name"] == "the language model, on test turns"
    assert not data["curves"][0]["assumed"]
    assert data["curves"][0]["points"][-1]["quality"] == 1.0
    scores = result.manifest["scores"]
    assert scores["shipped"]["flow_set_exact"][0] > scores["floors alone"]["flow_set_exact"][0]


@pytest.mark.row("C1")
def test_a_language_model_that_is_no_better_leaves_the_order(
    puzzles: Path, tmp_path: Path, scripts: Any, runner: Any
) -> None:
    run_in, recipe_of = runner
    recipe = recipe_of(puzzles, name="dropped", head=True, optimizer="none", objective="flow_set_exact")
    result = run_in(tmp_path, recipe, _knowing(scripts, puzzles, 0.2)).result
    gates = result.manifest["selection"]["gates"]
    assert "lm" not in gates["order"]
    assert "it is dropped" in gates["reasons"][-1]
    assert "lm" not in result.program.policy.orders["select"]


@pytest.mark.row("C1")
def test_a_language_model_is_judged_on_the_rewrites_that_ship(
    puzzles: Path, tmp_path: Path, scripts: Any, runner: Any
) -> None:
    """A model that knows the flow only of its own rewrites is no help where the floor rewrites."""
    labelled = tmp_path / "labelled"
    shutil.copytree(puzzles, labelled)
    lines = [json.loads(line) for line in (puzzles / "conversations.jsonl").read_text().splitlines()]
    turns = [line["turns"][0] for line in lines]
    for turn in turns:
        # A rewrite that nobody labels is not asked for.
        turn["labels"]["enhanced"] = turn["text"]
    (labelled / "conversations.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    known = {turn["text"]: turn["labels"]["flows"][0] for turn in turns}
    codes = {"track": "qx", "refund": "zv", "repair": "kj"}

    def answer(request: Any) -> str:
        text, shown = scripts.message_of(request), user_text(request)
        letters = {
            name: letter
            for letter, name in re.findall(r"^(?:flows_offered: )?([A-H]) ([^\s:]+)", shown, re.MULTILINE)
        }
        flows = [
            letters[name] for name, code in codes.items() if f"{text} {code}" in shown and name in letters
        ]
        rewrite = f"{text} {codes[known[text]]}" if text in known else text
        return json.dumps(scripts.WRONG | {"enhanced_query": rewrite, "flows": flows, "commands": []})

    run_in, recipe_of = runner
    recipe = recipe_of(
        labelled, name="own", head=True, optimizer="none", objective="flow_set_exact", shape="staged",
        budget={"lm_calls": 5000},
    )  # fmt: skip
    result = run_in(tmp_path, recipe, scripted_lm(answer, model="scripted/own")).result
    assert result.manifest["candidates"][0]["dev_a"] > 0.8
    assert result.program.policy.orders["enhance"] == ("rule", "floor")
    assert "it is dropped" in result.manifest["selection"]["gates"]["reasons"][-1]
