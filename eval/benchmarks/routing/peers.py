"""Other ways of choosing a flow, on the same rows with the same embeddings."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from jazzmine_dspy.memory.procedural import FastembedEmbedder, FlowIndex
from jazzmine_dspy.models.errors import DatasetError, EmbeddingError
from jazzmine_dspy.models.flows import Flow
from jazzmine_dspy.models.registry import FlowRegistry
from jazzmine_dspy.models.turn import Turn
from jazzmine_dspy.optimize.baseline import tfidf_baseline
from jazzmine_dspy.program.clauses import NONE
from jazzmine_dspy.program.ports import HeadInput
from routing import semantic
from routing.peer import Peer, Skipped, Training, Unfit


class TopCandidate(Peer):
    """jazzmine's rule without its language model: hybrid recall over one text a flow, and of it the first.

    A flow's text is its description, condition, examples and desired effects, joined by bars.
    """

    name = "top recalled candidate"

    def __init__(self, training: Training, embedder: FastembedEmbedder) -> None:
        examples: dict[str, list[str]] = {name: list(flow.examples) for name, flow in training.flows.items()}
        for text, flow in training.rows:
            if flow is not None:
                examples[flow].append(text)
        joined = [
            Flow(name=name, description=_joined(flow, examples[name]))
            for name, flow in training.flows.items()
        ]
        self._index = FlowIndex(FlowRegistry(joined), embedder)
        self._index.build()

    def choose(self, text: str) -> tuple[str | None, float, list[tuple[str, float]]]:
        """The first of five."""
        found = self._index.recall(text, k=5)
        return (found[0].name if found else None), 1.0, [(each.name, each.score) for each in found]

    def clear_cache(self) -> None:
        """Of the index."""
        self._index.clear_cache()


def _joined(flow: Flow, examples: Sequence[str]) -> str:
    parts = [flow.description, flow.condition, *examples, *flow.desired_effects]
    return " | ".join(part.strip() for part in parts if part.strip())


class WordsAndRegression(Peer):
    """The baseline of every report, on these rows; messages without a flow are a label.

    Raises:
        Unfit: the rows have fewer than two labels, or no words.
    """

    name = "TF-IDF + logistic regression"

    def __init__(self, training: Training) -> None:
        texts, flows = [text for text, _ in training.rows], [flow for _, flow in training.rows]
        try:
            self._words, self._head = tfidf_baseline(texts, [flow or NONE for flow in flows], training.seed)
        except (DatasetError, EmbeddingError) as error:
            raise Unfit(error.message) from error
        self._flows = tuple(training.flows)

    def choose(self, text: str) -> tuple[str | None, float, list[tuple[str, float]]]:
        """The most probable label."""
        seen = HeadInput(Turn(text=text), self._words.features([text])[0], (), self._flows)
        found = self._head.predict(seen)
        candidates = [item for item in found.ranking[:5] if item[0] != NONE]
        return (found.flows[0] if found.flows else None), found.confidence, candidates


def peers(training: Training, embedder: FastembedEmbedder, *, refuses: bool) -> list[Peer | Skipped]:
    """All of them, always in the same order, trained, with the seconds that it took, imports aside.

    Args:
        training: What they learn from.
        embedder: Shared by all; it comes with nothing remembered, so that the first who asks pays for the rows.
        refuses: Whether messages out of scope are asked.
    """
    semantic.imported()
    import sklearn.linear_model  # noqa: F401

    makers: list[tuple[str, Callable[[], Peer]]] = [
        (semantic.SemanticRouter.name, lambda: semantic.SemanticRouter(training, embedder, refuses=refuses)),
        (TopCandidate.name, lambda: TopCandidate(training, embedder)),
        (WordsAndRegression.name, lambda: WordsAndRegression(training)),
    ]
    made: list[Peer | Skipped] = []
    for name, make in makers:
        began = time.perf_counter()
        try:
            peer = make()
        except Unfit as error:
            made.append(Skipped(name, str(error)))
            continue
        peer.seconds = time.perf_counter() - began
        made.append(peer)
    return made
