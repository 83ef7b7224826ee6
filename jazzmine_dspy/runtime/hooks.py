"""Hooks and validators of a turn: called at the same time, each within a time limit."""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from typing import Any, NamedTuple, Self, TypeVar

from jazzmine_dspy.dialogue.apply import Validate
from jazzmine_dspy.dialogue.next_step import Applied
from jazzmine_dspy.memory.working.records import QueuedMessage
from jazzmine_dspy.models.base import FrozenMap, canonical_json
from jazzmine_dspy.models.errors import DeadlineError, InputError, format_error
from jazzmine_dspy.models.validators import Validation, ValidatorRegistry, takes_slots
from jazzmine_dspy.runtime.turns import clean_snippets

T = TypeVar("T")


async def ends_in_time(task: asyncio.Future[Any], seconds: float | None) -> bool:
    """Whether a task ends within a time limit; one that does not is abandoned.

    A timeout would wait for a task that ignores cancellation; this does not.
    """
    await asyncio.wait([task], timeout=seconds)
    ended = task.done()
    if not ended:
        abandon(task)
    return ended


def abandon(task: asyncio.Future[Any]) -> None:
    """Cancel a task, and retrieve its error when it ends, so that asyncio does not report it."""
    task.cancel()
    task.add_done_callback(lambda done: done.cancelled() or done.exception())


class Loading:
    """Loads parts concurrently, each with a time limit. Leaving the block cancels unfinished parts."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._began = self._loop.time()
        self._parts: dict[str, tuple[asyncio.Task[Any], float | None, float | None]] = {}
        """Each with its limit, and when that ends."""
        self.failures: list[str] = []
        """Names of missing parts, each with its cause."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for task, _limit, _ends in self._parts.values():
            abandon(task)

    def left(self, limit: float | None) -> float | None:
        """Return the remaining seconds of a turn; None for no limit."""
        return None if limit is None else max(0.0, limit - (self._loop.time() - self._began))

    def begin(self, name: str, part: Coroutine[Any, Any, Any], limit: float | None) -> None:
        """Start to load a part; ``limit`` is in seconds from now, None for no limit."""
        ends = None if limit is None else self._loop.time() + limit
        self._parts[name] = (self._loop.create_task(part), limit, ends)

    async def part(self, name: str, default: T, *, errors: type[Exception] = Exception) -> T:
        """Return a part, or the default if it was not started, fails or is late; failures are recorded.

        Args:
            errors: The errors that count as failures; others are raised.
        """
        if name not in self._parts:
            return default
        task, limit, ends = self._parts[name]
        error: BaseException = DeadlineError(f"No answer within {limit or 0:g} s")
        if await ends_in_time(task, None if ends is None else max(0.0, ends - self._loop.time())):
            try:
                result: T = task.result()
                return result
            except (errors, asyncio.CancelledError) as failure:
                error = failure
        self.note(name, error)
        return default

    def note(self, name: str, error: BaseException) -> None:
        """Record why a part is missing, once for each name."""
        if not any(failure.startswith(f"{name}: ") for failure in self.failures):
            self.failures.append(f"{name}: {format_error(error)}")


RecallHook = Callable[[str, str, str], Awaitable[Iterable[str | Mapping[str, Any]] | None]]
"""Called with the ids of conversation and user, and the message; returns texts, or mappings with a text."""

RECALL_DEADLINE = 2.0
"""Seconds that a turn waits for its hooks."""

SUMMARY, KEY, VALUE = "short_summary", "key", "value"


class Recollection(NamedTuple):
    """The results of the hooks for a turn, as cached in working memory.

    Args:
        episodes: Mappings with a ``short_summary``.
        terms: Mappings with a ``value``, and a ``key`` if it has a name.
    """

    episodes: list[dict[str, Any]]
    terms: list[dict[str, Any]]

    @property
    def summaries(self) -> list[str]:
        """One line for each episode."""
        return [" ".join(episode[SUMMARY].split()) for episode in self.episodes]

    @property
    def facts(self) -> list[str]:
        """One text for each term."""
        return [f"{term[KEY]}: {term[VALUE]}" if term.get(KEY) else term[VALUE] for term in self.terms]


class Hooks:
    """The recall hooks of a runtime.

    Args:
        episodic: Recalls earlier episodes of this or other conversations; None for no such recall.
        semantic: Recalls facts; None for no such recall.
        limit: Seconds that a turn waits for them.

    Raises:
        InputError: a hook cannot be called.
    """

    def __init__(self, episodic: RecallHook | None, semantic: RecallHook | None, limit: float) -> None:
        self._limit = limit
        self._hooks = {"episodic_recall": (episodic, SUMMARY), "semantic_recall": (semantic, VALUE)}
        for name, (hook, _) in self._hooks.items():
            check_hook(name, hook)

    def begin(self, conversation_id: str, incoming: QueuedMessage) -> Loading:
        """Start the hooks as the first parts that are loaded for a turn."""
        loading = Loading()
        message = (conversation_id, incoming.user_id, incoming.text)
        for name, (hook, text) in self._hooks.items():
            if hook is not None:
                loading.begin(name, _call_hook(hook, name, text, message), self._limit)
        return loading


def check_hook(name: str, hook: object) -> None:
    """Check that a hook can be called.

    Raises:
        InputError: it is neither None nor callable.
    """
    if hook is not None and not callable(hook):
        raise InputError(
            f"The hook {name} is a {type(hook).__name__}", where=name, remedy="Pass an async function."
        )


async def _call_hook(
    hook: RecallHook, name: str, text: str, arguments: tuple[str, str, str]
) -> list[dict[str, Any]]:
    """Call a hook and return its results as mappings with the text under one name, without blank texts.

    Raises:
        InputError: the result is not a list of texts or mappings with a text, or it is too long.
    """
    result = await hook(*arguments)
    if isinstance(result, str | bytes | Mapping) or not isinstance(result, Iterable | None):
        raise InputError(
            f"The hook must return a list, not {type(result).__name__}",
            where=name,
            remedy="Return a list of texts, or of mappings.",
        )
    nonblank = [each for item in result or () if (each := _mapping(item, name, text))[text].strip()]
    texts = clean_snippets([item[text] for item in nonblank], name)
    return [{**item, text: cleaned} for item, cleaned in zip(nonblank, texts, strict=True)]


def _mapping(item: Any, name: str, text: str) -> dict[str, Any]:
    try:
        data = FrozenMap.of(item).as_dict() if isinstance(item, Mapping) else {text: item}
    except (ValueError, TypeError, RecursionError) as error:
        raise InputError(
            "The hook returned a value that is not JSON", where=name, remedy="Return JSON values."
        ) from error
    value = data.get(text)
    if isinstance(value, dict | list | int | float):
        data[text] = json.dumps(value, ensure_ascii=False)
    elif not isinstance(value, str):
        raise InputError(
            f"The hook returned an item without a text {text!r}",
            where=name,
            remedy=f"Return texts, or mappings with {text!r}.",
        )
    return data


async def with_validators(
    apply_decision: Callable[[Validate], Applied], deadline: float
) -> tuple[Applied, tuple[str, ...]]:
    """Carry out a turn whose validators may be slow.

    The state machine is pure, so the turn is carried out again until every validator that it asks has answered.

    Args:
        apply_decision: Carries out the turn from its beginning; called with what asks a validator.
        deadline: Seconds for all validators of the turn.

    Returns:
        What the turn came to, and why validators gave no answer.
    """
    ends = asyncio.get_running_loop().time() + deadline
    answers: dict[str, Validation] = {}
    missing: dict[str, tuple[str, Any, dict[str, Any]]] = {}

    def validate(name: str, value: Any, slots: dict[str, Any]) -> Validation | None:
        key = canonical_json([name, value, slots if takes_slots(name) else {}])
        if key not in answers:
            missing[key] = (name, value, slots)
        return answers.get(key)

    while True:
        applied = apply_decision(validate)
        if not missing:
            return applied, tuple(dict.fromkeys(each.failure for each in answers.values() if each.failure))
        left = max(0.0, ends - asyncio.get_running_loop().time())
        # Copies: a validator that changes a list does not change the state.
        calls = (
            ValidatorRegistry.avalidate(*copy.deepcopy(each), deadline=left) for each in missing.values()
        )
        answers.update(zip(missing, await asyncio.gather(*calls), strict=True))
        missing.clear()
