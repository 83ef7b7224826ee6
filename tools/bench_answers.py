"""Right and wrong answers of a language model: how many right ones are refused, and how many wrong ones are used.

Run: make bench-answers, or python tools/bench_answers.py --list
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent.parent / "eval" / "benchmarks"))

from answers import SUITE, table, used
from marked_block import filled

PAGE = SUITE / "README.md"


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints the table, and writes it into the README of the suite."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--list", action="store_true", help="list the cases of the half that is developed on")
    options = parser.parse_args(arguments)
    found = used()
    if options.list:
        for name, verdicts in found.items():
            for one in verdicts:
                if one.developed:
                    print(
                        name, one.case["id"], one.case["turn"]["text"], one.rewrite, *one.commands, sep=" | "
                    )
    print(table(found))
    PAGE.write_text(filled(PAGE.read_text("utf-8"), table(found), "figures"), "utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
