"""What a program answered on each turn, as another one is compared with it: from an evaluation, or from its JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jazzmine_dspy.datasets.schema import Example
from jazzmine_dspy.eval.evaluation import Evaluation, inconclusive_reason
from jazzmine_dspy.eval.feedback import describe_decision
from jazzmine_dspy.eval.metrics import Part, ScoreTerm, TurnScores
from jazzmine_dspy.models.base import sha256
from jazzmine_dspy.models.errors import InputError, reading
from jazzmine_dspy.models.parsing import from_json, read_file

FORMAT = 1
_REMEDY = "Name what 'jazzmine-dspy evaluate --json' printed, whole, or a program."


@dataclass(frozen=True)
class RecordedTurn:
    """One turn: its outcome as in ``TurnResult.outcome``, the answer in words, and the scores."""

    example: Example
    outcome: str
    answer: str
    scores: TurnScores

    @property
    def unanswered(self) -> bool:
        """Whether the language model did not answer, so that there is no score."""
        return self.outcome == "unanswered"


@dataclass(frozen=True)
class Record:
    """The turns of one program. ``facts`` say what it was: ``program``, ``dataset``, ``split``, and what else is told.

    Example:
        >>> from jazzmine_dspy.eval import Evaluation
        >>> Record.of(Evaluation(())).turns
        ()
    """

    turns: tuple[RecordedTurn, ...]
    facts: Mapping[str, str] = field(default_factory=dict)

    @property
    def inconclusive_reason(self) -> str:
        """Why nothing may be decided by these turns; empty where it may."""
        return inconclusive_reason(self.turns)

    @classmethod
    def of(cls, found: Evaluation, facts: Mapping[str, str] | None = None) -> Record:
        """What an evaluation holds of its turns."""
        turns = (
            RecordedTurn(
                turn.example,
                turn.outcome,
                turn.outcome if turn.unanswered else describe_decision(turn.decision),
                turn.scores,
            )
            for turn in found.turns
        )
        return cls(tuple(turns), dict(facts or {}))

    def to_json(self) -> dict[str, Any]:
        """What ``evaluate --json`` prints under ``record``; :func:`read_record` reads it back."""
        return {
            "format": FORMAT,
            "facts": dict(self.facts),
            "examples": examples_hash([turn.example for turn in self.turns]),
            "turns": [
                {
                    "key": turn.example.key,
                    "outcome": turn.outcome,
                    "answer": turn.answer,
                    "scores": {name: _to_json(held) for name, held in turn.scores.items()},
                }
                for turn in self.turns
            ],
        }


def examples_hash(examples: Sequence[Example]) -> str:
    """SHA-256 over turns and labels, in their order: two evaluations are of the same turns where it is equal."""
    return sha256([[each.key, each.turn.digest, each.labels.model_dump(mode="json")] for each in examples])


def read_record(
    path: str | Path, examples: Sequence[Example], expected: Mapping[str, str] | None = None
) -> Record:
    """Read what an earlier ``evaluate --json`` printed.

    Args:
        path: The file.
        examples: The turns that it is of; those of the dataset, of which it may be a sample.
        expected: Facts that must be the same, such as ``dataset``, ``split`` and ``flows``.

    Raises:
        InputError: the file is damaged or no evaluation, or it is of another dataset, split or state of the labels.
    """
    where = str(path)
    with reading(path, "The evaluation is damaged", _REMEDY, InputError):
        data = from_json(read_file(path))
    held = data.get("record") if isinstance(data, dict) else None
    if not isinstance(held, dict) or held.get("format") != FORMAT:
        raise InputError("This is not an evaluation with its turns", where=where, remedy=_REMEDY)
    try:
        facts = {str(name): str(value) for name, value in held["facts"].items()}
        for name, value in (expected or {}).items():
            if facts.get(name) != value:
                raise InputError(
                    f"The evaluation is of another {name}: {facts.get(name)}, not {value}",
                    where=where,
                    remedy="Evaluate the baseline again, on the same turns.",
                )
        places = {example.key: example for example in examples}
        missing = [turn["key"] for turn in held["turns"] if turn["key"] not in places]
        chosen = [places[turn["key"]] for turn in held["turns"] if turn["key"] in places]
        if missing or examples_hash(chosen) != held["examples"]:
            raise InputError(
                f"The dataset has changed since: turn {missing[0]} is gone" if missing
                else "The dataset has changed since: turns or labels differ",
                where=where,
                remedy="Evaluate the baseline again.",
            )  # fmt: skip
        turns = tuple(
            RecordedTurn(
                example,
                str(turn["outcome"]),
                str(turn["answer"]),
                {str(name): _from_json(score) for name, score in turn["scores"].items()},
            )
            for turn, example in zip(held["turns"], chosen, strict=True)
        )
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise InputError(
            f"The evaluation is damaged ({type(error).__name__})", where=where, remedy=_REMEDY
        ) from error
    return Record(turns, facts)


def _to_json(held: ScoreTerm) -> Any:
    """A mean as a number, counts as their parts: most scores are means."""
    if len(held.parts) == 1 and held.parts[0].name == "" and held.parts[0].denominator == 1.0:
        return held.parts[0].numerator
    return [list(part) for part in held.parts]


def _from_json(data: Any) -> ScoreTerm:
    if isinstance(data, int | float):
        return ScoreTerm((Part("", float(data), 1.0),))
    return ScoreTerm(tuple(Part(str(name), float(top), float(bottom)) for name, top, bottom in data))
