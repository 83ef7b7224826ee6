"""What a run takes for an answer: stored ones unless it is to be fresh, and none where a model gave none."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jazzmine_dspy.lm import ReplayStore, replayed, scripted_lm
from jazzmine_dspy.models.errors import LMUnansweredError
from jazzmine_dspy.optimize.opening import RunAnswers
from jazzmine_dspy.optimize.recipe import Recipe

NAME = "scripted/served"


@pytest.mark.row("L3", "O6", "N5")
def test_a_fresh_run_asks_anew_and_others_replay(
    run_recipe: Callable[..., Any], tiny: Any, scripts: Any
) -> None:
    """Behind one name stand other weights: only a fresh run hears of them, and those after it."""
    recipe = tiny()
    first = run_recipe(recipe, scripts.scripted_lm(scripts.taught(scripts.LIBRARY), model=NAME))
    requests = len(first.requests)
    assert requests > 0
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
        model = replayed(lm, RunAnswers(tmp_path / "answers.db", recipe))
        return [model("hi", temperature=temperature)[0] for _ in range(times)]

    first = run("one", 2, 1.0)
    assert len(set(first)) == 2
    again = run("one", 3, 1.0)
    assert again[:2] == first
    assert again[2] not in first
    assert not {*run("other", 2, 1.0)} & {*again}
    (answer,) = {*run("one", 2, 0.0), *run("other", 1, 0.0)}
    assert answer not in again


@pytest.mark.row("L3")
def test_a_fresh_store_forgets_and_stores_anew(ask: Any, tmp_path: Path) -> None:
    from jazzmine_dspy.lm.engines import text_response

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


def _refusal() -> Any:
    import dspy

    return dspy.LMInvalidRequestError("the request cannot be served", status=400)


@pytest.mark.row("L3", "O3", "C5")
@pytest.mark.parametrize(
    ("answers", "said", "cause"),
    [
        (0, "", "does not answer: LMNoAnswerError"),
        (1, "", "did not answer"),
        (1, _refusal(), "answered none of"),
    ],
)
def test_a_language_model_that_is_down_is_left_out_and_the_report_says_so(
    tiny: Callable[..., Recipe], scripts: Any, run_recipe: Any, answers: int, said: Any, cause: str
) -> None:
    """From the start on or after the first answer: what needs no language model ships."""
    lm = scripts.scripted_lm(_silent_after(answers, scripts.taught(scripts.LIBRARY), said), model=NAME)
    ran = run_recipe(tiny(), lm)
    result = ran.result
    assert result.shipped in ("base", "local")
    assert cause in result.first_line
    assert (
        "The language model did not answer, so no program that asks it was judged." in result.report.verdict
    )
    assert any(note.endswith("the run goes on without it") for note in ran.progress.notes)
    assert {each["kind"] for each in result.manifest["programs"]} == {"base", "local"}
    assert {"base", "shipped"} <= set(result.manifest["scores"])
    assert not {"LM as written", "LM compiled"} & set(result.manifest["scores"])
    assert len(ReplayStore(ran.cwd / ".jazzmine" / "replay.db")) <= answers


@pytest.mark.row("C5", "O5")
def test_a_language_model_that_answers_nonsense_does_not_ship(
    tiny: Callable[..., Recipe], scripts: Any, run_recipe: Any
) -> None:
    result = run_recipe(tiny(), scripts.lm_of("garbage")).result
    assert result.shipped in ("base", "local")
    assert result.first_line.startswith(f"{result.shipped} ships; ")
    asking = [each for each in result.manifest["programs"] if each["calls"]]
    assert asking
    assert all(each["worth"] < 0 for each in asking)


@pytest.mark.row("L3", "A9")
def test_a_run_from_a_program_that_asks_ends_where_nobody_answers(
    taught: Any, tiny: Callable[..., Recipe], scripts: Any, run_recipe: Any
) -> None:
    """Its own prompts cannot be compared: shipping another program would be a guess."""
    lm = scripts.scripted_lm(_silent_after(0, None, ""), model=NAME)
    with pytest.raises(LMUnansweredError, match="does not answer") as raised:
        run_recipe(tiny(), lm, start_from=taught.result.folder)
    assert "run it again when it answers" in raised.value.remedy


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
