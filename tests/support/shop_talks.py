"""What the tests of the runtime share: flows, a recall over their examples, decisions by hand, and talks."""

from __future__ import annotations

import asyncio
import itertools
import re
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any

import pytest

from jazzmine_dspy.memory.working import WorkingMemory
from jazzmine_dspy.models import Enhancement, FlowRegistry, Selection, Turn, TurnDecision
from jazzmine_dspy.program.policy import Policy
from jazzmine_dspy.program.ports import Recalled
from jazzmine_dspy.program.turn import TurnProgram
from jazzmine_dspy.runtime import NextStep, Runtime, TurnOutcome, apply

SHOP = Path(__file__).parent / "shop.yaml"
NOON = 1_700_000_000.0


class Overlap:
    """Recall by shared words: the best example's Jaccard similarity is a flow's score."""

    fingerprint = "overlap"

    def __init__(self, registry: FlowRegistry) -> None:
        self.registry = registry
        self.queries: list[str] = []

    def __deepcopy__(self, memo: dict[int, Any]) -> Overlap:
        return self

    def recall(
        self,
        query: str,
        *,
        k: int,
        summaries: Sequence[str] = (),
        allowed: Collection[str] | None = None,
        exclude: Collection[str] = (),
    ) -> list[Recalled]:
        self.queries.append(query)
        asked = _words(query)
        found = [
            Recalled(flow.name, max(len(asked & _words(e)) / len(asked | _words(e)) for e in flow.examples))
            for flow in self.registry.values()
            if allowed is None or flow.name in allowed
        ]
        return sorted(found, key=lambda one: -one.score)[:k]


def _words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text.lower())) or {""}


@pytest.fixture
def overlap() -> type[Overlap]:
    return Overlap


@pytest.fixture
def registry() -> FlowRegistry:
    return FlowRegistry.from_yaml(SHOP, agent_id="shop")


@pytest.fixture
def decision() -> Callable[..., TurnDecision]:
    """Makes decisions of commands, given as kinds or in their JSON form."""

    def make(*commands: Any, text: str = "x", **enhancement: Any) -> TurnDecision:
        return TurnDecision(
            enhancement=Enhancement(enhanced_query=text, **enhancement),
            selection=Selection(),
            commands=[{"type": one} if isinstance(one, str) else one for one in commands],
        )

    return make


class Talk:
    """A conversation with the machine alone."""

    def __init__(self, registry: FlowRegistry, decide: Callable[..., TurnDecision]) -> None:
        self.registry = registry
        self.decide = decide
        self.state = WorkingMemory(conversation_id="c1", user_id="u1")

    def __call__(self, *commands: Any) -> NextStep:
        before = self.state.model_dump_json()
        state, step = apply(self.state, self.decide(*commands), self.registry)
        assert self.state.model_dump_json() == before, "apply changed the state that it was given"
        self.state = state
        return step

    @property
    def slots(self) -> dict[str, Any]:
        return self.state.active_flow.values if self.state.active_flow else {}

    @property
    def flow(self) -> str | None:
        return self.state.active_flow.flow_name if self.state.active_flow else None

    @property
    def paused(self) -> list[str]:
        return [flow.flow_name for flow in self.state.paused]

    @property
    def ended(self) -> list[tuple[str, str]]:
        return [(record.flow_name, record.status.value) for record in self.state.flow_history]


@pytest.fixture
def make_talk(decision: Callable[..., TurnDecision]) -> Callable[[FlowRegistry], Talk]:
    return lambda registry: Talk(registry, decision)


@pytest.fixture
def talk(registry: FlowRegistry, decision: Callable[..., TurnDecision]) -> Talk:
    return Talk(registry, decision)


class ByHand(TurnProgram):
    """Decides by a table of texts; every turn that it saw is kept."""

    def __init__(self, registry: FlowRegistry, table: dict[str, TurnDecision], default: TurnDecision) -> None:
        super().__init__(registry)
        self.table = table
        self.default = default
        self.turns: list[Turn] = []
        self.running = 0

    async def adecide(self, turn: Turn | None = None, **options: Any) -> TurnDecision:
        assert turn is not None
        self.running += 1
        assert self.running == 1, "two turns of one conversation at once"
        self.turns.append(turn)
        for _ in range(3):
            await asyncio.sleep(0)
        self.running -= 1
        return self.table.get(turn.text, self.default)


@pytest.fixture
def floor(registry: FlowRegistry, overlap: Callable[..., Any]) -> TurnProgram:
    program = TurnProgram(registry, policy=Policy(fallback_score={"idle": 0.4, "busy": 0.6}))
    return program.bind(recall=overlap(registry)).with_policy("fallback")


@pytest.fixture
def by_hand(registry: FlowRegistry, decision: Callable[..., TurnDecision]) -> Callable[..., ByHand]:
    def make(**table: Any) -> ByHand:
        decided = {text.replace("_", " "): decision(*commands) for text, commands in table.items()}
        return ByHand(registry, decided, decision("chitchat"))

    return make


def ids() -> Callable[[], str]:
    numbers = itertools.count(1)
    return lambda: f"id-{next(numbers)}"


class Chat:
    """One user's side of a conversation; replies are recorded as a chat does."""

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime

    async def __call__(self, text: str, **options: Any) -> TurnOutcome:
        outcome = await self.runtime.process(conversation_id="c1", user_id="u1", text=text, **options)
        if not outcome.repeated and outcome.next.kind != "queue":
            # Flows run at once here, so the text for after their run is said.
            await self.runtime.record_reply("c1", outcome.next.text)
        return outcome

    async def lines(self, *texts: str) -> list[str]:
        return [(await self(text)).next.text for text in texts]


@pytest.fixture
def make_chat() -> Callable[[Runtime], Chat]:
    return Chat


@pytest.fixture
def chat(floor: TurnProgram) -> Chat:
    return Chat(Runtime(floor, clock=lambda: NOON, ids=ids(), agent_id="shop"))
