"""A compiled program on disk: loads ready, says where it comes from, and is refused when it does not fit."""

from __future__ import annotations

import builtins
import hashlib
import json
import pickle
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dspy
import pytest

import jazzmine_dspy
from jazzmine_dspy import load
from jazzmine_dspy.artifacts import load_with_manifest, loading, read_manifest, save
from jazzmine_dspy.artifacts import manifest as manifests
from jazzmine_dspy.models.base import sha256
from jazzmine_dspy.models.errors import ArtifactError
from jazzmine_dspy.signatures.contract import fingerprints

FILES = ["program.json", "policy.json", "flows.yaml", "examples.jsonl", "heads.safetensors"]


def reseal(folder: Path, **changes: Any) -> None:
    """Change a manifest as an honest writer would: with its hash."""
    manifest = json.loads((folder / "manifest.json").read_bytes()) | changes
    del manifest["sha256"]
    (folder / "manifest.json").write_bytes(manifests.pretty(manifest | {"sha256": sha256(manifest)}))


# --- loading -----------------------------------------------------------------------------------------------


@pytest.mark.row("A1")
async def test_a_loaded_program_decides_at_once(artefact: Path, scripts: Any) -> None:
    program = load(artefact, lm=scripts.lm_of("taught"))
    decision = program.decide(text="put The Waves aside under my name")
    assert decision.enhancement.enhanced_query == "put The Waves aside under my name"
    assert not decision.degraded
    assert (await program.adecide(text="put The Waves aside under my name")).commands == decision.commands


@pytest.mark.row("A1")
async def test_it_decides_like_the_program_that_was_saved(taught: Any, scripts: Any) -> None:
    from jazzmine_dspy.datasets import load_dataset

    lm = scripts.lm_of("taught")
    made, loaded = taught.result.program.bind(lm=lm), load(taught.result.folder, lm=lm)
    assert loaded.fingerprint == made.fingerprint
    for example in load_dataset(taught.recipe.dataset).examples("dev_a", "dev_b"):
        one, two = made.decide(example.turn), loaded.decide(example.turn)
        assert (one.commands, one.selection, one.enhancement) == (
            two.commands,
            two.selection,
            two.enhancement,
        )
        three = await loaded.adecide(example.turn)
        assert (one.commands, one.selection, one.enhancement) == (
            three.commands,
            three.selection,
            three.enhancement,
        )


@pytest.mark.row("A1", "G3")
def test_nothing_is_pickled(artefact: Path, scripts: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither are there pickled files, nor does loading or deciding unpickle anything."""
    import cloudpickle
    from safetensors.numpy import load as tensors

    for path in [path for path in artefact.rglob("*") if path.is_file()]:
        data = path.read_bytes()
        assert not data.startswith(b"\x80"), path
        if path.suffix == ".safetensors":
            assert tensors(data)
        else:
            assert "\x00" not in data.decode("utf-8"), path

    def refuse(*_: Any, **__: Any) -> Any:
        raise AssertionError("something was unpickled")

    for module in (pickle, cloudpickle):
        for name in ("load", "loads", "Unpickler"):
            monkeypatch.setattr(module, name, refuse, raising=False)
    program = load(artefact, lm=scripts.lm_of("taught"))
    assert program.decide(text="put The Waves aside under my name").commands


@pytest.mark.row("A1")
def test_no_language_model_and_no_secret_is_saved(artefact: Path, scripts: Any, tmp_path: Path) -> None:
    """DSPy writes a predictor's model with its address into the state; ours never does."""
    program = load(artefact)
    address = "https://user:hunter2@lm.example.org/v1"
    program.bind(lm=dspy.LM("openai/private", api_base=address, api_key="sk-hunter2"))
    program.set_lm(program.bindings.lm)
    folder = save(program, tmp_path / "again", name="again", facts={}, run={})
    data = b"".join(path.read_bytes() for path in folder.iterdir())
    assert b"hunter2" not in data
    assert b"lm.example.org" not in data


def test_saving_replaces_the_whole_folder(artefact: Path) -> None:
    (artefact / "stale.txt").write_text("old")
    save(load(artefact), artefact, name="again", facts={}, run={})
    assert not (artefact / "stale.txt").exists()
    assert read_manifest(artefact)["name"] == "again"
    assert [path.name for path in artefact.parent.iterdir() if path.name.startswith(".")] == []


def test_a_failed_save_leaves_the_old_program(artefact: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = read_manifest(artefact)
    program = load(artefact)
    written = Path.write_bytes

    def full(self: Path, data: bytes) -> int:
        if self.name == "manifest.json":
            raise OSError(28, "No space left on device")
        return written(self, data)

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(ArtifactError, match="No space left on device"):
        save(program, artefact, name="again", facts={}, run={})
    assert read_manifest(artefact) == before
    assert [path.name for path in artefact.parent.iterdir() if path.name.startswith(".")] == []


# --- the manifest ------------------------------------------------------------------------------------------


@pytest.mark.row("A2")
def test_the_manifest_says_where_a_program_comes_from(taught: Any) -> None:
    from importlib.metadata import version

    from jazzmine_dspy.datasets import load_dataset
    from jazzmine_dspy.lm import lm_identity

    manifest, dataset = taught.result.manifest, load_dataset(taught.recipe.dataset)
    assert manifest["signatures"] == fingerprints()
    assert set(manifest["signatures"]) == {"enhance", "select", "understand", "fused"}
    assert manifest["dataset"] == {
        "name": "library",
        "fingerprint": dataset.fingerprint,
        "splits": dataset.splits_fingerprint,
        "roles": dict(dataset.roles),
    }
    assert len(manifest["dataset"]["roles"]) == 18
    assert (
        manifest["recipe_fingerprint"]
        == taught.recipe.model_copy(update={"lm": "scripted/taught"}).fingerprint
    )
    assert manifest["recipe"]["seed"] == 0
    assert manifest["code"] == jazzmine_dspy.__version__
    assert manifest["lm"] == {"model": "scripted/taught", "identity": lm_identity(taught.lm)}
    assert manifest["dspy"] == version("dspy")
    assert manifest["embedder"]["fingerprint"].startswith("minilm:")
    assert set(manifest["files"]) == set(FILES)


@pytest.mark.row("A2")
def test_scores_have_counts_and_no_interval_on_few_conversations(taught: Any) -> None:
    scores = taught.result.manifest["scores"]
    assert set(scores) == {
        "TF-IDF + logistic regression",
        "base",
        "LM as written",
        "LM compiled",
        "shipped",
    }
    for metrics in scores.values():
        assert {"flow_set_exact", "commands_exact", "rewrite_token_f1"} <= set(metrics)
        for name, (value, low, high, n) in metrics.items():
            assert value >= 0.0, name
            # Under ten conversations there is no interval.
            assert (low, high) == (None, None), name
            assert n > 0
    assert scores["LM compiled"]["commands_exact"][0] > scores["LM as written"]["commands_exact"][0]


# --- refused -----------------------------------------------------------------------------------------------


@pytest.mark.row("A3")
@pytest.mark.parametrize("name", [*FILES, "manifest.json"])
def test_a_flipped_byte_is_refused(artefact: Path, name: str) -> None:
    """At the ends and at places drawn over the whole of every file, by any change of any byte."""
    path, chance = artefact / name, random.Random(name)
    data = path.read_bytes() or b" "
    places = {0, len(data) - 1, *(chance.randrange(len(data)) for _ in range(150))}
    for place in sorted(places):
        spoilt = bytearray(data)
        spoilt[place] ^= chance.randrange(1, 256)
        path.write_bytes(spoilt)
        with pytest.raises(ArtifactError) as caught:
            read_manifest(artefact)
        assert caught.value.remedy, place
        assert name in str(caught.value)


@pytest.mark.row("A3")
def test_changes_that_json_does_not_see_are_refused(artefact: Path) -> None:
    path = artefact / "manifest.json"
    data = path.read_bytes()
    changes = [
        data + b"\n",
        data.replace(b'": ', b'" :', 1),
        data.replace(b"0.", b"0e", 1),
        # Infinity is a number to Python and none to JSON.
        data.replace(b'"scores": {', b'"scores": {"x": 9e9999,', 1),
        data.replace(b"\n", b"\r\n"),
        b"",
        b"[]",
        b"{}",
        data[: len(data) // 2],
    ]
    for changed in changes:
        assert changed != data
        path.write_bytes(changed)
        with pytest.raises(ArtifactError, match=r"manifest"):
            load(artefact)


@pytest.mark.row("A3")
@pytest.mark.parametrize("name", FILES)
def test_a_missing_file_is_refused(artefact: Path, name: str) -> None:
    (artefact / name).unlink()
    with pytest.raises(ArtifactError, match=r"A file is missing") as caught:
        load(artefact)
    assert name in caught.value.where
    assert "Compile the program again" in caught.value.remedy


@pytest.mark.row("A3")
@pytest.mark.parametrize("number", [1, 2, 3])
def test_an_older_format_is_to_be_compiled_again(artefact: Path, number: int) -> None:
    reseal(artefact, format=number)
    again = rf"format {number}.*[Cc]ompile it again with 'jazzmine-dspy optimize'"
    with pytest.raises(ArtifactError, match=again):
        load(artefact)


@pytest.mark.row("A3")
def test_an_artefact_of_format_3_as_it_was_is_refused_with_what_to_do(artefact: Path) -> None:
    """It has gates and orders in another file, whose hash is right."""
    manifest = json.loads((artefact / "manifest.json").read_bytes())
    (artefact / "policy.json").unlink()
    (artefact / "gates.json").write_bytes(b"{}")
    files = {name: digest for name, digest in manifest["files"].items() if name != "policy.json"}
    reseal(artefact, format=3, files={**files, "gates.json": hashlib.sha256(b"{}").hexdigest()})
    with pytest.raises(ArtifactError) as raised:
        load(artefact)
    assert "format 3" in str(raised.value)
    assert "jazzmine-dspy optimize" in raised.value.remedy


@pytest.mark.row("A3")
def test_a_newer_format_is_refused(artefact: Path) -> None:
    reseal(artefact, format=manifests.FORMAT + 1)
    with pytest.raises(ArtifactError, match=r"format 5, this version reads 4.*Upgrade jazzmine-dspy"):
        load(artefact)


@pytest.mark.row("A3")
@pytest.mark.parametrize("predictor", ["enhance", "select", "understand", "fused"])
def test_another_signature_is_refused(
    artefact: Path, predictor: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DSPy itself would fit the saved fields to the changed ones by position, silently."""
    now = fingerprints() | {predictor: "0" * 64}
    monkeypatch.setattr(manifests, "fingerprints", lambda: now)
    with pytest.raises(ArtifactError, match=f"another signature of '{predictor}'") as caught:
        load(artefact)
    assert jazzmine_dspy.__version__ in caught.value.remedy


@pytest.mark.row("A3")
def test_the_fingerprint_of_a_signature_sees_its_fields_and_its_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from jazzmine_dspy.signatures import contract

    # Without the memory of earlier answers that it may keep.
    fingerprint = getattr(contract.fingerprint, "__wrapped__", contract.fingerprint)
    known = fingerprint("select")
    real = contract.CONTRACTS["select"]
    fields = real.signature.append("why", dspy.OutputField(desc="reason"), str)
    fields.__name__ = real.signature.__name__
    reworded = real.signature.with_instructions("Choose.")
    reworded.__name__ = real.signature.__name__
    other = contract.CONTRACTS["understand"].answer
    for changed, differs in (
        (real._replace(signature=fields), True),
        (real._replace(answer=other), True),
        (real._replace(signature=reworded), False),
    ):
        monkeypatch.setitem(contract.CONTRACTS, "select", changed)
        assert (fingerprint("select") != known) is differs


@pytest.mark.row("A3")
def test_a_file_that_the_manifest_does_not_name_is_not_read(artefact: Path) -> None:
    """Nothing vouches for it: a head put beside a program that has none stays unread."""
    manifest = json.loads((artefact / "manifest.json").read_bytes())
    files = {name: digest for name, digest in manifest["files"].items() if name != "heads.safetensors"}
    reseal(artefact, files=files)
    assert load(artefact).bindings.heads == {}
    reseal(artefact, files={name: digest for name, digest in files.items() if name != "policy.json"})
    with pytest.raises(ArtifactError, match=r"has no policy\.json"):
        load(artefact)


@pytest.mark.row("A3")
def test_nothing_is_read_before_all_is_checked(artefact: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last file is spoilt; none of the others is parsed."""
    (artefact / "program.json").write_bytes(b"{}")
    for name in ("load_state", "__init__"):
        monkeypatch.setattr(loading.TurnProgram, name, lambda *_, **__: builtins.exit(1))
    with pytest.raises(ArtifactError, match="A file was changed"):
        load(artefact)


# --- other flows, another model ----------------------------------------------------------------------------


def _flows(artefact: Path) -> list[Any]:
    return list(load(artefact).registry.values())


@pytest.mark.row("A9")
def test_a_flow_that_is_left_out_is_never_chosen(artefact: Path, library: Path, scripts: Any) -> None:
    """Though the head knows it, the examples name it and the message asks for nothing else."""
    flows = [flow for flow in _flows(artefact) if flow.name != "borrow_book"]
    for policy in ("shipped", "local", "fallback", "lm"):
        program = load(artefact, flows=flows, lm=scripts.lm_of("taught")).with_policy(policy)  # type: ignore[arg-type]
        for text in ("put The Waves aside under my name", "I want to borrow a book", "reserve me Dune"):
            decision = program.decide(text=text)
            assert "borrow_book" not in decision.selection.flows
            assert "borrow_book" not in str(decision.commands)


@pytest.mark.row("A9")
def test_examples_of_a_flow_that_is_left_out_do_not_matter(taught: Any, tmp_path: Path) -> None:
    program = load(taught.result.folder)
    rows = [
        {"text": "reserve me Dune", "flow": "borrow_book", "conversation": "x"},
        {"text": "a door to close behind us", "flow": "book_room", "conversation": "y"},
    ]
    folder = save(program, tmp_path / "p", name="p", facts={}, run={}, examples=rows)
    fewer = [flow for flow in program.registry.values() if flow.name != "borrow_book"]
    found = load(folder, flows=fewer)
    assert found.bindings.recall is not None
    assert found.bindings.recall.recall("a door to close behind us", k=1)[0].name == "book_room"


@pytest.mark.row("A9")
@pytest.mark.parametrize("policy", ["fallback", "local"])
def test_a_new_flow_works_through_its_examples(artefact: Path, policy: Any) -> None:
    new = {
        "name": "lost_umbrella",
        "description": "Find an umbrella that was left in the library.",
        "examples": ["i left my umbrella with you", "has anyone handed in an umbrella"],
        "keywords": ["umbrella", "lost"],
    }
    program = load(artefact, flows=[*_flows(artefact), new]).with_policy(policy)
    assert program.decide(text="did someone hand in my umbrella").selection.flows == ["lost_umbrella"]
    assert "lost_umbrella" not in program.bindings.heads["select"].labels


@pytest.mark.row("A9")
def test_another_model_than_compiled_for_is_said(
    artefact: Path, scripts: Any, caplog: pytest.LogCaptureFixture
) -> None:
    load(artefact, lm=scripts.lm_of("taught"))
    assert not caplog.records
    load(artefact, lm=scripts.lm_of("wrong"))
    (record,) = caplog.records
    assert "compiled for scripted/taught and runs with scripted/wrong" in record.getMessage()


@pytest.mark.row("A9")
@pytest.mark.parametrize("form", ["registry", "list", "mapping", "file", "path"])
def test_flows_are_taken_in_every_form(artefact: Path, library: Path, form: str) -> None:
    flows = load(artefact).registry
    given: dict[str, Callable[[], Any]] = {
        "registry": lambda: flows,
        "list": lambda: list(flows.values()),
        "mapping": lambda: {flow.name: flow.model_dump(mode="json") for flow in flows.values()},
        "file": lambda: str(library / "flows.yaml"),
        "path": lambda: library / "flows.yaml",
    }
    assert load_with_manifest(artefact, flows=given[form]()).program.registry.checksum == flows.checksum
