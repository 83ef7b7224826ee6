"""The files of a folder of deferred answers: JSON lines, added to by processes that may be killed at any time."""

from __future__ import annotations

import contextlib
import json
import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dspy.lm15 import Usage

from jazzmine_dspy.lm.errors import LMWarning
from jazzmine_dspy.models.errors import InputError

REQUESTS = "requests.jsonl"
ANSWERS = "answers.jsonl"
RECORDING = "recording.toml"
CONVERSATIONS = "conversations.jsonl"
"""Which conversation a request is of, by digest: kept apart, since services refuse lines with fields of their own."""

_SHOWN = 20


@contextlib.contextmanager
def told(folder: Path) -> Iterator[None]:
    """Within it, a file that cannot be read or written is an `InputError`."""
    try:
        yield
    except OSError as error:
        raise InputError(
            f"The folder of deferred answers cannot be used: {error.strerror or error}",
            where=str(error.filename or folder),
            remedy="Make room, or make the folder writable; then call the command again.",
        ) from error


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Within it, no other process writes to the folder."""
    import portalocker  # it looks for folders that it can write when it is imported

    with (folder / ".lock").open("ab") as file:
        portalocker.lock(file, portalocker.LockFlags.EXCLUSIVE)
        try:
            yield
        finally:
            portalocker.unlock(file)


def append(path: Path, *lines: str) -> None:
    """Add lines, all or none; after a line that a killed process left half written, on a new one."""
    # With a buffer, what did not fit would be tried again when the file is closed.
    with path.open("ab+", buffering=0) as file:
        end = file.seek(0, os.SEEK_END)
        torn = False
        if end:
            file.seek(end - 1)
            torn = file.read(1) != b"\n"
        rest = memoryview(b"\n" * torn + b"".join(line.encode() + b"\n" for line in lines))
        try:
            while rest:
                rest = rest[file.write(rest) or 0 :]
        except OSError as error:
            file.truncate(end)
            error.filename = str(path)
            raise


def arrange(folder: str | Path) -> None:
    """Sort the requests of a folder by ``custom_id``, so that the same run writes the same file, however many turns it
    asked about at once. A recording stays as it is, and so does a file for whose sorted copy there is no room."""
    folder = Path(folder)
    if (folder / RECORDING).exists():
        return
    # All requests are written in any order.
    with contextlib.suppress(OSError), locked(folder):
        for path in (folder / REQUESTS, folder / CONVERSATIONS):
            text = path.read_bytes() if path.exists() else b""
            lines = {(str(row["custom_id"]), line) for line in text.splitlines() if (row := row_of(line))}
            made = b"".join(line + b"\n" for _, line in sorted(lines))
            if made == text:
                continue
            beside = path.with_suffix(f".{os.getpid()}.tmp")
            try:
                beside.write_bytes(made)
                beside.replace(path)
            finally:
                beside.unlink(missing_ok=True)


def read_rows(path: Path) -> dict[str, dict[str, Any]]:
    """The objects of a file by ``custom_id``, in their order; the first of each, and none where there is no file."""
    rows: dict[str, dict[str, Any]] = {}
    for line in path.read_bytes().splitlines() if path.exists() else ():
        if (row := row_of(line)) is not None:
            rows.setdefault(str(row["custom_id"]), row)
    return rows


def read_conversations(folder: Path) -> dict[str, set[str]]:
    """Which conversations a request is of, by ``custom_id``; none is known of one that no evaluation has made."""
    path = folder / CONVERSATIONS
    found: dict[str, set[str]] = {}
    for line in path.read_bytes().splitlines() if path.exists() else ():
        if (row := row_of(line)) and isinstance(row.get("conversation"), str):
            found.setdefault(str(row["custom_id"]), set()).add(row["conversation"])
    return found


def read_answers(folder: Path, known: set[str] | None) -> dict[str, tuple[str, str, Usage]]:
    """Text, reason of the end and usage by ``custom_id``; the first of a key counts.

    Warns:
        LMWarning: Lines that cannot be used, with their numbers. The rest is.
    """
    path = folder / ANSWERS
    found: dict[str, tuple[str, str, Usage]] = {}
    wrong: dict[str, list[int]] = {}
    if not path.exists():
        return found
    for number, line in enumerate(path.read_bytes().splitlines(), 1):
        if not line.strip():
            continue
        row = row_of(line)
        answer = _answer(row) if row else None
        key = str(row["custom_id"]) if row else ""
        if row is None:
            wrong.setdefault("are no JSON object with a custom_id", []).append(number)
        elif answer is None:
            wrong.setdefault("hold no answer", []).append(number)
        elif known is not None and key not in known:
            wrong.setdefault("answer no request that was written", []).append(number)
        elif key in found:
            wrong.setdefault("answer a request again; the first answer counts", []).append(number)
        else:
            found[key] = answer
    for what, numbers in wrong.items():
        shown = ", ".join(map(str, numbers[:_SHOWN])) + (", …" if len(numbers) > _SHOWN else "")
        warnings.warn(f"{path}: {len(numbers)} lines {what}: {shown}", LMWarning, stacklevel=2)
    return found


def _answer(row: dict[str, Any]) -> tuple[str, str, Usage] | None:
    if "content" in row:
        content = row["content"]
        text = (
            content if isinstance(content, str) else compact(content) if isinstance(content, dict) else None
        )
        return None if text is None else (text, "stop", Usage())
    try:
        response = row["response"]
        if row.get("error") or response["status_code"] != 200:
            return None
        choice = response["body"]["choices"][0]
        usage = response["body"].get("usage") or {}
        finish = choice.get("finish_reason") or "stop"
        text = choice["message"]["content"]
        if finish == "content_filter":
            return text or "", finish, Usage()
        sent, answered = usage.get("prompt_tokens"), usage.get("completion_tokens")
    except (KeyError, IndexError, TypeError, AttributeError):
        return None
    if not isinstance(text, str) or not text.strip():
        return None
    counts = type(sent) is int and type(answered) is int
    told = Usage(input_tokens=sent, output_tokens=answered) if counts else Usage()
    return text, "length" if finish == "length" else "stop", told


def row_of(line: bytes) -> dict[str, Any] | None:
    """The object of a line, if it is one with a ``custom_id``."""
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return row if isinstance(row, dict) and isinstance(row.get("custom_id"), str) else None


def compact(value: Any) -> str:
    """Canonical JSON."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
