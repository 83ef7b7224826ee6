"""How well sentiment, changes of topic and entities are read without a language model, next to the targets.

Run: make bench-enhancement, or python tools/bench_enhancement.py --parts dev_a,dev_b, which program and weights have
learnt from. Opening the test part is logged, and so are the registries of the repair suite that are left out. The
program asks no language model, whatever its policy says. The messages of eval/suites/feeling go to the shipped head.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import numpy as np

sys.path.append(str(Path(__file__).resolve().parent.parent / "eval" / "benchmarks"))
sys.path.append(str(Path(__file__).resolve().parent))

from understanding.rehearsal import staged
from weights.feelings import key_of, labels, messages

from jazzmine_dspy.artifacts import bind_recall, load
from jazzmine_dspy.datasets import load_dataset
from jazzmine_dspy.datasets.schema import Example
from jazzmine_dspy.eval.evaluation import quantiles
from jazzmine_dspy.eval.intervals import pooled
from jazzmine_dspy.eval.metrics import TurnScores, score_turn
from jazzmine_dspy.eval.suite import load_suite, log_opening
from jazzmine_dspy.models.labels import Labels
from jazzmine_dspy.models.turn import Turn
from jazzmine_dspy.program.finish import feeling_head
from jazzmine_dspy.program.heads.feeling.sentiment import ANGRY
from jazzmine_dspy.program.policy import Policy
from jazzmine_dspy.program.turn import TurnProgram

ROOT = Path(__file__).resolve().parents[1]
DATA = Path(os.environ.get("JAZZMINE_DATA", ROOT.parent / "shared" / "data"))
TARGETS = {"sentiment_macro_f1": 0.65, "topic_shift_f1": 0.76, "entity_f1": 0.58}
LEFT_OUT = {"topic_shift_f1": 0.65, "sentiment_macro_f1": 0.55}
REPAIR, REGISTRIES = ROOT / "eval" / "suites" / "repair", ("hotel", "trains")
OTHERS = ("sentiment_mae", "cancellation_f1", "commands_exact")


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--program", default=str(ROOT / "optimize" / "programs" / "support"))
    parser.add_argument("--parts", default="test", help="parts of the shipped dataset, separated by commas")
    options = parser.parse_args(arguments)
    parts = options.parts.split(",")
    dataset = load_dataset(ROOT / "datasets" / "support")
    if "test" in parts:
        dataset.open_test("bench-enhancement")
    program = load(options.program)
    program = program.with_policy("local")
    lines = [*_scores(program, dataset.examples(*parts)), *_comments(program)]
    for name, what in (("in_sight", "messages in sight, learnt"), ("test", "unseen messages")):
        lines += _messages(program, name, what)
    lines += _left_out()
    print("| what | n | value | target |\n|---|---|---|---|", *lines, sep="\n")


def _scores(program: TurnProgram, examples: Sequence[Example]) -> list[str]:
    decided, times = [], []
    for example in examples:
        began = time.perf_counter()
        decided.append(program.decide(example.turn))
        times.append((time.perf_counter() - began) * 1000.0)
    scores = [score_turn(one, each.labels, each.turn) for one, each in zip(decided, examples, strict=True)]
    lines = []
    for name in (*TARGETS, *OTHERS):
        value, target = pooled(scores, name), TARGETS.get(name)
        n = sum(name in each for each in scores)
        lines.append(
            _line(name, n, "" if value is None else f"{value:.3f}", "" if target is None else f"{target:.2f}")
        )
    pairs = [
        (one.enhancement.sentiment_score <= ANGRY, each.labels.sentiment <= ANGRY)
        for one, each in zip(decided, examples, strict=True)
        if each.labels.sentiment is not None
    ]
    angry = [said for said, gold in pairs if gold]
    calm = [said for said, gold in pairs if not gold]
    lines.append(_line("turns labelled -0.6 or less that are read so", len(angry), f"{sum(angry)}", "60 %"))
    lines.append(
        _line("turns labelled above -0.6 that are read as -0.6 or less", len(calm), f"{sum(calm)}", "1 %")
    )
    lines.append(_line("ms for a decision, p50", len(times), f"{quantiles(times)['p50']:.1f}", "18"))
    return lines


def _messages(program: TurnProgram, name: str, what: str) -> list[str]:
    """Messages of eval/suites/feeling, each read alone: how many angry and other ones are read as angry."""
    scores = [(program.decide(text=text).enhancement.sentiment_score, gold) for text, gold in messages(name)]
    angry = [score <= ANGRY for score, gold in scores if gold <= ANGRY]
    calm = [score <= ANGRY for score, gold in scores if gold > ANGRY]
    plain = [score <= ANGRY for score, gold in scores if gold == 0]
    return [
        _line(f"{what}: -0.6 or less that are read so", len(angry), f"{sum(angry)}", "60 %"),
        _line(f"{what}: above -0.6 that are read as -0.6 or less", len(calm), f"{sum(calm)}", "1 %"),
        _line(f"{what}: 0.0 that are read as -0.6 or less", len(plain), f"{sum(plain)}", "1 %"),
    ]


def _left_out() -> list[str]:
    """The registries that nothing was fitted on: the mean of what their labellings give."""
    suite = load_suite(REPAIR, only=REGISTRIES)
    log_opening(suite, "bench-enhancement")
    scored: dict[int, list[TurnScores]] = defaultdict(list)
    for name in REGISTRIES:
        program = TurnProgram(suite.registries[name], policy=Policy().named("local"))
        bind_recall(program, "minilm")
        conversations = [each.id for each in suite.conversations if each.registry == name]
        read = labels(name)
        for each in staged(suite):
            if each.conversation.registry != name:
                continue
            decision = program.decide(each.turn)
            key = key_of(conversations.index(each.conversation.id), each.number - 1)
            for number, reading in enumerate(read):
                one = reading[key]
                gold = Labels(sentiment=one.sentiment, is_continuation=one.continues)
                scored[number].append(score_turn(decision, gold, each.turn))
    lines = []
    for metric, target in LEFT_OUT.items():
        values = [pooled(scores, metric) or 0.0 for scores in scored.values()]
        what = f"registries left out: {metric}, mean of {len(values)} labellings"
        lines.append(_line(what, len(scored[0]), f"{statistics.mean(values):.3f}", f"{target:.2f}"))
    return lines


def _comments(program: TurnProgram) -> list[str]:
    """Comments of GoEmotions, which nothing was fitted on: how often a positive one scores above a negative one."""
    from scipy.stats import rankdata

    file, head, embedder = (
        DATA / "goemotions_group" / "dev.tsv",
        feeling_head(program.bindings),
        program.bindings.embedder,
    )
    if not file.is_file() or head is None or embedder is None:
        return []
    rows = [line.split("\t")[:2] for line in file.read_text("utf-8").splitlines()]
    rows = [row for row in rows if row[1] in ("1", "3")][:1000]
    features = embedder.features([text for text, _ in rows])
    scores = [head.feels(Turn(text=text), row) for (text, _), row in zip(rows, features, strict=True)]
    positive = np.array([group == "3" for _, group in rows])
    ranks = rankdata(scores)
    low = positive.sum() * (positive.sum() + 1) / 2
    share = (ranks[positive].sum() - low) / (positive.sum() * (~positive).sum())
    return [
        _line("GoEmotions dev: a positive comment scores above a negative one", len(rows), f"{share:.3f}", "")
    ]


def _line(what: str, n: int, value: str, target: str) -> str:
    return f"| {what} | {n} | {value} | {target} |"


if __name__ == "__main__":
    main()
