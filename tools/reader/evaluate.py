"""Prints how many turns of a suite are right by rules, by an exported reader, and by both.

Run: python tools/reader/evaluate.py FOLDER SUITE --only NAME ...
"""

from __future__ import annotations

import argparse
import hashlib
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "eval" / "benchmarks"))

from understanding.deciding import NoTokenizer, ReaderDecider
from understanding.rehearsal import judged, staged

from jazzmine_dspy import TurnProgram
from jazzmine_dspy import eval as scoring
from jazzmine_dspy.artifacts import bind_recall
from jazzmine_dspy.eval.suite import load_suite
from jazzmine_dspy.memory.procedural import minilm
from jazzmine_dspy.program import state as states
from jazzmine_dspy.program.policy import Policy
from jazzmine_dspy.program.reader.network import HASHES, Network
from jazzmine_dspy.program.reader.reading import READER

SYSTEMS = {"rules and reader": "local", "rules": "local", "reader": READER}
"""What decides, with the decider of the policy."""


def main() -> None:
    """Prints the share of right turns, by registry."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("suite", type=Path)
    parser.add_argument("--only", nargs="*", default=())
    parser.add_argument("--by", nargs="*", default=tuple(SYSTEMS), choices=tuple(SYSTEMS))
    options = parser.parse_args()
    hashes = {name: hashlib.sha256((options.folder / name).read_bytes()).hexdigest() for name in HASHES}
    network = Network(options.folder, minilm.tokenizer_file(), hashes)
    states.shipped_network = lambda *_: network
    suite = load_suite(options.suite, only=tuple(options.only))
    turns = staged(suite)
    for system in options.by:
        right: list[bool] = []
        for name, flows in suite.registries.items():
            program = TurnProgram(flows)
            bind_recall(program, "minilm")
            if system == "rules":
                program.bind(embedder=NoTokenizer(program.bindings.embedder))
            program.bind(deciders={READER: ReaderDecider()})
            program.policy = Policy(deciders=((SYSTEMS[system], None),))
            own = [each for each in turns if each.conversation.registry == name]
            results = scoring.evaluate(program, [each.example for each in own]).turns
            decisions = {each.key: turn.decision for each, turn in zip(own, results, strict=True)}
            found = judged(suite, own, decisions)
            print(f"{system}, {name}: {sum(found.values()) / len(own):.1%} of {len(own)}")
            right += found.values()
        print(f"{system}, all: {sum(right) / len(right):.1%} of {len(right)}")


if __name__ == "__main__":
    main()
