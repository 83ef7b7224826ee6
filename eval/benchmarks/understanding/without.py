"""What is right without a language model: turns of unseen registries, the shipped test part, whole conversations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from jazzmine_dspy.eval.intervals import summarise
from jazzmine_dspy.eval.metrics import TurnScores, mean
from jazzmine_dspy.eval.suite import Suite, run_suite
from understanding.figures import Figure, by_part, figure
from understanding.ground import Ground
from understanding.overlap import overlaps, training_texts
from understanding.programs import Programs
from understanding.rehearsal import Staged, decided, judged

SECTION = "without a language model"
OVERLAP = "wording of the suite's unseen registries that stands in training texts"


def figures(ground: Ground, programs: Programs) -> Iterator[Figure]:
    """Turns and conversations of the suite, and the shipped test part."""
    unseen, working = (
        ", ".join(sorted(ground.unseen.registries)),
        ", ".join(sorted(ground.working.registries)),
    )
    yield from _turns(
        programs, ground.unseen, ground.staged, f"suite, unseen registries ({unseen}): turns right", 0.38
    )
    yield from _turns(
        programs, ground.working, ground.staged_working, f"suite, working registry ({working}): turns right"
    )
    yield from shipped(ground, programs)
    title = "suite, unseen registries: conversations with all turns right"
    yield conversations(programs, ground.unseen, title, 0.30)
    title = "suite, working registry: conversations with all turns right"
    yield conversations(programs, ground.working, title)


def _turns(
    programs: Programs, suite: Suite, turns: Sequence[Staged], title: str, target: float | None = None
) -> Iterator[Figure]:
    _, right = programs.on_suite(suite, turns)
    rows: list[TurnScores] = [{"right": mean(right[each.key])} for each in turns]
    clusters = [each.conversation.id for each in turns]
    opening = [each.opening for each in turns]
    yield from by_part(SECTION, title, rows, clusters, opening, "right", target=target)
    silent = judged(suite, turns, {each.key: decided(each.turn, []) for each in turns})
    nothing: list[TurnScores] = [{"right": mean(silent[each.key])} for each in turns]
    yield figure(SECTION, "· if nothing were understood", summarise(nothing, clusters).get("right"))


def shipped(ground: Ground, programs: Programs) -> Iterator[Figure]:
    """``commands_exact`` on the test part of the dataset whose flows the program was compiled for."""
    found = programs.evaluated(ground.dataset.flows, ground.test)
    yield from by_part(
        SECTION,
        f"{ground.dataset.name}, test part (seen registry): `commands_exact`",
        [turn.scores for turn in found.turns],
        [turn.example.conversation_id for turn in found.turns],
        [turn.example.turn.flow is None for turn in found.turns],
        "commands_exact",
        target=0.45,
    )


def conversations(programs: Programs, suite: Suite, title: str, target: float | None = None) -> Figure:
    """Conversations that go on from what the program made of them, as ``jazzmine-dspy test`` holds them."""
    metric = run_suite(suite, programs.over).shares().get("conversations")
    return figure(SECTION, title, metric, target=target)


def overlap(ground: Ground) -> Iterator[Figure]:
    """Shares of runs of words, and of messages with one; which messages they are is not looked at here."""
    texts = [
        *training_texts(ground.dataset),
        *(t.user for c in ground.practice.conversations for t in c.turns),
    ]
    for each in overlaps(ground.unseen, texts):
        told, what = each.to_json(), f"{each.n} words in a row"
        yield Figure(OVERLAP, f"{what}, of all such runs", told["share"], n=each.grams)
        yield Figure(OVERLAP, f"{what}, messages that hold one", told["share_of_messages"], n=each.messages)
