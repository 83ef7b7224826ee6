"""Prints how large the package is, by room, and how much of it one turn enters.

Statements are AST nodes without docstrings, so that neither blank lines nor long lines change them. Run: make size

With ``--check`` the figures are compared with ``tools/ceiling.toml``; one above its ceiling ends with exit code 1.
"""

from __future__ import annotations

import argparse
import ast
import json
import statistics
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from dataclasses import astuple, dataclass
from pathlib import Path
from types import FrameType
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = "jazzmine_dspy"
DATA = (".toml", ".json", ".yaml", ".txt", ".j2", ".html", ".css", ".js", ".lua", ".sql")
MODULES = (PACKAGE, f"{PACKAGE}.runtime", f"{PACKAGE}.optimize")


@dataclass
class Size:
    """How large a part of the package is."""

    files: int = 0
    lines: int = 0
    statements: int = 0
    functions: int = 0
    classes: int = 0

    def __add__(self, other: Size) -> Size:
        return Size(*(a + b for a, b in zip(astuple(self), astuple(other), strict=True)))


def size_of(source: str) -> Size:
    """The size of one module.

    Example:
        >>> size_of('"Doc."\\ndef f():\\n    "Doc."\\n    return 1\\n')
        Size(files=1, lines=4, statements=2, functions=1, classes=0)
    """
    nodes = list(ast.walk(ast.parse(source)))
    return Size(
        files=1,
        lines=source.count("\n"),
        statements=sum(isinstance(n, ast.stmt) and not _is_docstring(n) for n in nodes),
        functions=sum(isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef) for n in nodes),
        classes=sum(isinstance(n, ast.ClassDef) for n in nodes),
    )


def _is_docstring(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def rooms(paths: list[Path]) -> dict[str, Size]:
    """The size of each folder of the package, and of all of it under "all", largest first."""
    sizes: dict[str, Size] = {}
    for path in paths:
        parts = path.relative_to(ROOT).parts
        one = size_of(path.read_text("utf-8"))
        for room in (parts[1] if len(parts) > 2 else "(top)", "all"):
            sizes[room] = sizes.get(room, Size()) + one
    return dict(sorted(sizes.items(), key=lambda item: -item[1].statements))


def longest(paths: list[Path], count: int = 10) -> list[tuple[int, str]]:
    """The longest functions, in lines, with where they stand."""
    spans = [
        (
            (node.end_lineno or node.lineno) - node.lineno + 1,
            f"{path.relative_to(ROOT)}:{node.lineno} {node.name}",
        )
        for path in paths
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    return sorted(spans, reverse=True)[:count]


def public_definitions(paths: list[Path]) -> int:
    """How many classes and functions stand at the top of public modules and are public by their names."""
    public = [
        path
        for path in paths
        if not any(part.startswith("_") and part != "__init__.py" for part in path.relative_to(ROOT).parts)
    ]
    return sum(
        isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and not node.name.startswith("_")
        for path in public
        for node in ast.parse(path.read_text("utf-8")).body
    )


EXPRESSIONS = """
import importlib, pkgutil, re, sys
import jazzmine_dspy
compiled, patterns = re._compile, set()
def note(pattern, flags):
    file = sys._getframe(2).f_code.co_filename
    if "/jazzmine_dspy/" in file:
        patterns.add((file, getattr(pattern, "pattern", pattern)))
    return compiled(pattern, flags)
re._compile = note
for module in pkgutil.walk_packages(jazzmine_dspy.__path__, "jazzmine_dspy."):
    importlib.import_module(module.name)
print(len(patterns))
"""


def regular_expressions() -> int:
    """How many regular expressions the modules of the package compile when they are imported."""
    done = subprocess.run(
        [sys.executable, "-c", EXPRESSIONS], capture_output=True, text=True, check=True, cwd=ROOT
    )
    return int(done.stdout.splitlines()[-1])


def closure(module: str) -> tuple[int, int]:
    """How many modules of the package, and how many in all, an import of one module loads."""
    code = f"import sys, json, {module}; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    names = json.loads(done.stdout.splitlines()[-1])
    return sum(name.split(".")[0] == PACKAGE for name in names), len(names)


def traced(program: str, turns: int) -> dict[str, tuple[float, float]]:
    """The median number of files and named functions that one turn without a language model enters, by room.

    Args:
        program: Name or folder of a compiled program.
        turns: How many turns of the shipped test part are decided; a first one more warms the program up.
    """
    from jazzmine_dspy import load
    from jazzmine_dspy.datasets import load_dataset

    decider = load(program, lm=None)
    dataset = load_dataset(ROOT / "datasets/support")
    dataset.open_test("make size")
    examples = [example.turn for example in dataset.examples("test")][: turns + 1]
    decider.decide(examples[0])
    counts: dict[str, list[tuple[int, int]]] = {f"{PACKAGE}/program": [], PACKAGE: []}
    for turn in examples[1:]:
        entered: set[tuple[str, int]] = set()

        def note(frame: FrameType, event: str, _: Any, entered: set[tuple[str, int]] = entered) -> None:
            code = frame.f_code
            if event == "call" and f"/{PACKAGE}/" in code.co_filename and not code.co_name.startswith("<"):
                entered.add((code.co_filename, code.co_firstlineno))

        sys.setprofile(note)
        try:
            decider.decide(turn)
        finally:
            sys.setprofile(None)
        for room, rows in counts.items():
            inside = {place for place in entered if f"/{room}/" in place[0]}
            rows.append((len({file for file, _ in inside}), len(inside)))
    return {
        room: (statistics.median(files for files, _ in rows), statistics.median(calls for _, calls in rows))
        for room, rows in counts.items()
    }


def above_ceiling(figures: dict[str, float], ceiling: dict[str, float]) -> list[str]:
    """What lies above its ceiling, a line each.

    Example:
        >>> above_ceiling({"statements": 101, "files": 3}, {"statements": 100, "files": 4})
        ['statements: 101, ceiling 100']
    """
    return [
        f"{name}: {figures[name]:g}, ceiling {bound:g}"
        for name, bound in ceiling.items()
        if figures[name] > bound
    ]


def report(modules: list[Path], other: list[Path]) -> Iterator[str]:
    """The lines about rooms, imports and long functions."""
    yield f"{'room':16}{'files':>8}{'lines':>8}{'stmts':>8}{'funcs':>8}{'classes':>8}"
    for room, size in rooms(modules).items():
        yield f"{room:16}" + "".join(f"{value:8,}" for value in astuple(size))
    lines_by_suffix = Counter[str]()
    for path in other:
        lines_by_suffix[path.suffix] += path.read_bytes().count(b"\n")
    yield "lines that are not Python: " + ", ".join(
        f"{suffix} {lines:,}" for suffix, lines in lines_by_suffix.most_common()
    )
    for module in MODULES:
        own, total = closure(module)
        yield f"import {module}: {own} modules of the package, {total:,} in all"
    yield "longest functions: " + "; ".join(f"{place} ({lines})" for lines, place in longest(modules))


def main() -> int:
    """Prints the report; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trace", metavar="PROGRAM", help="also trace turns of a compiled program")
    parser.add_argument("--turns", type=int, default=60, help="how many turns are traced (60)")
    parser.add_argument("--check", action="store_true", help="compare with tools/ceiling.toml; needs --trace")
    options = parser.parse_args()
    if options.check and not options.trace:
        parser.error("--check needs --trace PROGRAM")
    names = subprocess.run(
        ["git", "ls-files", PACKAGE], capture_output=True, text=True, check=True, cwd=ROOT
    ).stdout
    files = [ROOT / name for name in names.split() if (ROOT / name).is_file()]
    modules = [path for path in files if path.suffix == ".py"]
    for line in report(modules, [path for path in files if path.suffix in DATA]):
        print(line)
    whole = rooms(modules)["all"]
    figures: dict[str, float] = {"statements": whole.statements, "files": whole.files}
    figures["public_definitions"] = public_definitions(modules)
    figures["regular_expressions"] = regular_expressions()
    if options.trace:
        by_room = traced(options.trace, options.turns)
        for room, suffix in ((f"{PACKAGE}/program", ""), (PACKAGE, "_package")):
            entered, functions = by_room[room]
            figures |= {f"turn_files{suffix}": entered, f"turn_functions{suffix}": functions}
    print("; ".join(f"{name} {value:g}" for name, value in figures.items()))
    if not options.check:
        return 0
    problems = above_ceiling(figures, tomllib.loads((ROOT / "tools/ceiling.toml").read_text("utf-8")))
    for problem in problems:
        print(f"above the ceiling of tools/ceiling.toml: {problem}")
    return int(bool(problems))


if __name__ == "__main__":
    sys.exit(main())
