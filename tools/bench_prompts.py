"""Prompt tokens a turn, schema included, counted with cl100k_base: as written, and through DSPy's own adapters.

What a large language model answered to each adapter is recorded in ``eval/recordings/adapter-…``.

Run: make bench-prompts. With --requests FOLDER it writes what each adapter sends for 40 turns, for answers later.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent.parent / "eval" / "benchmarks"))

from marked_block import filled
from understanding.adapters import ADAPTERS, HEAD, asking, billed, judged, row, sent, write_requests
from understanding.ground import Ground

ROOT = Path(__file__).resolve().parent.parent
RECORDINGS = ROOT / "eval" / "recordings"
DOCS = ROOT / "docs" / "results" / "prompts.md"
WRITTEN, COMPARED = 120, 40


def main(arguments: Sequence[str] | None = None) -> int:
    """Count, print and write; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--docs", action="store_true", help="write the table into docs/results/prompts.md")
    parser.add_argument("--docs-file", type=Path, default=DOCS, help="another file with the marks")
    parser.add_argument("--requests", type=Path, help="folder for the requests of each adapter")
    parser.add_argument("--model", default="large", help="name of the model in the requests")
    parser.add_argument("--dataset", type=Path, default=ROOT / "datasets" / "support")
    options = parser.parse_args(arguments)
    ground = Ground(ROOT / "eval" / "suites" / "repair", options.dataset, ROOT)
    examples = ground.test_turns(WRITTEN)
    turns = [(each.key, each.turn) for each in examples]
    program = asking(ground.dataset.flows)
    lines = [HEAD, row("the test part, as written", list(sent(program, "DecisionAdapter", turns)))]
    for name in ADAPTERS:
        some = list(sent(program, name, turns[:COMPARED]))
        folder = RECORDINGS / f"adapter-{name.removesuffix('Adapter').lower()}"
        told = judged(ground.dataset.flows, name, examples[:COMPARED], folder)
        lines.append(row(f"the same by {name}", some, told))
        if options.requests:
            print(write_requests(options.requests, name, some, options.model), file=sys.stderr)
    table = "\n".join(lines)
    kept = billed(program, turns)
    print(f"{table}\n\n{kept}")
    if options.docs:
        page = filled(options.docs_file.read_text("utf-8"), table, "prompts")
        options.docs_file.write_text(filled(page, kept, "billed"), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
