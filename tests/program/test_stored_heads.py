"""Heads of any stage: bound by stage, read by the local decider, stored under their stage (C1, C2)."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jazzmine_dspy import load, save
from jazzmine_dspy.memory.procedural import FastembedEmbedder
from jazzmine_dspy.models import FlowRegistry, Turn
from jazzmine_dspy.models.base import sha256
from jazzmine_dspy.models.commands import SetSlot
from jazzmine_dspy.models.errors import ArtifactError, InputError
from jazzmine_dspy.program.heads.acts.fit import ActsHead
from jazzmine_dspy.program.heads.acts.model import shipped_head
from jazzmine_dspy.program.heads.features import STATE_SIZE
from jazzmine_dspy.program.heads.feeling.head import FeelingHead, shipped_feeling
from jazzmine_dspy.program.heads.selection import SelectionHead
from jazzmine_dspy.program.heads.storing import heads_from_bytes, heads_to_bytes
from jazzmine_dspy.program.policy import Policy
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


def program_of(registry: FlowRegistry, shape: Any = "staged") -> TurnProgram:
    return TurnProgram(registry, policy=Policy(shape=shape).named("local"))


BUSY = Turn(
    text="that 4471 is late, I fear", flow="track_order", awaiting="order_id", status="collecting_slots"
)


@pytest.mark.row("C1")
@pytest.mark.parametrize("shape", ["staged", "fused"])
async def test_a_bound_head_for_understanding_is_read(registry: FlowRegistry, shape: str) -> None:
    glossary = Glossary(["4471"])
    program = program_of(registry, shape).bind(heads={"understand": glossary})
    for decision in (program.decide(BUSY), await program.adecide(BUSY)):
        record = decision.stages["understand"]
        # It wants no features, so that no embedder is needed.
        assert (record.source, record.confidence, record.degraded) == ("local", 0.8, False)
        assert (decision.slot_name, decision.slot_value) == ("order_id", "4471")
    given = glossary.given[0]
    assert (given.turn, given.query, given.features.shape) == (BUSY, BUSY.text, (0,))
    assert [slot.name for slot in given.slots] == ["order_id"]
    assert tuple(given.flows) == tuple(registry)


@pytest.mark.row("C1")
@pytest.mark.parametrize("sure", [1.5, -0.5])
def test_a_head_whose_confidence_is_no_probability_leaves_the_values_to_their_types(
    registry: FlowRegistry, sure: float
) -> None:
    program = program_of(registry).bind(heads={"understand": Glossary(["is"], sure)})
    decision = program.decide(BUSY)
    record = decision.stages["understand"]
    assert (record.source, record.degraded, decision.slot_value) == ("fallback", True, "4471")
    assert "not a probability" in str(record.cause)


def test_a_head_sees_the_features_that_it_asks_for(registry: FlowRegistry, letters: Make) -> None:
    glossary = Glossary(["4471"], embeds=True)
    program = program_of(registry).bind(heads={"understand": glossary}, embedder=letters())
    program.decide(BUSY)
    rows = letters().features([BUSY.text, BUSY.text[:3]])
    assert np.array_equal(glossary.given[0].features, rows[0])
    assert [(text, list(row)) for text, row in glossary.given[0].clauses] == [(BUSY.text[:3], list(rows[1]))]
    record = program.bind(embedder=None).decide(BUSY).stages["understand"]
    assert (record.source, record.degraded) == ("fallback", True)
    assert "No embedding model" in str(record.cause)


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


@pytest.fixture(scope="module")
def heads() -> dict[Any, Any]:
    """One of each stage."""
    embedder = FastembedEmbedder()
    acts, feeling = shipped_head(embedder), shipped_feeling(embedder)
    assert acts is not None
    assert feeling is not None
    weights = np.ones((2, embedder.feature_size + STATE_SIZE))
    return {
        "understand": ActsHead.from_state(acts.to_state()),
        "select": SelectionHead(["track_order", "none"], weights, np.zeros(2)),
        "enhance": feeling,
    }


@pytest.mark.row("C2")
def test_heads_are_saved_and_loaded_under_their_stage(
    registry: FlowRegistry, heads: dict[Any, Any], tmp_path: Path
) -> None:
    program = program_of(registry).bind(heads=heads)
    folder = save(program, tmp_path / "shop")
    again = load(folder, bind=False)
    assert {stage: each.fingerprint for stage, each in again.bindings.heads.items()} == {
        stage: each.fingerprint for stage, each in heads.items()
    }
    assert [type(each) for each in again.bindings.heads.values()] == [FeelingHead, SelectionHead, ActsHead]
    assert again.decide(BUSY).content() == program.decide(BUSY).content()
    assert again.fingerprint == program.fingerprint
    data = (folder / "heads.safetensors").read_bytes()
    assert data == heads_to_bytes(again.bindings.heads)
    header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    names = set(header) - {"__metadata__"}
    assert names >= {"enhance/sentiment.weights", "select/bias", "select/weights", "understand/weights"}


@pytest.mark.row("A8")
def test_the_program_of_the_wheel_holds_its_heads() -> None:
    shipped = load(ROOT / "optimize" / "programs" / "support", bind=False)
    assert isinstance(shipped.bindings.heads["select"], SelectionHead)
    assert isinstance(shipped.bindings.heads["understand"], ActsHead)


def test_heads_that_cannot_be_stored_or_read(
    judge: Make, heads: dict[Any, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(
        ArtifactError, match=r"'select' is of the kind Judge, which no artefact stores.*Unbind"
    ):
        heads_to_bytes({"select": judge(None)})
    with pytest.raises(ArtifactError, match="'understand' is of the kind SelectionHead"):
        heads_to_bytes({"understand": heads["select"]})
    data = heads_to_bytes({"understand": heads["understand"]})
    for bad in (b"", data[:-1], data.replace(b"sure", b"pure"), data.replace(b"acts", b"arts")):
        with pytest.raises(ArtifactError, match="cannot be read") as caught:
            heads_from_bytes(bad, "here")
        assert (caught.value.where, caught.value.remedy) == ("here", "Compile the program again.")

    def quotes(state: object) -> None:
        raise ValueError("sk-0123 of ann@example.org")

    monkeypatch.setattr(ActsHead, "from_state", quotes)
    with pytest.raises(ArtifactError, match="cannot be read: ValueError") as caught:
        heads_from_bytes(data, "here")
    assert "sk-0123" not in str(caught.value)


@pytest.mark.row("A8")
def test_with_another_embedder_heads_are_left_out(
    registry: FlowRegistry,
    letters: Make,
    heads: dict[Any, Any],
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    program = program_of(registry).bind(embedder=letters(), heads={"select": heads["select"]})
    facts = {"embedder": {"model": "letters", "fingerprint": "letters 1"}}
    folder = save(program, tmp_path / "shop", facts=facts)
    assert list(load(folder, embedder=letters()).bindings.heads) == ["select"]
    other = letters()
    other.fingerprint = "letters 2"
    again = load(folder, embedder=other)
    assert list(again.bindings.heads) == []
    assert "the heads (select) were trained on letters 1 and not on letters 2" in caplog.text
    assert again.decide(text="is it here").stages["select"].source == "fallback"
