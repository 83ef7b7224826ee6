"""Test parts of MixSNIPS: no request of a test message is among the training messages.

The messages are joined from single requests, each of which stands in several of them. A message that shares one with
the test part would tell its answer, so it is taken apart at its connectors, and goes on without that request.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

JOINS = (("and", "then"), ("and", "also"), (",", "and"), ("and",), (",",))
"""What joins two requests, longest first."""
OUTSIDE = "O"


class Request(NamedTuple):
    """A request inside a message: the words that join it to the one before, its words and its tags."""

    join: tuple[str, ...]
    words: tuple[str, ...]
    tags: tuple[str, ...]

    @property
    def text(self) -> str:
        """The words alone."""
        return " ".join(self.words)


class Message(NamedTuple):
    """A block of the file."""

    requests: tuple[Request, ...]
    intents: tuple[str, ...]

    def without(self, known: set[str]) -> Message | None:
        """The message without requests that are known; None where nothing is left, or it can't be told."""
        if not any(request.text in known for request in self.requests):
            return self
        if len(self.requests) != len(self.intents):
            return None  # a connector stands inside a request, so it is not certain which intent is whose
        pairs = zip(self.requests, self.intents, strict=True)
        kept = [(request, intent) for request, intent in pairs if request.text not in known]
        if not kept:
            return None
        first = kept[0][0]._replace(join=())
        return Message((first, *(request for request, _ in kept[1:])), tuple(intent for _, intent in kept))

    def block(self) -> str:
        """The message as the file has it."""
        lines = []
        for request in self.requests:
            lines += [f"{word} {OUTSIDE}" for word in request.join]
            lines += [f"{word} {tag}" for word, tag in zip(request.words, request.tags, strict=True)]
        return "\n".join([*lines, "#".join(self.intents)])


def read(path: Path) -> list[Message]:
    """All messages of a file."""
    blocks = path.read_text("utf-8").strip().split("\n\n")
    return [_message(block.splitlines()) for block in blocks]


def _message(lines: Sequence[str]) -> Message:
    pairs = [(word, tag) for word, tag in (line.split() for line in lines[:-1])]
    cuts = list(_cuts(pairs))
    requests = []
    start, join = 0, tuple[str, ...]()
    for begin, end in [*cuts, (len(pairs), len(pairs))]:
        words, tags = zip(*pairs[start:begin], strict=True)
        requests.append(Request(join, words, tags))
        start, join = end, tuple(word for word, _ in pairs[begin:end])
    return Message(tuple(requests), tuple(lines[-1].strip().split("#")))


def _cuts(pairs: Sequence[tuple[str, str]]) -> Iterable[tuple[int, int]]:
    """Where connectors stand that no slot's value holds, and that have words on both sides."""
    at = 1
    while at < len(pairs) - 1:
        for join in JOINS:
            held = pairs[at : at + len(join)]
            if (
                tuple(word for word, _ in held) == join
                and all(tag == OUTSIDE for _, tag in held)
                and at + len(join) < len(pairs)
            ):
                yield at, at + len(join)
                at += len(join)
                break
        at += 1


def folds(
    messages: Sequence[Message], size: int, count: int, seed: int
) -> list[tuple[list[Message], list[Message]]]:
    """Pairs of training and test messages; the test parts have so many messages each, and none in common."""
    order = list(range(len(messages)))
    random.Random(seed).shuffle(order)
    made = []
    for number in range(count):
        apart = set(order[number * size : (number + 1) * size])
        test = [messages[index] for index in sorted(apart)]
        known = {request.text for message in test for request in message.requests}
        rest = (message.without(known) for index, message in enumerate(messages) if index not in apart)
        made.append(([message for message in rest if message is not None], test))
    return made


def write(path: Path, messages: Iterable[Message]) -> Path:
    """Write messages in the source's format."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n\n".join(message.block() for message in messages) + "\n\n", "utf-8")
    return path
