"""G3: what serves a turn unpickles nothing, evaluates nothing, and starts no shell."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import grimp
import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = "jazzmine_dspy"
SERVING = ("artifacts", "runtime", "program", "dialogue", "memory", "lm", "integrations")
MODULES = {"pickle", "cPickle", "cloudpickle", "dill", "joblib", "marshal", "shelve", "diskcache"}
CALLS = {"eval", "exec", "compile", "__import__", "os.system", "os.popen", "yaml.load", "yaml.unsafe_load"}


def dangers(source: str) -> Iterator[str]:
    """What a source unpickles, evaluates or passes to a shell."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names if name.name.partition(".")[0] in MODULES)
        elif isinstance(node, ast.ImportFrom):
            if (node.module or "").partition(".")[0] in MODULES:
                yield str(node.module)
        elif isinstance(node, ast.Call):
            called = ast.unparse(node.func)
            if called in CALLS:
                yield called
            for word in node.keywords:
                if (word.arg, ast.unparse(word.value)) in {("shell", "True"), ("allow_pickle", "True")}:
                    yield f"{called}({word.arg}=True)"


@pytest.mark.row("G3")
def test_serving_unpickles_evaluates_and_shells_out_nowhere() -> None:
    graph = grimp.build_graph(PACKAGE, cache_dir=None)
    for name in graph.find_modules_directly_imported_by(PACKAGE):
        graph.remove_import(importer=PACKAGE, imported=name)
    roots = tuple(f"{PACKAGE}.{name}." for name in SERVING)
    modules = {name for name in graph.modules if f"{name}.".startswith(roots)}
    modules = modules.union(*(graph.find_upstream_modules(name) for name in modules))
    assert len(modules) > 150
    found = []
    for name in sorted(modules):
        path = ROOT.joinpath(*name.split("."))
        path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
        found += [f"{name}: {danger}" for danger in dangers(path.read_text("utf-8"))]
    assert found == []


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("import pickle", "pickle"),
        ("def f(x):\n    from cloudpickle import loads", "cloudpickle"),
        ("eval(text)", "eval"),
        ("os.system(text)", "os.system"),
        ("subprocess.run(text, shell=True)", "subprocess.run(shell=True)"),
        ("np.load(path, allow_pickle=True)", "np.load(allow_pickle=True)"),
    ],
)
def test_each_danger_is_seen(source: str, expected: str) -> None:
    assert list(dangers(source)) == [expected]
    assert list(dangers("import re\nre.compile('x')\nast.literal_eval('1')\nself.eval(1)")) == []
