"""P4: many turns at once are decided as they would be one by one."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import dspy
import pytest

from jazzmine_dspy.memory.procedural import FastembedEmbedder, FlowIndex
from jazzmine_dspy.models import FlowRegistry, Turn
from jazzmine_dspy.models.errors import EmbeddingError, InputError
from jazzmine_dspy.program import batch
from jazzmine_dspy.program.policy import Policy
from jazzmine_dspy.program.ports import SelectionOutput
from jazzmine_dspy.program.turn import TurnProgram

# Vectors are computed anew each time: one from memory would hide a difference.
pytestmark = pytest.mark.usefixtures("own_embedding_models")

Make = Callable[..., Any]
P4 = pytest.mark.row("P4")
TURNS = [
    Turn(text="where is my order"),
    Turn(text="cancel my order 4471"),
    Turn(text="make it express", flow="change_shipping", awaiting="speed", slots={"order_id": "3302"}),
    Turn(text="4471", flow="track_order", awaiting="order_id", status="collecting_slots"),
    Turn(text="hello"),
    Turn(text="wo ist meine Bestellung?"),
    Turn(text="x " * 100),
    Turn(text="where is my order"),
    Turn(text="yes", flow="cancel_order", confirming="Cancel 4471?"),
    Turn(text="buy a gift card", episode_summaries=["asked for the opening hours"]),
]


@P4
@pytest.mark.parametrize("shape", ["staged", "fused"])
def test_decisions_are_those_of_one_by_one_with_real_embeddings(registry: FlowRegistry, shape: Any) -> None:
    embedder = FastembedEmbedder()
    index = FlowIndex(registry, embedder)
    policy = Policy(shape=shape, fallback_score={"idle": 0.1, "busy": 0.3}).named("fallback")
    program = TurnProgram(registry, policy=policy).bind(recall=index, embedder=embedder)
    alone = [program.decide(turn).content() for turn in TURNS]
    index.clear_cache()
    assert [one.content() for one in program.decide_many(TURNS, workers=3)] == alone
    index.clear_cache()
    assert [one.content() for one in asyncio.run(program.adecide_many(TURNS, workers=3))] == alone
    assert len({str(one["selection"]["flows"]) for one in alone}) > 2


@pytest.fixture
def headed(registry: FlowRegistry, overlap: Make, letters: Make, judge: Make) -> TurnProgram:
    """A program with a head that wants to see a part of each message."""

    def says(seen: Any) -> SelectionOutput:
        name = seen.recalled[0].name
        return SelectionOutput((name,), float(seen.features[1]) % 1, ((name, 0.6),))

    head = judge(says)
    head.texts = lambda text: (text, text[:5]) if len(text) > 9 else (text,)
    policy = Policy(deciders=(("local", None),))
    return TurnProgram(registry, policy=policy).bind(
        recall=overlap(registry), embedder=letters(), heads={"select": head}, clock=lambda: 0.0
    )


@P4
def test_texts_and_their_parts_are_embedded_together_first(headed: TurnProgram) -> None:
    headed.decide_many(TURNS, workers=1)
    first = headed.bindings.embedder.asked[0]
    assert set(first) == {turn.text for turn in TURNS} | {t.text[:5] for t in TURNS if len(t.text) > 9}
    assert len(set(first)) == len(first)
    headed.bindings.embedder.asked.clear()
    headed.with_policy("fallback").decide_many(TURNS)
    assert headed.bindings.embedder.asked == []


@P4
def test_order_is_kept_and_no_more_than_so_many_are_under_way(
    headed: TurnProgram, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch, "AHEAD", 7)
    many = [Turn(text=f"{text} {n}") for n in range(9) for text in ("where is my order", "cancel my order")]
    alone = [headed.decide(turn).content() for turn in many]
    assert [one.content() for one in headed.decide_many(many, workers=5)] == alone
    assert headed.decide_many([]) == []

    async def counted() -> tuple[list[Any], int]:
        running, most = 0, 0
        real = TurnProgram.adecide

        async def slow(self: TurnProgram, turn: Any = None, **options: Any) -> Any:
            nonlocal running, most
            running += 1
            most = max(most, running)
            for _ in range(5):
                await asyncio.sleep(0)
            decision = await real(self, turn, **options)
            running -= 1
            return decision

        monkeypatch.setattr(TurnProgram, "adecide", slow)
        return await headed.adecide_many(many, workers=3), most

    decisions, most = asyncio.run(counted())
    assert [one.content() for one in decisions] == alone
    assert most == 3


@P4
@pytest.mark.parametrize("style", ["sync", "async"])
def test_one_turn_that_fails_degrades_alone(headed: TurnProgram, letters: Make, style: str) -> None:
    class Picky(letters):  # type: ignore[misc]
        def features(self, texts: Any) -> Any:
            if any("gift" in text for text in texts):
                raise EmbeddingError("that one cannot be read")
            return super().features(texts)

    headed.bind(embedder=Picky())
    made = headed.decide_many(TURNS) if style == "sync" else asyncio.run(headed.adecide_many(TURNS))
    assert [number for number, one in enumerate(made) if one.degraded] == [9]
    assert "cannot be read" in str(made[9].stages["select"].cause)
    assert made[9].selection.flows == ["gift_card"]


@P4
def test_excluded_conversations_and_the_deadline_go_with_their_turn(headed: TurnProgram) -> None:
    headed.decide_many(TURNS[:2], excludes=[["c1"], ["c2", "c3"]], workers=1)
    assert [sorted(asked["exclude"]) for asked in headed.bindings.recall.asked] == [["c1"], ["c2", "c3"]]
    late = headed.decide_many(TURNS[:2], deadline=0.0)
    assert all("deadline" in str(one.stages["select"].cause) for one in late)


@P4
@pytest.mark.parametrize("style", ["sync", "async"])
def test_turns_whose_parts_hang_end_with_their_deadline(
    headed: TurnProgram, letters: Make, style: str
) -> None:
    """Each of them, and the others behind them: the calls never return while the batch is under way."""
    go = threading.Event()

    class Hanging(letters):  # type: ignore[misc]
        def features(self, texts: Any) -> Any:
            # The batch embeds its texts ahead, which has no deadline; what a turn asks for hangs.
            if len(texts) < 4:
                go.wait()
            return super().features(texts)

    headed.bind(embedder=Hanging())
    try:
        if style == "sync":
            made = headed.decide_many(TURNS, workers=5, deadline=0.05)
        else:
            runner = asyncio.Runner()
            made = runner.run(headed.adecide_many(TURNS, workers=5, deadline=0.05))
    finally:
        go.set()
    if style == "async":
        runner.close()
    assert len(made) == len(TURNS)
    for decision in made:
        assert decision.stages["select"].source in ("fallback", "rule")
        assert decision.stages["select"].source == "rule" or "deadline" in str(
            decision.stages["select"].cause
        )
    assert sum(decision.degraded for decision in made) > 4


@P4
def test_the_language_model_of_the_surroundings_is_asked(speak: Make, make_program: Make) -> None:
    lm = speak(select={"flows": ["A"]})
    program = make_program(None)
    with dspy.context(lm=lm):
        decisions = program.decide_many([TURNS[0], TURNS[7]], workers=2)
    assert [one.selection.flows for one in decisions] == [["track_order"]] * 2
    assert lm.engine.calls == 6


@P4
async def test_cancelling_ends_what_is_under_way(
    headed: TurnProgram, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, ended = asyncio.Event(), []

    async def hang(self: TurnProgram, turn: Any = None, **options: Any) -> Any:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(turn.text)

    monkeypatch.setattr(TurnProgram, "adecide", hang)
    task = asyncio.create_task(headed.adecide_many(TURNS, workers=2))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert set(ended) <= {turn.text for turn in TURNS[:2]}
    assert 1 <= len(ended) <= 2


@P4
@pytest.mark.parametrize(
    ("turns", "options", "says"),
    [
        (["where is it"], {}, "Item 0 must be a Turn, not str"),
        (TURNS, {"workers": 0}, "0 workers"),
        (TURNS, {"excludes": [[]]}, "10 turns came with 1"),
    ],
)
async def test_bad_input_is_told_before_anything_is_decided(
    headed: TurnProgram, turns: Any, options: dict[str, Any], says: str
) -> None:
    with pytest.raises(InputError, match=says):
        headed.decide_many(turns, **options)
    with pytest.raises(InputError, match=says):
        await headed.adecide_many(turns, **options)
    assert headed.bindings.recall.asked == headed.bindings.embedder.asked == []
