"""Settings of every test run: no network, no shared cache, and a record of the rows that tests prove."""

from __future__ import annotations

import atexit
import functools
import gc
import ipaddress
import json
import os
import shutil
import signal
import socket
import sys
import tempfile
import threading
import tomllib
from collections import OrderedDict
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from _pytest.doctest import DoctestModule

ROOT = Path(__file__).resolve().parent.parent
ROWS = tomllib.loads((ROOT / "tests" / "rows.toml").read_text("utf-8"))
RECORD = ROOT / ".cache" / "rows.json"

# --- the environment, set before anything imports dspy, litellm or mlflow ----------------------------------

os.environ["DSPY_CACHEDIR"] = tempfile.mkdtemp(prefix="jazzmine-dspy-tests-")
atexit.register(shutil.rmtree, os.environ["DSPY_CACHEDIR"], ignore_errors=True)
os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"
# The matrices are small: more threads wait for each other and take four times the processor time.
os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}

# `python -m pytest` puts the root on the path, where `datasets/` passes for the library of that name.
sys.path[:] = [entry for entry in sys.path if entry and Path(entry).resolve() != ROOT]

# A run in the background ignores interrupts, which tests send.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# A slow machine is no failure, and CI must not fail by the luck of the draw.
hypothesis.settings.register_profile("here", deadline=None, max_examples=50)
hypothesis.settings.register_profile("ci", deadline=None, max_examples=50, derandomize=True, database=None)
hypothesis.settings.load_profile("ci" if os.environ.get("CI") else "here")


@pytest.hookimpl(wrapper=True)
def pytest_collect_file() -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
    """Tests hold no examples; and a file that doctest failed to import would pass for one without tests."""
    found = yield
    return [each for each in found if not isinstance(each, DoctestModule)]


@pytest.fixture(autouse=True)
def own_validators(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test registers ends with it."""
    from jazzmine_dspy.models.validators import VALIDATORS

    monkeypatch.setattr(VALIDATORS, "_values", {})
    monkeypatch.setattr(VALIDATORS, "_origins", {})


@pytest.fixture(autouse=True)
def unknown_providers(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server may get the port of one that an earlier test closed; what that one refused says nothing of it."""
    from jazzmine_dspy.lm import providers

    monkeypatch.setattr(providers, "_quirks", {})


@pytest.fixture(scope="session", autouse=True)
def no_disk_cache() -> None:
    """An answer kept on disk by an earlier run would hide a change in the request."""
    import dspy

    dspy.configure_cache(enable_disk_cache=False)


@pytest.fixture(scope="session", autouse=True)
def one_embedding_model() -> Iterator[None]:
    """Programs of all tests share the default embedding model and its vectors, as they share them in a service."""
    from jazzmine_dspy.memory.procedural import embedder, minilm

    class Lasting(OrderedDict[str, Any]):
        def clear(self) -> None:
            """Nothing: evaluations clear the vectors to measure time."""

    vectors, lock, construct = Lasting(), threading.Lock(), embedder.FastembedEmbedder.__init__

    @functools.wraps(construct)
    def construct_shared(self: embedder.FastembedEmbedder, *arguments: Any, **settings: Any) -> None:
        construct(self, *arguments, **settings)
        if self.model == minilm.NAME and "threads" not in settings:
            self._vectors, self._cache_lock, self._cache_size = vectors, lock, 50_000

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(embedder.FastembedEmbedder, "__init__", construct_shared)
        patch.setattr(minilm, "load", functools.cache(minilm.load))
        yield


@pytest.fixture
def own_embedding_models(one_embedding_model: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each embedder loads its model and computes its vectors itself: for tests of just that."""
    from jazzmine_dspy.memory.procedural import embedder, minilm

    for place, name in ((embedder.FastembedEmbedder, "__init__"), (minilm, "load")):
        monkeypatch.setattr(place, name, getattr(place, name).__wrapped__)


# --- no test reaches beyond this machine -------------------------------------------------------------------


class NetworkBlockedError(OSError):
    """A test tried to reach another machine."""


def _refuse_remote(sock: socket.socket, address: Any) -> None:
    if sock.family not in (socket.AF_INET, socket.AF_INET6):
        return
    host = address[0]
    try:
        local = ipaddress.ip_address(host).is_loopback
    except ValueError:
        local = host == "localhost"
    if not local:
        raise NetworkBlockedError(f"tests may only connect to this machine, not to {host}")


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """Refuses connections that leave the loopback interface."""

    def guarded(original: Callable[..., Any]) -> Callable[..., Any]:
        def connect(sock: socket.socket, address: Any) -> Any:
            _refuse_remote(sock, address)
            return original(sock, address)

        return connect

    for name in ("connect", "connect_ex"):
        monkeypatch.setattr(socket.socket, name, guarded(getattr(socket.socket, name)))


# --- order -------------------------------------------------------------------------------------------------


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Two workers start at the two ends of the list of files."""
    if config.getoption("dist") != "loadfile":
        return None
    from both_ends import BothEnds

    return BothEnds(config, log)


# --- rows --------------------------------------------------------------------------------------------------


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--row", action="append", default=[], help="run the tests that prove this row; repeatable"
    )


def _rows_of(item: pytest.Item) -> list[str]:
    ids = [str(row) for marker in item.iter_markers("row") for row in marker.args]
    unknown = sorted(set(ids) - ROWS.keys())
    if unknown or any(not marker.args for marker in item.iter_markers("row")):
        named = ", ".join(unknown) or "(none given)"
        raise pytest.UsageError(f"{item.nodeid}: unknown row {named}; see tests/rows.toml")
    return ids


class RowRecorder:
    """Notes for each row which tests carry it and how they ended."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.rows: dict[str, list[str]] = {}
        self.outcomes: dict[str, str] = {}

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        # Before deselection, so that a row whose only tests are left out is not called missing.
        for item in items:
            for row in _rows_of(item):
                self.rows.setdefault(row, []).append(item.nodeid)
        if wanted := set(self.config.getoption("--row")):
            if unknown := sorted(wanted - ROWS.keys()):
                raise pytest.UsageError(f"unknown row {unknown[0]}; see tests/rows.toml")
            others = [item for item in items if not wanted & set(_rows_of(item))]
            self.config.hook.pytest_deselected(items=others)
            items[:] = [item for item in items if wanted & set(_rows_of(item))]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.outcomes[report.nodeid] = "failed"
        elif report.skipped:
            self.outcomes.setdefault(report.nodeid, "skipped")
        elif report.when == "call":
            self.outcomes.setdefault(report.nodeid, "passed")

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        # Of several processes each collects all tests; what they ran reaches this one as reports.
        self.rows.update(getattr(node, "workeroutput", {}).get("rows", {}))

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self.config.option.collectonly:
            return
        if hasattr(self.config, "workeroutput"):
            self.config.workeroutput["rows"] = self.rows
            return
        option = self.config.option
        whole = self.config.args_source is pytest.Config.ArgsSource.TESTPATHS and not option.keyword
        whole = whole and option.markexpr in ("not bench", "not bench and not long") and not option.row
        tests = {
            row: {nodeid: self.outcomes.get(nodeid, "not run") for nodeid in sorted(set(nodeids))}
            for row, nodeids in self.rows.items()
        }
        RECORD.parent.mkdir(exist_ok=True)
        RECORD.write_text(json.dumps({"whole": whole, "tests": tests}, indent=1, sort_keys=True), "utf-8")


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """What is imported and collected stays to the end: going through it again and again takes a tenth of the time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 10, 10)


def pytest_configure(config: pytest.Config) -> None:
    if Path(config.rootpath) == ROOT:
        config.pluginmanager.register(RowRecorder(config), "rows")
