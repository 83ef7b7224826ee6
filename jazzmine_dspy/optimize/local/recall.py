"""Fitting recall: what is in the index, and how it ranks, on labelled turns that do not find themselves."""

from __future__ import annotations

import math
import random
from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from jazzmine_dspy.datasets.schema import Example
from jazzmine_dspy.memory.procedural.index import FlowIndex
from jazzmine_dspy.memory.procedural.ranking import RecallSettings
from jazzmine_dspy.models.flows import Flow
from jazzmine_dspy.models.registry import FlowRegistry
from jazzmine_dspy.optimize.local.rows import Exclusions, is_ruled, plain, warm
from jazzmine_dspy.program import acts
from jazzmine_dspy.program.recall_query import recall_query
from jazzmine_dspy.program.state import CANDIDATES, TurnState

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from jazzmine_dspy.program.ports import EmbedderPort

SAMPLE = 600
"""Labelled turns on which settings are compared."""

_AT = (1, 3, 5)
_DEPTHS = (30, 100, 300)

IndexExample = tuple[str, str, str]
"""A text, its flow, and the conversation that it stems from."""


class Question(NamedTuple):
    """What recall is asked for a turn: the query, and further texts of less weight."""

    example: Example
    query: str
    summaries: tuple[str, ...]


class Choice(NamedTuple):
    """A way to recall that was tried: the shares of turns whose flows are all among the first 1, 3 and 5."""

    name: str
    at: tuple[float, float, float]
    n: int
    kept: bool = False


class FittedRecall(NamedTuple):
    """What the index holds beside the flows, how it ranks, and what was tried."""

    settings: RecallSettings
    examples: tuple[IndexExample, ...]
    choices: tuple[Choice, ...]

    def facts(self) -> dict[str, Any]:
        """The same as JSON."""
        return {
            "settings": self.settings._asdict(),
            "examples": len(self.examples),
            "choices": [
                {"name": one.name, **{f"recall_at_{k}": round(v, 4) for k, v in zip(_AT, one.at, strict=True)},
                 "n": one.n, "kept": one.kept}
                for one in self.choices
            ],
        }  # fmt: skip


def index_examples(registry: FlowRegistry, examples: Sequence[Example]) -> list[IndexExample]:
    """Labelled turns that say what a flow is: those of exactly one flow, each text once.

    Left out are texts that mean something in their context alone: what a rule answers, "yes" and "no", what holds no
    letter, and what is said to mean different flows.
    """
    flows: dict[str, set[str]] = defaultdict(set)
    found: dict[tuple[str, str], IndexExample] = {}
    for example in examples:
        wanted = example.labels.flows
        if wanted is None:
            continue
        text = plain(example.turn.text)
        flows[text].update(wanted or [""])
        if len(wanted) == 1 and wanted[0] in registry and not _bare(text) and not is_ruled(registry, example):
            found.setdefault((text, wanted[0]), (example.turn.text, wanted[0], example.conversation_id))
    return [held for (text, _), held in found.items() if len(flows[text]) == 1]


def one_vector_each(registry: FlowRegistry) -> FlowRegistry:
    """The same flows with all their texts in one, as memories keep them that have one vector for each flow."""
    return FlowRegistry(
        [
            Flow(
                name=flow.name,
                description="\n".join(
                    [flow.description, flow.condition, ", ".join(flow.keywords), *flow.examples]
                ).strip(),
            )
            for flow in registry.values()
        ],
        agent_id=registry.agent_id,
    )


def fit_recall(
    registry: FlowRegistry,
    embedder: EmbedderPort,
    train: Sequence[Example],
    *,
    seed: int = 0,
) -> FittedRecall:
    """Choose what the index holds, and how it ranks.

    Tried are one vector for each flow (for comparison alone), the flows' own texts, and these with the labelled turns;
    then, on the better of the latter two, settings one group after the other. Compared is the mean of recall at 1, 3
    and 5. Labelled turns join where they raise it; another setting is taken where it raises it by more than the
    standard error of the difference, since the best of many is else best by chance.

    Args:
        registry: The flows.
        embedder: Gives the vectors.
        train: Labelled turns; each is asked for without its own conversation.
        seed: Of the sample of at most ``SAMPLE`` turns that are compared on.
    """
    exclusions, examples = Exclusions(train), index_examples(registry, train)
    asked = [
        e
        for e in train
        if e.labels.flows and set(e.labels.flows) <= set(registry) and not is_ruled(registry, e)
    ]
    if len(asked) > SAMPLE:
        chosen = random.Random(seed * 7919 + 11).sample(range(len(asked)), SAMPLE)
        asked = [asked[number] for number in sorted(chosen)]
    if not asked:
        return FittedRecall(RecallSettings(), tuple(examples), ())
    held = _as_written(registry, asked)
    texts = [text for flow in registry.values() for text in flow.examples]
    warm(embedder, [*texts, *(e.turn.text for e in train), *(each.query for each in held)])
    default = RecallSettings()
    tried: list[Choice] = []
    kinds: list[tuple[str, FlowRegistry, list[IndexExample]]] = [
        ("one vector for each flow", one_vector_each(registry), []),
        ("one for each text of a flow", registry, []),
    ]
    if examples:
        kinds.append(("one for each text and each labelled turn", registry, examples))
    found: list[tuple[_Asked, NDArray[np.float64]]] = []
    for name, flows, further in kinds:
        lists = _Asked(FlowIndex(flows, embedder, examples=further), held, exclusions)
        hits = lists.hits(default)
        tried.append(_choice(name, hits))
        found.append((lists, hits))
    kept = 1
    if examples and found[2][1].mean() > found[1][1].mean():
        kept = 2
    lists, best = found[kept]
    tried[kept] = tried[kept]._replace(kept=True)
    settings, steps = _fitted(lists, default, best, any(each.summaries for each in held))
    return FittedRecall(settings, tuple(examples) if kept == 2 else (), (*tried, *steps))


def _as_written(registry: FlowRegistry, examples: Sequence[Example]) -> list[Question]:
    return [Question(e, *recall_query(e.turn, e.turn.text, registry)) for e in examples]


class _Asked:
    """Ranked lists of some turns, asked for once, to be ranked under many settings."""

    def __init__(self, index: FlowIndex, asked: Sequence[Question], exclusions: Exclusions) -> None:
        self._index = index
        self._examples = [each.example for each in asked]
        self._lists = [
            index.lists(
                each.query,
                summaries=each.summaries,
                exclude=exclusions.of(each.example),
                depth=max(_DEPTHS),
            )
            for each in asked
        ]
        self._allowed = [TurnState(e.turn, index.registry).allowed for e in self._examples]

    def hits(self, settings: RecallSettings) -> NDArray[np.float64]:
        """Shape (turns, 3): whether all flows are among the first 1, 3 and 5."""
        rows = []
        for example, lists, allowed in zip(self._examples, self._lists, self._allowed, strict=True):
            found = self._index.ranked(lists, k=CANDIDATES, settings=settings)
            names = [one.name for one in found if allowed is None or one.name in allowed]
            gold = set(example.labels.flows or ())
            rows.append([gold <= set(names[: max(k, len(gold))]) for k in _AT])
        return np.asarray(rows, float)


def _fitted(
    lists: _Asked, settings: RecallSettings, best: NDArray[np.float64], summaries: bool
) -> tuple[RecallSettings, list[Choice]]:
    start = settings
    groups: list[list[dict[str, float]]] = [
        [{"rrf_k": k, "sparse": w} for k in (1, 10, 60) for w in (0.0, 0.25, 0.5, 1.0)],
        [{"points_per_flow": count} for count in (1, 2, 3, 5, 10)],
        [{"depth": depth} for depth in _DEPTHS],
    ]
    if summaries:
        groups.append([{"summary": factor} for factor in (0.0, 0.15, 0.3, 0.6)])
    steps: list[Choice] = []
    for group in groups:
        options = []
        for change in group:
            option = settings._replace(**change)  # type: ignore[arg-type]
            if option != settings:
                options.append((option, lists.hits(option)))
        first, place = len(steps), max(range(len(options)), key=lambda number: options[number][1].mean())
        steps += [_choice(_named(start, option), hits) for option, hits in options]
        winner, hits = options[place]
        if _surely(hits, best):
            settings, best = winner, hits
            steps = [one._replace(kept=number == first + place) for number, one in enumerate(steps)]
    return settings, steps


def _surely(mine: NDArray[np.float64], theirs: NDArray[np.float64]) -> bool:
    gained = mine.mean(axis=1) - theirs.mean(axis=1)
    error = gained.std(ddof=1) / math.sqrt(len(gained)) if len(gained) > 1 else math.inf
    return bool(gained.mean() > error)


def _choice(name: str, hits: NDArray[np.float64]) -> Choice:
    one, three, five = (float(value) for value in hits.mean(axis=0))
    return Choice(name, (one, three, five), len(hits))


def _named(default: RecallSettings, settings: RecallSettings) -> str:
    changed = [
        f"{name} {value:g}"
        for name, value, usual in zip(settings._fields, settings, default, strict=True)
        if value != usual
    ]
    return ", ".join(changed) or "the default settings"


def _bare(text: str) -> bool:
    return acts.plain(text) in acts.YES | acts.NO or not any(character.isalpha() for character in text)
