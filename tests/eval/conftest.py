"""Decisions made from labels: what a program that is always right would answer."""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest

from jazzmine_dspy.datasets import Example, Labels, load_dataset
from jazzmine_dspy.models import (
    STAGES,
    Command,
    Enhancement,
    Entity,
    Selection,
    SourceKind,
    StageRecord,
    Turn,
    TurnDecision,
    Usage,
    command,
)

ROOT = Path(__file__).resolve().parents[2]


def gold_decision(labels: Labels, turn: Turn, source: SourceKind = "lm") -> TurnDecision:
    """The decision that the labels ask for."""
    return TurnDecision(
        enhancement=Enhancement(
            enhanced_query=labels.enhanced if labels.enhanced is not None else turn.text,
            sentiment_score=labels.sentiment or 0.0,
            intent=labels.intent or "unknown",
            entities=[
                Entity(name=view.name, attributes=list(view.attributes)) for view in labels.entities or ()
            ],
            is_cancellation=bool(labels.is_cancellation),
            is_continuation=labels.is_continuation is not False,
        ),
        selection=Selection(
            flows=list(labels.flows or ()), candidates=[(name, 0.9) for name in labels.flows or ()]
        ),
        commands=list(labels.commands or ()),
        stages={
            stage: StageRecord(
                source=source,
                latency_ms=5.0,
                usage=Usage(lm_calls=1, prompt_tokens=100, completion_tokens=10)
                if source == "lm"
                else Usage(),
            )
            for stage in STAGES
        },
    )


class NoisyProgram:
    """Answers the labels, save for a seeded share of turns of each part; deterministic by turn.

    ``quality`` is the share of each part that is right. Turns whose text is in ``crashes`` raise.
    """

    def __init__(
        self,
        examples: list[Example],
        flows: list[str],
        *,
        quality: float,
        source: SourceKind = "lm",
        seed: int = 0,
        tokens: int = 400,
        latency_ms: float = 50.0,
        degraded: float = 0.0,
        crashed: float = 0.0,
    ) -> None:
        self.answers = {example.turn: example.labels for example in examples}
        self.flows = flows
        self.quality, self.source, self.seed = quality, source, seed
        self.tokens, self.latency_ms = tokens, latency_ms
        self.degraded, self.crashed = degraded, crashed

    def decide(self, turn: Turn, /, *, exclude: tuple[str, ...] = ()) -> TurnDecision:
        chance = random.Random(f"{self.seed}:{turn.digest}")
        if chance.random() < self.crashed:
            raise RuntimeError("the program fell over")
        labels = self.answers[turn]
        right = gold_decision(labels, turn, self.source)
        enhancement, selection, commands = right.enhancement, right.selection, right.commands
        if chance.random() > self.quality:
            enhancement = enhancement.model_copy(update={"enhanced_query": turn.text, "intent": "question"})
        if chance.random() > self.quality:
            wrong = [chance.choice(self.flows)] if selection.flows and chance.random() < 0.6 else []
            selection = selection.model_copy(update={"flows": wrong})
        if chance.random() > self.quality:
            commands = self._spoilt(list(commands), chance)
        confidence = min(1.0, max(0.0, chance.gauss(0.55 + 0.4 * (selection == right.selection), 0.15)))
        return TurnDecision(
            enhancement=enhancement,
            selection=selection,
            commands=commands,
            stages=self._records(chance, confidence),
        )

    async def adecide(self, turn: Turn, /, *, exclude: tuple[str, ...] = ()) -> TurnDecision:
        return self.decide(turn, exclude=exclude)

    def _spoilt(self, commands: list[Command], chance: random.Random) -> list[Command]:
        if not commands:
            return [command({"type": "chitchat"})]
        commands.pop(chance.randrange(len(commands)))
        return commands

    def _records(self, chance: random.Random, confidence: float) -> dict[str, StageRecord]:
        failed = chance.random() < self.degraded
        records = {}
        for stage in STAGES:
            local = chance.random() < 0.25
            source: SourceKind = "fallback" if failed else "rule" if local else self.source
            asked = source == "lm"
            records[stage] = StageRecord(
                source=source,
                confidence=confidence,
                degraded=failed,
                cause="the language model did not answer" if failed else None,
                latency_ms=chance.lognormvariate(0.0, 0.4) * (self.latency_ms if asked else 2.0),
                usage=Usage(lm_calls=1, prompt_tokens=self.tokens, completion_tokens=20)
                if asked
                else Usage(),
            )
        return records


@pytest.fixture(scope="session")
def support_flows() -> list[str]:
    return list(_dataset_flows())


def _dataset_flows() -> list[str]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return list(load_dataset(ROOT / "datasets" / "support").flows)


@pytest.fixture(scope="session")
def support(tmp_path_factory: pytest.TempPathFactory) -> list[Example]:
    """All labelled turns of the shipped dataset: labels are scored against themselves, nothing is tuned."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        dataset = load_dataset(ROOT / "datasets" / "support")
    dataset.open_test("checking the metrics, gold against gold", tmp_path_factory.mktemp("log"))
    return dataset.examples(*set(dataset.roles.values()))


@pytest.fixture(scope="session")
def gold() -> Callable[..., TurnDecision]:
    return gold_decision


@pytest.fixture(scope="session")
def noisy() -> type[NoisyProgram]:
    return NoisyProgram
