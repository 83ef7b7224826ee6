"""`compare`, and `evaluate --against`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from jazzmine_dspy.lm.deferred import read_conversations

LM = ["--policy", "lm"]


@pytest.fixture
def wrong(program: Path, run: Any, dataset: Path, tmp_path: Path) -> Path:
    """An earlier evaluation of a program that had every flow and command right on the training turns."""
    data = run("evaluate", program, dataset, "--split", "train", "--json").json
    for turn in data["record"]["turns"]:
        turn["scores"] |= {
            name: 1.0 for name in ("commands_exact", "flow_set_exact") if name in turn["scores"]
        }
        turn["answer"] = "as labelled"
    path = tmp_path / "perfect.json"
    path.write_text(json.dumps(data), "utf-8")
    return path


@pytest.mark.row("V3")
def test_a_program_against_itself(run: Any, program: Path, dataset: Path) -> None:
    done = run("compare", program, program, dataset, "--split", "dev_a", "--json")
    assert done.code == 0
    assert (done.json["main"]["p"], done.json["changed"], done.json["n"]) == (1.0, 0, 6)
    assert done.json["verdict"].startswith("No difference")
    told = run("compare", program, program, dataset, "--split", "dev_a", "-q")
    assert "No difference: A and B answer all 6 turns alike" in told.out
    assert "place: opening" in told.out
    assert not (dataset / ".opened.jsonl").exists()


def test_the_report_names_every_option_of_its_command(
    run: Any, program: Path, dataset: Path, tmp_path: Path
) -> None:
    def command(*arguments: object) -> str:
        assert run(*arguments, "--report", "made", "-q").code in (0, 1)
        return str(json.loads((tmp_path / "made" / "report.json").read_bytes())["reproduce"])

    options = ["--split", "train", "--policy", "fallback", "--seed", "3"]
    options += ["--objective", "flow_set_exact", "--lm", "none"]
    shared = ["--sample", 4, "--spread", "--api-base", "http://127.0.0.1:1/v1"]
    evaluated = command(
        "evaluate", program, dataset, *options, *shared, "--against", program, "--margin", 0.5
    )
    compared = command("compare", program, program, dataset, *options, *shared)
    for option in (*options, *map(str, shared)):
        assert option in evaluated.split()
        assert option in compared.split()
    assert f"--against {program} --margin 0.5" in evaluated
    assert compared.startswith(f"jazzmine-dspy compare {program} {program} {dataset} --")
    assert "--report" not in evaluated + compared


@pytest.mark.row("D4")
def test_comparing_on_the_test_part_is_logged(run: Any, program: Path, dataset: Path) -> None:
    assert run("compare", program, program, dataset).code == 0
    (entry,) = map(json.loads, (dataset / ".opened.jsonl").read_text("utf-8").splitlines())
    assert entry["reason"] == f"compare {program} {program}"


@pytest.mark.row("V3", "V4")
def test_an_earlier_evaluation_is_compared_and_the_report_shows_it(
    run: Any, program: Path, dataset: Path, wrong: Path
) -> None:
    done = run("compare", wrong, program, dataset, "--split", "train", "--report", "told")
    assert done.code == 0
    assert "A is better: commands_exact 1.000 with A" in done.out
    lost = [line for line in done.out.splitlines() if line.startswith("lost: ")]
    assert len(lost) == 5
    assert "  A  as labelled" in done.out
    page, text = (Path("told", name).read_text("utf-8") for name in ("report.html", "report.md"))
    data = json.loads(Path("told/report.json").read_text("utf-8"))["comparison"]
    for shown in (page, text):
        assert "B against A, by slice" in shown
        assert "Turns lost by B" in shown
    assert 'id="table-comparison-slices"' in page
    assert data["lost"][0]["message"] in text
    assert run("report", "told", "--rebuild").code == 0
    assert Path("told/report.html").read_text("utf-8") == page


@pytest.mark.row("V7")
def test_the_gate_fails_on_a_loss_and_says_why(run: Any, program: Path, dataset: Path, wrong: Path) -> None:
    command = ["evaluate", program, dataset, "--split", "train", "-q"]
    failed = run(*command, "--against", wrong)
    assert failed.code == 1
    assert "gate failed: commands_exact loses 0." in failed.err
    assert "more than chance" in failed.err
    passed = run(*command, "--against", wrong, "--margin", 0.95, "--json")
    assert passed.code == 0
    assert passed.json["against"]["gate"]["ok"] is True
    assert passed.json["against"]["lost"]
    same = run(*command, "--against", program)
    assert same.code == 0
    assert "gate passed: commands_exact" in same.out
    other = run(*command, "--against", wrong, "--objective", "rewrite_exact")
    assert (other.code, "gate passed: rewrite_exact" in other.out) == (0, True)


@pytest.mark.row("V7")
def test_a_baseline_of_other_turns_is_refused(
    run: Any, program: Path, dataset: Path, wrong: Path, tmp_path: Path
) -> None:
    def against(*options: object) -> Any:
        return run("evaluate", program, dataset, "-q", "--against", *options)

    other = against(wrong, "--split", "dev_a")
    assert (other.code, "another split: train, not dev_a" in other.err) == (2, True)
    part = against(wrong, "--split", "train", "--sample", 3)
    assert (part.code, "not of the same turns" in part.err) == (2, True)
    lines = (dataset / "conversations.jsonl").read_text("utf-8")
    (dataset / "conversations.jsonl").write_text(
        lines.replace('"sentiment": 0.0', '"sentiment": 0.5'), "utf-8"
    )
    changed = against(wrong, "--split", "train")
    assert (changed.code, "The dataset has changed since" in changed.err) == (2, True)
    (tmp_path / "none.json").write_text("{}", "utf-8")
    for name in ("none.json", "nowhere", "absent.json"):
        assert against(name, "--split", "train").code == 2
    unknown = against(program, "--split", "train", "--objective", "beauty")
    assert (unknown.code, "No objective is named" in unknown.err) == (2, True)


@pytest.mark.row("V7", "O12")
def test_awaited_answers_come_before_the_verdict_and_both_are_asked(
    run: Any, asking: Any, program: Path, dataset: Path, tmp_path: Path
) -> None:
    deferred = ["--split", "dev_a", "-q", "--lm", "deferred:asked"]
    folder = asking("deferred:asked")
    done = run("evaluate", program, dataset, *deferred, *LM, "--against", folder)
    assert done.code == 3
    assert "gate" not in done.out + done.err
    # The requests of the baseline are written too.
    alone = run("evaluate", folder, dataset, "--split", "dev_a", "-q", "--lm", "deferred:alone")
    assert alone.code == 3
    asked, own = (read_conversations(tmp_path / name).keys() for name in ("asked", "alone"))
    assert set(own) < set(asked)
    assert run("compare", program, folder, dataset, *deferred).code == 3
