"""Keep what was answered in a folder of deferred answers as a recording: evidence for comparing prompts and programs.

Run: .venv/bin/python tools/record.py FOLDER eval/recordings/NAME FACTS.toml

FACTS.toml says name, measured, dataset, part, program, wording, kind, rules and date; eval/recordings/README.md tells
what each of them means. The model's name and the digests of the prompts are taken from the requests.
"""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path

from jazzmine_dspy.lm.deferred import ANSWERS, read_rows
from jazzmine_dspy.lm.recording import record
from jazzmine_dspy.models.errors import JazzmineError


def main(argv: Sequence[str]) -> int:
    """Make the recording; the exit code."""
    if len(argv) != 3:
        print(__doc__, file=sys.stderr)
        return 2
    folder, out, facts = map(Path, argv)
    try:
        made = record(folder, out, tomllib.loads(facts.read_text("utf-8")))
    except (JazzmineError, OSError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(f"{made.name}: {len(read_rows(out / ANSWERS))} answers, {made.date}: {out}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
