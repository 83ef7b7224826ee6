"""Second labels of the shipped conversations: how many turns they touch, and that no rule undoes them."""

from __future__ import annotations

import hashlib
import importlib
import json
import re
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from dspy.lm15 import Request

from jazzmine_dspy.datasets import Dataset, load_dataset
from jazzmine_dspy.datasets.label_checks import contradictions
from jazzmine_dspy.datasets.load import draw
from jazzmine_dspy.datasets.replay import disagreements, misplaced_commands
from jazzmine_dspy.datasets.schema import Example
from jazzmine_dspy.eval.equality import command_keys
from jazzmine_dspy.lm.engines import scripted_lm
from jazzmine_dspy.models import Enhancement, Selection
from jazzmine_dspy.models.decision import Recalled
from jazzmine_dspy.optimize.recipe import Recipe, read_recipe
from jazzmine_dspy.program.demonstrations import to_demo
from jazzmine_dspy.program.merge import merge
from jazzmine_dspy.program.policy import Policy
from jazzmine_dspy.program.turn import TurnProgram

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "eval" / "benchmarks"))
conventions = importlib.import_module("conventions")

NAMES = [each.__name__ for each in conventions.CONVENTIONS]
PARTS: tuple[Any, ...] = ("train", "dev_a", "dev_b", "test")
Pair = tuple[Example, Example]


@pytest.fixture(scope="module")
def datasets(tmp_path_factory: pytest.TempPathFactory) -> tuple[Dataset, Dataset]:
    """The conversations with their first and with their second labels."""
    found = load_dataset(conventions.SUPPORT), load_dataset(conventions.FOLDER)
    for each in found:
        each.open_test("check of the labels", tmp_path_factory.mktemp("opened"))
    return found


@pytest.fixture(scope="module")
def pairs(datasets: tuple[Dataset, Dataset]) -> list[Pair]:
    """Each turn with its first and its second labels."""
    first, second = (each.examples(*PARTS) for each in datasets)
    return list(zip(first, second, strict=True))


@pytest.fixture(scope="module")
def touching() -> dict[str, list[str]]:
    """The names of the conventions that change each turn."""
    lines = (conventions.SUPPORT / conventions.FILE).read_text("utf-8").splitlines()
    return {
        f"{conversation['id']}/{turn['id']}": [each.__name__ for each in conventions.touching(turn)]
        for conversation in map(json.loads, lines)
        for turn in conversation["turns"]
        if turn["role"] == "user"
    }


@pytest.fixture(scope="module")
def recipe() -> Recipe:
    return read_recipe(ROOT / "eval" / "recipes" / "conventions.toml")


@pytest.fixture(scope="module")
def drawn(datasets: tuple[Dataset, Dataset], recipe: Recipe) -> set[str]:
    """The test turns that the recipe's run measures on."""
    sample = draw(datasets[1].examples("test"), recipe.sample.test, recipe.seed * 7919 + 3)
    return {example.key for example in sample}


def unlike(pair: Pair) -> bool:
    """Whether an answer with the first labels is wrong by the second."""
    first, second = (command_keys(each.labels.commands or (), each.turn) for each in pair)
    return first != second


# --- what the folder holds ---------------------------------------------------------------------------------


def test_the_conversations_are_the_shipped_ones_under_the_second_guide() -> None:
    text = (conventions.FOLDER / conventions.FILE).read_text("utf-8")
    assert text.splitlines() == conventions.lines()
    assert hashlib.sha256(text.encode()).hexdigest() in (conventions.FOLDER / "README.md").read_text("utf-8")


def test_texts_flows_and_roles_are_those_of_the_shipped_dataset(datasets: tuple[Dataset, Dataset]) -> None:
    first, second = datasets
    assert second.flows.checksum == first.flows.checksum
    assert second.splits_fingerprint == first.splits_fingerprint
    texts = [
        [(c.id, turn.role, turn.text) for c in each.conversations for turn in c.turns] for each in datasets
    ]
    assert texts[0] == texts[1]


def faults(dataset: Dataset) -> set[tuple[str, int, str]]:
    """Where labels and states contradict each other, or the state that the labels before lead to."""
    found = set()
    for each in dataset.conversations:
        found |= {
            (each.id, index, fault.field)
            for index, fault in disagreements(each, dataset.flows, derived=False)
        }
        for index, turn in enumerate(each.turns):
            own = (*contradictions(turn), *misplaced_commands(turn, dataset.flows))
            found |= {(each.id, index, fault.field) for fault in own}
    return found


def test_the_states_follow_from_the_second_labels(datasets: tuple[Dataset, Dataset]) -> None:
    """Nothing contradicts a state that does not contradict it under the first labels."""
    first, second = map(faults, datasets)
    assert first
    assert second <= first


def test_values_are_stored_in_states_as_the_labels_give_them(pairs: list[Pair]) -> None:
    held = [
        second.turn.slots.as_dict()["product"] for _, second in pairs if "product" in second.turn.slots.names
    ]
    assert held
    assert [value for value in held if " " in value or value != value.lower()] == []


# --- how much differs --------------------------------------------------------------------------------------


def test_the_conventions_are_what_makes_turns_differ(
    pairs: list[Pair], touching: dict[str, list[str]]
) -> None:
    assert len(NAMES) == 8
    changed = {second.key for first, second in pairs if unlike((first, second))}
    # A name in another case alone is no other value.
    assert changed <= {key for key, names in touching.items() if names}
    assert len(changed) >= 740


def test_each_convention_touches_enough_of_the_measured_turns(
    pairs: list[Pair], touching: dict[str, list[str]], drawn: set[str]
) -> None:
    changed = [second.key for first, second in pairs if second.key in drawn and unlike((first, second))]
    counts = Counter(name for key in changed for name in touching[key])
    assert len(drawn) == 240
    assert {name: n for name, n in counts.items() if n < 8} == {}
    assert set(counts) == set(NAMES)
    assert len(changed) >= 0.3 * 240


def test_each_convention_can_be_learnt_and_chosen_by(
    datasets: tuple[Dataset, Dataset], touching: dict[str, list[str]]
) -> None:
    for roles, least in ((("train",), 20), (("dev_a", "dev_b"), 4)):
        keys = [example.key for example in datasets[1].examples(*roles)]
        counts = Counter(name for key in keys for name in touching[key])
        assert {name for name in NAMES if counts[name] < least} == set(), roles


def test_the_guide_names_each_convention_and_its_counts(
    touching: dict[str, list[str]], drawn: set[str]
) -> None:
    readme = (conventions.FOLDER / "README.md").read_text("utf-8")
    rows = re.findall(r"^\| `(\w+)` \|.*\| (\d+) \| (\d+) \|$", readme, re.M)
    assert [name for name, *_ in rows] == NAMES
    counts = Counter(name for names in touching.values() for name in names)
    measured = Counter(name for key in drawn for name in touching[key])
    assert [(int(all_), int(some)) for _, all_, some in rows] == [(counts[n], measured[n]) for n in NAMES]


# --- what comes of them ------------------------------------------------------------------------------------


def merged(example: Example, dataset: Dataset) -> tuple[Any, ...]:
    """What an answer of a language model with these labels comes to, without its prompt and form."""
    labels = example.labels
    doubted = [
        flow for command in labels.commands or () if command.type == "clarify" for flow in command.flows
    ]
    enhancement, selection, commands = merge(
        example.turn,
        dataset.flows,
        Enhancement(enhanced_query=labels.enhanced or "", is_cancellation=bool(labels.is_cancellation)),
        Selection(flows=list(labels.flows or ()), clarify=doubted),
        labels.commands or (),
        by_lm=True,
    )
    return tuple(commands), tuple(selection.flows), enhancement.is_cancellation


def test_merge_changes_no_second_label(datasets: tuple[Dataset, Dataset], pairs: list[Pair]) -> None:
    """All gold: what comes out of the program is what went in, but for turns whose first labels do not either."""
    changed = [
        [
            each.key
            for each in examples
            if merged(each, datasets[0])
            != (each.labels.commands, each.labels.flows, each.labels.is_cancellation)
        ]
        for examples in zip(*pairs, strict=True)
    ]
    assert set(changed[1]) <= set(changed[0])
    assert len(changed[1]) < 10, changed[1]


class Listed:
    """Recall that finds these flows, in this order."""

    fingerprint = "listed"

    def __init__(self) -> None:
        self.names: list[str] = []

    def __deepcopy__(self, memo: dict[int, Any]) -> Listed:
        return self

    def recall(self, query: str, *, k: int, **_: Any) -> list[Recalled]:
        return [Recalled(name, 0.5) for name in self.names[:k]]


@pytest.fixture(scope="module")
def answered(datasets: tuple[Dataset, Dataset]) -> Callable[[Example], bool]:
    """Whether the program decides a turn by its labels, where a language model answers with them."""
    flows, recall, now = datasets[1].flows, Listed(), list[Example]()

    def script(request: Request) -> str:
        demo = to_demo("fused", now[0], program)
        assert demo is not None
        return json.dumps(
            {field: demo[field] for field in program.predictor("fused").signature.output_fields}
        )

    program = TurnProgram(flows, policy=Policy(shape="fused").named("lm"))
    program = program.bind(lm=scripted_lm(script), recall=recall)

    def right(example: Example) -> bool:
        now[:] = [example]
        recall.names = list(dict.fromkeys([*(example.labels.flows or ()), *flows]))
        said = command_keys(program.decide(example.turn).commands, example.turn)
        return said == command_keys(example.labels.commands or (), example.turn)

    return right


def test_a_model_that_answers_by_the_second_guide_is_right_on_the_measured_turns(
    pairs: list[Pair], drawn: set[str], answered: Callable[[Example], bool]
) -> None:
    """Prompt, schema, reading and merge leave the second labels as they are: only the predictor can differ."""
    changed = [pair for pair in pairs if pair[1].key in drawn and unlike(pair)]
    wrong = [first for first, second in changed if not answered(second)]
    assert [first.key for first in wrong if answered(first)] == []
    assert len(wrong) < 2
