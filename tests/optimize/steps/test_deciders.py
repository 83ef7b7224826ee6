"""Deciders of other packages in a run: judged alone and before the language model, and none of them ends the run."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from jazzmine_dspy import load
from jazzmine_dspy.models.commands import ChitChat
from jazzmine_dspy.models.decision import Enhancement, Selection
from jazzmine_dspy.models.errors import LMUnansweredError, RecipeError
from jazzmine_dspy.optimize.recipe import Recipe
from jazzmine_dspy.optimize.run import optimize
from jazzmine_dspy.optimize.steps import contenders
from jazzmine_dspy.program.decider import DECIDERS, Decided, Decider, decider
from jazzmine_dspy.program.ports import HeadState

pytest.importorskip("scipy")


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test registers is gone after it; whoever hangs is waited for a moment only."""
    monkeypatch.setattr(DECIDERS, "_values", dict(DECIDERS._values))
    monkeypatch.setattr(DECIDERS, "_origins", dict(DECIDERS._origins))
    monkeypatch.setattr(contenders, "SECONDS", 0.05)


class ByHeart(Decider):
    """Knows the labels of the turns that it was trained on, is certain of these, and chats about the rest."""

    def __init__(self, known: dict[str, Any] | None = None) -> None:
        self.known = known or {}
        self.fingerprint = str(sorted(self.known))

    @classmethod
    def train(cls, examples: Any, seed: int) -> ByHeart:
        assert seed == 0
        return cls({each.state.text: each.labels for each in examples})

    def decide(self, state: Any, so_far: Any, deadline: Any) -> Decided:
        enhancement = Enhancement(enhanced_query=state.text)
        labels = self.known.get(state.text)
        if labels is None:
            return Decided(
                enhancement, selection=Selection(), commands=(ChitChat(),), confidence={"turn": 0.1}
            )
        flows = Selection(flows=list(labels.flows or ()))
        return Decided(
            enhancement, selection=flows, commands=tuple(labels.commands or ()), confidence={"turn": 1.0}
        )

    def to_state(self) -> HeadState:
        return HeadState({}, {"known": dict.fromkeys(self.known)})

    @classmethod
    def from_state(cls, state: HeadState) -> ByHeart:
        return cls(state.settings["known"])


def failing(name: str, act: Callable[[], Any], *, train: Any = None) -> str:
    """Register a decider that does this on every turn."""

    class Fails(Decider):
        def decide(self, state: Any, so_far: Any, deadline: Any) -> Any:
            return act()

    if train is not None:
        Fails.train = classmethod(train)  # type: ignore[attr-defined]
    decider(name)(Fails)
    return name


def _raise(error: Exception) -> Any:
    raise error


def _programs(ran: Any) -> dict[str, Any]:
    return {each["name"]: each for each in ran.result.manifest["programs"]}


@pytest.mark.row("X1", "C5")
def test_none_that_fails_ends_the_run(tiny: Callable[..., Recipe], run_recipe: Any) -> None:
    """Each failure is wrong, and said; what cannot be trained is left out."""
    released = threading.Event()
    enhancement = Enhancement(enhanced_query="x")
    names = [
        failing("raises", lambda: _raise(ZeroDivisionError("division by zero"))),
        failing("late", lambda: released.wait(30)),
        failing("strange", lambda: Decided(enhancement, selection=Selection(flows=["nowhere"]), commands=())),
        failing("mute", lambda: None),
        failing("untrained", lambda: None, train=lambda cls, examples, seed: _raise(ValueError("no rows"))),
        failing("unmade", lambda: None, train=lambda cls, examples, seed: None),
        failing("down", lambda: _raise(LMUnansweredError("its model is down"))),
    ]
    try:
        ran = run_recipe(tiny(lm="none", deciders=names))
    finally:
        released.set()
    programs = _programs(ran)
    assert ran.result.shipped in ("base", "local")
    for name in names[:4]:
        assert (programs[name]["kind"], programs[name]["score"]) == ("other", 0.0)
    assert not {"untrained", "unmade", "down"} & set(programs)
    notes = " ".join(ran.progress.notes)
    assert "'raises' failed on 32 of 32 turns: raises: ZeroDivisionError" in notes
    assert "'late' failed on 32 of 32 turns: late: DeadlineError" in notes
    assert "nowhere, which may not be chosen" in notes
    assert "the decider 'untrained' is left out: ValueError" in notes
    assert "the decider 'unmade' is left out: InputError: its train() returned NoneType" in notes
    assert "the decider 'down' is left out: LMUnansweredError" in notes
    assert "| raises | not chosen |" in (ran.result.folder / "report" / "report.md").read_text("utf-8")


@pytest.mark.row("X1", "C2")
def test_one_that_learns_is_judged_on_turns_that_it_has_not_seen(
    tiny: Callable[..., Recipe], run_recipe: Any
) -> None:
    """By heart it would be right on all of them; out of fold it knows only what is said twice."""
    decider("heart")(ByHeart)
    ran = run_recipe(tiny(lm="none", deciders=["heart"]))
    heart = _programs(ran)["heart"]
    assert (heart["kind"], heart["n"]) == ("other", 32)
    assert heart["score"] < 0.5
    assert ran.result.shipped != "heart"


@pytest.mark.row("X1", "C1")
def test_one_that_ships_is_trained_again_saved_and_loaded(
    tiny: Callable[..., Recipe], run_recipe: Any, shipping: Any
) -> None:
    decider("heart")(ByHeart)
    with shipping("heart"):
        ran = run_recipe(tiny(lm="none", deciders=["heart"], refit=True))
    program = ran.result.program
    assert program.policy.names == ("heart",)
    known = program.bindings.deciders["heart"].known  # type: ignore[attr-defined]
    assert "put The Waves aside under my name" in known, "a turn of dev-B"
    assert "deciders.safetensors" in ran.result.manifest["files"]
    loaded = load(ran.result.folder)
    assert set(loaded.bindings.deciders["heart"].known) == set(known)  # type: ignore[attr-defined]
    assert ran.result.manifest["shipped"] == "heart"


@pytest.mark.row("X1")
def test_one_that_cannot_be_trained_again_stays_as_it_was_judged(
    open_run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    context, program = open_run(lm=None, deciders=["heart"])
    decider("heart")(ByHeart)
    ships = contenders.with_decider(context, program, "heart", context.dataset.examples("train"))
    monkeypatch.setattr(ByHeart, "train", lambda examples, seed: _raise(ValueError("no room")))
    again = contenders.retrain_deciders(context, ships)
    assert again.bindings.deciders["heart"] is ships.bindings.deciders["heart"]


@pytest.mark.row("X1", "C1")
def test_it_stands_before_the_language_model_at_a_gate_of_its_own(
    tiny: Callable[..., Recipe], run_recipe: Any, scripts: Any
) -> None:
    """The gate is fitted on turns that the language model was not asked about."""

    class Sure(Decider):
        """Right about renewals, of which it is sure, and chats about the rest, of which it is not."""

        def decide(self, state: Any, so_far: Any, deadline: Any) -> Decided:
            labels = scripts.Labels(scripts.LIBRARY).by_text[state.text]
            from jazzmine_dspy.models.commands import command

            sure = len(state.text) % 2 == 0
            commands = [command(each) for each in labels["commands"]] if sure else [ChitChat()]
            return Decided(
                Enhancement(enhanced_query=state.text),
                selection=Selection(flows=labels["flows"] if sure else []),
                commands=tuple(commands),
                confidence={"turn": 0.97 if sure else 0.2},
            )

    decider("sure")(Sure)
    ran = run_recipe(tiny(deciders=["sure"], optimizer="none"), scripts.lm_of("right"))
    programs = _programs(ran)
    joined = programs["sure, then LM as written"]
    assert (joined["kind"], joined["score"]) == ("cascade", 1.0)
    assert joined["calls"] < programs["LM as written"]["calls"]


@pytest.mark.row("X1", "O1")
def test_one_that_nobody_registered_is_refused_before_anything_is_fitted(
    tiny: Callable[..., Recipe], tmp_path: Any
) -> None:
    for name in ("nobody", "local", "lm"):
        with pytest.raises(RecipeError, match=f"No decider is registered as '{name}'") as raised:
            optimize(tiny(lm="none", deciders=[name]), out=tmp_path / "program")
        assert "install the package" in raised.value.remedy
    assert not (tmp_path / "program").exists()


@pytest.mark.row("C2", "X1")
def test_no_turn_finds_itself_while_deciders_are_trained_and_judged(
    tiny: Callable[..., Recipe], run_recipe: Any
) -> None:
    """The index may hold labelled turns: their own conversation is hidden, as it will be in service."""
    exclusions: list[tuple[str, frozenset[str]]] = []

    class Watching(ByHeart):
        @classmethod
        def train(cls, examples: Any, seed: int) -> ByHeart:  # noqa: ARG003
            exclusions.extend((each.conversation, each.state.exclude) for each in examples)
            return cls()

        def decide(self, state: Any, so_far: Any, deadline: Any) -> Decided:
            exclusions.append(("", state.exclude))
            return super().decide(state, so_far, deadline)

    decider("watching")(Watching)
    run_recipe(tiny(lm="none", deciders=["watching"]))
    assert {name for name, _ in exclusions} >= {"", "lib-01", "lib-15"}
    assert all(hidden == {name} if name else len(hidden) == 1 for name, hidden in exclusions)
