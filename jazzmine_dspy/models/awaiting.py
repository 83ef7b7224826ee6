"""What passes through every handler: an answer that is not there yet."""

from __future__ import annotations

import contextlib
import contextvars
import hashlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TypeVar

from jazzmine_dspy.models.errors import JazzmineError

R = TypeVar("R")

_ASKED_FOR: contextvars.ContextVar[str] = contextvars.ContextVar("jazzmine_asked_for", default="")


@contextlib.contextmanager
def conversation_scope(conversation: str) -> Iterator[None]:
    """Within it, requests whose answers are awaited are noted as of this conversation, by a digest of its id."""
    token = _ASKED_FOR.set(hashlib.sha256(conversation.encode()).hexdigest()[:12])
    try:
        yield
    finally:
        _ASKED_FOR.reset(token)


def current_conversation() -> str:
    """The digest of the conversation that is asked about; empty where none is known."""
    return _ASKED_FOR.get()


class Awaiting(BaseException):
    """Answers are missing: the requests are written, and the command continues when it is called again with answers.

    It is no ``Exception``, since handlers make a degraded answer, a crash or a retry of those, and it is none of these.

    Args:
        folder: Where the requests lie.
        keys: The ``custom_id`` of each awaited request.
        problem: Why requests could not be written; None where all of them are.
    """

    def __init__(self, folder: str, keys: Iterable[str], problem: JazzmineError | None = None) -> None:
        self.folder = folder
        self.keys = frozenset(keys)
        self.problem = problem
        super().__init__(folder, sorted(self.keys), problem)

    def __str__(self) -> str:
        if self.problem is not None:
            return str(self.problem)
        many = len(self.keys)
        what = "1 answer is" if many == 1 else f"{many} answers are"
        return f"{what} missing: the requests are in {Path(self.folder) / 'requests.jsonl'}"


class Stale(Awaiting):
    """A recording holds no answers to what is asked: the prompt is another than it was recorded with, or the turns are.

    It is awaited by nobody and passes every handler all the same, so that nothing is scored by half a recording.
    """

    def __str__(self) -> str:
        many = len(self.keys)
        what = "1 request has" if many == 1 else f"{many} requests have"
        return f"the recording {self.folder} is stale: {what} no answer in it"


class AwaitingGroup(list[Awaiting]):
    """Awaited answers of several pieces of work, so that each is asked about before the whole stops.

    As a context it raises at its end what :meth:`check` raises.
    """

    def __enter__(self) -> AwaitingGroup:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.check()

    def attempt(self, work: Callable[[], R]) -> R | None:
        """The result of a piece of work; None where it awaits an answer."""
        try:
            return work()
        except Awaiting as awaiting:
            self.append(awaiting)
            return None

    @property
    def folder(self) -> str:
        """Where the requests of the first lie."""
        return self[0].folder

    def check(self) -> None:
        """Raise one `Awaiting` for all that was noted, if anything was."""
        if self:
            problem = next((each.problem for each in self if each.problem is not None), None)
            raise type(self[0])(self.folder, frozenset().union(*(each.keys for each in self)), problem)
