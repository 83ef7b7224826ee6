"""Measuring a row of the table: everything is trained, then the test parts are opened."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from jazzmine_dspy.datasets import Dataset, load_dataset
from jazzmine_dspy.eval import evaluate
from jazzmine_dspy.eval.evaluation import Evaluation
from jazzmine_dspy.memory.procedural import FastembedEmbedder
from jazzmine_dspy.program.turn import TurnProgram
from routing import catalogue, figures, ours, parts, say, sharing
from routing.peer import Peer, Skipped, Training
from routing.peers import peers
from routing.sets import Case, Place

SHARED = ("banking77", "banking77-10", "clinc150")
SOURCES = ((0.95, 1.0), (0.97, 1.0), (0.97, 3.0), (0.99, 3.0))
"""Sources assumed for the share of turns sent on: how often right, how much worse where the head errs."""
TWENTIES = 8


Groups = Sequence[Mapping[str, str]]
"""Of each case, the group of a message by its key."""


class How(NamedTuple):
    """What holds for all rows of a run.

    Args:
        recipe: That our programs are made with.
        work: Where datasets and programs are made.
        shared: The embedder of all systems.
        peers: Whether other systems are measured beside.
    """

    recipe: Path
    work: Path
    shared: FastembedEmbedder
    peers: bool = True


class Made(NamedTuple):
    """All systems trained on one case."""

    dataset: Dataset
    seed: int
    trained: ours.Trained
    program: TurnProgram
    peers: list[Peer | Skipped]


def made_of(
    dataset: Dataset,
    learnt: Training | None,
    how: How,
    out: Path,
    seed: int,
    *,
    refuses: bool = False,
) -> Made:
    """Train everything. The program comes last: what it has in its index, the others have embedded before."""
    how.shared.clear_cache()
    trained = ours.trained(dataset, how.recipe, out, seed)
    others = [] if learnt is None else peers(learnt, how.shared, refuses=refuses)
    return Made(dataset, seed, trained, ours.loaded(trained, how.shared), others)


def one_row(row: str, cases: Sequence[tuple[Case, int]], how: How) -> Iterator[dict[str, Any]]:
    """A row with those of the other systems, and its shares.

    Args:
        row: A name of :data:`figures.SPECS`.
        cases: With their seeds; all are pooled into the row.
        how: As of the whole run.
    """
    made = []
    for number, (case, seed) in enumerate(cases):
        say(f"{row} {number + 1}/{len(cases)}: importing and training")
        dataset = ours.imported(case, how.work / f"data-{row}-{number}", seed)
        learnt = ours.training(dataset, seed) if case.peers and how.peers else None
        refuses = bool(case.groups) or row.startswith("clinc150")
        out = how.work / f"program-{row}-{number}"
        made.append(made_of(dataset, learnt, how, out, seed, refuses=refuses))
    say(f"{row}: test")
    groups = [case.groups for case, _ in cases]
    found = evaluated(made, how)
    yield {"row": _mine(row, made, found, groups, cases[0][0].counts)}
    if row in SHARED:
        yield {"share": shares(row, made[0])}
    yield from others(row, made, groups, how)


def evaluated(made: Sequence[Made], how: How) -> list[Evaluation]:
    """Our program of each case on its test part, which is opened here."""
    return [ours.measured(each.program, ours.asked(each.dataset), each.seed, how.shared) for each in made]


def others(row: str, made: Sequence[Made], groups: Groups, how: How) -> Iterator[dict[str, Any]]:
    """The rows of the other systems; one that a case skips is skipped in all, or it would have other messages."""
    for each in zip(*(one.peers for one in made), strict=True):
        skipped = [peer.reason for peer in each if isinstance(peer, Skipped)]
        if skipped:
            yield {"row": {"row": row, "system": each[0].name, "skipped": skipped[0]}}
            continue
        trained = [peer for peer in each if isinstance(peer, Peer)]
        found = [
            ours.measured(peer, one.dataset.examples("test"), one.seed, how.shared)
            for peer, one in zip(trained, made, strict=True)
        ]
        yield {"row": _row(row, trained[0].name, found, groups, [peer.seconds for peer in trained])}


def _mine(
    row: str,
    made: Sequence[Made],
    found: Sequence[Evaluation],
    groups: Groups,
    counts: Mapping[str, int],
) -> dict[str, Any]:
    learnt = [len(each.dataset.examples(*ours.LEARNT)) for each in made]
    return _row(row, figures.OURS, found, groups, [each.trained.seconds for each in made]) | {
        "head_bytes": max(each.trained.head_bytes for each in made),
        "facts": [each.trained.facts for each in made],
        "counts": {"training": round(sum(learnt) / len(learnt)), **counts},
    }


def _row(
    row: str, system: str, found: Sequence[Evaluation], groups: Groups, seconds: Sequence[float]
) -> dict[str, Any]:
    whole = ours.pooled(found, found[0].seed)
    apart = {
        name: held.metrics["out_of_scope_recall"].to_json()
        for name, held in ours.grouped(found, groups, whole.seed).items()
    }
    silent = tuple(
        turn for turn in whole.turns if not turn.example.labels.flows and "flow_set_exact" in turn.scores
    )
    if silent and "out_of_scope_recall" not in whole.metrics:
        # Of dialogues most turns go on with what runs.
        apart["start nothing"] = Evaluation(silent, seed=whole.seed).metrics["flow_set_exact"].to_json()
    return {
        "row": row, "system": system, "n": whole.n, "crashed": whole.crashed, "degraded": whole.degraded,
        "metrics": {name: metric.to_json() for name, metric in whole.metrics.items()},
        "groups": apart, "latency_ms": whole.usage["latency_ms"], "sources": whole.sources,
        "seconds": sum(seconds) / len(seconds),
    }  # fmt: skip


def shares(row: str, made: Made) -> list[dict[str, Any]]:
    """The share of turns that would be sent on, with the head's confidences on the test turns."""
    judged = []
    # Nobody looks at its time, so it may use what is remembered of these turns.
    head = made.program.with_policy("local")
    for turn in evaluate(head, made.dataset.examples("test"), seed=made.seed).turns:
        if turn.decision is not None:
            right = bool(turn.scores["flow_set_exact"].value)
            judged.append(sharing.Judged(turn.decision.selection.confidence, right))
    told = []
    for quality, harder in SOURCES:
        found = sharing.needed(judged, quality, harder=harder)
        assumed = {"row": row, "quality": quality, "harder": harder, "n": len(judged)}
        told.append({**assumed, "sent": found.sent, "together": found.quality, "loss": found.loss})
    return told


def thousand(place: Place, how: How) -> Iterator[dict[str, Any]]:
    """1,000 flows; the same requests in catalogues of 20 of them; and those of each registry among its own flows."""
    whole = catalogue.assembled(place)
    say(f"flows1000: {len(whole.flows)} flows, {len(whole.train)} messages, training")
    dataset = load_dataset(catalogue.write(place.work / "data-flows1000", whole, place.seed))
    learnt = ours.training(dataset, place.seed) if how.peers else None
    big = made_of(dataset, learnt, how, place.work / "program-flows1000", place.seed)
    say("flows1000: test")
    [among] = evaluated([big], how)
    yield {"row": _mine("flows1000", [big], [among], [{}], whole.counts | elsewhere(among))}
    yield from others("flows1000", [big], [{}], how)
    twenties = list(catalogue.twenties(whole, 2 if place.quick else TWENTIES, place.seed))
    for row, several in (("flows20", twenties), ("registries", list(catalogue.registries(whole)))):
        small = []
        for number, few in enumerate(several):
            say(f"{row} {number + 1}/{len(several)}: training")
            made = load_dataset(catalogue.write(place.work / f"data-{row}-{number}", few, place.seed))
            small.append(made_of(made, None, how, place.work / f"program-{row}-{number}", place.seed))
        found = evaluated(small, how)
        yield {"row": _mine(row, small, found, [{}] * len(small), {})}
        yield {row: beside(found, among, place.seed)}


def beside(found: Sequence[Evaluation], among: Evaluation, seed: int) -> dict[str, Any]:
    """Flows right in several small catalogues, and on the same requests among all flows."""
    asked = {parts.key(turn.example.turn.text): turn for turn in among.turns}
    again = [
        Evaluation(tuple(asked[parts.key(turn.example.turn.text)] for turn in one.turns), seed=seed)
        for one in found
    ]
    alone, same = (ours.pooled(each, seed).metrics["flow_set_exact"] for each in (found, again))
    return {"n": alone.n, "catalogues": len(found), "alone": alone.to_json(), "among": same.to_json()}


def elsewhere(found: Evaluation) -> dict[str, int]:
    """How many answers are wrong, and how many of these name flows of other sources than the right one's alone."""
    wrong = [turn for turn in found.turns if turn.scores["flow_set_exact"].value < 1]
    far = 0
    for turn in wrong:
        named = {catalogue.source(name) for name in turn.decision.selection.flows} if turn.decision else set()
        far += bool(named) and not named & {
            catalogue.source(name) for name in turn.example.labels.flows or ()
        }
    return {"wrong": len(wrong), "elsewhere": far}
