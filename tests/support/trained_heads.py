"""Selection heads that runs of several tests train on the same turns: each is trained once.

Training is a function of its arguments, and takes ten seconds a run. Tests of the training itself call it directly.
"""

from __future__ import annotations

import copy
import functools
import hashlib
import os
import pickle
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest


def key_of(rows: Any, embedder: Any, settings: dict[str, Any]) -> str:
    """The hash of all that a training depends on."""
    from jazzmine_dspy.optimize.heads import training

    turns = [row._replace(turn=row.turn.model_dump_json()) for row in rows]
    named = (turns, embedder.fingerprint, sorted(settings.items()), training.REGULARIZATIONS)
    return hashlib.sha256(repr(named).encode()).hexdigest()


def trained_once(train: Callable[..., Any], folder: Path) -> Callable[..., Any]:
    """The training, which stores its results in a folder that processes may share."""

    @functools.wraps(train)
    def remembered(rows: Any, *, embedder: Any, **settings: Any) -> Any:
        path = folder / key_of(rows, embedder, settings)
        if path.is_file():
            return pickle.loads(path.read_bytes())
        trained = train(rows, embedder=embedder, **settings)
        part = path.with_name(f"{path.name}.{os.getpid()}")
        part.write_bytes(pickle.dumps(trained))
        part.replace(path)
        return copy.deepcopy(trained)

    return remembered


@contextmanager
def heads_trained_once(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """While it is entered, runs train a head once for all workers."""
    from jazzmine_dspy.optimize.local import training

    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "trained-heads"
    folder.mkdir(exist_ok=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(training, "train_selection_head", trained_once(training.train_selection_head, folder))
        yield
