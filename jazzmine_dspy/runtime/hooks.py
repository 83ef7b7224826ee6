"""Hooks of a runtime: recall of earlier episodes and of facts, asked for each turn while its history is read."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, NamedTuple

from jazzmine_dspy.models.base import FrozenMap
from jazzmine_dspy.models.errors import InputError
from jazzmine_dspy.runtime.loading import Loading
from jazzmine_dspy.runtime.turns import clean_snippets

RecallHook = Callable[[str, str, str], Awaitable[Iterable[str | Mapping[str, Any]] | None]]
"""Called with the ids of conversation and user, and the message; gives texts, or mappings with a text."""

RECALL_DEADLINE = 2.0
"""Seconds that a turn waits for its hooks."""

SUMMARY, KEY, VALUE = "short_summary", "key", "value"


class Recollection(NamedTuple):
    """What hooks recalled for a turn, as its cache in working memory keeps it.

    Args:
        episodes: Mappings with a ``short_summary``.
        terms: Mappings with a ``value``, and a ``key`` where it has a name.
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

    def begin(self, loading: Loading, conversation_id: str, user_id: str, message: str) -> None:
        """Call the hooks, as parts of what is loaded for a turn."""
        for name, (hook, text) in self._hooks.items():
            if hook is not None:
                asked = (conversation_id, user_id, message)
                loading.begin(name, _recalled(hook, name, text, asked), self._limit)

    async def recollection(self, loading: Loading) -> Recollection:
        """What the hooks gave; nothing of one that failed or is late."""
        return Recollection(
            await loading.part("episodic_recall", []), await loading.part("semantic_recall", [])
        )


def check_hook(name: str, hook: object) -> None:
    """Refuse a hook that cannot be called.

    Raises:
        InputError: it is neither None nor callable.
    """
    if hook is not None and not callable(hook):
        raise InputError(
            f"The hook {name} is a {type(hook).__name__}", where=name, remedy="Pass an async function."
        )


async def _recalled(
    hook: RecallHook, name: str, text: str, asked: tuple[str, str, str]
) -> list[dict[str, Any]]:
    """What a hook gives, as mappings with their text under one name; blank texts are left out.

    Raises:
        InputError: it is no list of texts or mappings with a text, or there are too many.
    """
    found = await hook(*asked)
    if isinstance(found, str | bytes | Mapping) or not isinstance(found, Iterable | None):
        raise InputError(
            f"The hook gave no list but {type(found).__name__}",
            where=name,
            remedy="Return a list of texts, or of mappings.",
        )
    items = [_mapping(item, name, text) for item in found or ()]
    filled = [item for item in items if item[text].strip()]
    texts = clean_snippets([item[text] for item in filled], name)
    return [{**item, text: cleaned} for item, cleaned in zip(filled, texts, strict=True)]


def _mapping(item: Any, name: str, text: str) -> dict[str, Any]:
    try:
        data = FrozenMap.of(item).as_dict() if isinstance(item, Mapping) else {text: item}
    except (ValueError, TypeError, RecursionError) as error:
        raise InputError(
            "The hook gave what JSON has not", where=name, remedy="Return JSON values."
        ) from error
    value = data.get(text)
    if isinstance(value, dict | list | int | float):
        data[text] = json.dumps(value, ensure_ascii=False)
    elif not isinstance(value, str):
        raise InputError(
            f"The hook gave an item without a text {text!r}",
            where=name,
            remedy=f"Return texts, or mappings with {text!r}.",
        )
    return data
