"""Heads of any stage: bound by stage, asked where the policy names them, stored under their stage (C1, C2, X1)."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jazzmine_dspy import load, save
from jazzmine_dspy.models import FlowRegistry, Turn
from jazzmine_dspy.models.base import sha256
from jazzmine_dspy.models.commands import SetSlot
from jazzmine_dspy.models.decision import Enhancement
from jazzmine_dspy.models.errors import ArtifactError, ExtensionError, InputError
from jazzmine_dspy.program.heads import (
    HEADS,
    HeadState,
    SelectionHead,
    head,
    heads_from_bytes,
    heads_to_bytes,
)
from jazzmine_dspy.program.policy import FLOOR, Policy
from jazzmine_dspy.program.ports import HeadInput, HeadOutput
from jazzmine_dspy.program.turn import TurnProgram

Make = Callable[..., Any]
ROOT = Path(__file__).resolve().parents[2]


class Glossary:
    """Fills the first slot in play with the known word of a message."""

    def __init__(self, words: list[str], sure: float = 0.8, embeds: bool = False) -> None:
        self.words, self.sure, self.embeds = words, np.array([sure]), embeds
        self.given: list[HeadInput] = []

    def __deepcopy__(self, memo: Any) -> Glossary:
        return self

    @property
    def fingerprint(self) -> str:
        return sha256([self.words, float(self.sure[0])])

    def texts(self, message: str) -> tuple[str, ...]:
        return (message, message[:3]) if self.embeds else ()

    def predict(self, given: HeadInput) -> HeadOutput[Any]:
        self.given.append(given)
        found = [word for word in self.words if word in given.turn.text]
        commands = [
            SetSlot(name=slot.name, value=word) for slot, word in zip(given.slots, found, strict=False)
        ]
        return HeadOutput(commands, float(self.sure[0]))

    def to_state(self) -> HeadState:
        return HeadState({"sure": self.sure}, {"words": self.words})

    @classmethod
    def from_state(cls, state: HeadState) -> Glossary:
        return cls(state.settings["words"], float(state.arrays["sure"][0]))


class Shout(Glossary):
    """A head of the rewrite."""

    def predict(self, given: HeadInput) -> HeadOutput[Any]:
        self.given.append(given)
        return HeadOutput(Enhancement(enhanced_query=given.turn.text.upper()), 0.9)


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(HEADS, "_values", dict(HEADS._values))
    monkeypatch.setattr(HEADS, "_origins", dict(HEADS._origins))
    head("understand", "glossary")(Glossary)
    head("enhance", "shout")(Shout)


def program_of(registry: FlowRegistry, shape: str = "staged", **orders: Any) -> TurnProgram:
    named = {"understand": ("rule", "head", "lm", "floor"), **orders}
    return TurnProgram(registry, policy=Policy(shape=shape, orders={**FLOOR, **named}))  # type: ignore[arg-type]


BUSY = Turn(
    text="that 4471 is late, I fear", flow="track_order", awaiting="order_id", status="collecting_slots"
)


@pytest.mark.row("C1")
@pytest.mark.parametrize("shape", ["staged", "fused"])
async def test_a_head_for_understanding_is_asked_where_its_order_names_it(
    registry: FlowRegistry, shape: str
) -> None:
    glossary = Glossary(["4471"])
    program = program_of(registry, shape).bind(heads={"understand": glossary})
    for decision in (program.decide(BUSY), await program.adecide(BUSY)):
        record = decision.stages["understand"]
        # It wants no features, so that no embedder is needed.
        assert (record.source, record.confidence, record.degraded) == ("head", 0.8, False)
        assert (decision.slot_name, decision.slot_value) == ("order_id", "4471")
    given = glossary.given[0]
    assert (given.turn, given.query, given.features.shape) == (BUSY, BUSY.text, (0,))
    assert [slot.name for slot in given.slots] == ["order_id"]
    assert tuple(given.flows) == tuple(registry)
    passed = program.with_policy(program.policy.model_copy(update={"gates": {"understand": {"head": 0.9}}}))
    record = passed.decide(BUSY).stages["understand"]
    assert (record.source, "LMMissingError" in str(record.cause)) == ("floor", True)


def test_a_head_sees_the_features_that_it_asks_for(registry: FlowRegistry, letters: Make) -> None:
    glossary = Glossary(["4471"], embeds=True)
    program = program_of(registry).bind(heads={"understand": glossary}, embedder=letters())
    program.decide(BUSY)
    rows = letters().features([BUSY.text, BUSY.text[:3]])
    assert np.array_equal(glossary.given[0].features, rows[0])
    assert [(text, list(row)) for text, row in glossary.given[0].clauses] == [(BUSY.text[:3], list(rows[1]))]
    record = program.bind(embedder=None).decide(BUSY).stages["understand"]
    assert (record.source, record.degraded) == ("floor", True)
    assert "No embedding model" in str(record.cause)


def test_a_head_for_the_rewrite(registry: FlowRegistry) -> None:
    program = program_of(registry, enhance=("head", "floor"), understand=("head", "floor"))
    glossary = Glossary(["4471"])
    decision = program.bind(heads={"enhance": Shout([]), "understand": glossary}).decide(BUSY)
    assert decision.enhancement.enhanced_query == BUSY.text.upper()
    # Values are read from what the user wrote, the rewrite beside it.
    assert (glossary.given[0].turn.text, glossary.given[0].query) == (BUSY.text, BUSY.text.upper())


def test_heads_are_bound_by_stage(registry: FlowRegistry, judge: Make) -> None:
    one, two = Glossary(["a"]), judge(None)
    program = program_of(registry).bind(heads={"understand": one}).bind(heads={"select": two})
    assert dict(program.bindings.heads) == {"select": two, "understand": one}
    assert copy.deepcopy(program).bindings is program.bindings
    with pytest.raises(TypeError):
        program.bindings.heads["enhance"] = one  # type: ignore[index]
    before = program.fingerprint
    assert program.bind(heads={"understand": Glossary(["b"])}).fingerprint != before
    assert list(program.bind(heads={"understand": None}).bindings.heads) == ["select"]
    with pytest.raises(InputError, match=r"no stage 'chat'.*enhance, select, understand"):
        program.bind(heads={"chat": one})
    with pytest.raises(InputError, match=r"Nothing is bound as 'head'.*heads"):
        program.bind(head=one)


@pytest.mark.row("C2")
def test_heads_are_saved_and_loaded_under_their_stage(registry: FlowRegistry, tmp_path: Path) -> None:
    program = program_of(registry, understand=("rule", "head", "floor"), enhance=("head", "floor"))
    select = SelectionHead(["track_order", "none"], np.ones((2, 12)), np.zeros(2))
    heads = {"understand": Glossary(["4471"], 0.7), "enhance": Shout([], 0.6), "select": select}
    program.bind(heads=heads)
    folder = save(program, tmp_path / "shop")
    again = load(folder, bind=False)
    assert {stage: each.fingerprint for stage, each in again.bindings.heads.items()} == {
        stage: each.fingerprint for stage, each in heads.items()
    }
    assert [type(each) for each in again.bindings.heads.values()] == [Shout, SelectionHead, Glossary]
    assert again.decide(BUSY).content() == program.decide(BUSY).content()
    assert again.fingerprint == program.fingerprint
    data = (folder / "heads.safetensors").read_bytes()
    assert data == heads_to_bytes(again.bindings.heads)
    header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    names = set(header) - {"__metadata__"}
    assert names == {"enhance/sure", "select/bias", "select/weights", "understand/sure"}


def test_a_lone_head_of_selection_as_it_was_stored_before() -> None:
    made = SelectionHead(["track_order", "none"], np.ones((2, 12)), np.zeros(2))
    found = heads_from_bytes(made.to_bytes())
    assert {stage: each.fingerprint for stage, each in found.items()} == {"select": made.fingerprint}
    shipped = load(ROOT / "optimize" / "programs" / "support", bind=False)
    assert isinstance(shipped.bindings.heads["select"], SelectionHead)


def test_heads_that_cannot_be_stored_or_read(judge: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ArtifactError, match=r"'select' \(Judge\) is of no registered kind.*@head"):
        heads_to_bytes({"select": judge(None)})
    with pytest.raises(ArtifactError, match="is of no registered kind"):
        heads_to_bytes({"select": Glossary([])})
    data = heads_to_bytes({"understand": Glossary(["4471"])})
    for bad in (b"", data[:-1], data.replace(b"words", b"world"), data.replace(b"kind", b"kinf")):
        with pytest.raises(ArtifactError, match="cannot be read") as told:
            heads_from_bytes(bad, "here")
        assert (told.value.where, told.value.remedy) == ("here", "Compile the program again.")

    def quotes(state: object) -> None:
        raise ValueError("sk-0123 of ann@example.org")

    with monkeypatch.context() as patched:
        patched.setattr(Glossary, "from_state", quotes)
        with pytest.raises(ArtifactError, match="cannot be read: ValueError") as told:
            heads_from_bytes(data, "here")
    assert "sk-0123" not in str(told.value)
    monkeypatch.delitem(HEADS._values, "understand.glossary")
    with pytest.raises(
        ArtifactError, match="'understand' is of the kind 'glossary', which nobody registered"
    ):
        heads_from_bytes(data)


@pytest.mark.parametrize(
    ("stage", "kind", "thing", "message"),
    [
        ("chat", "mine", Glossary, "the stage one of"),
        ("select", "selection", Glossary, "taken twice: .*of jazzmine-dspy itself"),
        ("understand", "mine", dict, "no method 'texts'"),
        ("understand", "mine", 7, "no class"),
    ],
)
def test_what_is_no_head_is_refused(stage: Any, kind: str, thing: Any, message: str) -> None:
    with pytest.raises(ExtensionError, match=message):
        HEADS.add(f"{stage}.{kind}", thing, origin="a.test")


def test_with_another_embedder_only_heads_that_read_words_go_on(
    registry: FlowRegistry, letters: Make, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    select = SelectionHead(["track_order", "none"], np.ones((2, 35)), np.zeros(2))
    heads = {"select": select, "understand": Glossary(["4471"])}
    program = program_of(registry, select=("rule", "head", "floor")).bind(embedder=letters(), heads=heads)
    facts = {"embedder": {"model": "letters", "fingerprint": "letters 1"}}
    folder = save(program, tmp_path / "shop", facts=facts)
    assert list(load(folder, embedder=letters()).bindings.heads) == ["select", "understand"]
    other = letters()
    other.fingerprint = "letters 2"
    again = load(folder, embedder=other)
    assert list(again.bindings.heads) == ["understand"]
    assert "the heads (select) were trained on letters 1 and not on letters 2" in caplog.text
    record = again.decide(text="is it here").stages["select"]
    assert (record.degraded, "no head is bound" in str(record.cause)) == (True, True)
