"""A large table with broken rows: each is named, and memory grows with the rows alone."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path

import pytest

ROWS = 200_000
PROGRAM = """\
import json, resource, sys
from jazzmine_dspy.datasets.importers import import_dataset
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
report = import_dataset("csv", sys.argv[1], out=sys.argv[2])
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
lines = [bad.line for bad in report.bad_rows]
print(json.dumps([report.left_out, lines, report.conversations, (peak - before) * 1024]))
"""
BROKEN = ('{id},robot,"{text}",track\n', "{id},user,{text},track,1,2,3\n", '{id},user,"{text}\n')


@pytest.mark.long
@pytest.mark.row("D7")
def test_of_a_large_table_each_broken_row_is_named(tmp_path: Path) -> None:
    chance, expected = random.Random(4), []
    words = [f"word{number}" for number in range(3000)]
    with (tmp_path / "table.csv").open("w", encoding="utf-8") as stream:
        stream.write("conversation,role,text,flow\n")
        for number in range(ROWS):
            text = " ".join(chance.choices(words, k=10))
            form = (
                f"{{id}},{('user', 'agent')[number % 2]},{{text}},{('track', 'cancel', 'none')[number % 3]}\n"
            )
            if number % 100 == 0:
                form = BROKEN[number // 100 % len(BROKEN)]
                expected.append(number + 2)
            stream.write(form.format(id=number // 4, text=text))
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, tmp_path / "table.csv", tmp_path / "made"],
        capture_output=True,
        text=True,
        check=True,
    )
    left_out, lines, conversations, grown = json.loads(done.stdout)
    # A role is not looked at before its row's conversation is: those rows come last.
    assert (left_out, sorted(lines)) == (ROWS // 100, expected)
    # A row whose role is unknown takes its conversation along; the other broken rows name none for sure.
    assert conversations == ROWS // 4 - len(expected[:: len(BROKEN)])
    assert grown < 40 * (tmp_path / "table.csv").stat().st_size
