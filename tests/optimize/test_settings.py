"""Compiling recall: labelled turns join the index, and settings are fitted, where they are measured to help."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from jazzmine_dspy.artifacts.loading import recall_numbers, recall_settings
from jazzmine_dspy.datasets import load_dataset
from jazzmine_dspy.datasets.schema import Example
from jazzmine_dspy.memory.procedural.embedder import FastembedEmbedder
from jazzmine_dspy.memory.procedural.index import FlowIndex
from jazzmine_dspy.memory.procedural.ranking import RecallSettings
from jazzmine_dspy.models.errors import ArtifactError
from jazzmine_dspy.models.labels import Labels
from jazzmine_dspy.models.registry import FlowRegistry
from jazzmine_dspy.models.turn import Turn
from jazzmine_dspy.optimize.local.recall import fit_recall, index_examples, one_vector_each
from jazzmine_dspy.optimize.local.rows import Exclusions

FLOWS = FlowRegistry(
    [
        {"name": "first", "description": "The first kind of request.", "examples": ["number one"]},
        {"name": "second", "description": "The second kind of request.", "examples": ["number two"]},
        {"name": "third", "description": "The third kind of request.", "examples": ["number three"]},
    ]
)
SAID = {
    "first": ["my parcel is late", "where is my parcel", "the parcel never came", "has the parcel been sent",
              "track the parcel", "parcel still missing"],
    "second": ["send my money back", "i want my money again", "when is the money returned", "money back please",
               "the money was not repaid", "repay the money"],
    "third": ["the shop is closed today", "when does the shop open", "is the shop open on sunday",
              "shop hours please", "until when is the shop open", "opening time of the shop"],
}  # fmt: skip


def example(text: str, flows: Sequence[str] | None, conversation: str) -> Example:
    labels = Labels(flows=None if flows is None else tuple(flows))
    return Example(
        conversation_id=conversation, turn_id="t1", turn=Turn(text=text), labels=labels, role="train", line=1
    )


TRAIN = [
    example(text, [flow], f"{flow}-{number}")
    for flow, texts in SAID.items()
    for number, text in enumerate(texts)
]


@pytest.fixture(scope="module")
def embedder() -> FastembedEmbedder:
    return FastembedEmbedder()


def test_turns_that_say_what_a_flow_is_become_examples() -> None:
    rows = [
        example("where is my parcel", ["first"], "a"),
        example("Where is  my PARCEL", ["first"], "b"),  # the same once more
        example("yes", ["second"], "c"),  # says nothing without its question
        example("14 05", ["second"], "k"),
        example("hello", [], "d"),
        example("money and parcel", ["first", "second"], "e"),
        example("it is broken", ["first"], "f"),
        example("it is broken", ["second"], "g"),  # two flows: no example of either
        example("never labelled", None, "h"),
        example("of a flow that is gone", ["fourth"], "i"),
    ]
    assert index_examples(FLOWS, rows) == [("where is my parcel", "first", "a")]


def test_a_turn_finds_neither_itself_nor_its_like() -> None:
    rows = [example("where is it", ["first"], "a"), example("Where is it", ["first"], "b"), TRAIN[0]]
    exclusions = Exclusions(rows)
    assert exclusions.of(rows[0]) == ("a", "b")
    assert exclusions.of(TRAIN[0]) == ("first-0",)
    assert Exclusions([]).of(TRAIN[0]) == ("first-0",)


@pytest.mark.row("F6")
def test_labelled_turns_join_the_index_where_they_help(embedder: FastembedEmbedder) -> None:
    """The flows' own texts say nothing of what people write; the turns do, each without itself."""
    found = fit_recall(FLOWS, embedder, TRAIN)
    one, own, both = found.choices[:3]
    assert one.name == "one vector for each flow"
    assert [choice.n for choice in (one, own, both)] == [18] * 3
    assert both.recall_at_1 > own.recall_at_1 + 0.2
    assert (one.kept, own.kept, both.kept) == (False, False, True)
    assert {flow for _, flow, _ in found.examples} == set(FLOWS)
    facts = found.facts()
    assert facts["examples"] == 18
    tried = [one.name for one in found.choices[3:]]
    assert len(tried) == len(set(tried)) == 11 + 4 + 2, "every setting but the default one"
    assert {"recall_at_1", "recall_at_3", "recall_at_5", "n", "kept", "name"} == set(facts["choices"][0])
    again = fit_recall(FLOWS, embedder, TRAIN)
    assert again == found


def test_labelled_turns_that_mislead_stay_outside(embedder: FastembedEmbedder) -> None:
    """Each text is said of another flow than its like, so that the turns lead away from the flow."""
    names = ["first", "second", "third"]
    mixed = [
        example(f"number {word} {text}", [names[number % 3]], f"m{number}")
        for number, (word, text) in enumerate(
            (("one", "two", "three")[number % 3], SAID["first"][number // 3]) for number in range(18)
        )
    ]
    found = fit_recall(FLOWS, embedder, mixed)
    assert found.choices[1].recall_at_1 >= found.choices[2].recall_at_1
    assert found.examples == ()


def test_equal_settings_leave_the_defaults(embedder: FastembedEmbedder, library: Path) -> None:
    dataset = load_dataset(library)
    found = fit_recall(dataset.flows, embedder, dataset.examples("train"))
    assert found.settings == RecallSettings()
    assert sum(choice.kept for choice in found.choices[:3]) == 1
    assert not any(choice.kept for choice in found.choices[3:])


def test_without_a_labelled_start_nothing_is_fitted(embedder: FastembedEmbedder) -> None:
    found = fit_recall(FLOWS, embedder, [example("hello there my friend", [], "a")])
    assert (found.settings, found.choices) == (RecallSettings(), ())


def test_one_vector_each_holds_all_texts_of_a_flow(embedder: FastembedEmbedder) -> None:
    index = FlowIndex(one_vector_each(FLOWS), embedder)
    assert index.points[0].text == "The first kind of request.\n\n\nnumber one"
    assert len(index.points) == len(FLOWS)


def test_settings_survive_a_policy() -> None:
    settings = RecallSettings(rrf_k=60, sparse=0.25, depth=30)
    assert recall_settings(recall_numbers(settings)) == settings
    assert isinstance(recall_settings(recall_numbers(settings)).depth, int)
    assert recall_numbers(RecallSettings()) == {}
    assert recall_settings({}) == RecallSettings()
    with pytest.raises(ArtifactError, match="'rrfk'"):
        recall_settings({"rrfk": 3.0})
