"""What a newcomer does: `init`, own conversations, `optimize`, and `load` in Python, with a model that is right."""

from __future__ import annotations

import json
import logging
import shutil
from pathlib import Path
from typing import Any

import pytest

from jazzmine_dspy import load
from jazzmine_dspy.datasets import load_dataset
from jazzmine_dspy.eval import evaluate
from jazzmine_dspy.models.commands import COMMAND_KINDS
from tests.support.fake_openai import FakeOpenAI
from tests.support.prompt_brain import brain

pytest.importorskip("sklearn")

SUPPORT = Path(__file__).resolve().parents[2] / "datasets" / "support"
MODEL = "openai/gpt-4o-mini"


def bring(folder: Path, conversations: int, turns: int | None = None) -> Path:
    """Replace the starter's conversations by some of the shop's, in which no message occurs twice."""
    shutil.copy(SUPPORT / "flows.yaml", folder / "flows.yaml")
    (folder / "splits.json").unlink()
    known, kept = set[str](), []
    for line in (SUPPORT / "conversations.jsonl").read_text("utf-8").splitlines():
        talk = json.loads(line)
        talk["turns"] = talk["turns"][:turns]
        labelled = [turn for turn in talk["turns"] if turn.get("labels")]
        said = [turn["text"] for turn in labelled]
        kinds = {command["type"] for turn in labelled for command in turn["labels"]["commands"]}
        if (
            known.isdisjoint(said)
            and len(set(said)) == len(said)
            and kinds <= set(COMMAND_KINDS) - {"clarify"}
        ):
            known.update(said)
            kept.append(line if turns is None else json.dumps(talk))
    (folder / "conversations.jsonl").write_text("\n".join(kept[:conversations]) + "\n", "utf-8")
    return folder


def path_of_a_newcomer(run: Any, monkeypatch: pytest.MonkeyPatch, turns: int | None = None) -> Any:
    """Walk it, and return what the run printed, what it showed, and how many turns `load` asked the model about."""
    with FakeOpenAI(key="sk-test") as server:
        assert run("init", "shop", "--lm", MODEL, "--api-base", server.address).code == 0
        monkeypatch.chdir("shop")
        dataset = bring(Path("datasets/shop"), 42, turns)
        server.answer = brain(dataset, right=True)
        monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
        assert run("datasets", "split", dataset).code == 0
        done = run("optimize", "optimize/recipes/shop.toml", "--json")
        assert done.code == 0, done.err
        before = len(server.calls)
        data = load_dataset(dataset)
        data.open_test("test of a newcomer's path")
        program = load("optimize/programs/shop")
        right = evaluate(program, data.examples("test")).metrics["commands_exact"].value
        return done, right, len(server.calls) - before


@pytest.mark.row("A2", "O1", "O8", "V2")
def test_the_recipe_of_init_asks_enough_and_says_so_first(
    run: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Forty-two messages, half the training: a model that is right ships, is bound by `load`, and answers."""
    from jazzmine_dspy.optimize.steps import local

    monkeypatch.setattr(local, "FOLDS", 2)
    monkeypatch.setattr(local, "SHARES", (1 / 2,))
    with caplog.at_level(logging.WARNING, "jazzmine_dspy"):
        done, right, asked = path_of_a_newcomer(run, monkeypatch, turns=1)
    assert "LM as written" in done.json["shipped"]
    assert right > 0.8
    assert asked > 0
    assert not [record for record in caplog.records if "language model" in record.getMessage()]
    # Said before anything is asked.
    plan, _, rest = done.err.partition("ask the language model once")
    assert "calls of openai/gpt-4o-mini (limit 1,500)" in plan
    assert "prompt tokens" in plan
    assert "price: 0.15 and 0.6 USD" in plan
    assert "train the local decider" in rest
    most = int(plan.partition("at most ")[2].partition(" calls")[0])
    assert done.json["spent"]["lm_calls"] <= most
    # Each row that asks the model has all turns of the test part, and an interval.
    manifest = json.loads(Path("optimize/programs/shop/manifest.json").read_text("utf-8"))
    for row in ("base", "LM as written", "shipped"):
        _, low, _, n = manifest["scores"][row]["commands_exact"]
        assert n >= 10
        assert low is not None


@pytest.mark.long
@pytest.mark.row("O1", "O5", "C5")
def test_with_whole_conversations_the_cascade_ships_at_the_first_try(
    run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    done, right, asked = path_of_a_newcomer(run, monkeypatch)
    assert done.json["shipped"].startswith("local, then LM")
    assert right > 0.8
    assert asked > 0
