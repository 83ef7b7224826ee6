"""Keep what was answered in a folder of deferred answers as a recording: evidence for comparing prompts and programs.

Run: .venv/bin/python tools/record.py FOLDER eval/recordings/NAME FACTS.toml

FACTS.toml says name, measured, dataset, part, program, kind, rules and date; eval/recordings/README.md tells
what each of them means. The model's name and the digests of the prompts are taken from the requests.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import sys
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from jazzmine_dspy.lm.deferred import (
    ANSWERS,
    RECORDING,
    REQUESTS,
    append,
    folder_errors,
    read_answers,
    read_rows,
)
from jazzmine_dspy.lm.replay import Recording, first_problem
from jazzmine_dspy.models.base import canonical_json
from jazzmine_dspy.models.errors import InputError, JazzmineError


def main(argv: Sequence[str]) -> int:
    """Make the recording; the exit code."""
    if len(argv) != 3:
        print(__doc__, file=sys.stderr)
        return 2
    folder, out, facts = map(Path, argv)
    try:
        made = record(folder, out, tomllib.loads(facts.read_text("utf-8")))
    except (JazzmineError, OSError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(f"{made.name}: {len(read_rows(out / ANSWERS))} answers, {made.date}: {out}")
    return 0


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
    with folder_errors(folder):
        rows = read_rows(folder / REQUESTS)
        answers = read_answers(folder, set(rows) or None)
        raw = read_rows(folder / ANSWERS)
    keys = sorted(key for key in rows if key in answers)
    models = sorted({str(rows[key]["body"]["model"]) for key in keys})
    if len(models) != 1:
        what = f"The requests are of several models: {', '.join(models)}" if models else "Nothing is answered"
        raise InputError(what, where=str(folder), remedy="Record a folder of one model's answers.")
    prompts = sorted({_instructions(rows[key]["body"]) for key in keys})
    try:
        recording = Recording(**facts, model=models[0], prompts=tuple(prompts))
    except (TypeError, ValidationError) as error:
        raise InputError(
            f"What is said of the recording is malformed: {first_problem(error)}",
            where=str(out),
            remedy=f"Say {', '.join(name for name in Recording.model_fields if name not in ('model', 'prompts'))}.",
        ) from error
    with folder_errors(out):
        out.mkdir(parents=True)
        append(out / REQUESTS, *(canonical_json({"custom_id": key}) for key in keys))
        append(out / ANSWERS, *(canonical_json(_shortened(raw[key], key, answers[key][0])) for key in keys))
        (out / RECORDING).write_text(_to_toml(recording), encoding="utf-8")
    return recording


def _shortened(row: dict[str, Any], key: str, content: str) -> dict[str, Any]:
    """The answer as it came where that tells tokens or why it ended, else the shorter form."""
    body = (row.get("response") or {}).get("body") or {}
    choice = (body.get("choices") or [{}])[0]
    if not body.get("usage") and choice.get("finish_reason", "stop") in (None, "stop"):
        return {"custom_id": key, "content": content}
    shorter = {"choices": [choice], "usage": body.get("usage") or {}}
    return {"custom_id": key, "response": {"status_code": 200, "body": shorter}}


def _instructions(body: Mapping[str, Any]) -> str:
    texts = [each["content"] for each in body["messages"] if each["role"] == "system"]
    return hashlib.sha256(json.dumps(texts).encode()).hexdigest()[:12]


def _to_toml(recording: Recording) -> str:
    return "".join(f"{name} = {_toml(value)}\n" for name, value in recording.model_dump().items())


def _toml(value: Any) -> str:
    if isinstance(value, dt.date):
        return value.isoformat()
    if isinstance(value, tuple):
        return f"[{', '.join(map(_toml, value))}]"
    return json.dumps(value, ensure_ascii=False)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
