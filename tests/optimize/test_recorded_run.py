"""A run that people answer, and the same run from a recording of their answers; a run has no time for batches."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from dspy.lm15 import Config, Message, Request

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))

from answer_desk import Desk
from answer_server import AnswerServer
from record import record

from jazzmine_dspy import load
from jazzmine_dspy.lm import scripted_lm
from jazzmine_dspy.models.awaiting import Stale
from jazzmine_dspy.models.errors import RecipeError
from jazzmine_dspy.optimize.recipe import Recipe
from jazzmine_dspy.optimize.steps import local

FACTS = {
    **dict.fromkeys(("measured", "dataset", "part", "program", "kind", "rules"), "the library"),
    "name": "library", "date": "2026-11-29",
}  # fmt: skip
CHANGES: dict[str, Any] = {
    "sample": {"dev_a": 4, "dev_b": 7, "test": 4},
    "head": True,
    "demos": {"labeled": 1, "bootstrapped": 1, "candidates": 1},
}


def _request(messages: list[dict[str, str]]) -> Request:
    system = next((each["content"] for each in messages if each["role"] == "system"), None)
    kinds = {"user": Message.user, "assistant": Message.assistant}
    spoken = tuple(kinds[each["role"]](each["content"]) for each in messages if each["role"] != "system")
    return Request(model="m", messages=spoken, system=system, config=Config())


def _said(row: dict[str, Any], script: Callable[[Request], Any]) -> Any:
    """What the script answers, of the fields that are asked for."""
    answer, form = script(_request(row["messages"])), row.get("response_format")
    if form is None:
        return answer
    fields = form["json_schema"]["schema"]["properties"]
    said = {name: value for name, value in json.loads(answer).items() if name in fields}
    names = [each["name"] for each in said.get("entities", ())]
    return said | {"entities": names, "commands": [_written(each) for each in said["commands"]]}


def _written(command: Any) -> Any:
    """A command as the prompt has it written."""
    if isinstance(command, str) or "name" not in command:
        return command if isinstance(command, str) else command["type"]
    return {command["type"]: command["name"]} | {key: command[key] for key in ("value",) if key in command}


def _answer(desk: Desk, script: Callable[[Request], Any]) -> None:
    """Answer whatever is asked until the server stops, as people who see the requests alone."""
    while not desk.stopped:
        with desk.changed:
            desk.changed.wait_for(lambda: bool(desk.pending or desk.open) or desk.stopped)
        desk.tick()
        for path in (desk.folder / "open").glob("*.jsonl"):
            rows = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
            lines = [
                json.dumps({"id": row["id"], "by": path.stem, "answer": _said(row, script)}) for row in rows
            ]
            (desk.folder / "answers" / path.name).write_text("\n".join(lines) + "\n", "utf-8")
        desk.tick()


@pytest.fixture
def address(tmp_path: Path, scripts: Any, library: Path) -> Iterator[str]:
    """The address of a server whose people know the answers."""
    desk = Desk(tmp_path / "people", "compile", quiet=0.0)
    server = AnswerServer({"compile": desk})
    people = threading.Thread(target=_answer, args=(desk, scripts.taught(library)))
    threads = [threading.Thread(target=server.serve_forever), people]
    for each in threads:
        each.start()
    yield server.address
    server.stop()
    for each in threads:
        each.join()


@pytest.mark.row("O12", "V10")
def test_a_run_that_people_answer_is_repeated_from_its_recording(
    tiny: Callable[..., Recipe],
    run_recipe: Any,
    tmp_path: Path,
    address: str,
    files_of: Any,
    monkeypatch: pytest.MonkeyPatch,
    shipping: Any,
) -> None:
    # Four folds and shares fewer, for time.
    monkeypatch.setattr(local, "FOLDS", 2)
    monkeypatch.setattr(local, "SHARES", (1 / 2,))
    settings = {"api_base": address, "timeout": 600, "num_retries": 0}
    recipe = tiny(optimizer="bootstrap_random_search", **CHANGES)
    asking = recipe.model_copy(update={"lm": "openai/people/compile", "lm_settings": settings})
    with shipping("cascade"):
        live = run_recipe(asking)
    assert live.result.program.policy.names == ("local", "lm")
    prompts = {name: data for name, data in files_of(live.result.folder).items() if "program" in name}
    scores = json.loads((live.result.folder / "manifest.json").read_text("utf-8"))["candidates"]
    assert prompts
    assert scores
    kept = tmp_path / "kept"
    record(tmp_path / "people" / "recorded", kept, FACTS)
    (tmp_path / "program").rename(tmp_path / "first")

    repeated = recipe.model_copy(update={"lm": f"recording:{kept}"})
    with shipping("cascade"):
        again = run_recipe(repeated)
    manifest = json.loads((again.result.folder / "manifest.json").read_text("utf-8"))
    assert manifest["candidates"] == scores
    assert {
        name: data for name, data in files_of(again.result.folder).items() if "program" in name
    } == prompts
    # The recording serves nobody: what the cascade did stands in a row of its own.
    assert again.result.program.policy.names == ("local",)
    first, second = (
        {each.name: each.evaluation for each in ran.result.report.systems} for ran in (live, again)
    )
    alike = [
        [turn.decision for turn in each.turns] for each in (first["shipped"], second["shipped, then the LM"])
    ]
    assert [one.commands for one in alike[0]] == [one.commands for one in alike[1]]
    with_one = second["shipped, then the LM"]
    share = 100 * with_one.metrics[recipe.objective].value
    assert (
        f"no language model is asked; with one, {share:.1f} % on a sample of 4" in again.result.report.verdict
    )
    assert " by local, " in again.result.report.verdict
    assert load(again.result.folder, lm=scripted_lm(lambda _: "{}")).policy.names == ("local", "lm")

    answers = (kept / "answers.jsonl").read_text("utf-8").splitlines()
    (kept / "answers.jsonl").write_text("\n".join(answers[:-1]), "utf-8")
    with pytest.raises(Stale, match="1 request has no answer"):
        run_recipe(repeated)


@pytest.mark.row("O12")
@pytest.mark.parametrize("changes", [{"lm": "deferred:asked"}, {"teacher": {"lm": "deferred:asked"}}])
def test_a_run_takes_no_model_that_answers_by_file(
    changes: dict[str, Any], tiny: Callable[..., Recipe], run_recipe: Any
) -> None:
    recipe = tiny(optimizer="bootstrap_random_search", **{"lm": "openai/x", **changes})
    with pytest.raises(RecipeError, match=r"answers while the run waits.*answer_server"):
        run_recipe(recipe)
