"""Recorded answers of a language model as evidence: read by key, reported with date and kind of model, never added to.

A recording is a folder: ``recording.toml`` says what it is, ``requests.jsonl`` holds the key of each request and
``answers.jsonl`` the answers. What is asked now is looked up by the same keys as `deferred_lm` writes, so a prompt that
has changed finds no answer: the recording is stale, and nothing is scored by it.
"""

from __future__ import annotations

import datetime as dt
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import dspy
from pydantic import Field, ValidationError

from jazzmine_dspy.lm.deferred import (
    RECORDING,
    REQUESTS,
    Answer,
    DeferredEngine,
    folder_errors,
    lm_of,
    read_answers,
    read_rows,
)
from jazzmine_dspy.lm.engines import unwrap
from jazzmine_dspy.models.awaiting import Awaiting, Stale
from jazzmine_dspy.models.base import Value
from jazzmine_dspy.models.errors import InputError

PREFIX = "recording:"


class Recording(Value):
    """What a recording says of itself.

    Args:
        name: Its own.
        measured: What it was made to measure.
        dataset: The dataset or suite, with its fingerprint where it has one.
        part: The part of it, or which turns.
        program: The program that asked, with its fingerprint.
        wording: Of the prompts.
        kind: Of model, in plain words: "a large language model, asked in batches".
        rules: Under which it was answered.
        date: The day on which the last answer was given.
        model: The model as the requests state it, which is a part of their keys.
        prompts: Digests of the instructions that were sent.
        turns: Keys of the dataset's turns that were asked about, ``CONVERSATION/TURN``; empty where it does not list
            them.
    """

    name: str = Field(min_length=1)
    measured: str = Field(min_length=1)
    dataset: str = Field(min_length=1)
    part: str = Field(min_length=1)
    program: str = Field(min_length=1)
    wording: str = Field(min_length=1)
    kind: str = Field(min_length=1)
    rules: str = Field(min_length=1)
    date: dt.date
    model: str = Field(min_length=1)
    prompts: tuple[str, ...] = Field(min_length=1)
    turns: tuple[str, ...] = ()

    @classmethod
    def read(cls, folder: str | Path) -> Recording:
        """The recording in a folder.

        Raises:
            InputError: There is none, or it does not say what it has to.
        """
        path = Path(folder) / RECORDING
        try:
            return cls.model_validate(tomllib.loads(path.read_text("utf-8")))
        except OSError as error:
            raise InputError(
                f"The recording cannot be read: {error.strerror or error}",
                where=str(path),
                remedy="Name the folder of a recording.",
            ) from error
        except (ValueError, ValidationError) as error:
            raise InputError(
                f"The recording is malformed: {first_problem(error)}", where=str(path), remedy="Correct it."
            ) from error


class RecordedEngine(DeferredEngine):
    """An engine that answers from a recording. Thread-safe; it writes nothing.

    ``used`` are the keys of the answers that were given so far.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self.recording = Recording.read(folder)
        with folder_errors(self.folder):
            self.keys = set(read_rows(self.folder / REQUESTS))
            self._answers = read_answers(self.folder, self.keys)
        self.used: set[str] = set()

    def _answer(self, key: str) -> Answer | None:
        if (answer := super()._answer(key)) is not None:
            self.used.add(key)
        return answer

    def _awaited(self, missing: Mapping[str, str]) -> Awaiting:
        return Stale(str(self.folder), missing)


def recorded_lm(folder: str | Path, **settings: Any) -> dspy.LM:
    """A language model that answers from a recording, and in its place raises `Stale` where it holds no answer.

    Args:
        folder: Of the recording.
        settings: Those with which it was asked: ``temperature`` (0 unless given) and ``max_tokens``.

    Raises:
        InputError: It is none.
    """
    engine = RecordedEngine(folder)
    return lm_of(engine, engine.recording.model, f"{PREFIX}{folder}", settings)


def recording_summary(lms: Iterable[dspy.LM | None]) -> dict[str, Any] | None:
    """What a report says of the recording that these language models answered from; None where they did not."""
    engines = [engine for lm in lms if lm is not None and isinstance(engine := unwrap(lm)[1], RecordedEngine)]
    if not engines:
        return None
    recording = engines[0].recording
    facts = {name: str(getattr(recording, name)) for name in ("name", "kind", "date", "wording", "measured")}
    used = set().union(*(engine.used for engine in engines))
    return {**facts, "answers": len(engines[0].keys), "used": len(used)}


def describe(summary: Mapping[str, Any]) -> str:
    """The result of `recording_summary` as a sentence."""
    return (
        f"{summary['used']} of {summary['answers']} recorded answers of {summary['kind']}, {summary['date']} "
        f"({summary['name']}); they tell nothing of latency, or of how well a service keeps to a schema"
    )


def first_problem(error: Exception) -> str:
    """The first problem that a validation names."""
    first = error.errors()[0] if isinstance(error, ValidationError) else None
    return f"{'.'.join(map(str, first['loc']))}: {first['msg']}" if first else str(error)
