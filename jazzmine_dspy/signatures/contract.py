"""Contracts of the signatures: what a compiled program relies on, and how a change is noticed."""

from __future__ import annotations

import functools
from collections.abc import Collection
from pathlib import Path
from typing import Any, NamedTuple

import dspy
from pydantic import BaseModel

from jazzmine_dspy.models.base import sha256
from jazzmine_dspy.models.errors import (
    AnswerError,
    EnhancementError,
    RecipeError,
    SelectionError,
    UnderstandingError,
    reading,
)  # fmt: skip
from jazzmine_dspy.models.parsing import from_toml, read_file
from jazzmine_dspy.signatures.answers import (
    DecisionAnswer,
    EnhancementAnswer,
    SelectionAnswer,
    UnderstandingAnswer,
)  # fmt: skip
from jazzmine_dspy.signatures.definitions import (
    OUTPUTS,
    DecideTurn,
    EnhanceMessage,
    SelectFlows,
    UnderstandMessage,
    instructions,
    output_field,
)


class Contract(NamedTuple):
    """A predictor's signature, its answer, and the error of an answer that cannot be read."""

    signature: type[dspy.Signature]
    answer: type[BaseModel]
    error: type[AnswerError]


CONTRACTS: dict[str, Contract] = {
    "enhance": Contract(EnhanceMessage, EnhancementAnswer, EnhancementError),
    "select": Contract(SelectFlows, SelectionAnswer, SelectionError),
    "understand": Contract(UnderstandMessage, UnderstandingAnswer, UnderstandingError),
    "fused": Contract(DecideTurn, DecisionAnswer, AnswerError),
}
"""By the name that the predictor has in :class:`~jazzmine_dspy.program.turn.TurnProgram`."""


ANSWERED = tuple(OUTPUTS)
"""Fields of an answer, those of all stages."""


def predictor_of(signature: type[dspy.Signature]) -> str | None:
    """Whose signature it is, by the fields that it is given: words, name and some answers may be others than ours."""
    given = set(signature.input_fields)
    return next((n for n, c in CONTRACTS.items() if set(c.signature.input_fields) == given), None)


def asking(name: str, signature: type[dspy.Signature], unasked: Collection[str] = ()) -> type[dspy.Signature]:
    """A predictor's signature that asks for the fields of its contract but some; words of others than ours stay.

    Our instructions no longer speak of what is left out. What commands tell is left out where one prompt asks for them.

    Args:
        name: Of the predictor.
        signature: Its signature as it is.
        unasked: Names of fields to leave out; one that it lacks, and that is not named, comes back in our words.

    Example:
        >>> short = asking("fused", DecideTurn, ANSWERED[:-1])
        >>> list(short.output_fields), short.instructions.count("# Rewrite")
        (['commands'], 0)
    """
    whole = CONTRACTS[name].signature
    asked = [key for key in whole.output_fields if key not in unasked]
    if name == "fused" and "commands" not in asked:
        asked = [key for key in ANSWERED if key not in unasked]
    kept = {key: signature.fields.get(key, whole.fields[key]) for key in whole.input_fields}
    kept |= {key: signature.fields.get(key) or output_field(key, name) for key in asked}
    words = signature.instructions
    words = _own_words(name, asked) if words == _own_words(name, signature.output_fields) else words
    if list(kept) == list(signature.fields) and words == signature.instructions:
        return signature
    made: type[dspy.Signature] = dspy.Signature(kept, words, signature_name=whole.__name__)
    return made


def _own_words(name: str, asked: Collection[str]) -> str:
    letters = ("flows",) if name == "fused" and "commands" in asked else ()
    return instructions([*asked, *letters])


def describe(name: str) -> dict[str, Any]:
    """The contract of a predictor as JSON: instructions, fields, answer schema, fingerprint.

    Example:
        >>> sorted(describe("select"))
        ['answer', 'fingerprint', 'inputs', 'instructions', 'name', 'outputs']
    """
    contract = CONTRACTS[name]
    signature = contract.signature
    return {
        "name": signature.__name__,
        "instructions": signature.instructions,
        "inputs": {key: field.json_schema_extra["desc"] for key, field in signature.input_fields.items()},
        "outputs": {key: field.json_schema_extra["desc"] for key, field in signature.output_fields.items()},
        "answer": contract.answer.model_json_schema(),
        "fingerprint": fingerprint(name),
    }


@functools.cache
def fingerprint(name: str) -> str:
    """SHA-256 over names and order of the fields and the answer's schema.

    Instructions and descriptions are left out: those are what compiling changes.
    """
    contract = CONTRACTS[name]
    signature = contract.signature
    return sha256(
        [
            signature.__name__, list(signature.input_fields), list(signature.output_fields),
            _shape(contract.answer.model_json_schema()),
        ]
    )  # fmt: skip


def fingerprints() -> dict[str, str]:
    """The fingerprint of every predictor's contract."""
    return {name: fingerprint(name) for name in CONTRACTS}


def _shape(schema: Any) -> Any:
    """A schema without its prose, so that a reworded docstring breaks no artefact."""
    if isinstance(schema, dict):
        return {
            key: _shape(value)
            for key, value in schema.items()
            if not (key == "description" and isinstance(value, str))
        }
    return [_shape(item) for item in schema] if isinstance(schema, list) else schema


def with_overrides(name: str, folder: Path | None) -> type[dspy.Signature]:
    """A predictor's signature, with a project's own wording from ``folder/NAME.toml`` where that file exists.

    The file may hold ``instructions`` and a table ``fields`` of descriptions.

    Raises:
        RecipeError: the file is no TOML, or names a field that the signature has not.
    """
    signature = CONTRACTS[name].signature
    path = folder / f"{signature.__name__}.toml" if folder else None
    if path is None or not path.is_file():
        return signature
    with reading(path, "Not valid TOML", "Correct the file.", RecipeError):
        data = from_toml(read_file(path))
    for key in data:
        if key not in ("instructions", "fields"):
            raise RecipeError(
                f"Unknown key {key!r}", where=str(path), remedy="Use 'instructions' and 'fields'."
            )
    for field, text in data.get("fields", {}).items():
        if field not in signature.fields:
            raise RecipeError(
                f"Unknown field {field!r}",
                where=str(path),
                remedy=f"Use one of: {', '.join(signature.fields)}.",
            )
        signature = signature.with_updated_fields(field, desc=text)
    if "instructions" in data:
        signature = signature.with_instructions(data["instructions"])
    return signature
