"""Answers of a language model that are kept as evidence: read by key, told with date and kind of model, never added to.

A recording is a folder: ``recording.toml`` says what it is, ``requests.jsonl`` holds the key of each request and
``answers.jsonl`` the answers. What is asked now is looked up by the same keys as `deferred_lm` writes, so a prompt that
has changed finds no answer: the recording is stale, and nothing is scored by it.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import dspy
from pydantic import Field, ValidationError

from jazzmine_dspy.lm.asked import asked
from jazzmine_dspy.lm.deferred import DeferredEngine, lm_of
from jazzmine_dspy.lm.deferred_files import (
    ANSWERS,
    RECORDING,
    REQUESTS,
    append,
    compact,
    read_answers,
    read_rows,
    told,
)
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
                f"The recording is malformed: {_first(error)}", where=str(path), remedy="Correct it."
            ) from error

    def to_toml(self) -> str:
        """The text of ``recording.toml``."""
        told = self.model_dump()
        return "".join(f"{name} = {_toml(value)}\n" for name, value in told.items())


class RecordedEngine(DeferredEngine):
    """An engine that answers from a recording. Thread-safe; it writes nothing.

    ``used`` are the keys of the answers that were given so far.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self.recording = Recording.read(folder)
        with told(self.folder):
            self.held = set(read_rows(self.folder / REQUESTS))
            self._answers = read_answers(self.folder, self.held)
        self.used: set[str] = set()

    def _found(self, key: str) -> Any:
        if (found := self._answers.get(key)) is not None:
            self.used.add(key)
        return found

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


def recordings_of(lms: Iterable[dspy.LM | None]) -> dict[str, Any] | None:
    """What a report says of the recording that these language models have answered from; None where they have not."""
    engines = [engine for lm in lms if lm is not None and isinstance(engine := asked(lm)[1], RecordedEngine)]
    if not engines:
        return None
    recording = engines[0].recording
    said = {name: str(getattr(recording, name)) for name in ("name", "kind", "date", "wording", "measured")}
    used = set().union(*(engine.used for engine in engines))
    return {**said, "answers": len(engines[0].held), "used": len(used)}


def in_words(said: Mapping[str, Any]) -> str:
    """What `recordings_of` gives, as a sentence."""
    return (
        f"{said['used']} of {said['answers']} recorded answers of {said['kind']}, {said['date']} ({said['name']}); "
        "they tell nothing of latency, or of how well a service keeps to a schema"
    )


def record(folder: str | Path, out: str | Path, facts: Mapping[str, Any]) -> Recording:
    """Make a recording of what was answered in a folder of deferred answers.

    Args:
        folder: Of deferred answers; requests without an answer are left out.
        out: Folder of the recording; it must not be there yet.
        facts: What `Recording` says, but ``model`` and ``prompts``, which the requests say.

    Raises:
        InputError: A fact is missing, nothing is answered, or the requests are of several models.
    """
    folder, out = Path(folder), Path(out)
    with told(folder):
        rows = read_rows(folder / REQUESTS)
        answers = read_answers(folder, set(rows) or None)
        given = read_rows(folder / ANSWERS)
    kept = sorted(key for key in rows if key in answers)
    models = sorted({str(rows[key]["body"]["model"]) for key in kept})
    if len(models) != 1:
        what = f"The requests are of several models: {', '.join(models)}" if models else "Nothing is answered"
        raise InputError(what, where=str(folder), remedy="Record a folder of one model's answers.")
    prompts = sorted({_instructions(rows[key]["body"]) for key in kept})
    try:
        recording = Recording(**facts, model=models[0], prompts=tuple(prompts))
    except (TypeError, ValidationError) as error:
        raise InputError(
            f"What is said of the recording is malformed: {_first(error)}",
            where=str(out),
            remedy=f"Say {', '.join(name for name in Recording.model_fields if name not in ('model', 'prompts'))}.",
        ) from error
    with told(out):
        out.mkdir(parents=True)
        append(out / REQUESTS, *(compact({"custom_id": key}) for key in kept))
        append(out / ANSWERS, *(compact(_kept(given[key], key, answers[key][0])) for key in kept))
        (out / RECORDING).write_text(recording.to_toml(), encoding="utf-8")
    return recording


def _kept(row: dict[str, Any], key: str, content: str) -> dict[str, Any]:
    """The answer as it came where that tells tokens or why it ended, else the shorter form."""
    body = (row.get("response") or {}).get("body") or {}
    choice = (body.get("choices") or [{}])[0]
    if not body.get("usage") and choice.get("finish_reason", "stop") in (None, "stop"):
        return {"custom_id": key, "content": content}
    kept = {"choices": [choice], "usage": body.get("usage") or {}}
    return {"custom_id": key, "response": {"status_code": 200, "body": kept}}


def _instructions(body: Mapping[str, Any]) -> str:
    texts = [each["content"] for each in body["messages"] if each["role"] == "system"]
    return hashlib.sha256(json.dumps(texts).encode()).hexdigest()[:12]


def _first(error: Exception) -> str:
    if not isinstance(error, ValidationError):
        return str(error)
    found = error.errors()[0]
    return f"{'.'.join(map(str, found['loc']))}: {found['msg']}"


def _toml(value: Any) -> str:
    if isinstance(value, dt.date):
        return value.isoformat()
    if isinstance(value, tuple):
        return f"[{', '.join(map(_toml, value))}]"
    return json.dumps(value, ensure_ascii=False)
