"""Deciding many turns: embeddings in bulk first, then one turn by one, several at a time (P4)."""

from __future__ import annotations

import asyncio
import contextvars
import itertools
from collections.abc import Callable, Collection, Coroutine, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, TypeVar, cast

from jazzmine_dspy.models.awaiting import Awaiting, AwaitingGroup
from jazzmine_dspy.models.base import log
from jazzmine_dspy.models.errors import InputError, format_error
from jazzmine_dspy.models.turn import Turn
from jazzmine_dspy.program.deadline import LOOK_S, check_interrupt, ended, interrupt_event

if TYPE_CHECKING:
    from jazzmine_dspy.program.module import DecidingModule

T = TypeVar("T")
R = TypeVar("R")

WORKERS = 4
AHEAD = 1024
"""Turns whose texts are embedded at a time: fewer than an embedder remembers, so that none is embedded twice."""

_HANDS: ContextVar[int] = ContextVar("jazzmine_hands", default=1)


@contextmanager
def hands(workers: int) -> Iterator[None]:
    """Within it, :func:`at_once` works on so many items at a time where it is not told otherwise."""
    token = _HANDS.set(workers)
    try:
        yield
    finally:
        _HANDS.reset(token)


def at_once(
    work: Callable[[T], R], items: Sequence[T], workers: int | None = None
) -> Generator[R, None, None]:
    """What comes of each item, in their order, while several are worked on at a time.

    The first error ends it; what has not begun by then never does. Awaited answers do not: all items are asked about,
    and one ``Awaiting`` for all of them is raised at the end. Ctrl-C does not wait for the items that are worked on.

    Args:
        work: What is done with an item, in a copy of the caller's context.
        items: Any number of them.
        workers: Threads; with one all is done in the caller's. None is what :func:`hands` says, else one.

    Example:
        >>> list(at_once(abs, [-1, 2, -3], workers=2))
        [1, 2, 3]
    """
    workers = min(_HANDS.get() if workers is None else workers, max(1, len(items)))
    gathered = AwaitingGroup()

    def unless_awaited(item: T) -> R | None:
        try:
            return work(item)
        except Awaiting as awaiting:
            gathered.append(awaiting)
            return None

    for result in _each(unless_awaited, items, workers):
        # Once an answer is awaited the rest is only asked about.
        if not gathered:
            yield cast("R", result)
    gathered.check()


def _each(work: Callable[[T], R], items: Sequence[T], workers: int) -> Generator[R, None, None]:
    if workers == 1:
        for item in items:
            check_interrupt()
            yield work(item)
        return
    pool = ThreadPoolExecutor(workers, thread_name_prefix="jazzmine-batch")
    waiting: list[Future[R]] = []
    try:
        # DSPy keeps the language model and its callbacks in context variables.
        with interrupt_event() as interrupted:
            for item in items:
                waiting.append(pool.submit(contextvars.copy_context().run, work, item))
        for each in waiting:
            while not ended(each, LOOK_S):
                check_interrupt()
            yield each.result()
    except KeyboardInterrupt:
        interrupted.set()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


async def all_at_once(works: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """What comes of all these; awaited answers are told when the last has ended, in one ``Awaiting``."""
    gathered = AwaitingGroup()

    async def unless_awaited(work: Coroutine[Any, Any, T]) -> T | None:
        try:
            return await work
        except Awaiting as awaiting:
            gathered.append(awaiting)
            return None

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(unless_awaited(work)) for work in works]
    gathered.check()
    return [cast("T", task.result()) for task in tasks]


def embed_ahead(program: DecidingModule, turns: Sequence[Turn]) -> None:
    """Have the embedder remember what deciding these turns will ask it for, as far as that is known before."""
    embedder, policy = program.bindings.embedder, program.policy
    if embedder is None or not program.registry:
        return
    heads = list(program.bindings.heads.values()) if "local" in policy.names else []
    try:
        head_texts = {text for head in heads for turn in turns for text in head.texts(turn.text)}
        texts = [*dict.fromkeys(turn.text for turn in turns)]
        texts += sorted(head_texts.difference(texts))
        (embedder.features if head_texts else embedder.embed)(texts)
    except Exception as error:
        # Each turn asks again, and says of itself that it is degraded.
        log.debug("the texts were not embedded ahead: %s", format_error(error))


def chunks(
    turns: Sequence[Turn], excludes: Sequence[Collection[str]] | None, workers: int
) -> Iterator[list[tuple[Turn, Sequence[str]]]]:
    """Turns with what recall must not use for them, as many at a time as are embedded together.

    Raises:
        InputError: an item is no turn, or a number makes no sense.
    """
    if workers < 1:
        raise InputError(f"There are {workers} workers", where="workers", remedy="Pass 1 or more.")
    if excludes is not None and len(excludes) != len(turns):
        raise InputError(
            f"{len(turns)} turns came with {len(excludes)} sets of excluded conversations",
            where="excludes",
            remedy="Pass one for each turn.",
        )
    strange = next((number for number, turn in enumerate(turns) if not isinstance(turn, Turn)), None)
    if strange is not None:
        raise InputError(
            f"Item {strange} must be a Turn, not {type(turns[strange]).__name__}",
            where="turns",
            remedy="Make turns of texts: Turn(text='…').",
        )
    pairs = zip(turns, excludes or itertools.repeat(()), strict=False)
    paired: list[tuple[Turn, Sequence[str]]] = [(turn, tuple(exclude)) for turn, exclude in pairs]
    return (paired[start : start + AHEAD] for start in range(0, len(paired), AHEAD))
