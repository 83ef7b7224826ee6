"""What a run ships of the head of acts: where it wins, where it loses, and in front of a language model."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest

from jazzmine_dspy import load
from jazzmine_dspy.datasets import load_dataset
from jazzmine_dspy.datasets.schema import Example
from jazzmine_dspy.datasets.split import roles_hash
from jazzmine_dspy.lm import scripted_lm
from jazzmine_dspy.optimize.pipeline.acts import WITH_LM
from jazzmine_dspy.optimize.pipeline.race import HEAD_ORDER
from jazzmine_dspy.optimize.planning import plan
from jazzmine_dspy.optimize.recipe import Recipe
from jazzmine_dspy.program.heads.acts.shipped import shipped_head

pytest.importorskip("scipy")

YES = (
    "all fine with the two of us",
    "okay for everybody on the team",
    "great for the whole lot of us",
    "everything is right with that list",
)
"""Agreement that the rules take for a hint only, so that a head has to tell."""

NO = (
    "that is not what we came for",
    "please do not do that",
    "I have changed my mind about it",
    "we'd rather leave it",
)
ENDS = ("", ", thanks", ", please", ", really", ", for now", ", my friend", ", I promise", ", this once")
ANSWERS = [
    (said + end, kind) for end in ENDS for kind, all_ in (("affirm", YES), ("deny", NO)) for said in all_
]
COLOURS = ("green", "blue", "old", "tall")
NOUNS = (
    "shoes",
    "lamps",
    "boats",
    "doors",
    "trees",
    "cups",
    "bells",
    "hats",
    "maps",
    "roofs",
    "coats",
    "nets",
)
THINGS = [f"{colour} {noun}" for colour in COLOURS for noun in NOUNS]
Said = Sequence[tuple[str, str | None]]


@pytest.fixture
def asked(library: Path, tmp_path: Path) -> Callable[..., Path]:
    """Writes a dataset of answers to one open question; commands of the kind that stands beside each, or none."""

    def write(train: Said, dev_b: Said, *, labels: Iterable[str] | None = None) -> Path:
        folder = tmp_path / "asked"
        folder.mkdir()
        (folder / "flows.yaml").write_bytes((library / "flows.yaml").read_bytes())
        parts = {"train": train, "dev_a": ANSWERS[:4], "dev_b": dev_b, "test": ANSWERS[-4:]}
        roles = {role: [f"{role}-{n}" for n in range(len(said))] for role, said in parts.items()}
        lines = [
            json.dumps(_conversation(name, *one, labels))
            for role, said in parts.items()
            for name, one in zip(roles[role], said, strict=True)
        ]
        (folder / "conversations.jsonl").write_text("\n".join(lines) + "\n", "utf-8")
        splits = {"seed": 0, "roles": roles, "sha256": roles_hash(roles)}
        (folder / "splits.json").write_text(json.dumps(splits), "utf-8")
        return folder

    return write


def _conversation(name: str, text: str, kind: str | None, labels: Iterable[str] | None) -> dict[str, Any]:
    told: dict[str, Any] = {
        "enhanced": text, "sentiment": 0.0, "intent": "book_room", "entities": [], "is_cancellation": False,
        "is_continuation": True, "flows": [], "commands": [{"type": kind}] if kind else [],
    }  # fmt: skip
    before = {
        "status": "awaiting_confirmation", "flow": "book_room", "slots": {"people": 5},
        "confirming": {"flow": "book_room", "action": "book a room"},
    }  # fmt: skip
    turns = [
        {"role": "assistant", "text": "A room for 5. Shall I book it?"},
        {"role": "user", "text": text, "before": before, "labels": {k: told[k] for k in labels or told}},
    ]
    return {"id": name, "date": "2026-03-02", "turns": turns}


def _trained_on(ran: Any) -> list[int | None]:
    return [total for name, total in ran.progress.phases if name == "train acts for understand"]


def _heats(ran: Any) -> dict[str, bool]:
    report = json.loads((ran.result.folder / "report" / "report.json").read_text("utf-8"))
    return {row["candidate"]: row["kept"] for row in report["stage_race"] if row["stage"] == "understand"}


def _turns(recipe: Recipe, role: str = "dev_b") -> list[Example]:
    return list(load_dataset(recipe.dataset).examples(role))  # type: ignore[arg-type]


@pytest.mark.row("C1", "C2", "C6")
@pytest.mark.parametrize(("shape", "refit"), [("fused", False), ("staged", True)])
def test_where_it_wins_it_ships_trained_and_comes_back_from_the_artefact(
    shape: str, refit: bool, asked: Any, tiny: Callable[..., Recipe], run_recipe: Any
) -> None:
    """Without a language model; the last fit learns from dev-A and dev-B too."""
    recipe = tiny(lm="none", shape=shape, refit=refit, dataset=str(asked(ANSWERS[:24], ANSWERS[24:56])))
    ran = run_recipe(recipe)
    program, head = ran.result.program, ran.result.program.bindings.heads["understand"]
    assert ran.result.shipped["understand"] == "acts"
    assert program.policy.orders["understand"] == HEAD_ORDER
    assert _heats(ran) == {"floor": False, "acts": True}
    assert _trained_on(ran) == ([24, 24 + 4 + 32] if refit else [24])
    shipped = shipped_head(program.bindings.embedder)
    assert shipped is not None
    assert head.fingerprint != shipped.fingerprint
    assert "heads.safetensors" in ran.result.manifest["files"]
    loaded = load(ran.result.folder)
    assert loaded.bindings.heads["understand"].fingerprint == head.fingerprint
    for each in _turns(recipe):
        ours, theirs = program.decide(each.turn), loaded.decide(each.turn)
        assert ours.stages["understand"].source == "head"
        assert (ours.commands, ours.stages["understand"].confidence) == (
            theirs.commands,
            theirs.stages["understand"].confidence,
        )


@pytest.mark.row("C1", "C2")
def test_where_it_loses_nothing_of_it_ships(asked: Any, tiny: Callable[..., Recipe], run_recipe: Any) -> None:
    """On dev-B these messages are labelled with no command, so that the floor is right and the head is not."""
    silent = [(text, None) for text, _ in ANSWERS[24:56]]
    ran = run_recipe(tiny(lm="none", refit=True, dataset=str(asked(ANSWERS[:24], silent))))
    assert ran.result.shipped["understand"] == "floor"
    assert _heats(ran) == {"floor": True, "acts": False}
    assert _trained_on(ran) == [24]
    assert ran.result.program.bindings.heads.get("understand") is None
    assert load(ran.result.folder).bindings.heads.get("understand") is None


@pytest.mark.row("C2")
def test_with_no_command_labelled_there_is_nothing_to_train(
    asked: Any, tiny: Callable[..., Recipe], run_recipe: Any
) -> None:
    folder = asked(ANSWERS[:24], ANSWERS[24:32], labels=("enhanced", "flows"))
    ran = run_recipe(tiny(lm="none", dataset=str(folder), objective="flow_set_exact"))
    assert _trained_on(ran) == []
    assert "acts" not in _heats(ran)
    assert ran.result.program.bindings.heads.get("understand") is None


@pytest.mark.row("C2", "O11")
def test_a_run_that_starts_from_a_program_trains_a_head_of_its_own(
    asked: Any, tiny: Callable[..., Recipe], run_recipe: Any, runner: Any, tmp_path: Path, without_base: None
) -> None:
    """The head of the program that it starts from is not taken over, whether the new run trains one or not."""
    folder, run_in = str(asked(ANSWERS[:24], ANSWERS[24:56])), runner[0]
    first = run_recipe(tiny(lm="none", dataset=folder, refit=True))
    for name, acts in (("with", True), ("without", False)):
        (tmp_path / name).mkdir()
        recipe = tiny(lm="none", dataset=folder, acts=acts)
        again = run_in(tmp_path / name, recipe, start_from=first.result.folder)
        head = again.result.program.bindings.heads.get("understand")
        assert (head is not None) == acts
        assert (
            head is None or head.fingerprint != first.result.program.bindings.heads["understand"].fingerprint
        )
        assert again.result.shipped["understand"] == ("acts" if acts else "floor")


@pytest.mark.row("C1", "C2")
@pytest.mark.parametrize("shape", ["fused", "staged"])
def test_a_language_model_that_wins_is_asked_for_what_the_head_is_not_sure_of(
    shape: str, asked: Any, tiny: Callable[..., Recipe], run_recipe: Any, scripts: Any
) -> None:
    """The model knows what things stand for, which training turns contradict, and takes every answer for small talk."""
    kinds = ("affirm", "deny", "repeat", "handoff")
    train = [*ANSWERS[:40], *((thing, kind) for thing in THINGS[:10] for kind in kinds)]
    folder = asked(train, [*ANSWERS[40:56], *((thing, "restart") for thing in THINGS[10:])])
    labels, answers = scripts.Labels(folder), {text for text, _ in ANSWERS}

    def says(request: Any) -> str:
        answer = json.loads(labels.right(request))
        if scripts.message_of(request) in answers and "commands" in answer:
            answer["commands"] = [{"type": "chitchat"}]
        return json.dumps(answer)

    recipe = tiny(shape=shape, dataset=str(folder), optimizer="none", budget={})
    lm = scripted_lm(says, model="scripted/things")
    ran = run_recipe(recipe, lm)
    policy, head = ran.result.program.policy, ran.result.program.bindings.heads["understand"]
    assert ran.result.shipped["understand"] == "acts, then LM uncompiled"
    assert policy.orders["understand"] == WITH_LM
    assert policy.gates["understand"]["head"] == pytest.approx(head.gate, abs=1e-6)
    loaded = load(ran.result.folder, lm=lm)
    assert loaded.policy.gates["understand"] == policy.gates["understand"]
    right, sources = [], []
    for each in _turns(recipe):
        before, decision = lm.engine.calls, loaded.decide(each.turn)
        record = decision.stages["understand"]
        assert (record.source, lm.engine.calls > before) in {("head", False), ("lm", True)}
        assert record.source == "lm" or record.confidence >= head.gate
        assert each.turn.text not in answers or record.source == "head"
        sources.append(record.source)
        right.append([c.type for c in decision.commands] == [c.type for c in each.labels.commands or ()])
    assert sources.count("lm") > sources.count("head") > 0
    (heat,) = [one for one in ran.result.manifest["race"] if one["challenger"] == "acts, then LM uncompiled"]
    alone = sum(text not in answers for text in (each.turn.text for each in _turns(recipe))) / len(right)
    assert heat["difference"] == pytest.approx(sum(right) / len(right) - alone, abs=1e-4)


@pytest.mark.row("O1", "C1")
@pytest.mark.parametrize("changes", [{"shape": "fused"}, {"shape": "staged", "objective": "rewrite_exact"}])
def test_it_asks_a_language_model_nothing(
    changes: dict[str, Any], tiny: Callable[..., Recipe], runner: Any, scripts: Any, tmp_path: Path
) -> None:
    """The plan is the same with it and without, and a run with it sends nothing that one without does not."""
    sent, planned = [], []
    for acts in (False, True):
        recipe = tiny(acts=acts, optimizer="none", budget={}, **changes)
        planned.append(plan(recipe.model_copy(update={"lm": "scripted/right"})))
        (tmp_path / str(acts)).mkdir()
        ran = runner[0](tmp_path / str(acts), recipe, scripts.lm_of("right"))
        sent.append([scripts.everything_in(request) for request in ran.requests])
        assert bool(_trained_on(ran)) == acts
    assert planned[0] == planned[1]
    assert sent[0]
    assert set(sent[1]) <= set(sent[0])
    assert len(sent[1]) <= len(sent[0])
