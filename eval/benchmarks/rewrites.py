"""Recall with and without rewrites, and the prompt tokens of the longer history. The test part stays closed.

Run: python eval/benchmarks/rewrites.py
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from understanding.tokens import count, tokens_of

from jazzmine_dspy import FlowRegistry, Turn, artifacts, load
from jazzmine_dspy.datasets import load_dataset
from jazzmine_dspy.datasets.schema import Example
from jazzmine_dspy.eval.significance import paired_difference
from jazzmine_dspy.lm import scripted_lm
from jazzmine_dspy.optimize.local.rows import Exclusions
from jazzmine_dspy.program.lm import render
from jazzmine_dspy.program.policy import Policy
from jazzmine_dspy.program.recall_query import recall_query
from jazzmine_dspy.program.turn import TurnProgram

ROOT = Path(__file__).resolve().parents[2]
Query = tuple[str, tuple[str, ...]]
PARTS = ("train", "dev_a", "dev_b")
ANSWER = """{"enhanced_query": "It goes on.", "sentiment_score": 0, "intent": "chitchat", "entities": [],
"is_cancellation": false, "is_continuation": true, "flows": [], "commands": []}"""
TURNS = 200
"""Turns whose prompts are counted, spread evenly."""
FIRST = 4
"""Candidates among which the right flow counts as recalled: as many as a prompt offers."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--dataset", type=Path, default=ROOT / "datasets" / "support")
    parser.add_argument("--program", default=str(ROOT / "optimize" / "programs" / "support"))
    options = parser.parse_args(arguments)
    dataset = load_dataset(options.dataset)
    examples = [example for part in PARTS for example in dataset.examples(part)]
    print_recall(load(options.program, flows=dataset.flows), examples)
    print_tokens(dataset.flows, examples)
    return 0


def print_recall(program: TurnProgram, examples: Sequence[Example]) -> None:
    """Print how often the right flow is recalled by the message alone, and by the query of each shape."""
    flows, recall = program.registry, program.bindings.recall
    exclusions = Exclusions(examples)
    starts = [each for each in examples if each.labels.flows and each.labels.enhanced]
    others = [each for each in starts if each.labels.enhanced != each.turn.text]

    def without_episodes(turn: Turn) -> Turn:
        history = tuple(each.model_copy(update={"is_continuation": True}) for each in turn.history)
        return turn.model_copy(update={"history": history})

    searched: dict[str, Callable[[Example], Query]] = {
        "the message alone": lambda each: (each.turn.text, ()),
        "fused: message and rule's rewrite": lambda each: recall_query(each.turn, each.turn.text, flows),
        "the same without earlier episodes": lambda each: recall_query(
            without_episodes(each.turn), each.turn.text, flows
        ),
        "staged: the labelled rewrite": lambda each: recall_query(
            each.turn, each.labels.enhanced or "", flows
        ),
    }

    def places(query: Callable[[Example], Query], turns: Sequence[Example]) -> list[int]:
        found = []
        for each in turns:
            text, beside = query(each)
            names = [
                one.name
                for one in recall.recall(text, k=len(flows), summaries=beside, exclude=exclusions.of(each))
            ]
            found.append(
                min((names.index(flow) for flow in each.labels.flows or () if flow in names), default=99)
            )
        return found

    print("| turns that start a flow | searched with | n | first | among 4 | first, less the message alone |")
    print("|---|---|---|---|---|---|")
    for which, turns in (("all", starts), ("with a rewrite", others)):
        clusters = [each.conversation_id for each in turns]
        base: list[float] = []
        for name, query in searched.items():
            at = places(query, turns)
            first = [float(place == 0) for place in at]
            base = base or first
            more = paired_difference(first, base, clusters, largest=1)
            among = np.mean([place < FIRST for place in at])
            told = f"{100 * more.value:+.1f}, at least {100 * more.lower_bound_one_sided:+.1f}"
            print(
                f"| {which} | {name} | {len(turns)} | {100 * np.mean(first):.1f} | {100 * among:.1f} | {told} |"
            )


def print_tokens(flows: FlowRegistry, examples: Sequence[Example]) -> None:
    """Print the tokens of the fused prompt, by what it shows of the conversation."""
    lm = scripted_lm(lambda _: ANSWER)
    program = TurnProgram(flows, policy=Policy(shape="fused").named("lm")).bind(lm=lm)
    artifacts.bind_recall(program, "minilm")
    shows: dict[str, Callable[[Turn], str]] = {
        "current episode, 8 turns of the user": lambda turn: render.current_episode(turn, 8),
        "last 5 messages": lambda turn: render.last_messages(turn, 5),
    }
    counts: dict[str, list[int]] = {name: [] for name in shows}
    for example in examples[:: max(1, len(examples) // TURNS)]:
        before = len(lm.engine.requests)
        program.decide(example.turn)
        if len(lm.engine.requests) == before:
            continue
        tokens = tokens_of(lm.engine.requests[before])
        histories = [count(show(example.turn)) for show in shows.values()]
        for name, history in zip(shows, histories, strict=True):
            counts[name].append(tokens - histories[0] + history)
    print("\n| the fused prompt shows | turns | prompt tokens, mean | most |\n|---|---|---|---|")
    for name, each in counts.items():
        print(f"| {name} | {len(each)} | {np.mean(each):,.0f} | {max(each):,} |")


if __name__ == "__main__":
    raise SystemExit(main())
