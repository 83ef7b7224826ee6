"""What compiling the prompts gains where labels follow a guide that no prompt states.

Each recipe of ``eval/recipes`` is run from recorded answers of a large language model that people, or chats, played; a
recipe whose dataset is not there is left out and named.

Run: make bench-compiled, or python tools/bench_compiled.py conventions
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parent.parent / "eval" / "benchmarks"))

import conventions
from marked_block import filled

from jazzmine_dspy.eval.evaluation import Evaluation
from jazzmine_dspy.models.awaiting import Awaiting
from jazzmine_dspy.models.errors import JazzmineError
from jazzmine_dspy.optimize import optimize, read_recipe

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs" / "results" / "prompts.md"
NAMES = {
    "conventions": "support under a second guide",
    "marina": "a marina, by its own guide",
    "sgd": "SGD, services that no label is about",
}
METRIC = "commands_exact"
HEAD = (
    "| labels of | turns | as written: right, tokens | compiled: right, tokens | gain, points |\n"
    "|---|---|---|---|---|"
)


def touched() -> dict[str, set[str]]:
    """The turns that the second guide touches, by convention."""
    found = {each.__name__: set[str]() for each in conventions.CONVENTIONS}
    for line in (conventions.SUPPORT / "conversations.jsonl").read_text("utf-8").splitlines():
        conversation = json.loads(line)
        for turn in conversation["turns"]:
            for convention in conventions.touching(turn) if turn["role"] == "user" else ():
                found[convention.__name__].add(f"{conversation['id']}/{turn['id']}")
    return found


def right(evaluation: Evaluation, among: Collection[str]) -> str:
    """The share of these turns that are right, per cent; an answer that cannot be read is wrong."""
    turns = [turn for turn in evaluation.turns if turn.example.key in among]
    scores = [turn.scores[METRIC].value for turn in turns if METRIC in turn.scores]
    return f"{100 * sum(scores) / len(turns):.1f}"


def rows(name: str, systems: Mapping[str, Evaluation | None], groups: Mapping[str, set[str]]) -> list[str]:
    """The lines of a run: all turns, and those of each group and of any."""
    written, compiled = systems["LM as written"], systems["LM compiled"]
    assert written is not None
    assert compiled is not None
    gain = compiled.shared_difference(written, METRIC)
    assert gain is not None
    cells = [
        f"{100 * each.metrics[METRIC].value:.1f}, {each.usage['prompt_tokens_per_turn']:,.0f}"
        for each in (written, compiled)
    ]
    made = [f"| {NAMES.get(name, name)} | {written.n} | {cells[0]} | {cells[1]} | {_points(gain)} |"]
    asked = {turn.example.key for turn in written.turns}
    for group, keys in ({"any convention": set[str]().union(*groups.values())} | dict(groups)).items():
        if some := asked & keys:
            made.append(f"| · {group} | {len(some)} | {right(written, some)} | {right(compiled, some)} |  |")
    return made


def _points(gain: Any) -> str:
    low, high = (f"{100 * each:+.1f}" for each in (gain.low, gain.high))
    return f"{100 * gain.value:+.1f} [{low}, {high}]"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, print and write; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"some of: {', '.join(NAMES)}; all if none is named"
    )
    parser.add_argument(
        "--docs", action="store_true", help="write the table of all into docs/results/prompts.md"
    )
    options = parser.parse_args(arguments)
    if unknown := [name for name in options.names if name not in NAMES]:
        parser.error(f"no recipe of this benchmark: {', '.join(unknown)}; there are {', '.join(NAMES)}")
    lines = [HEAD]
    for name in options.names or NAMES:
        recipe = read_recipe(ROOT / "eval" / "recipes" / f"{name}.toml")
        if not (ROOT / recipe.dataset).is_dir():
            print(
                f"{name} is left out: {recipe.dataset} is not there; eval/recipes/{name}.toml says how it is made."
            )
            options.docs = False
            continue
        try:
            with tempfile.TemporaryDirectory() as folder:
                ran = optimize(recipe, out=Path(folder) / name)
        except (JazzmineError, Awaiting) as error:
            print(f"error: {error}", file=sys.stderr)
            return 2
        systems = {each.name: each.evaluation for each in ran.report.systems}
        lines += rows(name, systems, touched() if name == "conventions" else {})
    table = "\n".join(lines)
    print(table)
    if options.docs and not options.names:
        DOCS.write_text(filled(DOCS.read_text("utf-8"), table, "compiled"), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
