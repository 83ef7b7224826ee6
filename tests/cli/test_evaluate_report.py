"""`evaluate` and `report`."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from jazzmine_dspy.lm.deferred import read_conversations


@pytest.mark.row("V2", "V5", "V6")
def test_the_document(run: Any, program: Path, dataset: Path) -> None:
    done = run("evaluate", program, dataset, "--json")
    assert done.code == 0
    found = done.json
    assert found["n"] == 5
    assert found["crashed"] == 0
    assert {"lm_calls_per_turn", "prompt_tokens_per_turn", "latency_ms"} <= set(found["usage"])
    assert set(found["sources"]) == {"enhance", "select", "understand"}
    for metric in found["metrics"].values():
        assert set(metric) == {"value", "low", "high", "n"}
        # The test part of the starter has fewer than ten conversations.
        assert (metric["low"], metric["high"]) == (None, None)


@pytest.mark.row("D4")
def test_opening_the_test_split_is_logged_and_no_other(run: Any, program: Path, dataset: Path) -> None:
    run("evaluate", program, dataset, "--split", "dev_a")
    assert not (dataset / ".opened.jsonl").exists()
    run("evaluate", program, dataset)
    entries = [json.loads(line) for line in (dataset / ".opened.jsonl").read_text("utf-8").splitlines()]
    assert [entry["reason"] for entry in entries] == ["evaluate fallback"]


@pytest.mark.row("O11")
def test_the_command_scores_as_python_does(run: Any, program: Path, dataset: Path) -> None:
    from jazzmine_dspy import load
    from jazzmine_dspy.datasets import load_dataset
    from jazzmine_dspy.eval import evaluate

    ours = evaluate(load(program), load_dataset(dataset).examples("dev_b")).to_json()
    printed = run("evaluate", program, dataset, "--split", "dev_b", "--json").json
    assert printed["metrics"] == ours["metrics"]


@pytest.mark.row("V8")
def test_whole_conversations_are_replayed(run: Any, program: Path, dataset: Path) -> None:
    where = ("evaluate", program, dataset, "--split", "dev_a", "--replay")
    found = run(*where, "--json").json["replay"]
    assert found["conversations"] > 1
    assert set(found["shares"]) > {"conversations", "ends_right", "turns"}
    assert sum(found["first_errors"].values()) == len(found["wrong"]) > 0
    told = run(*where, "--report", "made")
    assert "conversations with the program's own state" in told.out
    assert "first errors: " in told.out
    assert "whole conversations" in Path("made/report.md").read_text("utf-8")


def test_people_get_a_table(run: Any, program: Path, dataset: Path) -> None:
    done = run("evaluate", program, dataset, "--split", "dev_a")
    assert "flow_set_exact" in done.out
    assert "6 turns, 0 crashed" in done.out
    assert "\u2013" in next(line for line in done.out.splitlines() if "flow_set_exact" in line)
    assert done.out.count("too few") == 1


@pytest.mark.row("V3")
def test_wrong_turns_are_listed(run: Any, program: Path, dataset: Path) -> None:
    where = ("evaluate", program, dataset, "--split", "train")
    found = run(*where, "--wrong", "--json", "--csv", "wrong.csv").json
    keys = {turn["key"] for turn in found["record"]["turns"] if turn["outcome"] == "wrong"}
    assert {turn["key"] for turn in found["wrong"]} == keys
    assert keys
    listed = run(*where, "--wrong").out
    assert f"{len(keys)} turns with a wrong flow or command" in listed
    with Path("wrong.csv").open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["key"] for row in rows] == [turn["key"] for turn in found["wrong"]]
    for row in rows:
        assert all(
            text in listed for text in (row["message"], row["state"], row["expected"], row["answered"])
        )
        assert row["source"] == "select fallback, understand fallback"
    assert "wrong" not in run(*where, "--json").json


def test_a_message_that_looks_like_a_formula_is_no_formula_in_the_table(
    run: Any, program: Path, dataset: Path
) -> None:
    path = dataset / "conversations.jsonl"
    lines = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    lines[0]["turns"][0]["text"] = "=HYPERLINK(1)"
    path.write_text("\n".join(map(json.dumps, lines)), "utf-8")
    split = json.loads((dataset / "splits.json").read_text("utf-8"))["roles"]
    role = next(role for role, names in split.items() if lines[0]["id"] in names)
    run("evaluate", program, dataset, "--split", role, "--csv", "wrong.csv")
    with Path("wrong.csv").open(encoding="utf-8-sig", newline="") as file:
        assert "'=HYPERLINK(1)" in [row["message"] for row in csv.DictReader(file)]


@pytest.mark.row("O8")
def test_quiet_is_silent_and_progress_goes_to_stderr(run: Any, program: Path, dataset: Path) -> None:
    assert run("evaluate", program, dataset, "--split", "dev_a", "--quiet").err == ""
    assert "evaluating (6)" in run("evaluate", program, dataset, "--split", "dev_a", "--json").err


def test_a_sample_is_drawn_by_seed(run: Any, program: Path, dataset: Path) -> None:
    def scored(seed: int) -> dict[str, Any]:
        command = ["evaluate", program, dataset, "--split", "train", "--sample", 4, "--seed", seed, "--json"]
        found: dict[str, Any] = run(*command).json
        assert found["n"] == 4
        return {name: metric["n"] for name, metric in found["metrics"].items()}

    assert scored(1) == scored(1)
    assert len({json.dumps(scored(seed)) for seed in range(5)}) > 1


def test_a_sample_is_spread_over_conversations(
    run: Any, program: Path, dataset: Path, tmp_path: Path
) -> None:
    splits = json.loads((dataset / "splits.json").read_text("utf-8"))
    talks = splits["roles"]["train"]

    def asked(folder: str, *more: object) -> set[str]:
        command = ["evaluate", program, dataset, "--split", "train", "--policy", "lm"]
        command += ["--lm", f"deferred:{folder}"]
        assert run(*command, "--sample", len(talks), *more).code == 3
        of = read_conversations(tmp_path / folder)
        return {next(iter(each)) for each in of.values()}

    assert len(asked("a")) < len(asked("b", "--spread")) == len(talks)
    assert read_conversations(tmp_path / "b").keys() != read_conversations(tmp_path / "a").keys()
    asked("c", "--spread", "--seed", 1)
    assert read_conversations(tmp_path / "c").keys() != read_conversations(tmp_path / "b").keys()


@pytest.mark.row("A9")
def test_another_dataset_brings_its_flows(run: Any, program: Path, dataset: Path) -> None:
    for name in ("flows.yaml", "conversations.jsonl"):
        text = (dataset / name).read_text("utf-8")
        (dataset / name).write_text(text.replace("rent_bike", "hire_cycle"), "utf-8")
    done = run("evaluate", program, dataset, "--split", "dev_b", "--policy", "fallback", "--json")
    assert done.code == 0
    assert "the dataset's flows are used" in done.err


@pytest.mark.row("V4")
def test_a_report_is_written_found_and_made_again(
    run: Any, program: Path, dataset: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "eval" / "reports" / "first"
    run("evaluate", program, dataset, "--split", "dev_a", "--report", folder)
    html = (folder / "report.html").read_text("utf-8")
    (folder / "report.html").unlink()
    done = run("report", "first", "--json")
    assert done.code == 0
    assert done.json["report"]["html"].endswith("report.html")
    assert (folder / "report.html").read_text("utf-8") == html
    for name in (folder, folder / "report.json"):
        assert str(folder / "report.html") in run("report", name).out


def test_a_report_that_is_none(run: Any, tmp_path: Path) -> None:
    for content in ("{", "[]", "{}", '{"systems": [], "format": 99}'):
        (tmp_path / "report.json").write_text(content, "utf-8")
        done = run("report", "report.json")
        assert done.code == 2
        assert "remedy: " in done.err


@pytest.mark.row("V5")
def test_money_is_that_of_the_model_that_is_asked(
    run: Any, asking: Any, reseal: Any, dataset: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The recipe's price is for the model that it was compiled for; another has its own, or none that is known."""
    from jazzmine_dspy.lm import scripted_lm

    monkeypatch.setattr("jazzmine_dspy.lm.resolve_lm", lambda name, **_: scripted_lm({"": "{}"}, model=name))
    folder = asking("openai/gpt-4o-mini")
    command = ["evaluate", folder, dataset, "--split", "dev_a"]

    def scored(*options: str) -> Any:
        return run(*command, *options, "--json").json

    table = scored()
    assert table["price"]["source"].startswith("LiteLLM's table")
    tokens = [table["usage"][f"{kind}_tokens_per_turn"] * table["n"] for kind in ("prompt", "completion")]
    assert table["money"] == pytest.approx((tokens[0] * 0.15 + tokens[1] * 0.6) / 1e6)
    reseal(folder, {"recipe": {"price": [2.0, 8.0]}})
    recipe = scored()
    assert recipe["price"]["source"] == "the recipe"
    assert recipe["money"] == pytest.approx((tokens[0] * 2 + tokens[1] * 8) / 1e6)
    other = scored("--lm", "openai/no-such-model")
    assert (other["price"], other["money"], other["usage"]["cost_per_turn"]) == (None, None, None)
    shown = run(*command, "--report", "told")
    assert f"money: {recipe['money']:.4f} in money for 6 turns" in shown.out
    assert "enhance: " in shown.out
    assert "answer tokens and" in shown.out
    assert "by the recipe" in Path("told/report.md").read_text("utf-8")
    unknown = run(*command, "--lm", "openai/no-such-model").out
    assert "money: unknown: neither the recipe" in unknown
