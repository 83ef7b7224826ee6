"""The choice among whole programs: the highest expected gain over the base, its calls paid for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jazzmine_dspy.datasets import load_dataset
from jazzmine_dspy.datasets.schema import Example
from jazzmine_dspy.eval.evaluation import Evaluation, TurnResult
from jazzmine_dspy.eval.metrics import mean, score_turn
from jazzmine_dspy.models.decision import Enhancement, Selection, StageRecord, TurnDecision
from jazzmine_dspy.models.labels import Labels
from jazzmine_dspy.models.turn import Turn
from jazzmine_dspy.optimize.budget import Budget
from jazzmine_dspy.optimize.context import NullProgress, RunContext
from jazzmine_dspy.optimize.findings import candidate_row, verdict_sentence
from jazzmine_dspy.optimize.prior import Prior, expected_gain
from jazzmine_dspy.optimize.recipe import Recipe
from jazzmine_dspy.optimize.state import Contender, Kind, RunState
from jazzmine_dspy.optimize.steps import choose as choose_module
from jazzmine_dspy.optimize.steps.choose import choose
from jazzmine_dspy.program.policy import Policy
from jazzmine_dspy.program.turn import TurnProgram

HALF = [True, False] * 20
ALL = [True] * 40


def evaluation(right: Sequence[bool]) -> Evaluation:
    """Turns that want the flow "a", two for each conversation."""
    return Evaluation(tuple(_turn(number, hit) for number, hit in enumerate(right)))


def _turn(number: int, right: bool) -> TurnResult:
    turn, labels = Turn(text=f"message {number}"), Labels(flows=("a",))
    decision = TurnDecision(
        enhancement=Enhancement(enhanced_query=turn.text),
        selection=Selection(flows=["a"] if right else []),
        stages={"select": StageRecord(source="local")},
    )
    conversation = f"c{number // 2}"
    example = Example(
        conversation_id=conversation, turn_id=f"t{number}", turn=turn, labels=labels, role="dev_b", line=1
    )
    return TurnResult(example, decision, None, score_turn(decision, labels, turn))


def contender(name: str, kind: Kind, right: Sequence[bool] | Evaluation, calls: float = 0.0) -> Contender:
    result = right if isinstance(right, Evaluation) else evaluation(right)
    return Contender(name, kind, cast("Any", name), result, calls)


BASE = contender("base", "base", HALF)


@pytest.fixture(scope="module", autouse=True)
def flat() -> Iterator[None]:
    """Nothing is known beforehand, where a test does not say so."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(choose_module, "shipped_prior", lambda: Prior((1,), (0.0,), (1e6,)))
        yield


@pytest.fixture(scope="module")
def choice_of(library: Any) -> Callable[..., RunState]:
    """Chooses among contenders, the base first, by a recipe."""
    dataset = load_dataset(library)

    def chosen(*others: Contender, base: Contender = BASE, **settings: Any) -> RunState:
        settings = {"objective": "flow_set_exact", "lm": "none", **settings}
        recipe = Recipe.model_validate({"name": "check", "dataset": str(library), **settings})
        context = RunContext(recipe, dataset, NullProgress(), Budget(recipe.budget))
        program = cast("Any", None)
        state = RunState(program, program, program, contenders=(base, *others))
        state_after = choose(context, state)
        assert state_after.chosen is not None
        assert state_after.program == state_after.chosen.contender.name
        return state_after

    return chosen


@pytest.mark.row("L1", "O12")
@pytest.mark.parametrize(("lm", "deciders"), [("recording:kept", ["local"]), ("openai/x", ["local", "lm"])])
def test_recorded_answers_serve_no_user(library: Any, lm: str, deciders: list[str]) -> None:
    """A chosen cascade ships its local decider and its gate, and a language model that is given completes it."""
    dataset = load_dataset(library)
    recipe = Recipe.model_validate(
        {"name": "check", "dataset": str(library), "objective": "flow_set_exact", "lm": lm}
    )
    context = RunContext(recipe, dataset, NullProgress(), Budget(recipe.budget))
    policy = Policy(deciders=(("local", 0.7), ("lm", None)))
    both = replace(contender("both", "cascade", ALL), program=TurnProgram(dataset.flows, policy=policy))
    nothing = cast("Any", None)
    ships = choose(context, RunState(nothing, nothing, nothing, contenders=(BASE, both))).program
    assert [*ships.policy.names] == deciders
    assert ships.policy.deciders[0] == ("local", 0.7)
    assert ships.with_policy("cascade").policy.deciders == policy.deciders


@pytest.fixture
def ships(choice_of: Callable[..., RunState], monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """The name of what ships where nothing is known before a run measures it."""
    monkeypatch.setattr(choose_module, "shipped_prior", lambda: None)
    return lambda *others, **settings: choice_of(*others, **settings).ships


@pytest.mark.row("C5", "O5")
@pytest.mark.parametrize(
    ("right", "name"),
    [
        (ALL, "local"),
        ([True, False] * 18 + [True, True] * 2, "local"),  # better twice: likely better
        ([True, False] * 19 + [True, True], "base"),  # better once: as likely chance
        (HALF, "base"),  # a tie
        ([False, True] * 20, "base"),  # as often better as worse
        ([False, False] * 20, "base"),
    ],
)
def test_a_program_ships_where_it_is_expected_to_be_better(
    ships: Callable[..., str], right: list[bool], name: str
) -> None:
    assert ships(contender("local", "local", right)) == name


@pytest.mark.row("C5", "O5")
def test_on_a_tie_what_was_there_stays(ships: Callable[..., str]) -> None:
    before = contender("before", "before", HALF)
    assert ships(contender("local", "local", HALF)) == "base"
    assert ships(contender("local", "local", HALF), before) == "before"
    assert ships(contender("local", "local", ALL), replace(before, evaluation=evaluation(ALL))) == "before"
    assert ships(contender("local", "local", ALL), before) == "local"
    # Of equal ones that cost nothing the one that asks nobody.
    lm = contender("LM as written", "lm", ALL, calls=1.0)
    assert ships(contender("local", "local", ALL), lm, prefer="quality") == "local"


@pytest.mark.row("C5", "O5")
@pytest.mark.parametrize(
    ("prefer", "name"), [("quality", "LM as written"), ("cost", "LM as written"), ("calls", "base")]
)
def test_a_call_has_to_bring_its_price(ships: Callable[..., str], prefer: str, name: str) -> None:
    """One turn of forty more is 2.5 points: more than a call costs by default, less than where calls are dear."""
    one_better = [True, False] * 19 + [True, True]
    assert ships(contender("LM as written", "lm", one_better, calls=1.0), prefer=prefer) == name


@pytest.mark.row("C5")
def test_a_cascade_ships_for_the_calls_that_it_spares(ships: Callable[..., str]) -> None:
    lm = contender("LM as written", "lm", ALL, calls=1.0)
    nearly = [True] * 39 + [False]
    both = contender("local, then LM as written", "cascade", nearly, calls=0.4)
    assert ships(lm, both, prefer="quality") == "LM as written"
    assert ships(lm, replace(both, evaluation=evaluation(ALL))) == "local, then LM as written"
    assert ships(lm, both, prefer="calls") == "LM as written"
    assert ships(lm, replace(both, calls=0.2), prefer="calls") == "local, then LM as written"


@pytest.mark.row("C5", "O5")
@pytest.mark.parametrize("turns", [2, 7, 40])
def test_a_language_model_that_is_right_on_every_turn_ships_where_quality_is_preferred(
    ships: Callable[..., str], turns: int
) -> None:
    """However few turns there are: seven of them can prove nothing."""
    base = contender("base", "base", HALF[:turns])
    lm = contender("LM as written", "lm", [True] * turns, calls=1.0)
    assert ships(contender("local", "local", HALF[:turns]), lm, base=base, prefer="quality") == lm.name


@pytest.mark.row("O5")
def test_what_breaks_a_constraint_does_not_ship(choice_of: Callable[..., RunState]) -> None:
    def evaluation_with(right: Sequence[bool], unchanged: float) -> Evaluation:
        turns = [
            replace(turn, scores={**turn.scores, "unchanged_kept": mean(unchanged)})
            for turn in evaluation(right).turns
        ]
        return Evaluation(tuple(turns))

    base = contender("base", "base", evaluation_with(HALF, 1.0))
    better = contender("local", "local", evaluation_with(ALL, 0.7))
    assert choice_of(better, base=base).ships == "local"
    for allowed, name in ((0.3, "local"), (0.29, "base")):
        choice = choice_of(better, base=base, constraints={"unchanged_kept": allowed})
        assert choice.ships == name
    assert choice.verdicts[1].broken == ("unchanged_kept loses 0.300, 0.29 is allowed",)


@pytest.mark.row("C5", "V2")
def test_a_verdict_says_what_is_sure_and_what_could_have_been_seen(
    choice_of: Callable[..., RunState], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(choose_module, "shipped_prior", lambda: None)
    verdict = choice_of(contender("local", "local", [True, False] * 19 + [True, True])).verdicts[1]
    assert verdict.difference.value == pytest.approx(1 / 40)
    assert verdict.difference.lower_bound_one_sided < 0 < verdict.difference.detectable
    assert verdict.expected == pytest.approx(1 / 40)
    assert verdict.spread > 0


@pytest.mark.row("C5", "V2")
def test_a_program_that_loses_for_lack_of_turns_is_told_how_many_would_do(
    choice_of: Callable[..., RunState], library: Any
) -> None:
    recipe = Recipe(name="check", dataset=str(library), objective="flow_set_exact")
    context = RunContext(recipe, load_dataset(library), NullProgress(), Budget(recipe.budget))
    lucky = [True, False, True, True, True, False]
    few = contender("LM as written", "lm", lucky, calls=1.0)
    state = choice_of(few, contender("local", "local", ALL))
    row = candidate_row(context, state, state.verdicts[1])
    assert "asked about 6 turns; a gain of this size shows from " in row.why
    needed = int(row.why.rpartition("from ")[2].partition(" on")[0])
    difference = state.verdicts[1].difference
    # With so many turns the detectable difference shrinks to the measured one.
    assert difference.detectable * (6 / needed) ** 0.5 <= difference.value
    assert difference.detectable * (6 / (needed - 1)) ** 0.5 > difference.value
    worse = contender("LM as written", "lm", [False, False, True, False, True, False], calls=1.0)
    state = choice_of(worse)
    assert state.base_ships
    assert (
        "asked about 6 turns, which show a gain from " in candidate_row(context, state, state.verdicts[1]).why
    )
    state = replace(state, systems={"shipped": evaluation(HALF)})
    assert "LM as written was asked about 6 turns, " in verdict_sentence(context, state)
    sure = choice_of(contender("LM as written", "lm", [not hit for hit in ALL], calls=1.0))
    assert "asked about" not in candidate_row(context, sure, sure.verdicts[1]).why


def test_programs_are_compared_on_the_turns_that_both_answered(choice_of: Callable[..., RunState]) -> None:
    """A language model is judged on fewer turns than the base."""
    lm = contender("LM as written", "lm", HALF[:10], calls=1.0)
    verdict = choice_of(lm, base=contender("base", "base", HALF)).verdicts[1]
    assert (verdict.difference.n, verdict.difference.value) == (10, 0.0)
    strange = contender("other", "other", Evaluation((replace(_turn(99, True)),)))
    choice = choice_of(strange)
    assert choice.ships == "base"
    assert choice.verdicts[1].broken == ("no turn measures it",)


@pytest.mark.row("C5")
def test_a_prior_holds_against_a_lucky_draw(
    ships: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kind that lost elsewhere with so few conversations needs more than one turn to ship."""
    known = Prior((15, 100), (-0.05, 0.05), (0.02, 0.02))
    monkeypatch.setattr(choose_module, "shipped_prior", lambda: known)
    one_better = contender("local", "local", [True, False] * 19 + [True, True])
    assert ships(one_better) == "base"
    assert ships(contender("local", "local", ALL)) == "local"


@pytest.mark.row("C5", "O5")
def test_a_gain_that_may_as_well_be_chance_replaces_nothing(
    choice_of: Callable[..., RunState], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nine to one is asked for: with few labels, gains elsewhere were as often losses."""
    monkeypatch.setattr(choose_module, "shipped_prior", lambda: Prior((15,), (0.001,), (0.01,)))
    choice = choice_of(contender("local", "local", [True, False] * 19 + [True, True]))
    assert choice.ships == "base"
    assert choice.verdicts[1].expected > 0
    assert choice.verdicts[1].broken == ("a gain over the base is only 68% likely",)


@given(
    mean=st.floats(-0.3, 0.3),
    sd=st.floats(0.01, 0.3),
    difference=st.floats(-1, 1),
    error=st.floats(0.001, 0.5),
)
def test_an_expected_gain_lies_between_what_was_known_and_what_is_measured(
    mean: float, sd: float, difference: float, error: float
) -> None:
    gain = expected_gain(Prior((25,), (mean,), (sd,)), 25, difference, error)
    assert min(mean, difference) - 1e-9 <= gain.mean <= max(mean, difference) + 1e-9
    assert gain.sd <= min(sd, error) + 1e-9


DRAWS = st.lists(
    st.tuples(st.lists(st.booleans(), min_size=12, max_size=12), st.sampled_from((0.0, 0.3, 0.55, 1.0, 3.0))),
    max_size=5,
)


@pytest.mark.row("C5", "O5")
@settings(max_examples=60)
@given(base=st.lists(st.booleans(), min_size=12, max_size=12), draws=DRAWS)
def test_whatever_is_measured_the_best_for_its_price_ships(
    choice_of: Callable[..., RunState], base: list[bool], draws: list[tuple[list[bool], float]]
) -> None:
    """Nothing ships that is expected to be worse than the base; dearer calls never make more of them."""
    first = contender("base", "base", base)
    others = [
        contender(f"p{at}", "lm" if calls else "local", right, calls)
        for at, (right, calls) in enumerate(draws)
    ]
    calls = []
    for prefer in ("quality", "cost", "calls"):
        choice = choice_of(*others, base=first, prefer=prefer)
        assert choice.chosen.worth >= 0.0
        assert round(choice.chosen.worth, 9) == max(
            round(each.worth, 9) for each in choice.verdicts if not each.broken
        )
        gain = (
            sum(turn.scores["flow_set_exact"].value for turn in choice.chosen.contender.evaluation.turns) / 12
        )
        assert gain >= sum(base) / 12
        calls.append(choice.chosen.contender.calls)
    assert calls == sorted(calls, reverse=True)
