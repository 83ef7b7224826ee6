"""Finding, checking and converting the model file; nothing here runs the model."""

from __future__ import annotations

from pathlib import Path

import pytest

from jazzmine_dspy.lm import weights
from jazzmine_dspy.lm.errors import LMNotFoundError, LMWarning
from jazzmine_dspy.models.parsing import cache_folder


@pytest.fixture
def shipped(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    source = tmp_path / "shipped.gguf"
    source.write_bytes(b"weights as shipped")
    monkeypatch.setenv("JAZZMINE_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(weights, "shipped_path", lambda: source)
    monkeypatch.setattr(weights, "SOURCE_SHA256", weights.file_weights(source).sha256)
    monkeypatch.setattr(weights, "_requantise", lambda source, made: made.write_bytes(b"weights made anew"))
    return source


def test_conversion_happens_once_and_leaves_nothing_behind(
    shipped: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = weights.embedded_weights()
    assert first.path.read_bytes() == b"weights made anew"
    monkeypatch.delattr(weights, "_requantise")
    assert weights.embedded_weights() == first
    assert sorted(path.name for path in first.path.parent.iterdir()) == [
        "SmolLM2-135M-Instruct.Q8_0.gguf", "SmolLM2-135M-Instruct.Q8_0.json",
    ]  # fmt: skip


def test_a_converted_file_that_was_changed_is_made_anew(shipped: Path) -> None:
    made = weights.embedded_weights()
    made.path.write_bytes(b"something else")
    assert weights.embedded_weights() == made
    assert made.path.read_bytes() == b"weights made anew"


def test_a_touched_file_is_still_the_same(shipped: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = weights.embedded_weights()
    made.path.touch()
    monkeypatch.delattr(weights, "_requantise")
    assert weights.embedded_weights() == made


@pytest.mark.parametrize(
    "error", [OSError(28, "No space left on device"), ImportError("No module named 'gguf'")]
)
def test_without_a_conversion_the_shipped_file_serves_with_a_warning(
    shipped: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fail(source: Path, made: Path) -> None:
        made.write_bytes(b"half")
        raise error

    monkeypatch.setattr(weights, "_requantise", fail)
    with pytest.warns(LMWarning, match="half speed"):
        assert weights.embedded_weights().path == shipped
    assert list(cache_folder().iterdir()) == []


def test_a_damaged_shipped_file_is_refused(shipped: Path) -> None:
    shipped.write_bytes(b"weights as shippeD")
    with pytest.raises(LMNotFoundError, match="damaged or of another version"):
        weights.embedded_weights()


@pytest.mark.local_lm
def test_the_shipped_file_is_the_expected_one() -> None:
    assert weights.file_weights(weights.shipped_path()).sha256 == weights.SOURCE_SHA256
