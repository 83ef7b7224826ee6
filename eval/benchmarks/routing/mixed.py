"""Test parts of MixSNIPS: no request of a test message stands in a training message, whole or inside another.

The messages are joined from single requests, each of which stands in several of them: joined over shared requests,
nearly all messages hang together, so no cut leaves them whole. A training message that shares a request with the test
part would tell its answer: it is taken apart at its connectors and goes on without that request, or it is dropped.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from routing import parts

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
        """The words alone, as what makes two requests the same."""
        return parts.key(" ".join(self.words))


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


class Fold(NamedTuple):
    """A test part, and what is left to learn from; ``cut`` messages lost a request, ``dropped`` ones went whole."""

    train: list[Message]
    test: list[Message]
    cut: int
    dropped: int


def folds(messages: Sequence[Message], size: int, count: int, seed: int) -> list[Fold]:
    """Pairs of training and test messages; the test parts have so many messages each, and none in common.

    Raises:
        AssertionError: a request of a test part stands in its training part.
    """
    order = list(range(len(messages)))
    random.Random(seed).shuffle(order)
    made = []
    for number in range(count):
        apart = set(order[number * size : (number + 1) * size])
        test = [messages[index] for index in sorted(apart)]
        rest = [message for index, message in enumerate(messages) if index not in apart]
        train = list(_apart(rest, test))
        assert not shared(train, test)
        whole = set(rest)
        made.append(Fold(train, test, sum(left not in whole for left in train), len(rest) - len(train)))
    return made


def _apart(rest: Iterable[Message], test: Sequence[Message]) -> Iterator[Message]:
    """What is left of messages without the requests of a test part."""
    known = requests(test)
    for message in rest:
        left = message.without(known)
        if left is not None and not _held(left, known):
            yield left


def requests(messages: Iterable[Message]) -> set[str]:
    """The texts of all requests."""
    return {request.text for message in messages for request in message.requests}


def shared(train: Iterable[Message], test: Iterable[Message]) -> set[str]:
    """Requests of the test messages that stand in training messages, also as a part of another request."""
    known = requests(test)
    return {text for message in train for text in _held(message, known)}


LONG = 4
"""Words from which on a request inside another is taken for the same request: "find" inside another is none."""


def _held(message: Message, known: set[str]) -> list[str]:
    texts = {request.text for request in message.requests}
    padded = f" {' '.join(' '.join(request.join + request.words) for request in message.requests).lower()} "
    return [text for text in known if text in texts or (len(text.split()) >= LONG and f" {text} " in padded)]


def components(messages: Sequence[Message]) -> list[int]:
    """Sizes of the groups of messages that hang together by shared requests, largest first."""
    leader: dict[str, str] = {}

    def find(text: str) -> str:
        while (above := leader.setdefault(text, text)) != text:
            leader[text], text = leader[above], above
        return text

    for message in messages:
        first = find(message.requests[0].text)
        for request in message.requests[1:]:
            leader[find(request.text)] = first
    sizes: dict[str, int] = {}
    for message in messages:
        found = find(message.requests[0].text)
        sizes[found] = sizes.get(found, 0) + 1
    return sorted(sizes.values(), reverse=True)


def write(path: Path, messages: Iterable[Message]) -> Path:
    """Write messages in the source's format."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n\n".join(message.block() for message in messages) + "\n\n", "utf-8")
    return path
