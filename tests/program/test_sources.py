"""Sources are registered: by stage and kind, ours and those of other packages, named by policies (A8, X1)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jazzmine_dspy import load, save
from jazzmine_dspy.models import FlowRegistry
from jazzmine_dspy.models.commands import ChitChat, SetSlot
from jazzmine_dspy.models.decision import STAGES, Selection
from jazzmine_dspy.models.errors import ExtensionError, InputError
from jazzmine_dspy.program.policy import FLOOR, Policy
from jazzmine_dspy.program.sources import SOURCES, source
from jazzmine_dspy.program.stage import Answer, Declined, Source
from jazzmine_dspy.program.turn import TurnProgram

Make = Callable[..., Any]


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test registers is gone after it."""
    monkeypatch.setattr(SOURCES, "_values", dict(SOURCES._values))
    monkeypatch.setattr(SOURCES, "_origins", dict(SOURCES._origins))


def ordered(**orders: Any) -> Policy:
    return Policy(shape="staged", orders={**FLOOR, **orders})


def saying(result: Any, stage: Any = "understand", kind: str = "mine") -> type[Source[Any]]:
    """Register a source that gives, or raises, this."""

    class Says(Source[Any]):
        def steps(self, context: Any) -> Any:
            yield from ()
            if isinstance(result, Exception):
                raise result
            return result

    return source(stage, kind)(Says)


@pytest.mark.row("X1")
def test_a_registered_source_answers_where_the_policy_names_it(registry: FlowRegistry) -> None:
    saying(Answer([SetSlot(name="order_id", value="4471")], 0.8))
    policy = ordered(understand=("mine", "floor"))
    program = TurnProgram(registry, policy=policy)
    record = program.decide(text="is there any news").stages["understand"]
    assert (record.source, record.confidence, record.degraded) == ("mine", 0.8, False)
    assert record.model_validate_json(record.model_dump_json()) == record
    passed = program.with_policy(policy.model_copy(update={"gates": {"understand": {"mine": 0.9}}}))
    assert passed.decide(text="is there any news").stages["understand"].source == "floor"
    assert program.with_policy("fallback").decide(text="any news").stages["understand"].source == "floor"


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("way", ["constructed", "copied", "loaded", "set"])
def test_a_policy_that_names_an_unknown_source_is_refused(
    registry: FlowRegistry, stage: str, way: str
) -> None:
    policy = ordered(**{stage: ("rule", "nobody", "floor")})
    program = TurnProgram(registry)
    state = program.dump_state() | {"policy": policy.model_dump(mode="json")}
    kept = program.policy
    ways: dict[str, Callable[[], Any]] = {
        "constructed": lambda: TurnProgram(registry, policy=policy),
        "copied": lambda: program.with_policy(policy),
        "loaded": lambda: program.load_state(state),
        "set": lambda: setattr(program, "policy", policy),
    }
    with pytest.raises(
        InputError, match=rf"'nobody'.*'{stage}'.*Use one of floor, .*rule, or install"
    ) as told:
        ways[way]()
    assert told.value.where == f"orders.{stage}"
    assert program.policy is kept


@pytest.mark.parametrize("order", [(), ("rule",), ("floor", "rule"), ("rule", "rule", "floor")])
def test_an_order_ends_with_the_floor_and_names_each_source_once(
    registry: FlowRegistry, order: tuple[str, ...]
) -> None:
    with pytest.raises(InputError, match="'select' does not end with the floor"):
        TurnProgram(registry, policy=ordered(select=order))
    with pytest.raises(InputError, match="'select' does not end with the floor"):
        TurnProgram(
            registry, policy=Policy(orders={stage: FLOOR[stage] for stage in STAGES if stage != "select"})
        )


class Fine(Source[Any]):
    def steps(self, context: Any) -> Any:
        yield from ()
        return Declined("nothing to say")


class Stepless(Source[Any]):
    pass


@pytest.mark.parametrize(
    ("stage", "kind", "thing", "message"),
    [
        ("chat", "mine", Fine, "the stage one of enhance, select, understand"),
        ("select", "rule", Fine, "taken twice: .*of jazzmine-dspy itself"),
        ("select", "floor", Fine, "taken twice: .*of jazzmine-dspy itself"),
        ("select", "Mine", Fine, "cannot be the name"),
        ("select", "", Fine, r"must be STAGE\.KIND"),
        ("select", "my.own", Fine, "no kind"),
        ("select", "mine", Stepless, "no method 'steps'"),
        ("select", "mine", dict, "no subclass of"),
    ],
)
def test_what_is_no_source_is_refused(stage: Any, kind: str, thing: Any, message: str) -> None:
    before = list(SOURCES)
    with pytest.raises(ExtensionError, match=message):
        source(stage, kind)(thing)
    assert list(SOURCES) == before


@pytest.mark.parametrize(
    ("stage", "result", "cause"),
    [
        ("understand", Answer(Selection()), "does not fit the stage"),
        ("understand", Answer(["start"]), "does not fit the stage"),
        ("enhance", Answer([]), "does not fit the stage"),
        ("select", Answer(None), "does not fit the stage"),
        ("select", Answer(Selection(), 1.5), "no probability"),
        ("select", Answer(Selection(), float("nan")), "no probability"),
        ("understand", [ChitChat()], "neither Answer nor Declined"),
        ("understand", None, "neither Answer nor Declined"),
        ("select", ZeroDivisionError("division by zero"), "ZeroDivisionError"),
        ("select", Declined("the table is gone", failed=True), "the table is gone"),
    ],
)
def test_a_source_that_breaks_degrades_the_turn_and_no_more(
    registry: FlowRegistry, stage: str, result: Any, cause: str
) -> None:
    saying(result, stage)
    program = TurnProgram(registry, policy=ordered(**{stage: ("mine", "floor")}))
    decision = program.decide(text="is there any news")
    record = decision.stages[stage]  # type: ignore[index]
    assert (record.source, record.degraded) == ("floor", True)
    assert "mine: " in str(record.cause)
    assert cause in str(record.cause)
    plain = program.with_policy("fallback").decide(text="is there any news")
    assert decision.commands == plain.commands


def test_a_source_that_cannot_be_made_degrades_the_turn_and_no_more(registry: FlowRegistry) -> None:
    class Unmade(Fine):
        def __init__(self, *given: Any) -> None:
            raise RuntimeError("the table is gone")

    source("enhance", "mine")(Unmade)
    program = TurnProgram(registry, policy=ordered(enhance=("mine", "floor")))
    record = program.decide(text="is there any news").stages["enhance"]
    assert (record.source, record.degraded, record.cause) == ("floor", True, "mine: RuntimeError")


def test_a_flow_that_may_not_be_chosen_is_not_chosen(registry: FlowRegistry) -> None:
    saying(Answer(Selection(flows=["paint_it"])), "select")
    program = TurnProgram(registry, policy=ordered(select=("mine", "floor")))
    decision = program.decide(text="is there any news")
    assert (decision.stages["select"].source, decision.selection.flows) == ("floor", [])


@pytest.mark.row("A8")
async def test_a_source_whose_part_is_not_bound_degrades_the_turn(
    registry: FlowRegistry, overlap: Make
) -> None:
    policy = ordered(select=("rule", "head", "lm", "floor"))
    program = TurnProgram(registry, policy=policy).bind(recall=overlap(registry))
    for decision in (program.decide(text="is it here"), await program.adecide(text="is it here")):
        record = decision.stages["select"]
        assert (record.source, record.degraded) == ("floor", True)
        assert "head: no head is bound" in str(record.cause)
        assert "lm: LMMissingError" in str(record.cause)
    # A policy that names neither is not degraded.
    assert not program.with_policy("fallback").decide(text="is it here").degraded


def test_the_fingerprint_tells_sources_of_one_name_apart(registry: FlowRegistry) -> None:
    policy = ordered(understand=("mine", "floor"))

    class One(Fine):
        fingerprint = "table of 2025"

    class Other(Fine):
        fingerprint = "table of 2026"

    found = set()
    for made in (One, Other):
        SOURCES._origins.pop("understand.mine", None)
        source("understand", "mine")(made)
        found.add(TurnProgram(registry, policy=policy).fingerprint)
    assert len(found) == 2


@pytest.mark.row("A8")
def test_an_artefact_that_names_an_unknown_source_is_refused(
    registry: FlowRegistry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    saying(Answer([]))
    folder = save(TurnProgram(registry, policy=ordered(understand=("mine", "floor"))), tmp_path / "shop")
    assert load(folder, bind=False).policy.orders["understand"] == ("mine", "floor")
    monkeypatch.delitem(SOURCES._values, "understand.mine")
    with pytest.raises(InputError, match=r"'mine', which nobody registered.*install the package that has it"):
        load(folder, bind=False)
