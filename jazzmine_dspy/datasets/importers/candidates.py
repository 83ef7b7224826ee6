"""Candidates that were exported from service, with the labels that somebody corrected or confirmed (D6)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from jazzmine_dspy.datasets.candidates import CANDIDATES_FILE, GUESS
from jazzmine_dspy.datasets.importers.intake import BadRowError, Intake
from jazzmine_dspy.datasets.importers.kinds import importer
from jazzmine_dspy.datasets.importers.source import Gathered, PartName, Source
from jazzmine_dspy.datasets.schema import FLOWS_FILE, LabelledConversation
from jazzmine_dspy.models.errors import DatasetError
from jazzmine_dspy.models.parsing import from_json
from jazzmine_dspy.models.registry import FlowRegistry


def _layout(src: Path) -> dict[PartName, Path]:
    if src.is_file():
        return {"train": src}
    return {"train": src / CANDIDATES_FILE} if (src / CANDIDATES_FILE).is_file() else {}


@importer(
    "candidates",
    title="Turns of service, labelled",
    source="`datasets export` of the user's own conversations",
    licence="the user's own",
    derived=(
        "Labels that somebody corrected or confirmed: those of turns without the key `x-guess`.",
        "The state before each message, as it was in service.",
    ),
    left_out=(
        "Labels that are still a program's guess.",
        "Conversations in which no turn is labelled.",
    ),
    layout=_layout,
    own=True,
)
def candidates(source: Source, intake: Intake) -> Gathered:
    """Read the files of candidates; what is still a guess is no label."""
    if source.columns or source.encoding is not None:
        raise DatasetError(
            "candidates takes no map and no encoding", where="KIND", remedy="Leave --map and --encoding out."
        )
    listed = source.flows or source.beside(FLOWS_FILE)
    if listed is None:
        raise DatasetError(
            "There is no flows.yaml that the labels speak of",
            where=source.where,
            remedy="Name it: --flows FILE; datasets export writes it beside the candidates.",
        )
    chats: dict[PartName, list[LabelledConversation]] = {}
    guesses = 0
    for part in source.parts:
        kept = chats.setdefault(part.name, [])
        path = part.path / CANDIDATES_FILE if part.path.is_dir() else part.path
        for number, line in intake.lines(path):
            if not line.strip():
                continue
            with intake.row(path, number):
                document = from_json(line.encode())
                guesses += _without_guesses(document)
                conversation = LabelledConversation.model_validate(document)
                if len(source.parts) > 1:
                    # Two exports both begin with c00001.
                    conversation = conversation.model_copy(update={"id": f"{part.name}-{conversation.id}"})
                if any(turn.labels is not None for turn in conversation.turns):
                    kept.append(conversation)
    notes = [f"{guesses} turns are still a guess, and have no label."] if guesses else []
    return Gathered(list(FlowRegistry.from_yaml(listed).values()), chats, notes)


def _without_guesses(document: Any) -> int:
    """Take the labels off that nobody has looked at; how many turns had them."""
    if not isinstance(document, dict) or not isinstance(document.get("turns"), list):
        raise BadRowError("The line is no conversation: an object with turns")
    guessed = [turn for turn in document["turns"] if isinstance(turn, dict) and GUESS in turn]
    for turn in guessed:
        turn.pop("labels", None)
    return len(guessed)
