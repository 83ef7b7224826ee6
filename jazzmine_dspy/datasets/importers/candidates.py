"""Candidates that were exported from service, with the labels that somebody corrected or confirmed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jazzmine_dspy.datasets.candidates import CANDIDATES_FILE, GUESS
from jazzmine_dspy.datasets.importers.source_reader import BadRowError, Part, SourceReader
from jazzmine_dspy.datasets.importers.writer import Provenance
from jazzmine_dspy.datasets.schema import FLOWS_FILE, LabelledConversation
from jazzmine_dspy.models.errors import DatasetError
from jazzmine_dspy.models.flows import Flow
from jazzmine_dspy.models.parsing import from_json

PROVENANCE = Provenance(
    title="Turns of service, labelled",
    source="`datasets export` of the user's own conversations",
    licence="the user's own",
    command="jazzmine-dspy datasets import candidates",
    derived=(
        "Corrected or confirmed labels: those of turns without the key `x-guess`.",
        "The state before each message, as it was in service.",
    ),
    left_out=(
        "Labels that are still a program's guess.",
        "Conversations in which no turn is labelled.",
    ),
)


def flows_file(parts: Sequence[Part]) -> Path:
    """The ``flows.yaml`` that the export wrote next to the candidates.

    Raises:
        DatasetError: it is not there.
    """
    folder = _file(parts[0]).parent
    if not (folder / FLOWS_FILE).is_file():
        raise DatasetError(
            "There is no flows.yaml that the labels refer to",
            where=str(folder),
            remedy="Name it: --flows FILE; datasets export writes it next to the candidates.",
        )
    return folder / FLOWS_FILE


def _file(part: Part) -> Path:
    return part.path / CANDIDATES_FILE if part.path.is_dir() else part.path


def read(reader: SourceReader) -> Sequence[Flow]:
    """Read the files of candidates; a guess that nobody confirmed is not a label."""
    if reader.columns or reader.encoding is not None:
        raise DatasetError(
            "candidates takes no map and no encoding", where="KIND", remedy="Leave --map and --encoding out."
        )
    guesses = 0
    for part in reader.parts:
        path = _file(part)
        for number, line in reader.lines(path):
            if not line.strip():
                continue
            with reader.row(path, number):
                document = from_json(line.encode())
                guesses += _without_guesses(document)
                conversation = LabelledConversation.model_validate(document)
                if len(reader.parts) > 1:
                    # Two exports both begin with c00001.
                    conversation = conversation.model_copy(update={"id": f"{part.name}-{conversation.id}"})
                if any(turn.labels is not None for turn in conversation.turns):
                    reader.add(part, conversation)
    if guesses:
        reader.notes.append(f"{guesses} turns are still a guess, and have no label.")
    return []


def _without_guesses(document: Any) -> int:
    """Remove the labels that nobody has looked at; returns the number of turns that had them."""
    if not isinstance(document, dict) or not isinstance(document.get("turns"), list):
        raise BadRowError("The line is not a conversation: an object with turns")
    guessed = [turn for turn in document["turns"] if isinstance(turn, dict) and GUESS in turn]
    for turn in guessed:
        turn.pop("labels", None)
    return len(guessed)
