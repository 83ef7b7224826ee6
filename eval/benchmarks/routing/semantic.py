"""semantic-router on the project's embeddings, with its ways of adding up hits compared on held-out rows."""

from __future__ import annotations

import importlib
import importlib.util
import random
import sys
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any, ClassVar

from pydantic import Field

from jazzmine_dspy.models.ports import Embedder
from routing.peer import Labelled, Peer, Training, Unfit

REMOTE = {
    "cohere": (),
    "mistralai": ("models",),
    "voyageai": ("client", "client_async"),
    "aurelio_sdk": (),
}
"""Clients of remote services that semantic-router imports beside what is measured, with their submodules."""
WAYS = ("mean", "max", "sum")
"""How it may add up the hits of a route; the first is its default, and kept where another is no better."""


class SemanticRouter(Peer):
    """semantic-router with its confidences fitted on held-out rows, then with all rows as utterances.

    Of its ways to add up a route's hits the one that is right most often on the held-out rows is taken. A message is
    refused below the confidence of a half, as its manual has it, but only where messages out of scope are asked. Where
    the rows have none such, a fifth of the flows is kept out while it is fitted, and so many of their messages join
    as the dataset's share says.

    Raises:
        Unfit: it has to refuse, and the held-out rows fit no confidence.
    """

    name = "semantic-router"

    def __init__(self, training: Training, embedder: Embedder, *, refuses: bool) -> None:
        from_library = imported()
        encoder = _encoder(embedder, sorted({text for text, _ in training.rows}))
        indexed, fitted = held_out(training, refuses=refuses)
        asked, wanted = [text for text, _ in fitted], [flow for _, flow in fitted]
        having = [row for row in fitted if row[1] is not None]
        routers = {
            way: from_library.IndexedRouter(encoder, _routes(indexed), aggregation=way) for way in WAYS
        }
        self.compared: Mapping[str, float] = {
            way: router.evaluate([text for text, _ in having], [flow for _, flow in having])
            if indexed
            else 0.0
            for way, router in routers.items()
        }
        """Each way's share of right answers on the held-out rows that have a flow, before anything is refused."""
        self.way = max(WAYS, key=lambda way: self.compared[way])
        calibrator, told = None, ""
        try:
            if indexed:
                routers[self.way].fit(asked, wanted)
                calibrator = routers[self.way].calibrator
        except ValueError as error:
            told = str(error)
        if refuses and calibrator is None:
            raise Unfit(
                f"its confidences can't be fitted ({told or 'too few rows'}), so it could refuse nothing"
            )
        self._router = from_library.IndexedRouter(
            encoder,
            _routes(training.rows),
            aggregation=self.way,
            calibrator=calibrator,
            confidence_threshold=0.5 if refuses else None,
        )
        encoder.known = {}  # from here on every query is embedded

    def choose(self, text: str) -> tuple[str | None, float, list[tuple[str, float]]]:
        """What the router says, with its five best routes."""
        # Five, to name candidates; the first has the highest confidence, so it is refused as in a call for one.
        found = self._router(text, limit=5, threshold=float("-inf"))
        sure = float(found[0].confidence or 0.0)
        refused = self._router.confidence_threshold is not None and sure < self._router.confidence_threshold
        hit = [(each.name, float(each.confidence or 0.0)) for each in found]
        return (None if refused else found[0].name), sure, hit


def _encoder(embedder: Embedder, texts: Sequence[str]) -> Any:
    """The project's embeddings as one of its encoders; what is known already is not embedded again."""
    from semantic_router.encoders import DenseEncoder

    class Encoder(DenseEncoder):
        name: str = "minilm"
        known: dict[str, list[float]] = Field(default_factory=dict)

        def __call__(self, docs: list[Any]) -> list[list[float]]:
            wanted = [str(text) for text in docs]
            if all(text in self.known for text in wanted):
                return [self.known[text] for text in wanted]
            return [row.tolist() for row in embedder.embed(wanted)]

    made = Encoder()
    made.known = dict(zip(texts, made(list(texts)), strict=True))
    return made


def held_out(training: Training, *, refuses: bool) -> tuple[list[Labelled], list[Labelled]]:
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
    if not labelled:
        # Where the dataset does not say how many users send, as many without a route as with one.
        share = 0.5 if training.share is None else training.share
        nothing = nothing[: round(tenth * share / (1 - share))]
    return rest[tenth:], rest[:tenth] + nothing


def _routes(rows: Sequence[Labelled]) -> list[Any]:
    from semantic_router import Route

    said: dict[str, list[str]] = {}
    for text, flow in rows:
        if flow is not None:
            said.setdefault(flow, []).append(text)
    return [Route(name=name, utterances=list(dict.fromkeys(held))) for name, held in said.items()]


def imported() -> ModuleType:
    """semantic-router, without the clients of remote services, which it imports though none is asked here.

    They stand in only while it is imported: afterwards they are absent to everybody else, as they were before.
    """
    if "semantic_router" in sys.modules:
        return sys.modules["semantic_router"]
    stand_ins = {
        each: _Absent(each)
        for name, inner in REMOTE.items()
        if name not in sys.modules and importlib.util.find_spec(name) is None
        for each in (name, *(f"{name}.{part}" for part in inner))
    }
    # Not by `patch.dict`: at its end it takes all from sys.modules that was imported meanwhile.
    sys.modules.update(stand_ins)
    try:
        return importlib.import_module("semantic_router")
    finally:
        for each in stand_ins:
            del sys.modules[each]


class _Absent(ModuleType):
    """A package that is not installed: whatever is asked of it is a class that does nothing."""

    __path__: ClassVar[list[str]] = []

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (), {})
