"""A manifest whose hashes were made to fit names files of its folder alone; none of them blocks or is endless."""

from __future__ import annotations

import json
import os
import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jazzmine_dspy import FlowRegistry, TurnProgram, load, save
from jazzmine_dspy.artifacts import manifest as artifact_files
from jazzmine_dspy.artifacts import read_manifest
from jazzmine_dspy.artifacts.manifest import pretty, read_file
from jazzmine_dspy.models.base import sha256
from jazzmine_dspy.models.errors import ArtifactError, JazzmineError

FLOWS = [{"name": "track_order", "description": "Tell where an order is.", "examples": ["where is my order"]}]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return save(TurnProgram(FlowRegistry(FLOWS)), tmp_path / "orders")


def reseal(folder: Path, **changes: Any) -> None:
    """Change a manifest as a hostile writer would: with its hash."""
    manifest = json.loads((folder / "manifest.json").read_bytes()) | changes
    del manifest["sha256"]
    (folder / "manifest.json").write_bytes(pretty(manifest | {"sha256": sha256(manifest)}))


def put(folder: Path, name: str, data: bytes) -> None:
    """Change a file of an artefact, and its hash."""
    (folder / name).write_bytes(data)
    manifest = json.loads((folder / "manifest.json").read_bytes())
    reseal(folder, files=manifest["files"] | {name: sha256(data)})


def refused(attempt: Callable[[], Any]) -> Any:
    """What an attempt gives, or the error of ours that it ends with; any other error is a failure."""
    try:
        return attempt()
    except JazzmineError as error:
        return error


NAMES = [
    "../../x", "../orders/program.json", "/etc/passwd", "/dev/zero", "/dev/stdin", "sub/file", "./program.json",
    "C:\\Windows\\win.ini", "..\\x", "\\\\server\\share\\x", "C:x", "NUL", "manifest.json", "", ".", "..", "a\0b",
    "x" * 5000, "~/.netrc", "program.json/", "Program.json", "heads.safetensors:stream",
]  # fmt: skip


@pytest.mark.row("A3")
@pytest.mark.parametrize("name", NAMES)
def test_a_name_outside_the_folder_is_refused_and_not_opened(
    folder: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder.parent / "x").write_text("secret")
    manifest = json.loads((folder / "manifest.json").read_bytes())
    reseal(folder, files=manifest["files"] | {name: sha256(b"secret")})
    opened: list[str] = []

    def watched(folder: Path, name: str) -> bytes:
        opened.append(name)
        return read_file(folder, name)

    monkeypatch.setattr(artifact_files, "read_file", watched)
    with pytest.raises(ArtifactError, match="not a file of a program") as caught:
        load(folder)
    assert set(opened) == {"manifest.json"}
    assert caught.value.remedy
    assert len(str(caught.value)) < 1000


def _fifo(path: Path) -> None:
    os.mkfifo(path)


def _link_out(path: Path) -> None:
    outside = path.parent.parent / "outside"
    outside.write_bytes(b"{}")
    path.symlink_to(outside)


def _circle(path: Path) -> None:
    path.symlink_to(path.name)


@pytest.mark.row("A3")
@pytest.mark.parametrize(
    ("make", "told"),
    [
        (_fifo, "not a regular file"),
        (Path.mkdir, "not a regular file|cannot be read"),
        (_link_out, "link out of the program's folder"),
        (lambda path: path.symlink_to("/dev/zero"), "link out of the program's folder"),
        (lambda path: path.symlink_to("gone"), "missing"),
        (_circle, "cannot be read"),
    ],
    ids=["fifo", "directory", "link out", "link to /dev/zero", "dangling link", "link to itself"],
)
@pytest.mark.parametrize("name", ["program.json", "heads.safetensors"])
def test_only_regular_files_are_read(
    folder: Path, name: str, make: Callable[[Path], None], told: str
) -> None:
    """In a thread with a time limit: a read that hangs would hang the test."""
    put(folder, name, b"{}")
    (folder / name).unlink()
    make(folder / name)
    errors: list[Any] = []
    reader = threading.Thread(
        target=lambda: errors.append(refused(lambda: read_manifest(folder))), daemon=True
    )
    reader.start()
    reader.join(60)
    assert isinstance(errors[0], ArtifactError)
    assert re.search(told, str(errors[0]))


@pytest.mark.row("A3")
def test_links_inside_the_folder_are_followed(folder: Path) -> None:
    """As Kubernetes mounts files: by links to a folder beside them."""
    (folder / "..data").mkdir()
    for path in [path for path in folder.iterdir() if path.is_file()]:
        path.rename(folder / "..data" / path.name)
        path.symlink_to(Path("..data") / path.name)
    assert list(load(folder, bind=False).registry) == ["track_order"]


@pytest.mark.row("A3")
def test_a_file_has_a_size(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(artifact_files._LIMITS, "examples.jsonl", 10)
    put(folder, "examples.jsonl", b"\n" * 10)
    read_manifest(folder)
    put(folder, "examples.jsonl", b"\n" * 11)
    with pytest.raises(ArtifactError, match="larger than 10 bytes"):
        read_manifest(folder)
    # A sparse file of a terabyte is refused without being read whole.
    with (folder / "manifest.json").open("r+b") as stream:
        stream.truncate(2**40)
    with pytest.raises(ArtifactError, match="larger than"):
        read_manifest(folder)


# --- the manifest's shape ----------------------------------------------------------------------------------

KEYS = [
    "format", "code", "signatures", "files", "name", "agent_id", "flows", "lm", "embedder", "recipe", "sha256", "other",
]  # fmt: skip
json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=12), inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.row("A3")
@pytest.mark.fuzz
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(changes=st.dictionaries(st.sampled_from(KEYS), json_values, min_size=1, max_size=3))
def test_whatever_a_sealed_manifest_holds_is_taken_or_refused(folder: Path, changes: dict[str, Any]) -> None:
    kept = (folder / "manifest.json").read_bytes()
    try:
        reseal(folder, **{key: value for key, value in changes.items() if key != "sha256"})
        if "sha256" in changes:
            manifest = json.loads((folder / "manifest.json").read_bytes())
            (folder / "manifest.json").write_bytes(pretty(manifest | {"sha256": changes["sha256"]}))
        program = refused(lambda: load(folder, bind=False))
        if isinstance(program, JazzmineError):
            assert isinstance(program, ArtifactError) or program.where, changes
            assert program.remedy
        else:
            assert list(program.registry) == ["track_order"]
    finally:
        (folder / "manifest.json").write_bytes(kept)


@pytest.mark.row("A3")
@pytest.mark.fuzz
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=json_values)
def test_a_manifest_of_any_json_is_refused(folder: Path, data: Any) -> None:
    if isinstance(data, dict):
        data = data | {"format": 2}
        data["sha256"] = sha256({key: value for key, value in data.items() if key != "sha256"})
    kept = (folder / "manifest.json").read_bytes()
    (folder / "manifest.json").write_bytes(pretty(data))
    try:
        with pytest.raises(ArtifactError, match="manifest"):
            load(folder)
    finally:
        (folder / "manifest.json").write_bytes(kept)


@pytest.mark.row("A3")
@pytest.mark.fuzz
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(name=st.sampled_from(["program.json", "policy.json"]), data=json_values)
def test_whatever_a_sealed_file_holds_is_taken_or_refused(folder: Path, name: str, data: Any) -> None:
    kept = {path.name: path.read_bytes() for path in folder.iterdir()}
    try:
        put(folder, name, pretty(data))
        found = refused(lambda: load(folder, bind=False).decide(text="where is my order"))
        assert (
            not isinstance(found, JazzmineError)
            or "program.json" in str(found)
            or "policy.json" in str(found)
        )
    finally:
        for each, content in kept.items():
            (folder / each).write_bytes(content)


@pytest.mark.row("A3")
@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("program.json", b"[" * 100_000),
        ("program.json", b'{"select": {"demos": [' + b"9" * 5000 + b"]}}"),
        ("policy.json", b"{" * 5),
        ("policy.json", b'{"top_k": ' + b"9" * 400 + b"}"),
        ("flows.yaml", b"flows: " + b"[" * 100_000),
        ("flows.yaml", b"\xff\xfe"),
        ("examples.jsonl", b"[" * 100_000),
        ("heads.safetensors", b"\xff" * 8),
        ("heads.safetensors", (10**6).to_bytes(8, "little") + b"[" * 10**6),
    ],
    ids=[
        "program, deep",
        "program, digits",
        "gates, broken",
        "gates, digits",
        "flows, deep",
        "flows, UTF-16",
        "examples, deep",
        "heads, length",
        "heads, deep",
    ],
)
def test_hostile_files_with_fitting_hashes_are_refused(folder: Path, name: str, data: bytes) -> None:
    put(folder, name, data)
    with pytest.raises(JazzmineError) as caught:
        load(folder)
    assert name in str(caught.value)
    assert caught.value.remedy


@pytest.mark.row("A3", "G4")
def test_a_predictor_brings_no_model_of_its_own(folder: Path) -> None:
    """The state of a predictor may name a model with an address: requests, and keys, would go there."""
    state = json.loads((folder / "program.json").read_bytes())
    lm = {"model": "openai/x", "api_base": "http://127.0.0.1:9/v1"}
    put(folder, "program.json", pretty({name: part | {"lm": lm} for name, part in state.items()}))
    program = load(folder, bind=False)
    assert all(predictor.lm is None for _, predictor in program.named_predictors())
