"""Turns that no stage needs to pass to a language model: those of which the stages before it are sure enough.

How sure is enough is fitted on all registries but one, and measured on that one; each registry is left out once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from jazzmine_dspy.eval.intervals import summarise
from jazzmine_dspy.eval.metrics import TurnScores, mean
from jazzmine_dspy.models.decision import TurnDecision
from jazzmine_dspy.models.turn import Turn
from jazzmine_dspy.optimize.gates import FEWEST, NEVER, floored
from jazzmine_dspy.program.turn import TurnProgram
from jazzmine_dspy.program.turn_confidence import features_of, shipped
from understanding.figures import Figure, figure
from understanding.ground import Ground
from understanding.programs import Programs

SECTION = "turns that no stage passes to an LM, gate fitted leaving one registry out"
ERROR = 0.05
SHARE = 0.25


class Sure(NamedTuple):
    """A turn: how sure it is as a whole, and whether its commands are right.

    Args:
        seen: Whether the program was compiled on the registry.
    """

    registry: str
    conversation: str
    opening: bool
    seen: bool
    confidence: float
    right: bool


def confidence(program: TurnProgram, turn: Turn, decision: TurnDecision | None) -> float:
    """How likely all commands are right, by the confidence of the turn; 0 where a part failed."""
    if decision is None or decision.degraded:
        return 0.0
    model = program.policy.turn_confidence or shipped()[0]
    return model.probability(features_of(turn, program.registry, decision))


def figures(ground: Ground, programs: Programs) -> Iterator[Figure]:
    """Share of turns that are kept, and how many of these are right."""
    yield from told(left_out([*_suite(ground, programs), *_shipped(ground, programs)]))


def _suite(ground: Ground, programs: Programs) -> Iterator[Sure]:
    for suite, turns in ((ground.unseen, ground.staged), (ground.working, ground.staged_working)):
        decisions, right = programs.on_suite(suite, turns)
        for each in turns:
            registry, name = each.conversation.registry, each.conversation.id
            program = programs.over(suite.registries[registry])
            sure = confidence(program, each.turn, decisions[each.key])
            yield Sure(registry, name, each.opening, False, sure, right[each.key])


def _shipped(ground: Ground, programs: Programs) -> Iterator[Sure]:
    program = programs.over(ground.dataset.flows)
    for turn in programs.evaluated(ground.dataset.flows, ground.test).turns:
        example, right = turn.example, turn.scores["commands_exact"].value == 1.0
        opening, sure = example.turn.flow is None, confidence(program, example.turn, turn.decision)
        yield Sure(ground.dataset.name, example.conversation_id, opening, True, sure, right)


def left_out(turns: Sequence[Sure]) -> list[tuple[Sure, bool]]:
    """Each turn, and whether it passes the gate that was fitted on the other registries."""
    found: list[tuple[Sure, bool]] = []
    for name in dict.fromkeys(each.registry for each in turns):
        threshold = fitted([each for each in turns if each.registry != name])
        found += [(each, each.confidence >= threshold) for each in turns if each.registry == name]
    return found


def fitted(turns: Sequence[Sure]) -> float:
    """The lowest confidence above which no more than the target share of these turns is wrong.

    Not certified: a run certifies a gate for one program, and here each gate is tried on a registry apart instead.

    Example:
        >>> some = [Sure("a", f"c{n}", True, False, n / 400, n > 100) for n in range(1, 400)]
        >>> 0.2 < fitted(some) < 0.25, fitted([]) == NEVER
        (True, True)
    """
    sure = sorted((each for each in turns if each.confidence > 0), key=lambda each: -each.confidence)
    wrong, found = 0, NEVER
    for number, each in enumerate(sure, 1):
        wrong += not each.right
        last = number == len(sure) or sure[number].confidence < each.confidence
        if last and number >= FEWEST and wrong <= ERROR * number:
            found = floored(each.confidence)
    return found


def told(turns: Sequence[tuple[Sure, bool]]) -> Iterator[Figure]:
    """The figures: all, unseen and seen registries apart, opening and mid-form messages apart."""
    groups: Mapping[str, list[tuple[Sure, bool]]] = {
        "": list(turns),
        "suite's registries": [pair for pair in turns if not pair[0].seen],
        "shipped test part": [pair for pair in turns if pair[0].seen],
        "opening messages": [pair for pair in turns if pair[0].opening],
        "mid-form messages": [pair for pair in turns if not pair[0].opening],
    }
    for title, held in groups.items():
        clusters = [each.conversation for each, _ in held]
        rows: list[TurnScores] = [{"kept": mean(kept)} for _, kept in held]
        rights: list[TurnScores] = [{"right": mean(each.right)} if kept else {} for each, kept in held]
        share, right = summarise(rows, clusters).get("kept"), summarise(rights, clusters).get("right")
        first = not title
        yield figure(
            SECTION, f"· {title}: kept" if title else "turns kept", share, target=SHARE if first else None
        )
        yield figure(
            SECTION,
            f"· {title}: right of those kept" if title else "right of those kept",
            right,
            target=1 - ERROR if first else None,
        )
