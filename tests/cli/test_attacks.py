"""Hostile input to every command: an exit code that says whose fault it is, and a remedy."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

DEEP = "[" * 100_000
DIGITS = "9" * 5000
CODE = "import sys; from jazzmine_dspy.cli import main; main()"


@pytest.mark.row("G5")
@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("recipe.toml", f"a = {DEEP}", "recursion"),
        ("recipe.toml", f"seed = {DIGITS}", "digits"),
        ("recipe.toml", 'name = "a"'.encode("utf-16"), "not UTF-8"),
        (
            "recipe.toml",
            'name = "a"\ndataset = "a\\u0000b"\nlm = "none"\noptimizer = "none"\n',
            "No such dataset",
        ),
        ("turn.json", DEEP, "recursion"),
        ("turn.json", f'{{"text": "a", "slots": {{"x": {DIGITS}}}}}', "number out of range"),
        ("turn.json", '{"text": "\\ud800"}', "hex escape"),
        ("turn.json", '{"text": "a", "slots": {"x": NaN}}', "expected value"),
        ("report.json", DEEP, "recursion"),
        ("report.json", '{"systems": [{}], "format": 1}', ""),
        ("flows.yaml", f"flows: {DEEP}", "recursion"),
        ("flows.yaml", f"flows:\n- name: a\n  priority: {DIGITS}", "digits"),
        ("flows.yaml", "flows:\n- name: 2026-13-45\n", "month must be"),
        ("flows.yaml", "flows: [null]", "not a flow"),
        ("flows.yaml", "flows: []".encode("utf-16"), "not UTF-8"),
        ("conversations.jsonl", DEEP, "recursion"),
        ("conversations.jsonl", f'{{"id": {DIGITS}}}', "number out of range"),
        ("splits.json", DEEP, "recursion"),
        ("splits.json", f'{{"seed": {DIGITS}}}', "number out of range"),
    ],
    ids=lambda value: value[:20] if isinstance(value, str) else "bytes",
)
def test_texts_that_parsers_break_on_are_bad_input(
    run: Any, dataset: Path, program: Path, tmp_path: Path, name: str, content: Any, told: str
) -> None:
    commands: dict[str, Callable[[Path], list[object]]] = {
        "recipe.toml": lambda file: ["optimize", file],
        "turn.json": lambda file: ["decide", program, "--turn", file],
        "report.json": lambda file: ["report", file],
        "flows.yaml": lambda file: ["datasets", "check", dataset],
        "conversations.jsonl": lambda file: ["datasets", "stats", dataset],
        "splits.json": lambda file: ["datasets", "stats", dataset],
    }
    place = dataset if name in ("flows.yaml", "conversations.jsonl", "splits.json") else tmp_path
    (place / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    done = run(*commands[name](place / name), "--json")
    assert done.code == 2, done.err[:500]
    error = done.json["error"]
    assert told in error["message"]
    assert error["remedy"]
    assert name in error["where"] or "dataset" in error["message"] or name == "report.json"


@pytest.mark.row("G5")
@pytest.mark.parametrize("address", ["runs:/nope/program", "models:/nope@live", "mlflow-artifacts:/"])
def test_an_address_that_mlflow_cannot_resolve_is_bad_input(
    run: Any, address: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", (tmp_path / "runs").as_uri())
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    done = run("decide", address, "--text", "hello", "--json")
    assert done.code == 2
    error = done.json["error"]
    assert (error["type"], error["where"]) == ("ArtifactError", address)
    assert "MLFLOW_TRACKING_URI" in error["remedy"]


def test_json_output_keeps_every_character(run: Any, program: Path) -> None:
    text = "hello \u202egpj [red]x[/red] :dog:"
    done = run("chat", program, "--json", stdin=f"{text}\n")
    assert done.json["turns"][0]["text"] == text


# --- the system --------------------------------------------------------------------------------------------


def process(folder: Path, *args: object, **options: Any) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", CODE, *map(str, args)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.run(command, cwd=folder, text=True, timeout=120, **pipes | options)


@pytest.mark.parametrize(
    ("where", "form"), [("closed", ["--json"]), ("left early", []), ("full", []), ("full", ["--json"])]
)
def test_an_output_that_takes_nothing_ends_without_a_traceback(
    dataset: Path, tmp_path: Path, where: str, form: list[str]
) -> None:
    args = ("datasets", "stats", dataset, *form)
    if where == "closed":
        done = process(tmp_path, *args, preexec_fn=lambda: os.close(1))
    elif where == "left early":
        reader, writer = os.pipe()
        os.close(reader)
        done = process(tmp_path, *args, stdout=writer)
        os.close(writer)
    else:
        with Path("/dev/full").open("wb") as full:
            done = process(tmp_path, *args, stdout=full)
    assert done.returncode == (2 if where == "full" else 0)
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr
    assert ("No space left" in done.stderr) is (where == "full")


def test_a_full_disk_is_told_and_leaves_what_was_there(dataset: Path, tmp_path: Path) -> None:
    resource = pytest.importorskip("resource")

    def small() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))

    done = process(tmp_path, "init", "shop", preexec_fn=small)
    assert done.returncode == 2
    assert "too large" in done.stderr


@pytest.mark.parametrize("name", ["conversations.jsonl", "flows.yaml", "splits.json"])
def test_a_folder_or_an_endless_file_in_a_files_place(run: Any, dataset: Path, name: str) -> None:
    (dataset / name).unlink()
    (dataset / name).mkdir()
    done = run("datasets", "stats", dataset, "--json")
    assert done.code == 2
    assert "Is a directory" in done.json["error"]["message"]
    (dataset / name).rmdir()
    (dataset / name).symlink_to("/dev/zero")
    endless = process(dataset, "datasets", "stats", dataset, "--json")
    assert endless.returncode == 2
    assert "bytes" in json.loads(endless.stdout)["error"]["message"]


def test_byte_order_marks_and_windows_line_ends_are_read(run: Any, dataset: Path) -> None:
    for name in ("conversations.jsonl", "flows.yaml", "splits.json"):
        data = (dataset / name).read_bytes()
        (dataset / name).write_bytes(b"\xef\xbb\xbf" + data.replace(b"\n", b"\r\n"))
    assert run("datasets", "check", dataset).code == 0


def test_names_that_are_no_paths(run: Any, program: Path) -> None:
    for name in ("x" * 5000, "a\0b", "", "/etc", "/dev/null"):
        done = run("decide", name, "--text", "a", "--json")
        assert done.code == 2, name[:10]
        assert done.json["error"]["type"] == "ArtifactError"
        assert len(done.out) < 3000
    for name in ("x" * 5000, "/etc"):
        assert run("decide", program, "--turn", name, "--json").code == 2


def test_a_sealed_manifest_of_another_shape_is_bad_input(
    run: Any, program: Path, dataset: Path, reseal: Any
) -> None:
    kept = (program / "manifest.json").read_bytes()
    for changes in (
        {"files": None}, {"files": []}, {"signatures": None}, {"name": None}, {"lm": "x"}, {"embedder": [1]},
        {"recipe": {"price": [1]}}, {"recipe": {"lm_settings": [1]}}, {"flows": 5}, {"format": 10**200},
    ):  # fmt: skip
        reseal(program, changes)
        done = run("evaluate", program, dataset, "--split", "dev_b", "--json")
        assert (done.code, done.json["error"]["type"]) == (2, "ArtifactError"), changes
        (program / "manifest.json").write_bytes(kept)


SAVE = """
import sys
from jazzmine_dspy import load, save
program, folder = load(sys.argv[1], bind=False), sys.argv[2]
for number in range(10):
    save(program, folder, name=f"{sys.argv[3]}-{number}", facts={}, run={})
    assert load(folder, bind=False).registry
"""


@pytest.mark.chaos
def test_several_processes_save_to_one_folder(program: Path, tmp_path: Path) -> None:
    """Each reads whole programs all the while, whoever's they are; nothing is left beside the last one."""
    target = tmp_path / "many" / "program"
    target.parent.mkdir()
    shutil.copytree(program, target)
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", SAVE, program, target, name], stderr=subprocess.PIPE, text=True
        )
        for name in "abc"
    ]
    for writer in writers:
        _, told = writer.communicate(timeout=180)
        assert writer.returncode == 0, told[-2000:]
    assert re.fullmatch("[abc]-9", json.loads((target / "manifest.json").read_bytes())["name"])
    assert [path.name for path in target.parent.iterdir()] == ["program"]
