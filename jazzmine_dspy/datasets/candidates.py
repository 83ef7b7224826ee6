"""Turns of service as candidates for labels: what was said, in which state, and what the program understood."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from pydantic import ValidationError

from jazzmine_dspy.datasets.redaction import Redactor
from jazzmine_dspy.datasets.schema import FLOWS_FILE, LabelledConversation, as_written
from jazzmine_dspy.memory.messages.store import MessageStore, Page
from jazzmine_dspy.models.commands import Command, StartFlow
from jazzmine_dspy.models.decision import TurnDecision
from jazzmine_dspy.models.errors import DatasetError
from jazzmine_dspy.models.messages import Message, MessageRole
from jazzmine_dspy.models.registry import FlowRegistry

CANDIDATES_FILE = "candidates.jsonl"
GUESS = "x-guess"
"""Key of a turn whose labels nobody has looked at; who corrects or confirms them takes it out."""

_PAGE = 500
_JUDGED = ("select", "understand")


class Candidates(NamedTuple):
    """What an export wrote.

    Args:
        path: The file of candidates, a conversation a line, the least confident first.
        conversations, turns: How many there are, of these the turns with a guess.
        replaced: Different things that redaction replaced, by kind; None where nothing was redacted.
        left_out: What is not in it, and why.
    """

    path: Path
    conversations: int
    turns: int
    replaced: dict[str, int] | None
    left_out: tuple[str, ...]


T = TypeVar("T")


async def pages_of(list_page: Callable[..., Awaitable[Page[T]]], whose: str) -> AsyncIterator[Page[T]]:
    """All pages of a listing of a store.

    Args:
        list_page: A method of `MessageStore`, such as `get_conversations_by_user_id`.
        whose: The user, the agent or the conversation.
    """
    offset: int | None = 0
    while offset is not None:
        page = await list_page(whose, limit=_PAGE, offset=offset)
        yield page
        offset = page.next_offset


async def export_candidates(
    store: MessageStore,
    conversation_ids: Iterable[str],
    *,
    flows: str | Path,
    out: str | Path,
    redactor: Redactor | None = None,
    most: int | None = None,
    replace: bool = False,
) -> Candidates:
    """Write stored conversations in the form of a dataset, with the program's guess in each label's place.

    The file is no dataset yet: each turn whose labels are a guess says so by the key ``x-guess``, with the confidence
    (the lower one of selection and understanding; 0.0 where it is not known). Correct the labels in any editor, take
    the key out of each turn that is right now, and ``datasets import candidates`` makes a dataset of it; labels that
    are still a guess are not taken over. Messages that are flagged are left out.

    Args:
        store: Holds the messages and traces.
        conversation_ids: Which ones.
        flows: The ``flows.yaml`` that the assistant serves; copied beside the candidates.
        out: Folder to write to.
        redactor: Replaces personal data, ids of conversations among it; None leaves all as it was said.
        most: Conversations at most, the least confident ones; all where None.
        replace: Also write where there is a file of candidates already: what was labelled there is lost.

    Raises:
        DatasetError: there are candidates in the folder already, there is nothing to export, or no flow has a slot
            that is to be redacted.
        RegistryError: ``flows`` is broken.
        MemoryUnavailableError: the store does not answer.
    """
    registry = FlowRegistry.from_yaml(flows)
    folder = Path(out)
    path = folder / CANDIDATES_FILE
    if path.exists() and not replace:
        raise DatasetError(
            "The folder already has candidates, perhaps with corrected labels",
            where=str(path),
            remedy="Name another --out, or use --replace.",
        )
    known = {slot.name for flow in registry.values() for slot in flow.slots}
    if redactor is not None and (unknown := sorted(redactor.slots - known)):
        raise DatasetError(
            f"No flow has a slot {unknown[0]!r}, so no value would be replaced",
            where="--redact-slot",
            remedy=f"Name one of: {', '.join(sorted(known))}.",
        )
    left_out: list[str] = []
    exported = [await _conversation(store, each, registry, left_out) for each in conversation_ids]
    ranked = [each for each in exported if each is not None]
    if not ranked:
        raise DatasetError(
            "No conversation to export has a message of a user",
            where=", ".join(left_out) or "the store",
            remedy="Name conversations, an agent or a user that the store holds.",
        )
    ranked.sort(key=lambda each: (each[0], each[1]["id"]))
    chosen = [line for _, line in ranked[:most]]
    if redactor is not None:
        renamed = [{**line, "id": f"c{number:05}"} for number, line in enumerate(chosen, 1)]
        chosen = await asyncio.to_thread(lambda: [redactor(line) for line in renamed])
    await asyncio.to_thread(_write, folder, path, chosen, Path(flows))
    guesses = sum(GUESS in turn for line in chosen for turn in line["turns"])
    return Candidates(
        path,
        len(chosen),
        guesses,
        None if redactor is None else dict(sorted(redactor.replaced.items())),
        tuple(left_out),
    )


def _write(folder: Path, path: Path, lines: Sequence[dict[str, Any]], flows: Path) -> None:
    text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if flows.resolve() != (folder / FLOWS_FILE).resolve():
            shutil.copyfile(flows, folder / FLOWS_FILE)
        part = path.with_suffix(".part")
        part.write_text(text, "utf-8")
        part.replace(path)
    except OSError as error:
        raise DatasetError(
            f"The candidates cannot be written: {error.strerror or error}",
            where=str(folder),
            remedy="Name a folder that can be written, with room for it.",
        ) from error


async def _conversation(
    store: MessageStore, conversation_id: str, registry: FlowRegistry, left_out: list[str]
) -> tuple[float, dict[str, Any]] | None:
    """The line of a conversation, and its lowest confidence; None where it holds no user's message."""
    turns: list[dict[str, Any]] = []
    shown: dict[str, Any] = {}
    lowest = 1.0
    async for page in pages_of(store.get_messages_by_conversation_id, conversation_id):
        left_out += [f"{conversation_id}/{each.id}: {each.cause}" for each in page.damaged]
        for message in page:
            where = f"{conversation_id}/{message.id}"
            if message.is_flagged or not message.original_content.strip():
                left_out.append(f"{where}: {'flagged' if message.is_flagged else 'no text'}")
                continue
            turn: dict[str, Any] = {"role": message.role.value, "text": message.original_content}
            if message.role is MessageRole.USER:
                turn["id"] = f"t{sum(each['role'] == 'user' for each in turns) + 1}"
                state = dict(message.state or {})
                own = {key: state.pop(key) for key in ("date", "timezone", "locale") if key in state}
                shown = own | shown
                if own.get("date") != shown.get("date"):
                    turn["date"] = own.get("date")
                guess = await _guess(store, message, registry)
                if message.state is not None:
                    turn["before"] = as_written(state)
                if guess is not None:
                    confidence, turn["labels"], turn[GUESS] = guess
                    lowest = min(lowest, confidence)
            turns.append(turn)
    if not any(turn["role"] == "user" for turn in turns):
        left_out.append(f"{conversation_id}: no message of a user")
        return None
    line = {"id": conversation_id, **shown, "turns": turns}
    try:
        LabelledConversation.model_validate(line)
    except ValidationError as error:
        left_out.append(f"{conversation_id}: {error.errors()[0]['msg']}")
        return None
    return lowest, line


def _labelled(command: Command, registry: FlowRegistry) -> bool:
    """Whether it can be a label: a question back is none, nor is a flow that is served no more."""
    return command.flow in registry if isinstance(command, StartFlow) else command.understood


async def _guess(
    store: MessageStore, message: Message, registry: FlowRegistry
) -> tuple[float, dict[str, Any], dict[str, Any]] | None:
    """Confidence, labels, and what the guess rests on; of the trace where the message has no decision."""
    try:
        decision = TurnDecision.model_validate(message.decision)
    except ValidationError:
        if (trace := await store.get_turn_trace_by_message_id(message.id)) is None:
            return None
        entities = [each.model_dump() for each in trace.detected_entities]
        labels = {
            "sentiment": trace.detected_sentiment, "intent": trace.detected_intent, "entities": entities,
            "is_cancellation": trace.detected_cancellation, "is_continuation": trace.detected_continuation,
        }  # fmt: skip
        return 0.0, labels, {"confidence": 0.0, "program": trace.program_fingerprint}
    found = decision.enhancement
    commands = [command for command in decision.commands if _labelled(command, registry)]
    confidences = [record.confidence for stage, record in decision.stages.items() if stage in _JUDGED]
    confidence = round(min(confidences, default=0.0), 4)
    labels = {
        "enhanced": found.enhanced_query, "sentiment": found.sentiment_score, "intent": found.intent,
        "entities": [each.model_dump() for each in found.entities],
        "is_cancellation": found.is_cancellation, "is_continuation": found.is_continuation,
        "flows": [command.flow for command in commands if isinstance(command, StartFlow)],
        "commands": [command.model_dump(mode="json") for command in commands],
    }  # fmt: skip
    told = {"confidence": confidence, "program": message.program_fingerprint}
    return confidence, labels, told | ({"errors": message.errors} if message.errors else {})
