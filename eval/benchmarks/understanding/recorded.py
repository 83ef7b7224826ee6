"""What a large language model answers: read from recordings, or asked by file.

One recording holds the answers for all lines of a system: ``eval/recordings/understanding-SYSTEM``.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dspy

from jazzmine_dspy import eval as scoring
from jazzmine_dspy.datasets.schema import Example
from jazzmine_dspy.eval.evaluation import TurnResult
from jazzmine_dspy.eval.metrics import TurnScores, mean
from jazzmine_dspy.lm import resolve_lm
from jazzmine_dspy.models.awaiting import Awaiting, AwaitingGroup
from jazzmine_dspy.models.decision import TurnDecision
from jazzmine_dspy.models.registry import FlowRegistry
from jazzmine_dspy.program.turn import TurnProgram
from understanding.adapters import asking
from understanding.ground import Ground
from understanding.peers import Plain
from understanding.rehearsal import Staged, judged
from understanding.soni import Soni
from understanding.tokens import counted

OTHERS_TURNS, TEST_TURNS, COMPARED = 200, 120, 60
FEWEST = 30
"""Turns of a line that a recording has to hold an answer for, so that it says anything."""

Make = Callable[[FlowRegistry, dspy.LM], Any]


@dataclass(frozen=True)
class Answered:
    """What a system made of some turns.

    Args:
        right: Whether each turn is right, by key.
        clusters: The conversation of each, by key.
        opening: Whether nothing ran before, by key.
        tokens: Prompt tokens a turn, counted by one tokenizer for all systems.
        asked: Turns of the line; a recording may hold answers for a part of them.
    """

    right: Mapping[str, bool]
    clusters: Mapping[str, str]
    opening: Mapping[str, bool]
    tokens: float
    asked: int = 0

    @property
    def note(self) -> str:
        """How many turns have an answer, where not all do."""
        return (
            "" if len(self.right) >= self.asked else f"; {len(self.right)} of {self.asked} turns are answered"
        )

    def rows(self, name: str = "right") -> tuple[list[TurnScores], list[str]]:
        """Scores and conversations, as intervals are made of."""
        return [{name: mean(each)} for each in self.right.values()], [
            self.clusters[key] for key in self.right
        ]


def ours(flows: FlowRegistry, lm: dspy.LM) -> TurnProgram:
    """This project's prompt, asked of every turn, nothing compiled."""
    return asking(flows).bind(lm=lm)


def plain(flows: FlowRegistry, lm: dspy.LM) -> Plain:
    """The plain signature."""
    return Plain(flows, lm)


def soni_in(folder: Path) -> Make:
    """soni's module, installed in a folder."""
    return lambda flows, lm: Soni(flows, lm, folder)


@dataclass(frozen=True)
class Line:
    """A set of turns that one system is asked about."""

    name: str
    system: str
    turns: Callable[[Ground], Sequence[Staged]] = lambda _: ()
    examples: Callable[[Ground], Sequence[Example]] = lambda _: ()


LINES = {
    line.name: line
    for line in (
        Line("others-turns", "ours", turns=lambda ground: ground.others_turns(OTHERS_TURNS)),
        Line("test-turns", "ours", examples=lambda ground: ground.test_turns(TEST_TURNS)),
        *(
            Line(
                f"compared-{system}",
                system,
                turns=lambda ground: ground.suite_turns(COMPARED // 2),
                examples=lambda ground: ground.test_turns(COMPARED // 2),
            )
            for system in ("ours", "soni", "plain")
        ),
    )
}


def answered(line: Line, ground: Ground, lm: str, make: Make) -> Answered:
    """Ask a system about the turns of a line, and judge its answers.

    Args:
        lm: ``recording:FOLDER``, ``deferred:FOLDER`` or any other language model. A recording may answer a part of the
            turns; which ones, the draw of its batches has decided, so the others are left out.
        make: The system over a registry.

    Raises:
        Awaiting: answers are awaited; all requests are written.
        Stale: the recording holds no answer for any of the turns.
        RuntimeError: it holds answers for fewer than 30 of them.
    """
    model, tokens = counted(resolve_lm(lm))
    turns, examples = list(line.turns(ground)), list(line.examples(ground))
    by_registry: dict[str, list[Staged]] = defaultdict(list)
    for each in turns:
        by_registry[each.conversation.registry].append(each)
    gathered, results = AwaitingGroup(), dict[str, TurnResult]()
    asked: list[tuple[FlowRegistry, list[Example]]] = [
        (ground.told.registries[name], [each.example for each in group])
        for name, group in by_registry.items()
    ]
    partly = lm.startswith("recording:")
    for flows, some in [*asked, *([(ground.dataset.flows, examples)] if examples else [])]:
        program = make(flows, model)
        for group in [[each] for each in some] if partly else [some]:
            try:
                found = scoring.evaluate(program, group)
            except Awaiting as awaiting:
                gathered.append(awaiting)
                continue
            results |= {turn.example.key: turn for turn in found.turns}
    if not partly or not results:
        gathered.check()
    if gathered and len(results) < FEWEST:
        many = len(turns) + len(examples)
        raise RuntimeError(f"{len(results)} of {many} turns are answered, and {FEWEST} have to be")
    names = {**{e.key: e.conversation.id for e in turns}, **{e.key: e.conversation_id for e in examples}}
    turns = [each for each in turns if each.key in results]
    examples = [each for each in examples if each.key in results]
    decisions: dict[str, TurnDecision | None] = {key: result.decision for key, result in results.items()}
    right = judged(ground.told, turns, decisions)
    right |= {each.key: results[each.key].scores["commands_exact"].value == 1.0 for each in examples}
    return Answered(
        right,
        {key: names[key] for key in right},
        {**{each.key: each.opening for each in turns}, **{e.key: e.turn.flow is None for e in examples}},
        sum(tokens) / len(right) if right else 0.0,
        len(names),
    )


def asked_of(lines: Iterable[str], ground: Ground, lm: str, make: Make) -> tuple[int, int]:
    """Ask about the turns of some lines; how many answers are awaited, and in how many lines.

    Raises:
        Awaiting: requests could not be written.
    """
    keys: set[str] = set()
    unanswered = 0
    for name in lines:
        try:
            answered(LINES[name], ground, lm, make)
        except Awaiting as awaiting:
            if awaiting.problem is not None:
                raise
            keys |= awaiting.keys
            unanswered += 1
    return len(keys), unanswered
