"""Contracts of the signatures: what a compiled program relies on, and how a change is noticed."""

from __future__ import annotations

import copy
import functools
from collections.abc import Collection
from pathlib import Path
from typing import Any, Literal, NamedTuple

import dspy
from pydantic import BaseModel

from jazzmine_dspy.models.base import sha256
from jazzmine_dspy.models.errors import (
    AnswerError,
    EnhancementError,
    RecipeError,
    SelectionError,
    UnderstandingError,
)  # fmt: skip
from jazzmine_dspy.models.parsing import MalformedError, from_toml, read_file
from jazzmine_dspy.signatures.answers import (
    DecisionAnswer,
    EnhancementAnswer,
    SelectionAnswer,
    UnderstandingAnswer,
)  # fmt: skip
from jazzmine_dspy.signatures.definitions import (
    GUIDANCE,
    INPUTS,
    OUTPUTS,
    DecideTurn,
    EnhanceMessage,
    SelectFlows,
    UnderstandMessage,
)

Wording = Literal["brief", "full"]
"""How a prompt is worded: briefly, for tiny models, or in full, with all definitions."""

WORDINGS: tuple[Wording, ...] = ("brief", "full")


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


ANSWERED = tuple(DecideTurn.output_fields)
"""Fields of an answer, those of all stages."""

_MEANING = tuple(EnhanceMessage.output_fields)


def predictor_of(signature: type[dspy.Signature]) -> str | None:
    """Whose signature it is, by the fields that it is given: words, name and some answers may be others than ours."""
    given = set(signature.input_fields)
    return next((n for n, c in CONTRACTS.items() if set(c.signature.input_fields) == given), None)


def without(
    name: str, signature: type[dspy.Signature], unasked: Collection[str], wording: Wording = "brief"
) -> type[dspy.Signature]:
    """A predictor's signature in a wording, that asks for all fields of its contract but some; its own words stay.

    Instructions that are ours no longer speak of what is left out; those of a project or a compile stay as they are, as
    do descriptions of fields. What is ours in one wording is put into the other.

    Args:
        name: Of the predictor.
        signature: Its signature as it is.
        unasked: Names of fields to leave out; one that it lacks, and that is not named, comes back in our words.
        wording: ``brief`` or ``full``.

    Example:
        >>> short = without("fused", DecideTurn, ANSWERED[:-1])
        >>> list(short.output_fields), short.instructions.partition(".")[0]
        (['commands'], "Say what the user's newest message does to the dialogue")
    """
    whole = CONTRACTS[name].signature
    kept = {key: signature.fields.get(key, own) for key, own in whole.fields.items() if key not in unasked}
    words = signature.instructions
    if words in [_instructions(name, signature.output_fields, each) for each in WORDINGS]:
        words = _instructions(name, kept, wording)
    said = {key: _description(name, key, _desc(field), wording) for key, field in kept.items()}
    reworded = {key: text for key, text in said.items() if text != _desc(kept[key])}
    if list(kept) == list(signature.fields) and not reworded and words == signature.instructions:
        return signature
    # One class for all of them: each takes milliseconds to make.
    kept = copy.deepcopy(kept)
    for key, text in reworded.items():
        kept[key].json_schema_extra |= {"desc": text}
    made: type[dspy.Signature] = dspy.Signature(kept, words)
    made.__name__ = whole.__name__
    return made


def _desc(field: Any) -> str:
    return str(field.json_schema_extra["desc"])


def _description(name: str, field: str, said: str, wording: Wording) -> str:
    """What a prompt says of a field: ours in the wording; what others wrote stays."""
    brief = _desc(CONTRACTS[name].signature.fields[field])
    whole = {**INPUTS, **OUTPUTS}[field]
    return (brief if wording == "brief" else whole) if said in (brief, whole) else said


def _instructions(name: str, asked: Collection[str], wording: Wording = "brief") -> str:
    """Our instructions where only some fields are asked for."""
    first = _brief_instructions(name, asked)
    return first if wording == "brief" else f"{first}\n{GUIDANCE}"


def _brief_instructions(name: str, asked: Collection[str]) -> str:
    own: str = CONTRACTS[name].signature.instructions
    if name == "enhance" and "enhanced_query" not in asked:
        return own.replace(", so that it can be read alone", "")
    if name != "fused":
        return own
    parts = ["what {} means"] if any(field in asked for field in _MEANING) else []
    parts += ["which tasks {} asks to start"] if "flows" in asked else []
    parts += ["what {} does to the dialogue"] if "commands" in asked else []
    said = [part.format("it" if place else "the user's newest message") for place, part in enumerate(parts)]
    listed = " and ".join(said) if len(said) < 3 else f"{', '.join(said[:-1])}, and {said[-1]}"
    return f"Say {listed}.{own[own.index('.') + 1 :]}"


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
    try:
        data = from_toml(read_file(path))
    except MalformedError as error:
        raise RecipeError(
            f"Not valid TOML: {error.problem}", where=error.at(path), remedy="Correct the file."
        ) from error
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
