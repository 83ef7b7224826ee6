"""Hand the open requests of folders of deferred answers to answerers in batches, and take their answers back.

Run:
    .venv/bin/python tools/split_requests.py FOLDER… --batches 12 --out DIR [--seed 0]
    .venv/bin/python tools/split_requests.py FOLDER… --join FILE…

A batch is a file of lines ``{"id", "messages", "schema"}`` that says neither which turn nor which program asks: ids are
digests, order and batch are drawn by seed, and several folders (one for each of the programs that are compared) are
mixed. A request that stands in two folders is asked once. Requests of one conversation lie in different batches, where
there are enough of them, and never next to each other, where others can stand between.

An answer is a line ``{"id", "answer"}``; the answer is JSON that fits the schema, or a text that holds such. Every one
that is right goes to ``answers.jsonl`` of the folders that asked, in the batch format. Those that are missing, wrong,
doubled or unknown are listed, with exit code 1; they stay open, and the next split holds them alone.
"""

from __future__ import annotations

import argparse
import hashlib
import heapq
import itertools
import json
import random
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jsonschema

from jazzmine_dspy.lm.deferred import (
    ANSWERS,
    REQUESTS,
    append,
    folder_errors,
    locked,
    read_answers,
    read_conversations,
    read_rows,
)
from jazzmine_dspy.models.base import canonical_json
from jazzmine_dspy.models.errors import InputError, JazzmineError

_SHOWN = 20


@dataclass
class Asked:
    """A request that one folder or several have made."""

    custom_id: str
    body: dict[str, Any]
    folders: list[Path] = field(default_factory=list)
    open_in: list[Path] = field(default_factory=list)
    conversations: set[str] = field(default_factory=set)

    @property
    def schema(self) -> Any:
        """What the answer has to fit; None where any text does."""
        return self.body.get("response_format", {}).get("json_schema", {}).get("schema")


def read_asked(folders: Sequence[Path]) -> dict[str, Asked]:
    """All requests of the folders, by opaque id."""
    found: dict[str, Asked] = {}
    for folder in folders:
        with folder_errors(folder):
            rows, of = read_rows(folder / REQUESTS), read_conversations(folder)
            answered = read_answers(folder, set(rows) or None)
        if not rows:
            raise InputError(
                "No request is here", where=str(folder), remedy="Name a folder of deferred answers."
            )
        for key, row in rows.items():
            asked = found.setdefault(opaque(key), Asked(key, row["body"]))
            asked.folders.append(folder)
            asked.conversations |= of.get(key, set())
            if key not in answered:
                asked.open_in.append(folder)
    return found


def opaque(custom_id: str) -> str:
    """The id that answerers see.

    Example:
        >>> opaque("jazzmine-1") == opaque("jazzmine-1") != opaque("jazzmine-2")
        True
    """
    return hashlib.sha256(custom_id.encode()).hexdigest()[:12]


def split(conversations: Mapping[str, set[str]], batches: int, seed: int) -> list[list[str]]:
    """Ids in batches of nearly one size, in the order in which they are asked.

    Args:
        conversations: Those that each id is of; none where that is not known.
        batches: How many; fewer are made of fewer ids.
        seed: Of every draw.

    Example:
        >>> [sorted(batch) for batch in split({"a": {"1"}, "b": {"1"}, "c": {"2"}, "d": {"2"}}, 2, 3)]
        [['b', 'd'], ['a', 'c']]
    """
    draw = random.Random(seed)
    ids = draw.sample(sorted(conversations), len(conversations))
    many = Counter(each for of in conversations.values() for each in of)
    # Those of long conversations have the least choice.
    ids.sort(key=lambda each: -max((many[of] for of in conversations[each]), default=0))
    made: list[list[str]] = [[] for _ in range(min(batches, len(ids)))]
    held: list[Counter[str]] = [Counter() for _ in made]
    for each in ids:
        of = conversations[each]
        clashes = [sum(here[one] for one in of) for here in held]
        place = min(range(len(made)), key=lambda at: (clashes[at], len(made[at]), draw.random()))
        made[place].append(each)
        held[place].update(of)
    return [_apart(draw.sample(batch, len(batch)), conversations) for batch in made]


def _apart(batch: Sequence[str], conversations: Mapping[str, set[str]]) -> list[str]:
    """The batch with no two of a conversation next to each other, if that can be."""
    if not list(neighbours(batch, conversations)):
        return list(batch)
    waiting: defaultdict[str, list[str]] = defaultdict(list)
    for each in batch:
        waiting[min(conversations[each], default=each)].append(each)
    # Always of the conversation that has most left, but the one before: it fails only where nothing helps.
    heap = [(-len(held), at, name) for at, (name, held) in enumerate(waiting.items())]
    heapq.heapify(heap)
    made: list[str] = []
    last: tuple[int, int, str] | None = None
    while heap:
        left, at, name = heapq.heappop(heap)
        made.append(waiting[name].pop())
        if last is not None:
            heapq.heappush(heap, last)
        last = (left + 1, at, name) if left < -1 else None
    return made + (waiting[last[2]] if last is not None else [])


def neighbours(batch: Sequence[str], conversations: Mapping[str, set[str]]) -> Iterator[tuple[str, str]]:
    """Ids that stand next to each other and are of one conversation."""
    pairs = itertools.pairwise(batch)
    return ((one, two) for one, two in pairs if conversations[one] & conversations[two])


def write_batches(folders: Sequence[Path], out: Path, batches: int, seed: int) -> list[str]:
    """Write the open requests to ``out``; what is to be told of it."""
    open_ = {name: asked for name, asked in read_asked(folders).items() if asked.open_in}
    if not open_:
        return ["Nothing is open: every request has an answer."]
    of = {name: asked.conversations for name, asked in open_.items()}
    made = split(of, batches, seed)
    out.mkdir(parents=True, exist_ok=True)
    if found := sorted(out.glob("batch-*.jsonl")):
        raise InputError(
            "Batches of an earlier split are here",
            where=str(found[0]),
            remedy="Name another folder for --out.",
        )
    for number, batch in enumerate(made, 1):
        rows = [
            {"id": name, "messages": open_[name].body["messages"], "schema": open_[name].schema}
            for name in batch
        ]
        lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        (out / f"batch-{number:02}.jsonl").write_text(lines, encoding="utf-8")
    said = [f"{len(open_)} open requests in {len(made)} batches: {out}"]
    shared = sum(count > 1 for batch in made for count in Counter(c for n in batch for c in of[n]).values())
    beside = sum(len(list(neighbours(batch, of))) for batch in made)
    unknown = sum(not each for each in of.values())
    if shared:
        said.append(
            f"{shared} times a batch holds several requests of one conversation; more batches avoid it"
        )
    if beside:
        said.append(f"{beside} times two requests of one conversation stand next to each other")
    if unknown:
        said.append(f"of {unknown} requests no conversation is known")
    return said


def join(folders: Sequence[Path], files: Sequence[Path]) -> tuple[str, list[str]]:
    """Add the right answers of the files to the folders' ``answers.jsonl``; a summary, and what is amiss."""
    asked = read_asked(folders)
    given: defaultdict[str, list[tuple[str, Any]]] = defaultdict(list)
    amiss: list[str] = []
    for path in files:
        for number, line in enumerate(path.read_bytes().splitlines(), 1):
            if not line.strip():
                continue
            where = f"{path.name}:{number}"
            row = _row(line)
            if row is None:
                amiss.append(f"{where}: no object with an id and an answer")
            elif row["id"] not in asked:
                amiss.append(f"{where}: unknown id {row['id']}")
            elif asked[row["id"]].open_in:
                given[row["id"]].append((where, row["answer"]))
    lines: defaultdict[Path, list[str]] = defaultdict(list)
    for name, answers in given.items():
        where, answer = answers[0]
        text = answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False)
        if len(answers) > 1:
            amiss.append(f"{answers[1][0]}: {name} is answered {len(answers)} times; none is taken")
        elif wrong := _wrong(text, asked[name].schema):
            amiss.append(f"{where}: {name}: {wrong}")
        else:
            for folder in asked[name].open_in:
                lines[folder].append(canonical_json(_answer(asked[name].custom_id, text)))
    for folder, made in lines.items():
        with folder_errors(folder), locked(folder):
            append(folder / ANSWERS, *made)
    joined = sum(map(len, lines.values()))
    missing = [name for name, each in asked.items() if each.open_in and name not in given]
    if missing:
        shown = ", ".join(missing[:_SHOWN]) + (", …" if len(missing) > _SHOWN else "")
        amiss.append(f"{len(missing)} have no answer: {shown}")
    return f"{joined} answers joined", amiss


def _row(line: bytes) -> dict[str, Any] | None:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return None
    whole = isinstance(row, dict) and isinstance(row.get("id"), str) and "answer" in row
    return row if whole else None


def _wrong(text: str, schema: Any) -> str:
    """Why an answer is none; empty where it is one."""
    if schema is None:
        return ""
    try:
        jsonschema.validate(json.loads(text), schema)
    except (ValueError, RecursionError):
        return "the answer is no JSON"
    except jsonschema.ValidationError as error:
        return f"the answer does not fit the schema at {error.json_path}: {error.message[:200]}"
    return ""


def _answer(custom_id: str, text: str) -> dict[str, Any]:
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    return {
        "custom_id": custom_id,
        "response": {"status_code": 200, "body": {"choices": [choice]}},
        "error": None,
    }


def main(argv: Sequence[str] | None = None) -> int:
    """Split or join; the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folders", nargs="+", type=Path, metavar="FOLDER", help="folder of deferred answers")
    parser.add_argument("--batches", type=int, help="how many")
    parser.add_argument("--out", type=Path, help="folder for the batches")
    parser.add_argument("--seed", type=int, default=0, help="of all draws")
    parser.add_argument("--join", nargs="+", type=Path, metavar="FILE", help="answers")
    given = parser.parse_args(argv)
    if not given.join and not (given.out and (given.batches or 0) > 0):
        parser.error("give --batches (1 or more) and --out, or --join")
    try:
        if not given.join:
            print("\n".join(write_batches(given.folders, given.out, given.batches, given.seed)))
            return 0
        summary, amiss = join(given.folders, given.join)
    except (JazzmineError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print("\n".join([*amiss, summary]))
    return 1 if amiss else 0


if __name__ == "__main__":
    sys.exit(main())
