"""Fit recall: choose the content and the ranking of the index on labelled turns, each without its own conversation."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from jazzmine_dspy import artifacts
from jazzmine_dspy.datasets.load import draw
from jazzmine_dspy.datasets.schema import Example
from jazzmine_dspy.eval.report import RecallChoice
from jazzmine_dspy.memory.procedural.index import FlowIndex
from jazzmine_dspy.memory.procedural.ranking import RecallSettings
from jazzmine_dspy.models.flows import Flow
from jazzmine_dspy.models.registry import FlowRegistry
from jazzmine_dspy.optimize.local.rows import Exclusions, is_ruled, plain, warm
from jazzmine_dspy.program import acts
from jazzmine_dspy.program.ports import EmbedderPort
from jazzmine_dspy.program.recall_query import recall_query
from jazzmine_dspy.program.state import CANDIDATES, allowed_flows
from jazzmine_dspy.program.turn import TurnProgram

SAMPLE = 600
"""Labelled turns on which settings are compared."""

_AT = (1, 3, 5)
_DEPTHS = (30, 100, 300)

IndexExample = tuple[str, str, str]
"""A text, its flow, and the conversation that it stems from."""


class Question(NamedTuple):
    """Query of a turn: the main text, and further texts of less weight."""

    example: Example
    query: str
    summaries: tuple[str, ...]


class FittedRecall(NamedTuple):
    """Settings of the ranking, labelled turns in the index, and the configurations that were tried."""

    settings: RecallSettings
    examples: tuple[IndexExample, ...]
    choices: tuple[RecallChoice, ...]

    def facts(self) -> dict[str, Any]:
        """The same as JSON."""
        return {
            "settings": self.settings._asdict(),
            "examples": len(self.examples),
            "choices": [
                {
                    key: round(value, 4) if isinstance(value, float) else value
                    for key, value in asdict(one).items()
                }
                for one in self.choices
            ],
        }


def index_examples(registry: FlowRegistry, examples: Sequence[Example]) -> list[IndexExample]:
    """Labelled turns that are examples of exactly one flow, each text once.

    Excludes texts that depend on their context: turns that rules decide, "yes" and "no", texts without a letter, and
    texts with labels of different flows.
    """
    flows: dict[str, set[str]] = defaultdict(set)
    by_text: dict[tuple[str, str], IndexExample] = {}
    for example in examples:
        if (labels := example.labels.flows) is None:
            continue
        text = plain(example.turn.text)
        flows[text].update(labels or [""])
        if (
            len(labels) == 1
            and labels[0] in registry
            and acts.plain(text) not in acts.YES | acts.NO
            and any(character.isalpha() for character in text)
            and not is_ruled(registry, example)
        ):
            by_text.setdefault((text, labels[0]), (example.turn.text, labels[0], example.conversation_id))
    return [row for (text, _), row in by_text.items() if len(flows[text]) == 1]


def with_index(program: TurnProgram, examples: Sequence[IndexExample]) -> TurnProgram:
    """A copy of a program with an index of its flows and of labelled turns, ranked by the settings of its policy."""
    copy = program.with_policy(program.policy)
    artifacts.bind_recall(copy, copy.bindings.embedder, documents(examples))
    return copy


def documents(examples: Sequence[IndexExample]) -> list[dict[str, str]]:
    """Lines of ``examples.jsonl``."""
    return [{"text": text, "flow": flow, "conversation": group} for text, flow, group in examples]


def one_vector_each(registry: FlowRegistry) -> FlowRegistry:
    """The same flows with all their texts joined, as in memories that store one vector for each flow."""
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
    """Choose the content of the index and the settings of its ranking.

    Tries three contents: one vector for each flow (only for comparison), the flows' own texts, and these with the
    labelled turns. Then it tries groups of settings one after the other, on the better of the last two contents. The
    score is the mean of recall at 1, 3 and 5. Labelled turns are added if they raise it. A setting is changed only if
    it raises the score by more than the standard error of the difference, because the best of many may be so by chance.

    Args:
        registry: The flows.
        embedder: Computes the vectors.
        train: Labelled turns; each is queried without its own conversation.
        seed: Of the sample of at most ``SAMPLE`` turns that are compared on.
    """
    exclusions, examples = Exclusions(train), index_examples(registry, train)
    turns = [
        e
        for e in train
        if e.labels.flows and set(e.labels.flows) <= set(registry) and not is_ruled(registry, e)
    ]
    if not (turns := draw(turns, SAMPLE, seed * 7919 + 11)):
        return FittedRecall(RecallSettings(), tuple(examples), ())
    questions = _questions(registry, turns)
    texts = [text for flow in registry.values() for text in flow.examples]
    warm(embedder, [*texts, *(e.turn.text for e in train), *(each.query for each in questions)])
    default = RecallSettings()
    tried: list[RecallChoice] = []
    kinds: list[tuple[str, FlowRegistry, list[IndexExample]]] = [
        ("one vector for each flow", one_vector_each(registry), []),
        ("one for each text of a flow", registry, []),
    ]
    if examples:
        kinds.append(("one for each text and each labelled turn", registry, examples))
    results: list[tuple[_RankedLists, NDArray[np.float64]]] = []
    for name, flows, further in kinds:
        lists = _RankedLists(FlowIndex(flows, embedder, examples=further), questions, exclusions)
        hits = lists.hits(default)
        tried.append(_choice(name, hits))
        results.append((lists, hits))
    best_place = 1
    if examples and results[2][1].mean() > results[1][1].mean():
        best_place = 2
    lists, best = results[best_place]
    tried[best_place] = replace(tried[best_place], kept=True)
    settings, steps = _fit_settings(lists, default, best, any(each.summaries for each in questions))
    return FittedRecall(settings, tuple(examples) if best_place == 2 else (), (*tried, *steps))


def _questions(registry: FlowRegistry, examples: Sequence[Example]) -> list[Question]:
    return [Question(e, *recall_query(e.turn, e.turn.text, registry)) for e in examples]


class _RankedLists:
    """Search results of some turns, queried once and then ranked with many settings."""

    def __init__(self, index: FlowIndex, questions: Sequence[Question], exclusions: Exclusions) -> None:
        self._index = index
        self._examples = [each.example for each in questions]
        self._lists = [
            index.lists(
                each.query,
                summaries=each.summaries,
                exclude=exclusions.of(each.example),
                depth=max(_DEPTHS),
            )
            for each in questions
        ]
        self._allowed = [allowed_flows(index.registry, e.turn) for e in self._examples]

    def hits(self, settings: RecallSettings) -> NDArray[np.float64]:
        """Shape (turns, 3): whether all flows are among the first 1, 3 and 5."""
        rows = []
        for example, lists, allowed in zip(self._examples, self._lists, self._allowed, strict=True):
            ranking = self._index.ranked(lists, k=CANDIDATES, settings=settings)
            names = [one.name for one in ranking if allowed is None or one.name in allowed]
            gold = set(example.labels.flows or ())
            rows.append([gold <= set(names[: max(k, len(gold))]) for k in _AT])
        return np.asarray(rows, float)


def _fit_settings(
    lists: _RankedLists, settings: RecallSettings, best: NDArray[np.float64], summaries: bool
) -> tuple[RecallSettings, list[RecallChoice]]:
    start = settings
    groups: list[list[dict[str, float]]] = [
        [{"rrf_k": k, "sparse": w} for k in (1, 10, 60) for w in (0.0, 0.25, 0.5, 1.0)],
        [{"points_per_flow": count} for count in (1, 2, 3, 5, 10)],
        [{"depth": depth} for depth in _DEPTHS],
    ]
    if summaries:
        groups.append([{"summary": factor} for factor in (0.0, 0.15, 0.3, 0.6)])
    steps: list[RecallChoice] = []
    for group in groups:
        options = [
            (option, lists.hits(option))
            for change in group
            if (option := settings._replace(**change)) != settings  # type: ignore[arg-type]
        ]
        first, place = len(steps), max(range(len(options)), key=lambda number: options[number][1].mean())
        steps += [_choice(_settings_name(start, option), hits) for option, hits in options]
        winner, hits = options[place]
        gained = hits.mean(axis=1) - best.mean(axis=1)
        error = gained.std(ddof=1) / math.sqrt(len(gained)) if len(gained) > 1 else math.inf
        if gained.mean() > error:
            settings, best = winner, hits
            steps = [replace(one, kept=number == first + place) for number, one in enumerate(steps)]
    return settings, steps


def _choice(name: str, hits: NDArray[np.float64]) -> RecallChoice:
    one, three, five = (float(value) for value in hits.mean(axis=0))
    return RecallChoice(name, one, three, five, len(hits))


def _settings_name(default: RecallSettings, settings: RecallSettings) -> str:
    changed = [
        f"{name} {value:g}"
        for name, value, usual in zip(settings._fields, settings, default, strict=True)
        if value != usual
    ]
    return ", ".join(changed) or "the default settings"
