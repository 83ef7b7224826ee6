"""The sections of the table that need no language model, on grounds that are small and made by hand."""

from __future__ import annotations

import datetime as dt
import doctest
import importlib
import json
from pathlib import Path
from typing import Any

import pytest

import understanding_ground as small
from jazzmine_dspy.artifacts import save
from jazzmine_dspy.eval.suite import load_suite
from jazzmine_dspy.models.decision import StageRecord
from jazzmine_dspy.models.registry import FlowRegistry
from jazzmine_dspy.models.slots import ReadingContext, Slot
from jazzmine_dspy.program.turn import TurnProgram

gate, ground, latency, programs, public, rehearsal, values, without = (
    importlib.import_module(f"understanding.{name}")
    for name in ("gate", "ground", "latency", "programs", "public", "rehearsal", "values", "without")
)
AT = ReadingContext(dt.date(2026, 5, 11), "en", "US", "USD")


@pytest.fixture
def held(tmp_path: Path) -> Any:
    return ground.Ground(small.suite(tmp_path / "suite"), small.dataset(tmp_path / "data"), tmp_path)


@pytest.fixture
def program(tmp_path: Path) -> str:
    flows = FlowRegistry.from_yaml_text(small.FLOWS, where="here")
    save(TurnProgram(flows).with_policy("fallback"), tmp_path / "program", name="library")
    return str(tmp_path / "program")


@pytest.mark.parametrize("module", [gate, public, values])
def test_the_examples_are_right(module: Any) -> None:
    found = doctest.testmod(module)
    assert found.attempted
    assert not found.failed


def said(
    kind: str, text: str, right: Any, *held: Any, name: str = "c1", of: str = "suite", **more: Any
) -> Any:
    return values.Said(name, text, Slot(name="it", type=kind, **more), (right,), held, AT, of)


def test_a_value_is_read_where_the_type_reads_it_and_no_other() -> None:
    assert values.is_read(said("date", "can we say tomorrow?", "2026-05-12"))
    assert values.is_read(said("money", "it was $20", "20.00 USD"))
    assert not values.is_read(said("money", "it was $20", "21.00 USD"))
    assert not values.is_read(said("date", "June 1 or June 2", "2026-06-01"))
    # What is held is named by a correction too.
    assert values.is_read(said("date", "not June 1 but June 2", "2026-06-02", "2026-06-01"))
    assert values.is_read(said("text", "it is 4471", "4471", pattern="[0-9]{4}"))


def test_values_of_a_suite_are_what_each_message_adds(tmp_path: Path) -> None:
    found = list(values.of_suite(load_suite(small.suite(tmp_path / "suite"), only=["home"])))
    assert [(each.slot.name, each.right, each.held) for each in found] == [
        ("title", ("Emma",), ()),
        ("until", ("2026-06-01",), ()),
        ("until", ("2026-06-02",), ("2026-06-01",)),
    ]


def test_values_are_grouped_by_type_and_by_where_they_are_from() -> None:
    some = [said("date", "tomorrow", "2026-05-12", name=f"c{n}") for n in range(12)]
    some += [
        said("date", "soon", "2026-05-12", name="d1", of="test part"),
        said("choice", "red", "red", options=("red",)),
    ]
    found = {each.what: each for each in values.grouped(some)}
    dates = found["date, time, duration"]
    assert (dates.n, round(dates.value, 3), dates.missed) == (13, 0.923, True)
    assert found["choice"].value == 1.0
    assert found["boolean"].note == "no such turn"
    assert sum(each.what == "· test part" for each in values.grouped(some)) == len(values.GROUPS)


def test_figures_without_a_language_model(held: Any, program: str) -> None:
    found = list(without.figures(held, programs.Programs(program)))
    whole = [each for each in found if "turns right" in each.what and "all turns" not in each.what]
    assert [(each.n, each.conversations) for each in whole] == [(18, 4), (9, 2)]
    opening, mid = found[1], found[2]
    assert (opening.n, mid.n) == (8, 10)
    shipped = next(each for each in found if "commands_exact" in each.what)
    assert (shipped.n, shipped.target) == (18, 0.45)
    shares = [each.value for each in found if "conversations with all turns right" in each.what]
    assert len(shares) == 2
    assert all(0.0 <= share <= 1.0 for share in shares)


def test_a_gate_is_fitted_on_the_other_registries_alone() -> None:
    def turns(name: str, wrong: int) -> list[Any]:
        return [gate.Sure(name, f"{name}{n}", n % 2 == 0, False, n / 100, n >= wrong) for n in range(1, 100)]

    some = [*turns("a", 40), *turns("b", 40), *turns("c", 90)]
    kept = gate.left_out(some)
    # What "c" would want of a gate does not help it: that of "a" and "b" is taken, and most of what passes is wrong.
    assert {each.registry: sum(ok for one, ok in kept if one.registry == each.registry) for each in some}[
        "c"
    ] > 55
    found = {each.what: each for each in gate.told(kept)}
    assert found["turns kept"].n == 297
    assert found["right of those kept"].missed
    assert found["· opening messages: kept"].n + found["· mid-form messages: kept"].n == 297


def test_a_turn_is_as_sure_as_the_gate_of_a_whole_turn_is_told(held: Any) -> None:
    one = held.staged[0]
    program = TurnProgram(held.suite.registries[one.conversation.registry])
    ruled = StageRecord(source="rule")
    decision = rehearsal.decided(one.turn, []).model_copy(update={"stages": {"understand": ruled}})
    assert gate.confidence(program, one.turn, None) == 0.0
    assert 0.0 < gate.confidence(program, one.turn, decision) < 1.0
    failed = {"understand": ruled.model_copy(update={"degraded": True, "cause": "it failed"})}
    assert gate.confidence(program, one.turn, decision.model_copy(update={"stages": failed})) == 0.0


def test_overlap_is_told_in_shares_alone(held: Any) -> None:
    found = list(without.overlap(held))
    assert [each.what.split(",")[0] for each in found] == ["6 words in a row"] * 2 + ["3 words in a row"] * 2
    assert 0 < found[0].value < found[2].value < 1


def test_latency_is_told_both_ways_with_its_n(held: Any, program: str) -> None:
    found = list(latency.figures(held, program))
    assert [each.what.rsplit(": ", 1)[1] for each in found] == ["p50", "p95"] * 2
    assert "load of" in found[0].note
    assert all(each.value > 0 and each.n > 0 for each in found)
    assert [each.target for each in found] == [20.0, None] * 2


def sgd(folder: Path) -> None:
    def schema(service: str, intent: str, slot: str) -> list[dict[str, Any]]:
        spoken = {"name": slot, "description": "A sum.", "is_categorical": False, "possible_values": []}
        told = {"name": intent, "description": "Pay.", "required_slots": [slot], "optional_slots": {}}
        return [{"service_name": service, "description": "Bank", "slots": [spoken], "intents": [told]}]

    def frame(slots: dict[str, list[str]], *actions: dict[str, str]) -> dict[str, Any]:
        state = {"active_intent": "Pay", "slot_values": slots, "requested_slots": []}
        return {"service": "Banks_2", "actions": list(actions), "slots": [], "state": state}

    ask = {"service": "Banks_2", "slots": [], "actions": [{"act": "REQUEST", "slot": "sum", "values": []}]}
    inform = {"act": "INFORM", "slot": "sum", "values": ["50"]}
    intent = {"act": "INFORM_INTENT", "slot": "intent", "values": ["Pay"]}
    turns = [
        {"speaker": "USER", "utterance": "pay a bill", "frames": [frame({}, intent)]},
        {"speaker": "SYSTEM", "utterance": "How much?", "frames": [ask]},
        {"speaker": "USER", "utterance": "50", "frames": [frame({"sum": ["50"]}, inform)]},
    ]  # fmt: skip
    talks = [{"dialogue_id": f"{n}_0", "services": ["Banks_2"], "turns": turns} for n in range(12)]
    (folder / "dev").mkdir(parents=True)
    (folder / "dev" / "dialogues_001.json").write_text(json.dumps(talks), "utf-8")
    (folder / "dev" / "schema.json").write_text(json.dumps(schema("Banks_2", "Pay", "sum")), "utf-8")
    other = folder / "sgd_x" / "data" / "v1" / "dev"
    other.mkdir(parents=True)
    (other / "schema.json").write_text(json.dumps(schema("Banks_21", "Send", "total")), "utf-8")


def test_public_dialogues_are_measured_in_both_wordings_or_skipped_with_the_reason(
    held: Any, program: str, tmp_path: Path
) -> None:
    over = programs.Programs(program)
    (nothing,) = public.sgd(held, over)
    assert nothing.note.startswith("skipped: there is no ")
    (nothing,) = public.star(held, over)
    assert nothing.note.startswith("skipped: there is no ")
    sgd(tmp_path / "sgd")
    found = {each.what: each for each in public.sgd(held, over)}
    assert found["F1, slot values"].value == 1.0
    drop = found["drop under SGD-X v1, slot values"]
    assert (drop.value, drop.missed, drop.conversations) == (0.0, False, 12)
    assert found["drop under SGD-X v5"].note.startswith("skipped: ")
    # No flow runs before the one that starts, so nothing is a change of intent.
    assert found["· intent change (another flow runs)"].note == "no such turn"
