"""Saves the best program so far of a run that is stopped."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import dspy

from jazzmine_dspy import artifacts
from jazzmine_dspy.models.errors import JazzmineError
from jazzmine_dspy.program.prompts import put, states_of
from jazzmine_dspy.program.turn import TurnProgram


class BestSoFar:
    """The best program and the best prompts of a run so far.

    Before the run has chosen that is the base program. The prompts come with it, and its policy asks no language model
    yet: use ``program.with_policy("lm")`` to ask it.

    Attributes:
        tried: The candidates so far, with their scores.
        saved: Where the program is on disk; None while it is not.
        complete: Whether its figures and its report are there too.
    """

    def __init__(self) -> None:
        self._program: TurnProgram | None = None
        self._prompts: TurnProgram | None = None
        self._examples: Sequence[Mapping[str, str]] | None = ()
        self.tried: list[dict[str, Any]] = []
        self.saved: Path | None = None
        self.complete = False

    def stands(self, program: TurnProgram, examples: Sequence[Mapping[str, str]] | None = ()) -> None:
        """Note the best program so far, with the examples in its index; None takes those of its recall."""
        self._program, self._examples = program, examples

    def prompts(self, name: str, score: float | None, program: TurnProgram, *, best: bool) -> None:
        """Note a scored candidate, and whether it is the best one."""
        self.tried = [each for each in self.tried if each["name"] != name] + [{"name": name, "dev_a": score}]
        if best:
            self._prompts = program

    def ships(self, program: TurnProgram, examples: Sequence[Mapping[str, str]] | None) -> None:
        """Note the program that ships: no prompts that were tried are laid over it.

        Args:
            program: As the run settled it.
            examples: What its index holds; None takes what its recall holds.
        """
        self._program, self._prompts, self._examples = program, None, examples

    def stop(
        self,
        error: BaseException,
        folder: Path,
        facts: Mapping[str, Any],
        run: Mapping[str, Any],
        note: Callable[[str], None],
    ) -> None:
        """Save the best program of a run and report where it is.

        Ctrl-C saves the best so far. Any other error gets a note that names the program, where one is saved.

        Args:
            error: What ended the run.
            folder: Of the program.
            facts: As of :meth:`save`.
            run: As of :meth:`save`.
            note: Receives the line of a run that was stopped.
        """
        further = "its report is there too" if self.complete else "the same command goes on"
        if not isinstance(error, KeyboardInterrupt):
            if self.saved is not None:
                error.add_note(f"The program is in {self.saved} and can be loaded; {further}.")
        elif self.saved is not None:
            note(f"stopped: the program is in {self.saved}; {further}")
        else:
            best = self.save(folder, facts, run)
            note(f"stopped: {'' if best is None else f'the best so far is in {best}; '}{further}")

    def save(self, folder: Path, facts: Mapping[str, Any], run: Mapping[str, Any]) -> Path | None:
        """Save it, next to a program that is in the folder already; None if nothing was trained yet."""
        if self._program is None:
            return None
        program = self._program.with_policy(self._program.policy)
        if (best := self._prompts) is not None:
            worded = program.policy.model_copy(update={"wording": best.policy.wording})
            program = program.with_policy(worded)
            put(states_of(best), program)
        target = folder if _unfinished(folder) else beside(folder)
        embedder = program.bindings.embedder
        model = getattr(embedder, "model", None)
        told = {
            "dspy": dspy.__version__, "shape": program.shape, "interrupted": True, "candidates": self.tried,
            "embedder": None
            if embedder is None
            else {"model": model, "fingerprint": embedder.fingerprint},
            "head": None, **facts,
        }  # fmt: skip
        self.saved = artifacts.save(
            program, target, name=folder.name, facts=told, run=run, examples=self._examples
        )
        return self.saved


def beside(folder: Path) -> Path:
    """Folder of a stopped run if the original folder holds a finished program."""
    return folder.parent / f"{folder.name}-interrupted"


def remove_unfinished(folder: Path) -> None:
    """Remove what an earlier stopped run left next to the folder, after a run has finished."""
    if (other := beside(folder)).is_dir() and _unfinished(other):
        shutil.rmtree(other, ignore_errors=True)


def _unfinished(folder: Path) -> bool:
    if not folder.is_dir() or not any(folder.iterdir()):
        return True
    try:
        return bool(artifacts.read_manifest(folder).get("interrupted"))
    except JazzmineError:
        return False
