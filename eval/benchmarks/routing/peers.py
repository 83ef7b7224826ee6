"""Other ways of choosing a flow, on the same rows with the same embeddings, each behind ``decide`` as a program is."""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any, ClassVar, NamedTuple

from pydantic import Field

from jazzmine_dspy.memory.procedural import FastembedEmbedder, FlowIndex
from jazzmine_dspy.models.decision import Enhancement, Selection, TurnDecision
from jazzmine_dspy.models.flows import Flow
from jazzmine_dspy.models.registry import FlowRegistry
from jazzmine_dspy.models.turn import Turn

Labelled = tuple[str, str | None]
NOTHING = "none"
REMOTE = {
    "cohere": (),
    "mistralai": ("models",),
    "voyageai": ("client", "client_async"),
    "aurelio_sdk": (),
}
"""Clients of remote services that semantic-router imports beside what is measured, with their submodules."""


class Training(NamedTuple):
    """What every system learns from: texts with one flow each, or with none (None), and the flows."""

    rows: Sequence[Labelled]
    flows: FlowRegistry
    seed: int


class Peer:
    """Decides a turn by its text alone."""

    name: str
    seconds: float = 0.0

    def choose(self, text: str) -> tuple[str | None, float, list[tuple[str, float]]]:
        """The flow or None, how sure, and the candidates."""
        raise NotImplementedError

    def decide(self, turn: Turn, /, *, exclude: tuple[str, ...] = ()) -> TurnDecision:  # noqa: ARG002
        """As a program decides; there is nothing to exclude, since no test row is known."""
        flow, sure, candidates = self.choose(turn.text)
        selection = Selection(
            flows=[] if flow is None else [flow],
            candidates=candidates,
            confidence=min(1.0, max(0.0, sure)),
        )
        return TurnDecision(enhancement=Enhancement(enhanced_query=turn.text), selection=selection)


class TopCandidate(Peer):
    """jazzmine's rule without its language model: hybrid recall over one text a flow, and of it the first.

    A flow's text is its description, condition, examples and desired effects, joined by bars.
    """

    name = "top recalled candidate"

    def __init__(self, training: Training) -> None:
        examples: dict[str, list[str]] = {name: list(flow.examples) for name, flow in training.flows.items()}
        for text, flow in training.rows:
            if flow is not None:
                examples[flow].append(text)
        joined = [
            Flow(name=name, description=_joined(flow, examples[name]))
            for name, flow in training.flows.items()
        ]
        self._index = FlowIndex(FlowRegistry(joined), FastembedEmbedder(cache_size=0))
        self._index.build()

    def choose(self, text: str) -> tuple[str | None, float, list[tuple[str, float]]]:
        """The first of three."""
        found = self._index.recall(text, k=5)
        return (found[0].name if found else None), 1.0, [(each.name, each.score) for each in found]


def _joined(flow: Flow, examples: Sequence[str]) -> str:
    parts = [flow.description, flow.condition, *examples, *flow.desired_effects]
    return " | ".join(part.strip() for part in parts if part.strip())


class SemanticRouter(Peer):
    """semantic-router with its confidences fitted on held-out rows, then with all rows as utterances.

    Of its ways to add up a route's hits the one that is right most often on the held-out rows is taken. A message is
    refused below the confidence of a half, as its manual has it, but only where messages out of scope are asked. Where
    the rows have none such, a fifth of the flows is kept out while it is fitted, and so many of their messages have no
    route as others have one.
    """

    name = "semantic-router"

    def __init__(self, training: Training, *, refuses: bool) -> None:
        import_semantic_router()
        from semantic_router import IndexedRouter

        encoder = _encoder(sorted({text for text, _ in training.rows}))
        indexed, fitted = _held_out(training, refuses=refuses)
        best: tuple[float, str, Any] = (-1.0, "mean", None)
        for way in ("mean", "max", "sum"):
            router = IndexedRouter(encoder, _routes(indexed), aggregation=way)
            try:
                report = router.fit([text for text, _ in fitted], [flow for _, flow in fitted])
            except ValueError:  # all of them are right, or none is, so there is nothing to fit
                continue
            if report.accuracy > best[0]:
                best = (report.accuracy, way, router.calibrator)
        _, way, calibrator = best
        threshold = 0.5 if refuses and calibrator is not None else None
        self._router = IndexedRouter(
            encoder,
            _routes(training.rows),
            aggregation=way,
            calibrator=calibrator,
            confidence_threshold=threshold,
        )
        encoder.known = {}  # from here on every query is embedded

    def choose(self, text: str) -> tuple[str | None, float, list[tuple[str, float]]]:
        """What the router says."""
        found = self._router(text)
        return found.name, float(found.confidence or 0.0), []


def _encoder(texts: list[str]) -> Any:
    """The project's embeddings as one of its encoders; what is known already is not embedded again."""
    from semantic_router.encoders import DenseEncoder

    embedder = FastembedEmbedder(cache_size=0)

    class Encoder(DenseEncoder):
        name: str = "minilm"
        known: dict[str, list[float]] = Field(default_factory=dict)

        def __call__(self, docs: list[Any]) -> list[list[float]]:
            wanted = [str(text) for text in docs]
            if all(text in self.known for text in wanted):
                return [self.known[text] for text in wanted]
            return [[float(number) for number in row] for row in embedder.embed(wanted)]

    made = Encoder()
    made.known = dict(zip(texts, made(texts), strict=True))
    return made


def _held_out(training: Training, *, refuses: bool) -> tuple[list[Labelled], list[Labelled]]:
    """Rows to be indexed, and a tenth of them to fit on, with all that have no flow."""
    shuffled = list(training.rows)
    random.Random(training.seed).shuffle(shuffled)
    nothing = [row for row in shuffled if row[1] is None]
    rest = [row for row in shuffled if row[1] is not None]
    labelled = bool(nothing)
    if refuses and not labelled:
        names = sorted({flow for _, flow in rest if flow is not None})
        apart = set(random.Random(training.seed).sample(names, max(1, len(names) // 5)))
        nothing = [(text, None) for text, flow in rest if flow in apart]
        rest = [row for row in rest if row[1] not in apart]
    tenth = max(1, len(rest) // 10)
    # As many without a route as with one: how many users will send, nobody knows.
    return rest[tenth:], rest[:tenth] + (nothing if labelled else nothing[:tenth])


def _routes(rows: Sequence[Labelled]) -> list[Any]:
    from semantic_router import Route

    said: dict[str, list[str]] = {}
    for text, flow in rows:
        if flow is not None:
            said.setdefault(flow, []).append(text)
    return [Route(name=name, utterances=list(dict.fromkeys(held))) for name, held in said.items()]


def import_semantic_router() -> None:
    """Import it without the clients of remote services, which it needs installed though none is asked here."""
    import importlib.util

    for name, inner in REMOTE.items():
        if name not in sys.modules and importlib.util.find_spec(name) is None:
            for each in (name, *(f"{name}.{part}" for part in inner)):
                sys.modules[each] = _Absent(each)


class _Absent(ModuleType):
    """A package that is not installed: whatever is asked of it is a class that does nothing."""

    __path__: ClassVar[list[str]] = []

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (), {})


class WordsAndRegression(Peer):
    """TF-IDF over words and pairs of words, and a logistic regression; messages without a flow are a class."""

    name = "TF-IDF + logistic regression"

    def __init__(self, training: Training) -> None:
        from sklearn.feature_extraction.text import TfidfVectorizer
        from sklearn.linear_model import LogisticRegression

        self._words = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True)
        made = self._words.fit_transform([text for text, _ in training.rows])
        labels = [NOTHING if flow is None else flow for _, flow in training.rows]
        self._model = LogisticRegression(C=20.0, max_iter=200).fit(made, labels)

    def choose(self, text: str) -> tuple[str | None, float, list[tuple[str, float]]]:
        """The most probable label."""
        probabilities = self._model.predict_proba(self._words.transform([text]))[0]
        order = probabilities.argsort()[::-1][:5]
        ranked = [(str(self._model.classes_[i]), float(probabilities[i])) for i in order]
        first, sure = ranked[0]
        return (None if first == NOTHING else first), sure, [item for item in ranked if item[0] != NOTHING]


def peers(training: Training, *, refuses: bool) -> list[Peer]:
    """All of them, trained, with the seconds that it took, imports aside."""
    import_semantic_router()
    import semantic_router  # noqa: F401
    import sklearn.linear_model  # noqa: F401

    makers: list[Callable[[], Peer]] = [
        lambda: SemanticRouter(training, refuses=refuses),
        lambda: TopCandidate(training),
        lambda: WordsAndRegression(training),
    ]
    made = []
    for make in makers:
        began = time.perf_counter()
        peer = make()
        peer.seconds = time.perf_counter() - began
        made.append(peer)
    return made
