"""Runs on few conversations, and on labels that say little: all of them end in a program and an honest report."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from jazzmine_dspy.datasets import load_dataset, write_splits
from jazzmine_dspy.optimize.recipe import Recipe
from jazzmine_dspy.optimize.steps.local import holdouts

pytest.importorskip("scipy")

POOL = ("train", "dev_a", "dev_b")


@pytest.mark.row("C2", "C5")
def test_under_sixty_conversations_each_turn_is_judged_by_a_program_that_has_not_seen_it(
    open_run: Any,
) -> None:
    context, program = open_run(lm=None)
    learnt: list[set[str]] = []

    def train(examples: Any) -> Any:
        learnt.append({example.conversation_id for example in examples})
        return program

    rounds = list(holdouts(context, train, program))
    every = [example.key for _, holdout in rounds for example in holdout]
    assert sorted(every) == sorted(example.key for example in context.dataset.examples(*POOL))
    for names, (_, holdout) in zip(learnt, rounds, strict=True):
        assert holdout
        assert not names & {example.conversation_id for example in holdout}
        assert len(names) >= 12


@pytest.mark.row("C5", "V2")
def test_a_run_on_few_conversations_is_judged_on_all_of_them(taught: Any) -> None:
    pool = load_dataset(taught.recipe.dataset).examples(*POOL)
    programs = {each["name"]: each for each in taught.result.manifest["programs"]}
    assert programs["base"]["n"] == programs["local"]["n"] == len(pool)
    # The language model is judged on dev-B, which nothing was compiled on.
    assert programs["LM as written"]["n"] == len(load_dataset(taught.recipe.dataset).examples("dev_b"))
    gate = taught.result.manifest["gate"]
    assert (gate["certified"], gate["n"]) == (False, len(pool))
    words = " ".join(taught.result.report.choosing.words)
    assert "cannot certify 5 % at 90 %" in words
    assert "so the gate has the least expected cost" in words
    assert "of the turns that pass the gate, " in words
    assert " % are left to the language model)" in words


@pytest.mark.row("O5")
def test_judging_happens_on_turns_that_compiling_has_not_seen(taught: Any) -> None:
    """Dev-B decides, and its messages are in no prompt of the compile: neither asked nor shown."""
    from jazzmine_dspy.lm.engines import chat_messages, user_text

    dev_b = {example.turn.text for example in load_dataset(taught.recipe.dataset).examples("dev_b")}
    about_dev_b = [any(text in user_text(request) for text in dev_b) for request in taught.requests]
    first = about_dev_b.index(True)
    contents = [m["content"] for request in taught.requests[:first] for m in chat_messages(request)]
    assert first > 6
    assert not [text for text in dev_b if any(text in content for content in contents)]


@pytest.mark.row("O5", "C5")
def test_prompts_as_written_are_always_compared(taught: Any, wrong: Any, taught_staged: Any) -> None:
    for ran in (taught, wrong, taught_staged):
        first = ran.result.manifest["candidates"][0]
        assert (first["name"], set(first["demonstrations"].values())) == ("uncompiled", {0})
        assert "LM as written" in {each["name"] for each in ran.result.manifest["programs"]}
        assert "LM as written" in ran.result.manifest["scores"]


def rewritten(
    library: Path, folder: Path, change: Callable[[list[dict[str, Any]]], list[dict[str, Any]]]
) -> Path:
    """The library with other conversations; new ones learn."""
    folder.mkdir()
    (folder / "flows.yaml").write_bytes((library / "flows.yaml").read_bytes())
    roles: dict[str, Any] = dict(load_dataset(library).roles)
    lines = (library / "conversations.jsonl").read_text("utf-8").splitlines()
    conversations = change([json.loads(line) for line in lines])
    (folder / "conversations.jsonl").write_text(
        "".join(json.dumps(one) + "\n" for one in conversations), "utf-8"
    )
    write_splits(folder, {one["id"]: roles.get(one["id"], "train") for one in conversations})
    return folder


def _ended(ran: Any) -> None:
    assert ran.result.shipped in ("base", "local", "local with a head")
    assert ran.result.report_paths.html
    assert "shipped" in ran.result.manifest["scores"]
    assert ran.result.program.decide(text="I want to borrow a book").commands is not None


@pytest.mark.row("D1", "O1")
@pytest.mark.usefixtures("few_trainings")
def test_labels_that_contradict_each_other_end_in_a_program(
    library: Path, tmp_path: Path, tiny: Callable[..., Recipe], run_recipe: Any
) -> None:
    """Each conversation of the training part comes twice, the second time with labels that want nothing."""

    def change(talks: list[dict[str, Any]]) -> list[dict[str, Any]]:
        again = json.loads(json.dumps(talks[:8]))
        for talk in again:
            talk["id"] += "-again"
            for turn in talk["turns"]:
                if turn.get("labels"):
                    turn["labels"] |= {"flows": [], "commands": [{"type": "out_of_scope"}]}
        return [*talks, *again]

    folder = rewritten(library, tmp_path / "twice", change)
    _ended(run_recipe(tiny(lm="none", dataset=str(folder), head=True)))


@pytest.mark.row("D1", "O1")
@pytest.mark.usefixtures("few_trainings")
def test_a_flow_with_one_example_and_one_turn_is_learnt_like_others(
    library: Path, tmp_path: Path, tiny: Callable[..., Recipe], run_recipe: Any
) -> None:
    folder = rewritten(
        library,
        tmp_path / "one",
        lambda talks: [
            *talks,
            {
                "id": "umbrella",
                "turns": [
                    {
                        "role": "user",
                        "text": "did anyone hand in my umbrella",
                        "labels": {
                            "flows": ["lost_umbrella"],
                            "commands": [{"type": "start_flow", "flow": "lost_umbrella"}],
                        },
                    }
                ],
            },
        ],
    )
    data = yaml.safe_load((folder / "flows.yaml").read_text("utf-8"))
    data["flows"].append(
        {"name": "lost_umbrella", "description": "Find a lost umbrella.", "examples": ["i lost my umbrella"]}
    )
    (folder / "flows.yaml").write_text(yaml.safe_dump(data, sort_keys=False), "utf-8")
    ran = run_recipe(tiny(lm="none", dataset=str(folder), head=True, refit=True))
    _ended(ran)
    assert ran.result.program.decide(text="i lost my umbrella here").selection.flows == ["lost_umbrella"]
