"""Shows that the tests of each row notice a mistake: one seeded fault at a time, in a copy of the tree.

`tests/mutants.toml` holds the faults. A fault replaces a piece of one file, and then the tests that carry the row's
mark are run until one fails. What fails is run again without the fault, where it has to pass. So a fault is

- killed: a test of its row fails with it, and passes without it;
- survived: all tests of the row pass;
- stale: its old text does not stand in the file exactly once;
- broken: the fault, or a test, does not even import, so nothing was shown;
- red: the test fails without the fault as well;
- untested: no test of the row ran.

Exit code 0 if all are killed. Run: make mutants, make mutants MUTANTS=--ci, or MUTANTS="--row E5".
"""

from __future__ import annotations

import argparse
import json
import os
import queue
import shutil
import subprocess
import sys
import tempfile
import tomllib
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LIMIT_S = 600
"""What the tests of one row may take."""
NOT_SHOWN = ("ImportError", "ModuleNotFoundError", "SyntaxError", "IndentationError", "NameError")


@dataclass(frozen=True)
class Fault:
    """A plausible mistake, and what has to notice it.

    Args:
        row: The row whose tests are run.
        file: Where the mistake is made, from the root.
        old: What stands there now, exactly once.
        new: The mistake.
        why: What goes wrong with it, in a line.
        tests: Files or folders to look for the row's tests in; all that name the row if empty.
        ci: Part of the sample that every change is checked by.
    """

    row: str
    file: str
    old: str
    new: str
    why: str
    tests: tuple[str, ...] = ()
    ci: bool = False


@dataclass(frozen=True)
class Verdict:
    """What became of a fault, and what shows it: the test that failed, or what is wrong."""

    fault: Fault
    state: str
    shown: str = ""


def read(table: Path) -> list[Fault]:
    """The faults, in the order of the file."""
    given = tomllib.loads(table.read_text("utf-8")).get("mutant", [])
    return [Fault(**entry | {"tests": tuple(entry.get("tests", ()))}) for entry in given]


def faulty(root: Path, fault: Fault) -> str:
    """The file with the fault in it.

    Raises:
        LookupError: the old text is not there, or is there twice.
        SyntaxError: the file would be no Python.
    """
    path = root / fault.file
    text = path.read_text("utf-8") if path.is_file() else ""
    if not fault.old or (found := text.count(fault.old)) != 1:
        times = f"{found} times" if fault.old and path.is_file() else "nowhere"
        raise LookupError(f"the old text occurs {times} in {fault.file}: {fault.old.strip()[:70]!r}")
    changed = text.replace(fault.old, fault.new)
    if changed == text:
        raise LookupError(f"the fault changes nothing in {fault.file}")
    if path.suffix == ".py":
        compile(changed, fault.file, "exec")
    return changed


def naming(root: Path, row: str) -> tuple[str, ...]:
    """The test files that name a row."""
    paths = sorted((root / "tests").rglob("test_*.py"))
    return tuple(str(p.relative_to(root)) for p in paths if f'"{row}"' in p.read_text("utf-8"))


class Copy:
    """A copy of the tree, in which files may be spoilt."""

    def __init__(self, root: Path, place: Path) -> None:
        self.root = place
        self._edits = 0
        listed = subprocess.run(
            ["git", "ls-files", "-co", "--exclude-standard", "-z"], cwd=root, capture_output=True, text=True
        )
        if listed.returncode == 0 and listed.stdout:
            names = [name for name in listed.stdout.split("\0") if (root / name).is_file()]
        else:
            names = [str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()]
        for name in names:
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(root / name, place / name)
        # Only the package may be imported from here: the root would bring `datasets/` with it.
        (place / ".path").mkdir()
        for name in ("jazzmine_dspy", "optimize"):
            (place / ".path" / name).symlink_to(place / name)

    @contextmanager
    def spoilt(self, fault: Fault) -> Iterator[None]:
        """The tree with a fault in it."""
        path = self.root / fault.file
        before, times = path.read_bytes(), path.stat()
        path.write_text(faulty(self.root, fault), "utf-8")
        # Python takes a compiled file for current if time (in seconds) and size agree.
        self._edits += 1
        os.utime(path, (times.st_atime, int(times.st_mtime) + 10 * self._edits))
        try:
            yield
        finally:
            path.write_bytes(before)
            os.utime(path, (times.st_atime, times.st_mtime))

    def run(self, row: str, tests: Sequence[str]) -> tuple[int, str, str]:
        """pytest's exit code, and the first test that did not pass with what it says."""
        report = self.root / ".mutants.xml"
        report.unlink(missing_ok=True)
        env = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST_")}
        env |= {"PYTHONPATH": str(self.root / ".path"), "CI": "1", "PYTHONHASHSEED": "0"}
        command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider"]
        command += ["--row", row, f"--junitxml={report}", *tests]
        try:
            done = subprocess.run(command, cwd=self.root, env=env, capture_output=True, timeout=LIMIT_S)
        except subprocess.TimeoutExpired:
            return -1, "", f"still running after {LIMIT_S} s"
        said = (done.stdout + done.stderr).decode("utf-8", "replace").strip()
        if not report.is_file():
            return done.returncode, "", said[-300:]
        cases = list(ET.parse(report).getroot().iter("testcase"))
        for case in cases:
            if (failed := _first(case, "failure", "error")) is not None:
                return (
                    done.returncode,
                    _node(self.root, case),
                    str(failed.get("message") or failed.text or ""),
                )
        ran = any(_first(case, "skipped") is None for case in cases)
        return (done.returncode, "", said[-300:]) if ran else (5, "", "all were skipped")


def _first(case: ET.Element, *names: str) -> ET.Element | None:
    return next((found for name in names if (found := case.find(name)) is not None), None)


def _node(root: Path, case: ET.Element) -> str:
    """The node id of a test, whose module is written with dots: the longest that is a file counts."""
    parts = str(case.get("classname", "")).split(".")
    for length in range(len(parts), 0, -1):
        path = "/".join(parts[:length]) + ".py"
        if (root / path).is_file():
            return "::".join([path, *parts[length:], str(case.get("name", ""))])
    return ""


def judge(copy: Copy, fault: Fault) -> Verdict:
    """Run a row's tests with the fault in the copy, and what failed without it."""
    tests = fault.tests or naming(copy.root, fault.row)
    if not tests:
        return Verdict(fault, "untested", "no test file names the row")
    try:
        with copy.spoilt(fault):
            code, node, said = copy.run(fault.row, tests)
    except LookupError as error:
        return Verdict(fault, "stale", str(error))
    except SyntaxError as error:
        return Verdict(fault, "broken", f"no Python with the fault: {error}")
    if code == 0:
        return Verdict(fault, "survived", fault.why)
    if code == 5:
        return Verdict(fault, "untested", said)
    if code != 1 or not node or said.split(":")[0].strip() in NOT_SHOWN:
        return Verdict(fault, "broken", f"pytest ended with {code} {said}"[:300])
    again, _, told = copy.run(fault.row, [node])
    if again != 0:
        return Verdict(fault, "red", f"{node} fails without the fault as well: {told}"[:300])
    return Verdict(fault, "killed", node)


def check(root: Path, faults: Sequence[Fault], rows: dict[str, str]) -> list[Verdict]:
    """What is wrong with the table itself, without running anything."""
    found = []
    for fault in faults:
        try:
            if fault.row not in rows:
                raise LookupError(f"no row {fault.row!r}")
            faulty(root, fault)
        except LookupError as error:
            found.append(Verdict(fault, "stale", str(error)))
        except SyntaxError as error:
            found.append(Verdict(fault, "broken", f"no Python with the fault: {error}"))
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ci", action="store_true", help="the sample that every change is checked by")
    parser.add_argument("--row", action="append", default=[], help="faults of this row; may be repeated")
    parser.add_argument(
        "--stale", action="store_true", help="only look whether the faults still fit the code"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--jobs", type=int, default=2, help="copies of the tree that are tested at once")
    parser.add_argument("--root", type=Path, default=ROOT, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    root = arguments.root.resolve()
    rows = tomllib.loads((root / "tests" / "rows.toml").read_text("utf-8"))
    faults = read(root / "tests" / "mutants.toml")
    verdicts = check(root, faults, rows)
    unfit = {verdict.fault for verdict in verdicts}
    wanted = [fault for fault in faults if fault not in unfit and (fault.ci or not arguments.ci)]
    wanted = [fault for fault in wanted if fault.row in arguments.row or not arguments.row]
    progress = sys.stderr if arguments.json else sys.stdout
    for verdict in verdicts:
        _print(verdict, progress)
    if not arguments.stale:
        for verdict in _judged(root, wanted, arguments.jobs):
            _print(verdict, progress)
            verdicts.append(verdict)
    without = [row for row in rows if row not in {fault.row for fault in faults} and naming(root, row)]
    counts = Counter(verdict.state for verdict in verdicts)
    if arguments.json:
        shown = [
            {"row": v.fault.row, "file": v.fault.file, "state": v.state, "shown": v.shown} for v in verdicts
        ]
        print(json.dumps({"counts": counts, "without": without, "faults": shown}, indent=1))
    else:
        print(", ".join(f"{count} {state}" for state, count in sorted(counts.items())) or "nothing to run")
        if without:
            print(f"Rows with tests and without a fault: {', '.join(without)}")
    return 1 if set(counts) - {"killed"} else 0


def _judged(root: Path, faults: Sequence[Fault], jobs: int) -> Iterator[Verdict]:
    """The verdicts, in the order of the faults."""
    if not faults:
        return
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        copies: queue.Queue[Copy] = queue.Queue()
        for number in range(min(jobs, len(faults))):
            copies.put(Copy(root, Path(folder, str(number))))

        def one(fault: Fault) -> Verdict:
            copy = copies.get()
            try:
                return judge(copy, fault)
            finally:
                copies.put(copy)

        with ThreadPoolExecutor(jobs) as pool:
            yield from pool.map(one, faults)


def _print(verdict: Verdict, stream: object) -> None:
    line = f"{verdict.fault.row:<4} {verdict.state:<8} {verdict.fault.file}  {verdict.shown}"
    print(line, file=stream, flush=True)  # type: ignore[arg-type]


if __name__ == "__main__":
    sys.exit(main())
