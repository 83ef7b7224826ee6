"""What a run takes for an answer: stored ones unless it is to be fresh, and none where a model gave none."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jazzmine_dspy.lm import ReplayStore, replayed, scripted_lm
from jazzmine_dspy.models.errors import LMUnansweredError, RecipeError
from jazzmine_dspy.optimize.answers import RunAnswers
from jazzmine_dspy.optimize.recipe import Recipe
from jazzmine_dspy.optimize.run import optimize

NAME = "scripted/served"


@pytest.mark.row("L3", "O6", "N5")
def test_a_fresh_run_asks_anew_and_others_replay(
    run_recipe: Callable[..., Any], tiny: Any, scripts: Any
) -> None:
    """Behind one name stand other weights: only a fresh run hears of them, and those after it."""
    recipe = tiny()
    first = run_recipe(recipe, scripts.scripted_lm(scripts.taught(scripts.LIBRARY), model=NAME))
    asked = len(first.requests)
    assert asked > 0
    others = scripts.scripted_lm(scripts.wrong, model=NAME)
    assert run_recipe(recipe, others).requests == []
    fresh = run_recipe(recipe, others, fresh=True)
    assert fresh.result.spent["lm_calls"] - fresh.result.spent["replayed_calls"] == len(fresh.requests) > 0
    assert fresh.result.first_line != first.result.first_line or fresh.result.shipped != first.result.shipped
    after = run_recipe(recipe, scripts.scripted_lm(scripts.taught(scripts.LIBRARY), model=NAME))
    assert after.requests == []


@pytest.mark.row("O4", "O6")
def test_samples_are_stored_by_their_number_for_each_recipe(tmp_path: Path) -> None:
    """Of a sampled request each repetition has an answer of its own; one at temperature 0 has one for all recipes."""
    numbers = itertools.count()

    def run(recipe: str, times: int, temperature: float) -> list[str]:
        lm = scripted_lm(lambda _request: f"answer {next(numbers)}", model=NAME)
        kept = replayed(lm, RunAnswers(tmp_path / "answers.db", recipe))
        return [kept("hi", temperature=temperature)[0] for _ in range(times)]

    first = run("one", 2, 1.0)
    assert len(set(first)) == 2
    again = run("one", 3, 1.0)
    assert again[:2] == first
    assert again[2] not in first
    assert not {*run("other", 2, 1.0)} & {*again}
    (held,) = {*run("one", 2, 0.0), *run("other", 1, 0.0)}
    assert held not in again


@pytest.mark.row("L3")
def test_a_fresh_store_forgets_and_stores_anew(ask: Any, tmp_path: Path) -> None:
    from jazzmine_dspy.lm.requests import text_response

    request = ask("hi")
    ReplayStore(tmp_path / "r.db").put("key", text_response(request, "old"))
    fresh = ReplayStore(tmp_path / "r.db", fresh=True)
    assert fresh.get("key") is None
    fresh.put("key", text_response(request, "new"))
    for store in (fresh, ReplayStore(tmp_path / "r.db")):
        assert store.get("key").message.text == "new"  # type: ignore[union-attr]


@pytest.fixture
def ask() -> Any:
    from dspy.lm15 import Message, Request

    return lambda text: Request(model="scripted/x", messages=(Message.user(text),))


# --- no answers --------------------------------------------------------------------------------------------


def _silent_after(answers: int, script: Any, said: Any) -> Any:
    numbers = itertools.count()
    return lambda request: script(request) if next(numbers) < answers else said


@pytest.mark.row("L3", "O3")
@pytest.mark.parametrize("answers", [0, 1])
def test_a_run_without_answers_ends_and_says_so(
    tiny: Callable[..., Recipe], scripts: Any, tmp_path: Path, answers: int
) -> None:
    script = _silent_after(answers, scripts.taught(scripts.LIBRARY), "")
    lm = scripts.scripted_lm(script, model=NAME)
    with contextlib.chdir(tmp_path), pytest.raises((RecipeError, LMUnansweredError), match="not answer"):
        optimize(tiny(), out="program", lm=lm)
    assert not (tmp_path / "program").exists()
    assert len(ReplayStore(tmp_path / ".jazzmine" / "replay.db")) <= answers


@pytest.mark.row("L3", "O3")
def test_a_run_whose_answers_are_all_refused_ends_and_says_so(
    tiny: Callable[..., Recipe], scripts: Any, tmp_path: Path
) -> None:
    import dspy

    refusal = dspy.LMInvalidRequestError("the request cannot be served", status=400)
    lm = scripts.scripted_lm(_silent_after(1, scripts.taught(scripts.LIBRARY), refusal), model=NAME)
    with (
        contextlib.chdir(tmp_path),
        pytest.raises(LMUnansweredError, match=r"answered none of \d+ turns: lm: LMInvalid"),
    ):
        optimize(tiny(), out="program", lm=lm)


@pytest.mark.row("L3", "O2")
def test_a_candidate_without_answers_has_no_score(
    run_recipe: Callable[..., Any], tiny: Any, scripts: Any
) -> None:
    """Requests with demonstrations are refused: the candidate that is made of them was never answered."""
    import dspy

    right = scripts.taught(scripts.LIBRARY)

    def script(request: Any) -> Any:
        if len(request.messages) > 1:
            return dspy.LMInvalidRequestError("too many messages", status=400)
        return right(request)

    ran = run_recipe(tiny(), scripts.scripted_lm(script, model=NAME))
    notes = [note for note in ran.progress.notes if "has no score" in note]
    assert notes
    assert all("no turn was answered" in note for note in notes)
