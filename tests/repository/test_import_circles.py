"""Imports run one way: no module comes back to itself, and serving needs nothing of what compiles it.

Every import statement counts: a name needed only for a type, or only inside a function, ties two modules together
all the same, and so does a module's name in a call of ``import_module``. So does the package of what is imported:
Python runs its ``__init__`` first. What the top package imports is left out, since it names everything and imports it
only when asked.
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
from pathlib import Path

import grimp
import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = "jazzmine_dspy"
SERVING = ("artifacts", "runtime", "program")
NOT_SERVED = ("optimize", "eval", "datasets")


def _read(package: str) -> grimp.ImportGraph:
    graph = grimp.build_graph(package, cache_dir=None)
    for name in graph.find_modules_directly_imported_by(package):
        graph.remove_import(importer=package, imported=name)
    spec = importlib.util.find_spec(package)
    assert spec is not None
    folder = Path(str(spec.origin)).parent
    for path in folder.rglob("*.py"):
        parts = path.relative_to(folder.parent).with_suffix("").parts
        module = ".".join(parts).removesuffix(".__init__")
        for imported in _imported_by_string(path.read_text("utf-8")):
            if module != package and imported in graph.modules:
                graph.add_import(importer=module, imported=imported)
    for module in graph.modules:
        for imported in graph.find_modules_directly_imported_by(module):
            for parent in _packages(imported):
                if parent != package and not f"{module}.".startswith(f"{parent}."):
                    graph.add_import(importer=module, imported=parent)
    return graph


def _packages(module: str) -> list[str]:
    """The packages that a module lies in, the outermost first."""
    parts = module.split(".")
    return [".".join(parts[:end]) for end in range(1, len(parts))]


def _imported_by_string(source: str) -> list[str]:
    """The names in calls such as ``import_module("package.module")``."""
    if "import_module" not in source:
        return []
    calls = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
    named = [call for call in calls if ast.unparse(call.func).rpartition(".")[2] == "import_module"]
    return [arg.value for call in named for arg in call.args if isinstance(arg, ast.Constant)]


def _circles(graph: grimp.ImportGraph) -> set[frozenset[str]]:
    """Groups of modules, each of which is reached from every other, named without the top package."""
    found = set()
    upstream = {module: graph.find_upstream_modules(module) for module in graph.modules}
    for module, reached in upstream.items():
        circle = {other for other in reached if module in upstream[other]}
        if circle:
            found.add(frozenset(name.partition(".")[2] for name in circle | {module}))
    return found


@pytest.fixture(scope="module")
def graph() -> grimp.ImportGraph:
    return _read(PACKAGE)


def test_every_file_is_looked_at(graph: grimp.ImportGraph) -> None:
    files = [path.relative_to(ROOT).with_suffix("").parts for path in (ROOT / PACKAGE).rglob("*.py")]
    names = {".".join(parts).removesuffix(".__init__") for parts in files}
    assert names <= graph.modules
    assert len(names) > 200


@pytest.mark.row("X2")
def test_no_module_imports_itself_in_a_circle(graph: grimp.ImportGraph) -> None:
    assert [sorted(circle) for circle in _circles(graph)] == []


@pytest.mark.row("X2")
@pytest.mark.parametrize("part", SERVING)
def test_serving_imports_nothing_that_compiles_or_measures(graph: grimp.ImportGraph, part: str) -> None:
    modules = {name for name in graph.modules if f"{name}.".startswith(f"{PACKAGE}.{part}.")}
    assert modules
    closure = modules.union(*(graph.find_upstream_modules(name) for name in modules))
    kept_out = tuple(f"{PACKAGE}.{name}." for name in NOT_SERVED)
    assert sorted(name for name in closure if f"{name}.".startswith(kept_out)) == []


@pytest.mark.parametrize(
    "back",
    [
        "from circling.first import FIRST",
        "from circling import first",
        "import circling.first",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from circling.first import FIRST",
        "def later():\n    from circling.first import FIRST",
        "import importlib\ndef later():\n    importlib.import_module('circling.first')",
    ],
)
def test_a_circle_is_seen_however_it_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, back: str
) -> None:
    folder = tmp_path / "circling"
    folder.mkdir()
    sources = {
        "__init__": "from circling.first import FIRST",
        "first": "from circling.second import SECOND\nFIRST = 1",
        "second": f"SECOND = 2\n{back}",
    }
    for name, text in sources.items():
        (folder / f"{name}.py").write_text(text, "utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    importlib.invalidate_caches()
    assert _circles(_read("circling")) == {frozenset({"first", "second"})}


def test_a_circle_is_seen_that_a_package_closes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only ``whole`` first fails: it needs ``part.plain``, whose package needs ``whole``."""
    folder = tmp_path / "closing" / "part"
    folder.mkdir(parents=True)
    (folder.parent / "__init__.py").write_text("", "utf-8")
    (folder.parent / "whole.py").write_text("from closing.part.plain import PLAIN\nWHOLE = 1", "utf-8")
    (folder / "__init__.py").write_text("from closing.part.using import USING", "utf-8")
    (folder / "plain.py").write_text("PLAIN = 1", "utf-8")
    (folder / "using.py").write_text("from closing.whole import WHOLE\nUSING = WHOLE", "utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    importlib.invalidate_caches()
    assert _circles(_read("closing")) == {frozenset({"whole", "part", "part.using"})}
