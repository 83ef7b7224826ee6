"""Damaged folders and full disks: an error of ours that says what to do, and a whole index afterwards."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from jazzmine_dspy.memory.procedural import FallbackRecall, FlowIndex
from jazzmine_dspy.models.decision import Degraded
from jazzmine_dspy.models.errors import MemoryUnavailableError
from jazzmine_dspy.models.ports import Embedder
from jazzmine_dspy.models.registry import FlowRegistry


@pytest.mark.chaos
@pytest.mark.parametrize(
    ("files", "content"),
    [("edge-*/layout.json", b"[]"), ("edge-*/layout.json", b""), ("edge-*/**/vectors/status.dat", b"")],
)
def test_a_damaged_folder(
    hashed: Embedder, shop: FlowRegistry, tmp_path: Path, files: str, content: bytes
) -> None:
    """Over the last one the shard panics, which is no ``Exception``."""
    with FlowIndex(shop, hashed, path=str(tmp_path), engine="edge") as index:
        found = index.recall("my order", k=4)
    damaged = list(tmp_path.glob(files))
    assert damaged
    for file in damaged:
        file.write_bytes(content)
    with FlowIndex(shop, hashed, path=str(tmp_path), engine="edge") as index:
        with pytest.raises(MemoryUnavailableError, match="does not answer") as caught:
            index.recall("my order", k=4)
        assert "build it anew" in caught.value.remedy
        stood_in = FallbackRecall(index, lambda: FlowIndex(shop, hashed)).recall("my order", k=4)
        assert isinstance(stood_in, Degraded)
        assert stood_in == found
    with FlowIndex(shop, hashed, path=str(tmp_path / "anew"), engine="edge") as index:
        assert index.recall("my order", k=4) == found


FULL = """
import resource, sys
import numpy as np
from jazzmine_dspy.memory.procedural import FlowIndex
from jazzmine_dspy.models.errors import MemoryUnavailableError
from jazzmine_dspy.models.registry import FlowRegistry
class Ones:
    fingerprint, size = "ones", 64
    def embed(self, texts): return np.full((len(texts), 64), 0.125, dtype=np.float32)
registry = FlowRegistry([{"name": f"f{n}", "description": "b", "examples": [f"e{n} {m}" for m in range(12)]}
                         for n in range(10)])
index = FlowIndex(registry, Ones(), path=sys.argv[1], engine=sys.argv[2])
_, most = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, most))
try:
    index.build()
except MemoryUnavailableError as error:
    print(error)
resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
print(len(index.recall("b", k=50)), len(index.lists("b", depth=5000).dense))
"""


@pytest.mark.chaos
@pytest.mark.skipif(sys.platform == "win32", reason="no limit on the size of files")
@pytest.mark.parametrize("engine", ["edge", "local"])
def test_a_folder_that_has_no_room_is_built_when_there_is(tmp_path: Path, engine: str) -> None:
    command = [sys.executable, "-P", "-c", FULL, str(tmp_path), engine]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    refused, answered = done.stdout.splitlines()
    assert "does not answer" in refused
    assert "has room" in refused
    assert answered == "10 130"


UNFLUSHED = """
import resource, sys, uuid
import numpy as np
from jazzmine_dspy.memory.procedural._edge import EdgeEngine
from jazzmine_dspy.memory.procedural.engine import Layout, StoredPoint
from jazzmine_dspy.models.errors import MemoryUnavailableError
vector, layouts = np.full(64, 0.125, dtype=np.float32), [Layout("first", 64), Layout("second", 64)]
engine = EdgeEngine(sys.argv[1])
for layout in layouts:
    engine.ensure(layout)
    engine.upsert(layout, [StoredPoint(str(uuid.UUID(int=n)), vector, ([n], [1.0]), {}) for n in range(1, 101)])
_, most = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (1, most))
told = None
try:
    engine.close()
except MemoryUnavailableError as error:
    told = error
resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
print(told)
again = EdgeEngine(sys.argv[1])  # while the error is held
for layout in layouts:
    again.ensure(layout)
    print(sum(1 for _ in again.scroll(layout, {})))
again.close()
"""


@pytest.mark.chaos
@pytest.mark.skipif(sys.platform == "win32", reason="no limit on the size of files")
def test_what_could_not_be_flushed_is_told_and_the_folder_given_back(tmp_path: Path) -> None:
    """What was written is in the log, and there again when the folder is opened."""
    command = [sys.executable, "-P", "-c", UNFLUSHED, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    told, *points = done.stdout.splitlines()
    assert "could not be flushed" in told
    assert "has room" in told
    assert points == ["100", "100"]
    assert "could not be flushed" in done.stderr
