"""The base program, which learnt from no label, in a run: its row, and that nothing worse than it ships."""

from __future__ import annotations

from typing import Any

import pytest

from jazzmine_dspy.artifacts import BASE, load


@pytest.mark.row("O5", "C5")
def test_the_base_has_a_row_of_its_own_on_the_same_turns(taught: Any) -> None:
    rows = {system.name: system.evaluation for system in taught.result.report.systems}
    assert [turn.example.key for turn in rows["base"].turns] == [
        turn.example.key for turn in rows["shipped"].turns
    ]
    assert not rows["base"].usage["lm_calls_per_turn"]
    assert "over base" in " ".join(gain.name for gain in taught.result.report.gains)


@pytest.mark.row("O5")
def test_the_base_is_a_row_of_every_report(taught: Any, taught_staged: Any, wrong: Any, without: Any) -> None:
    for ran in (taught, taught_staged, wrong, without):
        assert BASE in [system.name for system in ran.result.report.systems]
        assert ran.result.manifest["programs"][0]["name"] == BASE
        assert ran.result.report.learning[0].conversations == 0


@pytest.mark.row("O5")
def test_where_the_base_ships_it_loads_and_decides_as_the_base(wrong: Any) -> None:
    program = load(wrong.result.folder)
    plain = load("base", flows=program.registry)
    assert wrong.result.shipped == BASE
    assert not program.bindings.heads
    for text in ("I want to borrow a book", "when are you open", "never mind"):
        ours, theirs = program.decide(text=text), plain.decide(text=text)
        assert (ours.commands, ours.selection.flows) == (theirs.commands, theirs.selection.flows)


@pytest.mark.row("C5")
def test_what_does_worse_than_the_base_never_ships(wrong: Any) -> None:
    manifest = wrong.result.manifest
    others = [each for each in manifest["programs"] if each["name"] != BASE]
    assert {each["kind"] for each in others} == {"local", "lm", "cascade"}
    assert all(each["worth"] <= 0 for each in others)
    scores = manifest["scores"]
    assert scores["shipped"] == scores["base"]
