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
def test_where_the_base_ships_it_loads_and_decides_as_the_base(wrong: Any) -> None:
    program = load(wrong.result.folder)
    plain = load("base", flows=program.registry)
    assert set(wrong.result.shipped.values()) == {BASE}
    assert not program.bindings.heads
    for text in ("I want to borrow a book", "when are you open", "never mind"):
        ours, theirs = program.decide(text=text), plain.decide(text=text)
        assert (ours.commands, ours.selection.flows) == (theirs.commands, theirs.selection.flows)


@pytest.mark.row("C5")
def test_what_does_worse_than_the_base_never_ships(wrong: Any) -> None:
    manifest = wrong.result.manifest
    [last] = [heat for heat in manifest["race"] if heat["stage"] == BASE]
    assert last["challenger"] == "compiled"
    assert last["won"] is False
    assert last["difference"] <= 0
    scores = manifest["scores"]
    assert scores["shipped"] == scores["base"]
