from __future__ import annotations

import copy
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jazzmine_dspy.models.errors import ArtifactError, InputError
from jazzmine_dspy.models.turn import ConversationStatus, Turn
from jazzmine_dspy.program.heads import STATE_SIZE, LinearHead, selection_features
from jazzmine_dspy.program.ports import HeadPort

LABELS = ["track_order", "cancel_order", "none"]


@pytest.fixture
def head() -> LinearHead:
    weights = np.random.default_rng(5).normal(size=(3, 4))
    return LinearHead(LABELS, weights, [0.1, -0.2, 0.3], temperature=1.5, features="selection/1")


def test_probabilities_are_a_softmax(head: LinearHead) -> None:
    vector = np.array([0.5, -1.0, 2.0, 0.0])
    scores = [float(w @ vector + b) / 1.5 for w, b in zip(head.weights, head.bias, strict=True)]
    total = sum(map(math.exp, scores))
    answer = head.predict(vector)
    assert isinstance(head, HeadPort)
    assert dict(answer) == pytest.approx(
        {label: math.exp(score) / total for label, score in zip(LABELS, scores, strict=True)}
    )
    assert [p for _, p in answer] == sorted((p for _, p in answer), reverse=True)
    assert head.probabilities(np.stack([vector, vector]))[1].tolist() == [
        dict(answer)[name] for name in LABELS
    ]


@given(st.lists(st.floats(-1e6, 1e6), min_size=4, max_size=4))
def test_any_finite_vector_gets_probabilities(numbers: list[float]) -> None:
    head = LinearHead(LABELS, np.ones((3, 4)) * [[1000.0], [0.0], [-1000.0]], [0, 0, 0])
    answer = head.predict(np.array(numbers))
    assert sum(p for _, p in answer) == pytest.approx(1)
    assert {label for label, _ in answer} == set(LABELS)


def test_equal_labels_stand_in_their_order() -> None:
    head = LinearHead(["b", "a"], np.zeros((2, 2)), [0, 0])
    assert head.predict(np.ones(2)) == [("b", 0.5), ("a", 0.5)]


def test_temperature_changes_how_sure_it_is_and_nothing_else(head: LinearHead) -> None:
    cold = LinearHead(LABELS, head.weights, head.bias, temperature=0.1)
    warm, sure = head.predict(np.ones(4)), cold.predict(np.ones(4))
    assert [label for label, _ in warm] == [label for label, _ in sure]
    assert sure[0][1] > warm[0][1]


def test_saved_and_loaded(head: LinearHead, tmp_path: Path) -> None:
    head.save(tmp_path / "a.safetensors")
    head.save(tmp_path / "a.safetensors")
    assert [path.name for path in tmp_path.iterdir()] == ["a.safetensors"]
    assert (tmp_path / "a.safetensors").read_bytes() == head.to_bytes()
    again = LinearHead.load(tmp_path / "a.safetensors")
    assert again.fingerprint == head.fingerprint
    assert again.predict(np.ones(4)) == head.predict(np.ones(4))
    assert (again.labels, again.temperature, again.features) == (tuple(LABELS), 1.5, "selection/1")


def test_the_fingerprint_speaks_for_all_of_it(head: LinearHead) -> None:
    weights = head.weights.copy()
    weights[0, 0] += 1e-3
    others = [
        LinearHead(LABELS, weights, head.bias, 1.5, features="selection/1"),
        LinearHead(LABELS, head.weights, [0, 0, 0], 1.5, features="selection/1"),
        LinearHead(LABELS[::-1], head.weights, head.bias, 1.5, features="selection/1"),
        LinearHead(LABELS, head.weights, head.bias, 1.4, features="selection/1"),
        LinearHead(LABELS, head.weights, head.bias, 1.5),
    ]
    assert len({head.fingerprint, *(other.fingerprint for other in others)}) == 6
    assert copy.deepcopy(head) is head
    with pytest.raises(ValueError, match="read-only"):
        head.weights[0, 0] = 0


@pytest.mark.parametrize(
    ("labels", "weights", "bias", "temperature", "match"),
    [
        (["a", "b"], np.zeros((3, 4)), np.zeros(2), 1.0, "do not fit its labels"),
        (["a", "b"], np.zeros((2, 4)), np.zeros(3), 1.0, "do not fit its labels"),
        (["a", "b"], np.zeros(2), np.zeros(2), 1.0, "do not fit its labels"),
        (["a", "a"], np.zeros((2, 4)), np.zeros(2), 1.0, "each once"),
        ([], np.zeros((0, 4)), np.zeros(0), 1.0, "needs labels"),
        (["a", "b"], np.full((2, 4), np.nan), np.zeros(2), 1.0, "not finite"),
        (["a", "b"], np.zeros((2, 4)), np.array([0, np.inf]), 1.0, "not finite"),
        (["a", "b"], np.zeros((2, 4)), np.zeros(2), 0.0, "temperature"),
        (["a", "b"], np.zeros((2, 4)), np.zeros(2), math.nan, "temperature"),
    ],
)
def test_bad_weights(labels: list[str], weights: Any, bias: Any, temperature: float, match: str) -> None:
    with pytest.raises(ArtifactError, match=match):
        LinearHead(labels, weights, bias, temperature)


@pytest.mark.parametrize("vector", [np.ones(3), np.ones((2, 4)), np.array([1, 2, np.nan, 4]), np.array(1.0)])
def test_bad_vectors(head: LinearHead, vector: Any) -> None:
    with pytest.raises(InputError):
        head.predict(vector)


def _tampered(head: LinearHead, **changes: Any) -> bytes:
    """The head's file with other metadata."""
    data = head.to_bytes()
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    said = json.loads(header["__metadata__"]["head"]) | changes
    header["__metadata__"]["head"] = json.dumps(said)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + data[8 + length :]


def test_bad_files(head: LinearHead, tmp_path: Path) -> None:
    from safetensors.numpy import save

    data = head.to_bytes()
    assert LinearHead.from_bytes(_tampered(head)).fingerprint == head.fingerprint
    for number, (bad, match) in enumerate(
        [
            (b"", "cannot be read"),
            (b"no safetensors at all", "cannot be read"),
            (data[:-4], "cannot be read"),
            (save({"weights": head.weights, "bias": head.bias}), "cannot be read"),
            (save({"weights": head.weights}, metadata={"head": "{}"}), "cannot be read"),
            (_tampered(head, format=2), "unknown format 2"),
            (_tampered(head, features="selection/0"), r"other features \(selection/0\)"),
            (_tampered(head, labels=["a", "b"]), "do not fit its labels"),
            (_tampered(head, temperature="hot"), "cannot be read"),
        ]
    ):
        path = tmp_path / f"{number}.safetensors"
        path.write_bytes(bad)
        with pytest.raises(ArtifactError, match=match) as caught:
            LinearHead.load(path)
        assert caught.value.remedy == "Compile the program again."
    with pytest.raises(ArtifactError, match="No such file") as caught:
        LinearHead.load(tmp_path / "absent.safetensors")
    assert str(tmp_path) in caught.value.where


# --- features -----------------------------------------------------------------------------------------------


def test_features_show_the_state() -> None:
    vector = np.array([0.6, 0.8], dtype=np.float32)
    idle = selection_features(vector, Turn(text="hello"))
    assert (idle.shape, idle.dtype) == ((2 + STATE_SIZE,), np.float32)
    assert idle.tolist() == pytest.approx([0.6, 0.8, 0.25, 0, 0, 0, 0, 0, 0, 0])
    busy = Turn(
        text="hello", status="collecting_slots", flow="track_order", awaiting="order_id", paused=["other"],
        history=[{"role": "user", "text": "hi"}],
    )  # fmt: skip
    assert selection_features(vector, busy).tolist()[2:] == [0, 0, 0.25, 0, 0, 0.25, 0.25, 0.25]


def test_each_status_has_a_place() -> None:
    rows = {
        tuple(selection_features(np.zeros(1), Turn(text="x", status=each))) for each in ConversationStatus
    }
    assert len(rows) == len(ConversationStatus)


def test_features_take_one_vector() -> None:
    with pytest.raises(InputError, match="one vector at a time"):
        selection_features(np.zeros((1, 384)), Turn(text="hello"))
