"""A run from end to end: what it tells, what it leaves, and that Python and the command line are one."""

from __future__ import annotations

import contextlib
import json
import logging
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from jazzmine_dspy.optimize.recipe import Recipe

ROWS = ["TF-IDF + logistic regression", "base", "LM as written", "LM compiled", "shipped"]


def test_the_rows_of_the_report_are_on_the_same_turns(taught: Any) -> None:
    systems = taught.result.report.systems
    assert [system.name for system in systems] == ROWS
    turns = [[turn.example.key for turn in system.evaluation.turns] for system in systems]
    assert all(keys == turns[0] for keys in turns)
    assert {key.split("/")[0] for key in turns[0]} == {"lib-16", "lib-17", "lib-18"}
    assert [system.name for system in systems if system.shipped] == ["shipped"]


def test_its_first_line_says_what_carries_the_quality(taught: Any, without: Any) -> None:
    line = taught.result.first_line
    assert line.startswith("local, then LM compiled ships; commands_exact ")
    assert "; the LM answered " in line
    assert "; compiling the prompts gained +" in line
    assert taught.result.report.verdict.startswith("All commands right: ")
    assert "points more than the base" in taught.result.report.verdict
    assert taught.result.report.first_line == line == taught.result.manifest["first_line"]
    assert "no LM was asked" in without.result.first_line


@pytest.mark.row("O8")
def test_progress_is_told_phases_steps_best_and_spent(taught: Any) -> None:
    told = taught.progress
    names = [name for name, _ in told.phases]
    assert names[:3] == ["read the dataset", "ask the language model once", "train a head of selection"]
    for phase in ("judge base", "try uncompiled", "judge LM as written", "judge LM compiled", "test: base"):
        assert phase in names
    judging = [name for name in names if name.startswith(("judge", "try", "test"))]
    assert len(set(judging)) == len(judging), "each has a name of its own"
    assert names[-1] == "test: shipped"
    assert told.closed >= 1
    for name, total in told.phases:
        done = [step[1] for step in told.steps if step[0] == name]
        if done:
            assert done == list(range(1, len(done) + 1)), name
            assert done[-1] == total, name
    spent = [step[4]["lm_calls"] for step in told.steps]
    assert spent == sorted(spent)
    assert spent[-1] == taught.result.spent["lm_calls"] == len(taught.requests) + _replayed(taught)
    best = [step[3] for step in told.steps if step[3] is not None]
    assert best == sorted(best)
    assert best[-1] == 1.0
    assert told.steps[-1][4]["limits"] == {
        "minutes": None,
        "lm_calls": 200,
        "tokens": None,
        "money": None,
    }


def _replayed(ran: Any) -> int:
    return int(ran.result.spent["replayed_calls"])


@pytest.mark.row("O8")
def test_nothing_is_printed(
    tiny: Callable[..., Recipe], scripts: Any, run_recipe: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    """DSPy's optimizers print and draw bars; stdout may have to carry one document."""
    run_recipe(tiny(), scripts.lm_of("taught"))
    assert capfd.readouterr().out == ""


@pytest.mark.row("O8")
@pytest.mark.parametrize("flags", [["--json"], ["--json", "--quiet"]])
def test_the_command_prints_one_document(
    flags: list[str], library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = _command(_recipe_file(tmp_path, library), *flags)
    assert json.loads(done.stdout)["shipped"] in ("base", "local")
    if "--quiet" in flags:
        assert "judge base" not in done.stderr
    else:
        assert "judge base" in done.stderr


def _recipe_file(folder: Path, library: Path, head: bool = False) -> Path:
    path = folder / "recipe.toml"
    text = f"name = 'tiny'\ndataset = '{library}'\nlm = 'none'\ntracking = 'none'\nseed = 0\n"
    text += f"head = {str(head).lower()}\n"
    path.write_text(text, "utf-8")
    return path


def _command(*arguments: object) -> Any:
    from jazzmine_dspy.cli import app

    levels = {name: logging.getLogger(name).level for name in ("alembic", "mlflow", "dspy")}
    done = CliRunner().invoke(app, ["optimize", *[str(each) for each in arguments]])
    for name, level in levels.items():
        logging.getLogger(name).setLevel(level)
    assert done.exit_code == 0, done.output
    return done


@pytest.mark.row("O11")
def test_python_and_the_command_line_make_the_same_program(
    library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files_of: Any
) -> None:
    from jazzmine_dspy.optimize.run import optimize

    monkeypatch.chdir(tmp_path)
    path = _recipe_file(tmp_path, library, head=True)
    printed = json.loads(_command(path, "--out", "by-command", "--json").stdout)
    result = optimize(path, out="by-python")
    assert files_of(tmp_path / "by-command") == files_of(tmp_path / "by-python")
    assert printed["first_line"] == result.first_line
    assert printed["scores"] == json.loads(json.dumps(result.manifest["scores"]))
    assert Path(printed["manifest"]).read_bytes() == (result.folder / "manifest.json").read_bytes()


@pytest.mark.row("O11")
def test_python_and_the_command_line_evaluate_alike(
    without: Any, library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from jazzmine_dspy import load
    from jazzmine_dspy.cli import app
    from jazzmine_dspy.datasets import load_dataset
    from jazzmine_dspy.eval import evaluate

    monkeypatch.chdir(tmp_path)
    folder = without.result.folder
    done = CliRunner().invoke(app, ["evaluate", str(folder), str(library), "--split", "dev_b", "--json"])
    assert done.exit_code == 0, done.output
    found = evaluate(load(folder), load_dataset(library).examples("dev_b"))
    ours, theirs = found.to_json(), json.loads(done.stdout)
    # The command also says what it cost, whose price that is, and which recording it had answers from.
    assert [theirs.pop(name) for name in ("money", "price", "recording")] == [None, None, None]
    assert len(theirs.pop("record")["turns"]) == found.n
    for document in (ours, theirs):
        document["usage"].pop("latency_ms")
        document["usage"].pop("latency_ms_by_stage", None)
    assert _timeless(json.loads(json.dumps(ours))) == _timeless(theirs)


def _timeless(data: Any) -> Any:
    if isinstance(data, dict):
        return {key: _timeless(value) for key, value in data.items() if "latency" not in key}
    return data


@pytest.mark.row("O11")
def test_a_run_starts_from_a_compiled_program(
    taught: Any, tiny: Callable[..., Recipe], scripts: Any, run_recipe: Any
) -> None:
    """Its demonstrations are there before anything is compiled, so even the first candidate is right."""
    lm = scripts.lm_of("taught")
    ran = run_recipe(tiny(optimizer="none"), lm, start_from=taught.result.folder)
    first = ran.result.manifest["candidates"][0]
    assert first["demonstrations"] == {"fused": 2}
    assert first["dev_a"] == 1.0
    assert ran.result.manifest["started_from"] == taught.result.manifest["sha256"]
    assert taught.result.manifest["started_from"] is None


@pytest.mark.row("O11")
def test_the_command_starts_from_a_compiled_program(
    taught: Any, library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = _recipe_file(tmp_path, library)
    _command(path, "--from", taught.result.folder, "--out", "again", "--quiet", "--json")
    manifest = json.loads((tmp_path / "again" / "manifest.json").read_bytes())
    assert manifest["started_from"] == taught.result.manifest["sha256"]
    assert manifest["from"]["from"] == taught.result.manifest["sha256"]


def test_public_names_are_functions_whatever_was_imported_before() -> None:
    """A function and a module of one name would hide each other; importing the packages asks for nothing heavy."""
    code = (
        "import sys, jazzmine_dspy, jazzmine_dspy.optimize\n"
        "assert 'dspy' not in sys.modules and 'numpy' not in sys.modules\n"
        "import jazzmine_dspy.optimize.planning, jazzmine_dspy.optimize.run as run\n"
        "import jazzmine_dspy.eval.run as measuring\n"
        "from jazzmine_dspy.optimize import optimize, plan, read_recipe\n"
        "from jazzmine_dspy.eval import evaluate\n"
        "assert optimize is run.optimize and evaluate is measuring.evaluate\n"
        "assert callable(plan) and callable(read_recipe)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_language_model_given_is_the_one_on_record(taught: Any) -> None:
    manifest = taught.result.manifest
    assert manifest["lm"]["model"] == manifest["recipe"]["lm"] == "scripted/taught"
    assert "scripted" in manifest["lm"]["identity"]


def test_opening_the_test_part_is_logged_once(taught: Any, without: Any) -> None:
    """Also in runs that keep nothing else beside the program."""
    for ran in (taught, without):
        lines = (ran.cwd / ".jazzmine" / ".opened.jsonl").read_text("utf-8").splitlines()
        assert len(lines) == 1
        assert json.loads(lines[0])["reason"] == "final report of tiny"


def test_a_repeated_run_is_answered_from_the_store(
    tiny: Callable[..., Recipe], scripts: Any, run_recipe: Any, files_of: Any
) -> None:
    """Decision 12: replayed answers count as calls, so the second run takes the same course for nothing."""
    first, second = scripts.lm_of("taught"), scripts.lm_of("taught")
    once = run_recipe(tiny(), first)
    kept = files_of(once.result.folder)
    again = run_recipe(tiny(), second)
    assert not second.engine.requests
    assert again.result.spent["lm_calls"] == once.result.spent["lm_calls"]
    assert again.result.spent["replayed_calls"] == again.result.spent["lm_calls"]
    assert again.result.spent["prompt_tokens"] == once.result.spent["prompt_tokens"]
    assert files_of(again.result.folder) == kept


@pytest.mark.slow
def test_a_run_is_tracked_without_a_pickled_model(
    tiny: Callable[..., Recipe], run_recipe: Any, tmp_path: Path
) -> None:
    mlflow = pytest.importorskip("mlflow")
    ran = run_recipe(tiny(lm="none", tracking=""))
    client = mlflow.MlflowClient(tracking_uri=f"sqlite:///{tmp_path / '.jazzmine/mlflow/mlflow.db'}")
    runs = client.search_runs([client.get_experiment_by_name("tiny").experiment_id])
    (run,) = [each for each in runs if "mlflow.parentRunId" not in each.data.tags]
    assert run.info.status == "FINISHED"
    assert run.data.params["seed"] == "0"
    scored = ran.result.manifest["scores"]["shipped"]["flow_set_exact"][0]
    assert run.data.metrics["shipped/flow_set_exact"] == pytest.approx(scored, abs=1e-4)
    stored = [path for path in (tmp_path / ".jazzmine/mlflow/artifacts").rglob("*") if path.is_file()]
    assert {"manifest.json", "program.json", "report.html"} <= {path.name for path in stored}
    assert {path.suffix for path in stored} <= {".json", ".yaml", ".jsonl", ".html", ".md", ".safetensors"}
    assert not [path for path in stored if path.read_bytes().startswith(b"\x80")]


@pytest.mark.slow
def test_a_failed_run_is_marked_as_failed(
    tiny: Callable[..., Recipe], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mlflow = pytest.importorskip("mlflow")
    from jazzmine_dspy.optimize import run

    def fail(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(run, "STEPS", (fail,))
    with contextlib.chdir(tmp_path), pytest.raises(KeyboardInterrupt):
        run.optimize(tiny(lm="none", tracking=""), out="program")
    client = mlflow.MlflowClient(tracking_uri=f"sqlite:///{tmp_path / '.jazzmine/mlflow/mlflow.db'}")
    (found,) = client.search_runs([client.get_experiment_by_name("tiny").experiment_id])
    assert found.info.status == "FAILED"
    assert json.loads((tmp_path / "program" / "manifest.json").read_bytes())["interrupted"]
