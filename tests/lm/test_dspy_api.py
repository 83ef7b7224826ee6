"""What of DSPy's inner names the package uses: in one module, which a new release is tried on first."""

from __future__ import annotations

import ast
import importlib
import importlib.metadata
import warnings
from pathlib import Path

import dspy
import pytest

from jazzmine_dspy.lm import dspy_api
from jazzmine_dspy.signatures import adapter

PACKAGE = Path(dspy_api.__file__).parents[1]


def test_no_other_module_reaches_into_dspy() -> None:
    inner = []
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            names += [each.name for each in node.names] if isinstance(node, ast.Import) else []
            inner += [str(path) for name in names if name.startswith("dspy.")]
    assert set(inner) == {str(Path(dspy_api.__file__))}
    assert [name for name in dspy_api.__all__ if not hasattr(dspy_api, name)] == []


def test_the_pin_ends_below_the_next_release() -> None:
    """The release that tests run on is in it; the one after it is not."""
    from packaging.requirements import Requirement
    from packaging.version import Version

    required = map(Requirement, importlib.metadata.requires("jazzmine-dspy") or ())
    pin = next(each.specifier for each in required if each.name == "dspy")
    now = Version(dspy.__version__)
    assert now in pin
    assert Version(f"{now.major}.{now.minor + 1}.0") not in pin


@pytest.mark.row("L2")
def test_an_adapter_that_is_configured_is_used_or_refused_with_the_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(adapter, "_refused", {type(adapter.DEFAULT_CONFIG.adapter)})

    class Mine(adapter.DecisionAdapter):
        """A subclass of ours."""

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert type(adapter.adapter_in_force()) is adapter.DecisionAdapter
        mine = Mine()
        with dspy.context(adapter=mine):
            assert adapter.adapter_in_force() is mine
    with dspy.context(adapter=dspy.XMLAdapter()):
        with pytest.warns(UserWarning, match=r"XMLAdapter.*only it holds each answer.*subclass"):
            assert type(adapter.adapter_in_force()) is adapter.DecisionAdapter
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            adapter.adapter_in_force()
