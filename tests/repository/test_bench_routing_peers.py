"""The systems beside ours in `make bench-routing`: they get a fair training, or are left out with a reason."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import routing_sources  # noqa: F401  puts the modules of the benchmark on the path
from jazzmine_dspy.datasets import load_dataset
from jazzmine_dspy.eval import evaluate
from jazzmine_dspy.memory.procedural import FastembedEmbedder
from jazzmine_dspy.models.registry import FlowRegistry
from jazzmine_dspy.models.turn import Turn

catalogue, measure, parts, peer, peers, semantic = (
    importlib.import_module(f"routing.{name}")
    for name in ("catalogue", "measure", "parts", "peer", "peers", "semantic")
)

SAID = {
    "track": ["where is my {}", "has the {} been sent", "when will the {} arrive", "is my {} on its way"],
    "cancel": ["cancel the {}", "I don't want the {} any more", "call off the {}", "please stop the {}"],
    "hours": [
        "when do you open for a {}",
        "are you open for a {}",
        "your hours for a {}",
        "open late for a {}",
    ],
}


def registry(*names: str) -> FlowRegistry:
    return FlowRegistry([{"name": name, "description": f"About {name}."} for name in names])


@pytest.fixture(scope="module")
def training() -> Any:
    """Three flows of twelve messages."""
    things = ("lamp", "parcel", "kite")
    rows = [(text.format(what), flow) for flow, texts in SAID.items() for text in texts for what in things]
    return peer.Training(rows, registry(*SAID), 0)


@pytest.fixture(scope="module")
def embedder() -> FastembedEmbedder:
    return FastembedEmbedder()


def chosen(system: Any, text: str) -> list[str]:
    return system.decide(Turn(text=text)).selection.flows


def test_every_other_system_chooses_the_flow_that_is_asked_for(training: Any, embedder: Any) -> None:
    made = peers.peers(training, embedder, refuses=False)
    assert [each.name for each in made] == [
        "semantic-router", "top recalled candidate", "TF-IDF + logistic regression",
    ]  # fmt: skip
    asked = {
        "where is my table": "track",
        "please cancel the table": "cancel",
        "when do you open for a table": "hours",
    }
    for each in made:
        assert each.seconds > 0
        for text, flow in asked.items():
            decided = each.decide(Turn(text=text)).selection
            assert decided.flows == [flow], (each.name, text)
            assert decided.candidates[0][0] == flow


def test_semantic_router_refuses_by_its_fitted_confidence(training: Any, embedder: Any) -> None:
    router = semantic.SemanticRouter(training, embedder, refuses=True)
    for text, flows in (("where is my lamp", ["track"]), ("a theorem of algebraic geometry", [])):
        assert chosen(router, text) == flows
        # Asked for its candidates too, it decides as it does by itself.
        assert router._router(text).name == (flows[0] if flows else None)


class OneDirection:
    """Thirty messages that are alike (cosine 0.8), and one more that is nearer to each of them (0.89)."""

    size = 32
    fingerprint = "one direction"

    def embed(self, texts: Sequence[str]) -> Any:
        vectors = np.zeros((len(texts), self.size), np.float32)
        for row, text in enumerate(texts):
            number = int(text)
            vectors[row, 0] = 1.0 if number == 0 else 0.8**0.5
            vectors[row, number] += 0.0 if number == 0 else 0.2**0.5
        return vectors


def test_semantic_router_adds_hits_up_as_held_out_rows_say_even_where_nothing_can_be_calibrated() -> None:
    """By mean and maximum all held-out rows are wrong, by sum all are right: no way has a calibration."""
    rows = [("0", "near"), *((str(number), "many") for number in range(1, 31))]
    router = semantic.SemanticRouter(
        peer.Training(rows, registry("near", "many"), 0), OneDirection(), refuses=False
    )
    assert router.compared == {"mean": 0.0, "max": 0.0, "sum": 1.0}
    assert chosen(router, "31") == ["many"]


def test_a_system_that_cannot_be_trained_fairly_is_left_out_with_the_reason(embedder: Any) -> None:
    """Of one flow none can be kept out to fit a confidence on, and one label is nothing to learn."""
    one = peer.Training([("where is my lamp", "track"), ("is it sent", "track")], registry("track"), 0)
    router, top, classic = peers.peers(one, embedder, refuses=True)
    assert isinstance(router, peer.Skipped)
    assert "could refuse nothing" in router.reason
    assert chosen(top, "where is it") == ["track"]
    assert isinstance(classic, peer.Skipped)
    assert "two labels" in classic.reason


def test_messages_without_a_flow_are_learnt() -> None:
    rows = [
        ("sing a song", None),
        ("sing to me", None),
        ("where is it", "track"),
        ("where is my lamp", "track"),
    ]
    classic = peers.WordsAndRegression(peer.Training(rows, registry("track"), 0))
    assert chosen(classic, "sing it") == []
    assert chosen(classic, "where is my parcel") == ["track"]


def test_no_stand_in_for_a_client_is_left_behind() -> None:
    """What is not installed can't be found or imported, before and after."""
    semantic.imported()
    for name in semantic.REMOTE:
        assert not isinstance(sys.modules.get(name), semantic._Absent)
        if importlib.util.find_spec(name) is None:
            with pytest.raises(ModuleNotFoundError):
                importlib.import_module(name)


class Always(peer.Peer):
    """Chooses one flow whatever is asked."""

    name = "semantic-router"

    def __init__(self, flow: str | None) -> None:
        self.flow = flow

    def choose(self, text: str) -> tuple[str | None, float, list[tuple[str, float]]]:
        return self.flow, 1.0, []


@pytest.fixture
def made(tmp_path: Path) -> Any:
    """A small catalogue of two sources and a filler, imported, with its test part opened."""
    flows = {"a.track": "Track it.", "a.cancel": "Cancel it.", "b.pay": "Pay it.", "canard.1": "A song."}
    train = [parts.Row(f"{name} {n}", name) for name in ("a.track", "a.cancel", "b.pay") for n in range(10)]
    test = [parts.Row(f"{name} again", name) for name in ("a.track", "a.cancel", "b.pay", "b.pay")]
    held = catalogue.Catalogue(flows, train, test)
    assert held.counts == {"flows": 4, "silent": 1, "fillers": 1}
    dataset = load_dataset(catalogue.write(tmp_path / "data", held, 17))
    dataset.open_test("a test", tmp_path)
    return dataset


def test_wrong_answers_are_told_apart_by_the_source_that_they_name(made: Any) -> None:
    for flow, expected in (
        ("a.track", {"wrong": 3, "elsewhere": 2}),
        ("b.pay", {"wrong": 2, "elsewhere": 2}),
        (None, {"wrong": 4, "elsewhere": 0}),
    ):
        assert measure.elsewhere(evaluate(Always(flow), made.examples("test"))) == expected


def test_a_system_that_one_case_leaves_out_has_no_figure_for_the_row(made: Any, tmp_path: Path) -> None:
    """Over fewer messages than ours it would be another row."""
    how = measure.How(tmp_path, tmp_path, FastembedEmbedder())
    first = measure.Made(made, 0, None, None, [Always("b.pay")])
    second = first._replace(peers=[peer.Skipped("semantic-router", "too few rows")])
    [alone] = measure.others("banking77", [first], [{}], how)
    assert alone["row"]["metrics"]["flow_set_exact"]["value"] == 0.5
    [left_out] = measure.others("banking77", [first, second], [{}, {}], how)
    assert left_out["row"] == {"row": "banking77", "system": "semantic-router", "skipped": "too few rows"}
