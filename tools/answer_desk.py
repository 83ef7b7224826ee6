"""The requests of one role that people answer: a folder with open batches, answers and a record of both.

The server is `answer_server.py`.
"""

from __future__ import annotations

import functools
import importlib.util
import json
import os
import re
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import jsonschema
import portalocker
from answer_readers import Readers, instruction, share_text, utterances

from jazzmine_dspy.lm.deferred import ANSWERS, REQUESTS, append, batch_line, read_answers, read_rows
from jazzmine_dspy.models.base import canonical_json

ROLES = ("compile", "reflect", "measure", "as_written", "as_compiled")
PREFIX = "people/"
BATCH = 25
"""Requests in a batch at most."""
INCOMPLETE_S = 10.0
"""Seconds after which a last line that is cut off counts as broken, if the file does not change."""

_HELP = """Answer each request on its own, by nothing but what stands in it. Answer batches of one role only: who
reflects or sees feedback must not answer what is measured.

Write one line for each request to `../answers/{name}.jsonl`; some lines now and others later are fine:

    {{"id": "…", "by": "your name", "answer": …}}

The answer is a JSON object where a schema is shown, else a text. A name answers one role under one instruction,
and no two turns of a conversation. Refused lines and their reasons appear in `../answers/{name}.problems.txt`."""


class Refusal(Exception):  # noqa: N818 - an answer of the server
    """A request, or a folder, that the server refuses."""

    def __init__(self, status: int, code: str, message: str) -> None:
        self.status, self.code = status, code
        super().__init__(message)


@functools.cache
def _encoding() -> Any:
    if importlib.util.find_spec("tiktoken") is None:
        return None
    # LiteLLM brings the file that tiktoken would download.
    if (found := importlib.util.find_spec("litellm")) is not None and found.submodule_search_locations:
        place = Path(found.submodule_search_locations[0]) / "litellm_core_utils" / "tokenizers"
        os.environ.setdefault("TIKTOKEN_CACHE_DIR", str(place))
    try:
        return importlib.import_module("tiktoken").get_encoding("cl100k_base")
    except Exception:
        return None


def count_tokens(text: str) -> int:
    """Tokens by cl100k_base if tiktoken has it, else a quarter of the characters."""
    encoding = _encoding()
    return -(-len(text) // 4) if encoding is None else len(encoding.encode(text, disallowed_special=()))


def completion(body: Mapping[str, Any], text: str) -> dict[str, Any]:
    """The answer to a request as a provider gives it, with the tokens of messages, schema and answer."""
    sent = sum(count_tokens(each["content"]) for each in body["messages"])
    schema = schema_of(body)
    sent += 0 if schema is None else count_tokens(json.dumps(schema, separators=(",", ":")))
    answered = count_tokens(text)
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    usage = {"prompt_tokens": sent, "completion_tokens": answered, "total_tokens": sent + answered}
    return {"choices": [choice], "usage": usage}


class Desk:
    """The requests of one role in one folder. Thread-safe.

    Args:
        folder: Created if it is missing.
        role: One of `ROLES`.
        most: Maximum of requests that are ever put to people here.
        quiet: Seconds without a new request after which a batch is closed that is not full.
        clock: Seconds of a monotonic clock.
        readers: What each named reader has answered, shared by all desks.
        note: Receives what a person at the terminal should know.

    Raises:
        Refusal: The folder belongs to another role, or to another running server.
    """

    def __init__(
        self,
        folder: str | Path,
        role: str,
        *,
        most: int = 400,
        quiet: float = 5.0,
        clock: Callable[[], float] = time.monotonic,
        readers: Readers | None = None,
        note: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.folder, self.role, self.most, self.quiet = Path(folder), role, most, quiet
        self._clock, self._note, self._readers = clock, note, readers or Readers()
        self.changed = threading.Condition()
        self.stopped = False
        self.pending: dict[str, tuple[dict[str, Any], str]] = {}
        """Requests that are in no batch yet: body and named conversation, by key."""
        self._newest = 0.0
        self._files: dict[Path, tuple[tuple[int, int], float, bool]] = {}
        """Of each file of answers its time and size, when these were first seen, and whether its last line waits."""
        for name in ("open", "answers", "recorded"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        self._lock = (self.folder / ".server").open("ab")
        try:
            portalocker.lock(self._lock, portalocker.LockFlags.EXCLUSIVE | portalocker.LockFlags.NON_BLOCKING)
            self._resume()
        except portalocker.exceptions.LockException:
            self._lock.close()
            what = f"Another server answers from {self.folder}. Stop it first."
            raise Refusal(409, "folder_in_use", what) from None
        except BaseException:
            self._lock.close()
            raise

    def _resume(self) -> None:
        """Read what earlier servers left here."""
        recorded = self.folder / "recorded"
        requests = read_rows(recorded / REQUESTS)
        self.bodies = {key: row["body"] for key, row in requests.items()}
        self._check_role()
        self.answers = {
            key: text for key, (text, _, _) in read_answers(recorded, set(self.bodies) or None).items()
        }
        self._marks = {key: _marks(row["body"], row.get("conversation", "")) for key, row in requests.items()}
        for key, row in read_rows(recorded / ANSWERS).items():
            if (by := row.get("by")) and key in self.bodies:
                self._readers.note(str(by), self.role, key, self.bodies[key], self._marks[key])
        self._keys = {short_id(key): key for key in self.bodies}
        self.batches: dict[str, set[str]] = {}
        for path in (self.folder / "open").glob("*.jsonl"):
            ids = re.findall(r'^{"id": "(\w+)"', path.read_text("utf-8"), re.MULTILINE)
            self.batches[path.stem] = {self._keys[each] for each in ids if each in self._keys}

    def _check_role(self) -> None:
        path = self.folder / "role.txt"
        roles = {str(body["model"]).removeprefix(PREFIX) for body in self.bodies.values()}
        roles |= {path.read_text("utf-8").strip()} if path.exists() else set()
        if other := sorted(roles - {self.role}):
            what = f"{self.folder} holds requests of the role {', '.join(other)}, not {self.role}."
            raise Refusal(409, "mixed_roles", f"{what} Give each role a folder of its own.")
        path.write_text(f"{self.role}\n", "utf-8")

    @property
    def open(self) -> set[str]:
        """Keys of the requests in open batches that have no answer."""
        return {key for keys in self.batches.values() for key in keys if key not in self.answers}

    def ask(
        self, body: dict[str, Any], conversation: str = "", alive: Callable[[], bool] = lambda: True
    ) -> str | None:
        """Wait for the answer to a request; None if the client is gone. An equal request is put once.

        Raises:
            Refusal: The request would be one too many, or the server stops.
        """
        key = str(batch_line(body)["custom_id"])
        with self.changed:
            if key not in self.answers and key not in self.open and key not in self.pending:
                if len(self.answers) + len(self.open) + len(self.pending) >= self.most:
                    raise Refusal(
                        429,
                        "insufficient_quota",
                        f"This folder takes {self.most} answers, and no more: {self.folder}. Start the server again "
                        "with a larger --most and repeat the command; what is answered is not asked again.",
                    )
                self.pending[key] = (body, conversation)
                self._newest = self._clock()
                self.changed.notify_all()
            while key not in self.answers:
                if self.stopped:
                    raise Refusal(503, "stopped", "The server stops. Start it again and repeat the command.")
                if not alive():
                    return None
                self.changed.wait(1.0)
            return self.answers[key]

    def stop(self) -> None:
        """End all waiting requests. What is open stays open."""
        with self.changed:
            self.stopped = True
            self.changed.notify_all()
        self._lock.close()

    def tick(self) -> None:
        """Take in new answers and close batches that are due."""
        with self.changed:
            for path in sorted((self.folder / "answers").glob("*.jsonl")):
                self._collect(path)
            for name in [name for name, keys in self.batches.items() if keys <= self.answers.keys()]:
                del self.batches[name]
                for suffix in (".jsonl", ".md"):
                    (self.folder / "open" / f"{name}{suffix}").unlink(missing_ok=True)
            due = self._clock() - self._newest >= self.quiet
            while self.pending and (len(batch := self._next_batch()) == BATCH or due):
                self._write(batch)
            self.changed.notify_all()

    def _next_batch(self) -> list[str]:
        """The oldest requests of one instruction, no two of one conversation; any that ask to reflect.

        The first instruction whose requests fill a batch comes first, else that of the oldest request.
        """
        found = dict[tuple[str, ...], tuple[list[str], set[str]]]()
        for key, (body, conversation) in self.pending.items():
            apart = self.role != "reflect"
            batch, met = found.setdefault(instruction(body) if apart else (), ([], set()))
            own = _marks(body, conversation)
            if len(batch) < BATCH and not (apart and share_text(met, own)):
                batch.append(key)
                met |= own
        batches = [batch for batch, _ in found.values()]
        return sorted(next((each for each in batches if len(each) == BATCH), batches[0]))

    def _write(self, batch: Sequence[str]) -> None:
        folder = self.folder / "open"
        taken = {
            path.name.partition(".")[0]
            for place in ("open", "answers")
            for path in (self.folder / place).iterdir()
        }
        number = (
            max((int(each.rpartition("-")[2]) for each in taken if re.search(r"-\d+$", each)), default=0) + 1
        )
        name = f"{self.role}-{number:03}"
        bodies = {key: self.pending[key][0] for key in batch}
        new = [
            canonical_json(
                batch_line(body) | ({"conversation": named} if (named := self.pending[key][1]) else {})
            )
            for key, body in bodies.items()
            if key not in self.bodies
        ]
        self._marks |= {key: _marks(*self.pending[key]) for key in batch}
        append(self.folder / "recorded" / REQUESTS, *new)
        rows = [
            {
                "id": short_id(key),
                "messages": body["messages"],
                "response_format": body.get("response_format"),
            }
            for key, body in bodies.items()
        ]
        text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        _replace(folder / f"{name}.md", page(name, self.role, rows))
        _replace(folder / f"{name}.jsonl", text)
        self.bodies |= bodies
        self._keys |= {short_id(key): key for key in batch}
        self.batches[name] = set(batch)
        for key in batch:
            del self.pending[key]
        self._note(f"{len(batch)} requests to answer: {folder / name}.md")

    def _collect(self, path: Path) -> None:
        state = path.stat()
        mark = (state.st_mtime_ns, state.st_size)
        old, since, waits = self._files.get(path, (None, 0.0, False))
        if old == mark and not waits:
            return
        since = since if old == mark else self._clock()
        late = self._clock() - since >= INCOMPLETE_S
        problems, taken, waits = list[str](), list[tuple[str, str, str]](), False
        for number, line in enumerate(path.read_bytes().splitlines(keepends=True), 1):
            if not line.strip():
                continue
            row = _row(line)
            if row is None and not line.endswith(b"\n") and not late:
                waits = True
                continue
            problem = "is no JSON object with id and answer" if row is None else self._problem(row, taken)
            if problem:
                problems.append(f"line {number}: {problem}")
        append(
            self.folder / "recorded" / ANSWERS,
            *(
                canonical_json(
                    {
                        "custom_id": k,
                        "response": {"status_code": 200, "body": completion(self.bodies[k], text)},
                    }
                    | {"by": by}
                )
                for k, text, by in taken
            ),
        )
        self.answers |= {key: text for key, text, _ in taken}
        self._files[path] = (mark, since, waits)
        report = path.with_suffix(".problems.txt")
        if problems:
            _replace(report, "\n".join(problems) + "\n")
        else:
            report.unlink(missing_ok=True)
        if taken or problems:
            self._note(f"{path}: {len(taken)} answers, {len(problems)} lines refused")

    def _problem(self, row: Mapping[str, Any], taken: list[tuple[str, str, str]]) -> str:
        """Why an answer is refused; else "", and what is new is added to ``taken``."""
        key, answer, by = self._keys.get(row["id"]), row["answer"], row.get("by")
        if key is None:
            return f"{row['id']} is no request of this folder"
        text = answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False)
        before = self.answers.get(key, next((each for k, each, _ in taken if k == key), None))
        if before is not None:
            return "" if before == text else f"{row['id']} is answered already; the first answer counts"
        beside = next((keys for keys in self.batches.values() if key in keys), set[str]())
        if problem := self._readers.problem(by, self.role, beside, self.bodies[key], self._marks[key]):
            return f"{row['id']}: {problem}"
        if problem := unfit(text, schema_of(self.bodies[key])):
            return f"{row['id']}: {problem}"
        self._readers.note(by, self.role, key, self.bodies[key], self._marks[key])
        taken.append((key, text, by))
        return ""


def _marks(body: Mapping[str, Any], conversation: str) -> frozenset[str]:
    """What tells the turns of a conversation: its name, else what the user said."""
    return frozenset([f"{conversation}\n"]) if conversation else utterances(body)


def short_id(key: str) -> str:
    """The id of a request that readers see."""
    return key.removeprefix("jazzmine-")[:12]


def schema_of(body: Mapping[str, Any]) -> Any:
    """The schema of the answer; None where any text will do."""
    return (body.get("response_format") or {}).get("json_schema", {}).get("schema")


def unfit(text: str, schema: Any) -> str:
    """Why an answer does not fit; empty if it does."""
    if not text.strip():
        return "the answer is empty"
    if text != text.encode("utf-8", "ignore").decode():
        return "the answer holds half a character"
    if schema is None:
        return ""
    try:
        jsonschema.validate(json.loads(text), schema)
    except (ValueError, RecursionError):
        return "the answer is no JSON"
    except jsonschema.ValidationError as error:
        return f"the answer does not fit the schema at {error.json_path}: {error.message[:200]}"
    return ""


def page(name: str, role: str, rows: Sequence[Mapping[str, Any]]) -> str:
    """A batch as people read it; what all its requests begin with stands once."""
    heads = {tuple(each["content"] for each in row["messages"] if each["role"] == "system") for row in rows}
    shared = next(iter(heads)) if len(heads) == 1 else ()
    parts = [f"# {name}: {len(rows)} requests, role {role}", _HELP.format(name=name)]
    parts += [f"## system, of every request\n\n~~~~~text\n{text}\n~~~~~" for text in shared]
    for row in rows:
        parts.append(f"## {row['id']}")
        for message in row["messages"]:
            if not (shared and message["role"] == "system"):
                parts.append(f"{message['role']}:\n\n~~~~~text\n{message['content']}\n~~~~~")
        if (schema := schema_of(row)) is not None:
            parts.append(
                f"schema of the answer:\n\n~~~~~json\n{json.dumps(schema, ensure_ascii=False)}\n~~~~~"
            )
    return "\n\n".join(parts) + "\n"


def _row(line: bytes) -> dict[str, Any] | None:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return None
    named = isinstance(row, dict) and isinstance(row.get("id"), str) and row["id"].isascii()
    return row if named and "answer" in row else None


def _replace(path: Path, text: str) -> None:
    new = path.with_name(f".{path.name}.tmp")
    new.write_text(text, "utf-8")
    new.replace(path)
