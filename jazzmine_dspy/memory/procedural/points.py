"""What recall searches: the texts of flows, and the questions that a message comes to."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from jazzmine_dspy.memory.procedural import _sparse
from jazzmine_dspy.memory.procedural.engine import Branch
from jazzmine_dspy.models.errors import FlowError, InputError
from jazzmine_dspy.models.parsing import from_json

if TYPE_CHECKING:
    from jazzmine_dspy.models.decision import Recalled
    from jazzmine_dspy.models.ports import Embedder
    from jazzmine_dspy.models.registry import FlowRegistry


class Point(NamedTuple):
    """One searchable text of a flow; ``conversation`` is the labelled one that it is from, or empty."""

    text: str
    flow: str
    kind: str
    conversation: str


def points_of(registry: FlowRegistry, examples: Iterable[tuple[str, str, str]] = ()) -> Iterator[Point]:
    """All searchable texts of a registry's flows, in its order: description, keywords, examples, further examples.

    Args:
        registry: The flows.
        examples: Further examples, as (text, flow, id of the conversation that it stems from).

    Raises:
        FlowError: an example names an unknown flow.
    """
    further: dict[str, list[Point]] = {name: [] for name in registry}
    for number, (text, flow, conversation) in enumerate(examples, start=1):
        if flow not in further:
            raise FlowError(
                f"Example {number} names the unknown flow {flow!r}",
                where=f"conversation {conversation!r}",
                remedy="Correct the label, or add the flow to the registry.",
            )
        further[flow].append(Point(text, flow, "turn", conversation))
    for name, known in registry.items():
        yield Point(f"{known.description} {known.condition}".strip(), name, "description", "")
        if known.keywords:
            yield Point(", ".join(known.keywords), name, "keywords", "")
        for text in dict.fromkeys(known.examples):
            yield Point(text, name, "example", "")
        yield from dict.fromkeys(further[name])


def read_examples(file: Path, data: bytes | None = None) -> list[tuple[str, str, str]]:
    """The labelled examples that a program is stored with (``examples.jsonl``), as (text, flow, conversation).

    Args:
        file: One JSON object a line. None where there is no such file.
        data: Its content, if it was read already.

    Raises:
        InputError: a line is no example.
    """
    found = []
    if data is None:
        data = file.read_bytes() if file.is_file() else b""
    for number, line in enumerate(data.splitlines(), start=1):
        try:
            told = from_json(line)
            found.append((told["text"], told["flow"], told.get("conversation", "")))
            for each in found[-1]:
                each.encode()
            if not found[-1][0].strip():
                raise ValueError("the text is empty")
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise InputError(
                "This is no example of a program",
                where=f"{file}, line {number}",
                remedy="Save the program again.",
            ) from error
    return found


def questions(embedder: Embedder, query: str, summaries: Sequence[str] = ()) -> dict[str, Branch]:
    """What to ask for each of the :class:`~jazzmine_dspy.memory.procedural.ranking.Lists`, by its name.

    A text may hold nothing but stop words; then there is no question about its words.
    """
    summary = "\n".join(text for text in summaries if text.strip())
    vectors = embedder.embed([query, summary] if summary else [query])
    asked = {"dense": Branch(dense=vectors[0]), "sparse": Branch(words=_sparse.query(query))}
    if summary:
        asked["summary_dense"] = Branch(dense=vectors[1])
        asked["summary_sparse"] = Branch(words=_sparse.query(summary))
    return {name: each for name, each in asked.items() if each.words is None or each.words[0]}


class BlockingRecall(ABC):
    """A recall port that blocks: its asynchronous form is the same in a thread."""

    @abstractmethod
    def recall(
        self,
        query: str,
        *,
        k: int,
        summaries: Sequence[str] = (),
        allowed: Collection[str] | None = None,
        exclude: Collection[str] = (),
    ) -> list[Recalled]:
        """Candidates for a query."""

    async def arecall(
        self,
        query: str,
        *,
        k: int,
        summaries: Sequence[str] = (),
        allowed: Collection[str] | None = None,
        exclude: Collection[str] = (),
    ) -> list[Recalled]:
        """Same as :meth:`recall`, in a thread. Who is cancelled does not wait; the thread ends when it is done."""
        return await asyncio.to_thread(
            self.recall, query, k=k, summaries=summaries, allowed=allowed, exclude=exclude
        )
