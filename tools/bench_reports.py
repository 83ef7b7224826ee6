"""Turns that people complain about, without a language model: how many are right, and how many do what nobody wants.

Run: make bench-reports, or python tools/bench_reports.py --wrong
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent.parent / "eval" / "benchmarks"))

from reports import ANSWERS, CASES, Verdict, judged


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints the table; exit code 1 where a message that is no yes becomes one."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--wrong", action="store_true", help="list each case that is not right")
    options = parser.parse_args(arguments)
    found = {file.stem: list(judged(file.stem)) for file in sorted(CASES.glob("*.jsonl"))}
    if options.wrong:
        for name, verdicts in found.items():
            for one in verdicts:
                if not one.right or one.grave:
                    print(
                        name,
                        one.case["kind"],
                        "GRAVE" if one.grave else "",
                        one.case["turn"]["text"][:90],
                        one.got,
                    )
    print("| cases | n | right | grave | a yes |\n|---|---|---|---|---|")
    for name, verdicts in found.items():
        print(_row(name, verdicts))
        kinds = Counter(one.case["kind"] for one in verdicts)
        if name.startswith(("mirror", "turn4")):
            for kind in kinds:
                print(_row(f"- {kind}", [one for one in verdicts if one.case["kind"] == kind]))
        if name in ANSWERS:
            # The rules were written with the even lines in sight.
            print(_row("- even lines", verdicts[1::2]), _row("- odd lines", verdicts[::2]), sep="\n")
    return 0 if not any("affirm" in one.kinds for one in found.get("not_yes", ())) else 1


def _row(name: str, verdicts: Sequence[Verdict]) -> str:
    right, grave = sum(one.right for one in verdicts), sum(one.grave for one in verdicts)
    return (
        f"| {name} | {len(verdicts)} | {right} | {grave} | {sum('affirm' in one.kinds for one in verdicts)} |"
    )


if __name__ == "__main__":
    raise SystemExit(main())
