"""Heads and orders that a recipe adds, within a run: what they are trained on, and when they race."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from jazzmine_dspy.datasets import load_dataset
from jazzmine_dspy.models.decision import STAGES, Enhancement
from jazzmine_dspy.optimize import run
from jazzmine_dspy.optimize.budget import Budget
from jazzmine_dspy.optimize.calibration.order import Ordered
from jazzmine_dspy.optimize.context import RunContext
from jazzmine_dspy.optimize.pipeline import race
from jazzmine_dspy.optimize.pipeline.parts import with_index
from jazzmine_dspy.optimize.pipeline.recall import index_examples
from jazzmine_dspy.optimize.pipeline.refit import refit
from jazzmine_dspy.optimize.pipeline.rows import Exclusions
from jazzmine_dspy.optimize.recipe import Recipe
from jazzmine_dspy.program.heads import HEADS
from jazzmine_dspy.program.policy import FLOOR
from jazzmine_dspy.program.ports import HeadExample, HeadOutput, SelectionOutput
from jazzmine_dspy.program.recall_query import recall_query
from jazzmine_dspy.program.stage import CANDIDATES

pytest.importorskip("scipy")

LIBRARY = Path(__file__).parent / "library"
OWN: Any = ("head", "floor")


class ByHeart:
    """A head that knows the turns it has learnt from, and no other."""

    fingerprint = "by heart"

    def __init__(self, examples: list[HeadExample[Any]]) -> None:
        self.examples = examples
        self.seen = {each.given.turn.model_dump_json() for each in examples}

    def __deepcopy__(self, memo: dict[int, Any]) -> ByHeart:
        return self

    @classmethod
    def train(cls, examples: Any, seed: int) -> ByHeart:  # noqa: ARG003
        return cls(list(examples))

    def texts(self, message: str) -> tuple[str, ...]:
        return ()

    def predict(self, given: Any) -> HeadOutput[Any]:
        known = given.turn.model_dump_json() in self.seen
        return HeadOutput(Enhancement(enhanced_query="learnt" if known else "not seen"), 1.0)

    def to_state(self) -> Any:
        raise NotImplementedError

    from_state = to_state


class Chooses(ByHeart):
    """A head that always says the same flows."""

    def __init__(self, *flows: str) -> None:
        self.flows = flows

    def predict(self, given: Any) -> Any:
        return SelectionOutput(self.flows, 0.5, ())


class ChoosesByHeart(ByHeart):
    """A head of the selection that starts the labelled flows of the turns it has learnt from, and nothing else."""

    def predict(self, given: Any) -> Any:
        wanted = {each.given.turn.model_dump_json(): each.wanted for each in self.examples}
        return SelectionOutput(tuple(wanted.get(given.turn.model_dump_json(), ())), 1.0, ())


class Noted:
    """Progress that keeps the notes."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.phases: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)

    def phase(self, name: str, total: int | None) -> None:
        self.phases.append(name)

    def step(self, *_: Any, **__: Any) -> None: ...

    def close(self) -> None: ...


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(HEADS, "_values", dict(HEADS._values))
    monkeypatch.setattr(HEADS, "_origins", dict(HEADS._origins))
    HEADS.add("select.byheart", ChoosesByHeart, origin="a.test")
    for stage in ("enhance", "understand"):
        HEADS.add(f"{stage}.byheart", ByHeart, origin="a.test")


def started(**keys: Any) -> tuple[RunContext, Any, Any]:
    settings = {"lm": "none", "head": False, "tracking": "none", **keys}
    recipe = Recipe.model_validate({"name": "added", "dataset": str(LIBRARY), **settings})
    dataset = load_dataset(recipe.dataset)
    program, _ = run.start_program(recipe, dataset)
    context = RunContext(recipe, dataset, Noted(), Budget(recipe.budget))
    return context, program, dataset.examples("train")


@pytest.mark.parametrize("shape", ["staged", "fused"])
def test_a_trained_rewrite_is_not_learnt_by_heart_in_what_follows_it(shape: str) -> None:
    context, program, train = started(heads={"enhance": "byheart", "understand": "byheart"}, shape=shape)
    parts = run.fit_parts(context, program, train, OWN)
    written = {row.enhancement.enhanced_query for row in parts.selection.rows if row.enhancement}
    assert written == {"not seen"}
    understood: Any = parts.program.bindings.heads["understand"]
    assert {each.given.query for each in understood.examples} == {"not seen"}
    # What ships was trained on all turns.
    ships: Any = parts.program.bindings.heads["enhance"]
    assert len(ships.examples) == sum(each.labels.enhanced is not None for each in train)


def test_in_one_call_a_head_of_the_rewrite_sees_what_the_fitted_index_finds() -> None:
    context, program, train = started(heads={"enhance": "byheart"}, shape="fused")
    run.fit_parts(context, program, train, FLOOR["enhance"])
    phases = context.progress.phases  # type: ignore[attr-defined]
    assert phases.index("fit recall") < phases.index("train byheart for enhance")


def test_a_head_of_the_commands_learns_from_the_flows_of_who_chooses_them() -> None:
    context, program, train = started(heads={"understand": "byheart"})
    parts = run.fit_parts(context, program, train, FLOOR["enhance"])
    name = next(flow.name for flow in program.registry.values() if flow.slots)
    parts.program.bind(heads={"select": Chooses(name)})
    standing = race.start(context, parts.program, context.dataset.examples("dev_b"))
    chosen = replace(standing, orders={**FLOOR, "select": OWN})
    head: Any = run._heads_again(context, parts, chosen, train).bindings.heads["understand"]
    wanted = {slot.name for slot in program.registry[name].slots}
    # A question for what no flow offers starts none, whoever chooses.
    offered = [each for each in head.examples if each.given.turn.text != "do you sell stamps"]
    assert all(wanted <= {slot.name for slot in each.given.slots} for each in offered)
    same = run._heads_again(context, parts, standing, train).bindings.heads["understand"]
    assert same is parts.program.bindings.heads["understand"]


@pytest.mark.parametrize("own", [True, False])
@pytest.mark.parametrize("last", [True, False])
def test_a_head_of_the_commands_never_learns_from_a_selection_learnt_by_heart(own: bool, last: bool) -> None:
    heads = {"understand": "byheart", **({"select": "byheart"} if own else {})}
    context, program, train = started(heads=heads, head=not own, refit=True)
    parts = run.fit_parts(context, program, train, FLOOR["enhance"])
    standing = race.start(context, parts.program, context.dataset.examples("dev_b"))
    chosen = replace(standing, orders={**FLOOR, "select": OWN})
    if last:
        again = refit(
            context, parts.program.with_policy(chosen.policy(parts.program.policy)), parts.selection, ()
        )
        assert again is not None
        turns = context.dataset.examples("train", "dev_a", "dev_b")
        found: Any = run._train_paid(context, again.program, parts.selection, turns, STAGES[1:])["understand"]
    else:
        turns = train
        found = run._heads_again(context, parts, chosen, train).bindings.heads["understand"]
    by_turn = {each.turn.model_dump_json(): each for each in turns}
    if own:
        # The head by heart would have brought the slots of each labelled flow into play.
        for each in found.examples:
            example = by_turn[each.given.turn.model_dump_json()]
            running = (
                {slot.name for slot in program.registry[example.turn.flow].slots}
                if example.turn.flow
                else set()
            )
            assert {slot.name for slot in each.given.slots} <= running
    else:
        assert parts.selection.head is not None
        said = zip(parts.selection.rows, parts.selection.head.judgements, strict=True)
        chose = {row.example.turn.model_dump_json(): output.flows for row, output in said if not row.ruled}
        seen = {
            each.given.turn.model_dump_json(): {slot.name for slot in each.given.slots}
            for each in found.examples
        }
        for turn, flows in chose.items():
            wanted = {slot.name for name in flows for slot in program.registry[name].slots}
            assert turn not in seen or wanted <= seen[turn]
            if not by_turn[turn].turn.flow:
                assert turn not in seen or seen[turn] == wanted


def test_a_head_of_the_rewrite_sees_the_last_index_in_one_call() -> None:
    context, program, train = started(heads={"enhance": "byheart"}, shape="fused", refit=True)
    parts = run.fit_parts(context, program, train, FLOOR["enhance"])
    before = tuple(index_examples(program.registry, train[:5]))
    again = refit(context, with_index(parts.program, before), parts.selection, before)
    assert again is not None
    assert len(again.examples) > len(before)
    trained: Any = again.heads["enhance"]
    index: Any = again.program.bindings.recall
    exclude = Exclusions(context.dataset.examples("train", "dev_a", "dev_b"))
    by_turn = {
        each.turn.model_dump_json(): each for each in context.dataset.examples("train", "dev_a", "dev_b")
    }
    for each in trained.examples:
        example = by_turn[each.given.turn.model_dump_json()]
        query, beside = recall_query(example.turn, example.turn.text, program.registry)
        expected = index.recall(query, k=CANDIDATES, summaries=beside, exclude=exclude.of(example))
        assert [(one.name, one.score) for one in each.given.recalled] == [
            (one.name, one.score) for one in expected
        ]


class ReadsWords(ByHeart):
    """A head that says of itself, before it is trained, what it looks at: nothing."""

    @staticmethod
    def texts(message: str) -> tuple[str, ...]:  # type: ignore[override]  # noqa: ARG004
        return ()


def test_a_head_that_says_so_is_trained_on_what_it_sees_in_service() -> None:
    HEADS.add("understand.words", ReadsWords, origin="a.test")
    shown = {}
    for kind in ("words", "byheart"):
        context, program, train = started(heads={"understand": kind})
        head: Any = run.fit_parts(context, program, train, FLOOR["enhance"]).program.bindings.heads[
            "understand"
        ]
        shown[kind] = {each.given.features.shape[0] for each in head.examples}
    size = program.bindings.embedder.feature_size
    assert shown == {"words": {0}, "byheart": {size}}


def test_an_order_with_a_language_model_does_not_race_where_none_can_be_asked() -> None:
    context, program, _ = started(orders={"select": ("lm", "floor")}, lm="some/model")
    standing = race.start(context, program, context.dataset.examples("dev_b"))
    assert race.race_added(context, program, standing, "select", None) is standing
    assert context.progress.notes == ["lm does not race for select: no language model can be asked"]  # type: ignore[attr-defined]


def test_an_order_of_the_recipe_asks_our_head_under_its_gate() -> None:
    """The head chooses nothing and is never sure enough, so the floor answers everywhere."""
    context, program, _ = started(head=True, orders={"select": OWN})
    program.bind(heads={"select": Chooses()})
    standing = race.start(context, program, context.dataset.examples("dev_b"))
    gate = Ordered(OWN, 0.9, None, (), ())  # type: ignore[arg-type]
    gated = race.race_added(context, program, standing, "select", None, (None, gate)).heats[0]
    plain = race.race_added(context, program, standing, "select", None).heats[0]
    assert plain.difference.value != 0
    assert gated.difference.value == 0


def test_an_order_that_asks_floors_alone_is_not_what_stood_at_first() -> None:
    context, program, _ = started()
    standing = race.start(context, program, context.dataset.examples("dev_b"))
    assert standing.all_floors
    assert not replace(standing, orders={**FLOOR, "select": ("floor",)}).all_floors


@pytest.mark.parametrize(
    ("select", "understand", "asked"),
    [
        (("rule", "lm", "floor"), ("rule", "lm", "floor"), True),
        (("rule", "head", "lm", "floor"), ("rule", "floor"), True),
        (("rule", "head", "floor"), ("rule", "lm", "floor"), False),
        (("rule", "floor"), ("rule", "lm", "floor"), False),
    ],
)
def test_another_choice_of_flows_makes_another_prompt(select: Any, understand: Any, asked: bool) -> None:
    _, program, _ = started(shape="fused")
    orders = {**FLOOR, "select": select, "understand": understand}
    whole = program.with_policy(program.policy.model_copy(update={"orders": orders}))
    assert race._asked_before(whole) is asked


def test_an_order_of_the_rewrite_races_only_where_a_further_fit_is_paid(
    tiny: Callable[..., Recipe], scripts: Any, run_recipe: Any
) -> None:
    recipe = tiny(shape="staged", orders={"enhance": ("lm", "floor")}, budget={"lm_calls": 60})
    ran = run_recipe(recipe, scripts.lm_of("right"))
    assert any(note.startswith("lm does not race for the rewrite") for note in ran.progress.notes)
    assert "enhance" not in {heat["stage"] for heat in ran.result.manifest["race"]}
