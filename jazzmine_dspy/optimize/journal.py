"""What a run keeps so that it can go on after it was stopped: all answers, in the order in which they came."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import dspy
from dspy.lm15 import Response

import jazzmine_dspy
from jazzmine_dspy.datasets import Dataset
from jazzmine_dspy.lm import ReplayStore, replayed
from jazzmine_dspy.models.errors import RecipeError
from jazzmine_dspy.models.parsing import MalformedError, from_json
from jazzmine_dspy.optimize.recipe import Recipe

_IDENTITY, _ANSWERS = "run.json", "answers.db"
_SHOWN = 5
"""Differences that an error names."""


class Journal:
    """The answers of a run by request and number: of a request that was asked three times, there are three.

    A run is deterministic but for its answers, so one that is run again over its journal comes to where it was, asks
    on from there, and ends in the same bytes as one that nobody stopped. An answer is written as it comes: what a
    killed process loses are the answers that it was waiting for.

    Args:
        folder: Of the run.
    """

    all_requests = True

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._store = ReplayStore(folder / _ANSWERS)
        self._lock = threading.Lock()
        self._given: Counter[str] = Counter()

    def __deepcopy__(self, memo: dict[int, Any]) -> Journal:
        return self

    def __len__(self) -> int:
        return len(self._store)

    def get(self, key: str) -> Response | None:
        """The answer to a request that has not been given yet in this process; None where it is to be asked."""
        with self._lock:
            found = self._store.get(f"{key}#{self._given[key]}")
            if found is not None:
                self._given[key] += 1
            return found

    def put(self, key: str, response: Response) -> None:
        """Write an answer, which is given now."""
        with self._lock:
            self._store.put(f"{key}#{self._given[key]}", response)
            self._given[key] += 1

    def close(self, *, over: bool) -> None:
        """Close the file; a run that is over needs it no more."""
        self._store.close()
        if over:
            shutil.rmtree(self.folder, ignore_errors=True)


def journaled(lm: dspy.LM, journal: Journal) -> dspy.LM:
    """A copy of a language model whose answers a journal keeps, sampled ones too."""
    return replayed(lm, journal)


def open_journal(work: Path, out: Path, identity: Mapping[str, Any], *, resume: bool) -> Journal:
    """The journal of a run into a folder: the one of the run that was stopped there, or an empty one.

    Args:
        work: Where runs keep what the next one needs.
        out: Folder of the program.
        identity: All that the run hangs on (:func:`identity_of`).
        resume: Whether to go on with the run that was stopped.

    Raises:
        RecipeError: there is no such run, or recipe, data or code are others than they were.
    """
    digest = hashlib.sha256(str(out.resolve()).encode()).hexdigest()[:12]
    folder = work / "runs" / f"{out.name}-{digest}"
    path = folder / _IDENTITY
    told = json.dumps(identity, sort_keys=True)
    if not resume:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        path.write_text(told, "utf-8")
        return Journal(folder)
    try:
        before = from_json(path.read_bytes())
    except (OSError, MalformedError) as error:
        raise RecipeError(
            "No run was stopped that could go on",
            where=str(out),
            remedy="Leave out --resume; a run that has come to its end needs none.",
        ) from error
    if differing := _differences(before, json.loads(told)):
        more = f", and {len(differing) - _SHOWN} more" if len(differing) > _SHOWN else ""
        raise RecipeError(
            f"The run was begun with another recipe, other data or other code: {'; '.join(differing[:_SHOWN])}{more}",
            where=str(out),
            remedy="Undo the change, or begin anew without --resume.",
        )
    return Journal(folder)


def identity_of(recipe: Recipe, dataset: Dataset, **others: Any) -> dict[str, Any]:
    """All that a run hangs on but the answers: recipe, data and code.

    Args:
        recipe: With all that changes a result.
        dataset: With flows, conversations and their parts.
        others: What else the run was given.
    """
    root = Path(jazzmine_dspy.__file__).parent
    code = {
        str(path.relative_to(root)): hashlib.sha256(path.read_bytes()).hexdigest()[:16]
        for path in sorted(root.rglob("*.py"))
    }
    data = {"content": dataset.fingerprint, "parts": dataset.splits_fingerprint}
    return {"recipe": recipe.facts, "data": data, "code": {"dspy": dspy.__version__, **code}, "given": others}


def _differences(before: Any, now: Any, path: str = "") -> list[str]:
    if isinstance(before, dict) and isinstance(now, dict):
        return [
            line
            for key in sorted({*before, *now})
            for line in _differences(before.get(key), now.get(key), f"{path}.{key}" if path else str(key))
        ]
    if before == now:
        return []
    part, _, name = path.partition(".")
    if part in ("code", "data"):
        return [f"{part} ({name}) changed"]
    return [f"{name} was {json.dumps(before)}, is {json.dumps(now)}"]


@contextlib.contextmanager
def alone(out: Path) -> Iterator[None]:
    """Within it, no other run writes into a folder.

    Raises:
        RecipeError: another run is under way there.
    """
    import portalocker

    path = out.parent / f".{out.name}.lock"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab") as file:
        try:
            portalocker.lock(file, portalocker.LockFlags.EXCLUSIVE | portalocker.LockFlags.NON_BLOCKING)
            # Another run may just have ended, and have taken this file away.
            if not path.exists() or path.stat().st_ino != os.fstat(file.fileno()).st_ino:
                raise portalocker.exceptions.AlreadyLocked("taken away")
        except portalocker.exceptions.LockException as error:
            raise RecipeError(
                "Another run is under way into this folder",
                where=str(out),
                remedy="Wait for it, or name another --out.",
            ) from error
        try:
            yield
        finally:
            path.unlink(missing_ok=True)
            portalocker.unlock(file)
