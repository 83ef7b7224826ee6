"""Loading a labelled dataset, whose test part is closed until a final report; and what a program has seen of it."""

from __future__ import annotations

import datetime as dt
import json
import random
import warnings
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from jazzmine_dspy.datasets.label_checks import with_normal_values
from jazzmine_dspy.datasets.reader import read
from jazzmine_dspy.datasets.schema import (
    ROLES,
    SPLITS_FILE,
    Example,
    LabelledConversation,
    Problem,
    Role,
)
from jazzmine_dspy.datasets.split import group, roles_hash
from jazzmine_dspy.models.base import sha256
from jazzmine_dspy.models.errors import DatasetError
from jazzmine_dspy.models.history import prune
from jazzmine_dspy.models.language import warn_unsupported_language
from jazzmine_dspy.models.registry import FlowRegistry, reading_context
from jazzmine_dspy.models.turn import HistoryMessage, Turn

if TYPE_CHECKING:
    import dspy


T = TypeVar("T")

OPENED_FILE = ".opened.jsonl"
CARD_FILE = "card.md"


class Dataset:
    """A labelled dataset. Made by :func:`load_dataset`.

    Attributes:
        path: The folder.
        name: The folder's name.
        flows: The flows that the labels speak of.
        conversations: All conversations, in file order.
        roles: The role of each conversation: ``train``, ``dev_a``, ``dev_b`` or ``test``.
        lines: The line of each conversation in ``conversations.jsonl``, from 1.
        notes: What was assumed while loading.
    """

    def __init__(
        self,
        *,
        path: Path,
        flows: FlowRegistry,
        conversations: tuple[LabelledConversation, ...],
        roles: dict[str, Role],
        lines: dict[str, int],
        notes: tuple[str, ...] = (),
    ) -> None:
        self.path = path
        self.name = path.resolve().name
        self.flows = flows
        self.conversations = conversations
        self.roles = roles
        self.lines = lines
        self.notes = notes
        self._opened = False

    def examples(self, *roles: str) -> list[Example]:
        """The labelled turns of some roles, in file order.

        A turn's state is the labelled one, its history what a conversation is pruned to when it is served (the
        last 8 turns of the user with their replies, 10 messages at least), as it was written. Labels of
        earlier turns are not shown: a program would not have them.

        Raises:
            DatasetError: no or an unknown role is named, a role has no labelled turn, or it is ``test`` and
                :meth:`open_test` was not called.
        """
        wanted = [role for role in ROLES if role in roles]
        if (unknown := [role for role in roles if role not in ROLES]) or not roles:
            raise DatasetError(
                f"Unknown split {unknown[0]!r}" if unknown else "No split is named",
                where=str(self.path),
                remedy=f"Use: {', '.join(ROLES)}.",
            )
        for role in wanted:
            if role not in self.roles.values():
                raise DatasetError(
                    f"The split {role!r} is empty",
                    where=f"{self.path / SPLITS_FILE}, field roles.{role}",
                    remedy="Give it conversations with `datasets split`.",
                )
        if "test" in wanted and not self._opened:
            raise DatasetError(
                "The test split is closed",
                where=str(self.path),
                remedy="For a final report call open_test(reason), which is logged; tune on dev_a and dev_b.",
            )
        examples = [
            example
            for conversation in self.conversations
            if (role := self.roles[conversation.id]) in wanted
            for example in self._of(conversation, role)
        ]
        for role in wanted:
            if not any(example.role == role for example in examples):
                raise DatasetError(
                    f"The split {role!r} has no labelled turn",
                    where=str(self.path / SPLITS_FILE),
                    remedy="Label turns of its conversations, or give it others with `datasets split`.",
                )
        return examples

    @property
    def card(self) -> str:
        """The text of ``card.md`` in the folder: where the data comes from; empty where there is none."""
        path = self.path / CARD_FILE
        return path.read_text("utf-8", errors="replace") if path.is_file() else ""

    def to_dspy(self, split: str) -> list[dspy.Example]:
        """The labelled turns of a split as examples for DSPy's optimizers and for ``dspy.Evaluate``.

        Args:
            split: ``train``, ``dev_a``, ``dev_b`` or ``test``.

        Returns:
            Of each turn an example with the inputs ``turn`` and ``exclude`` (the turn's own conversation, whose texts
            recall leaves out), and ``gold``, the labels. All values are plain. Where an optimizer takes one for a
            demonstration, the program renders it for each predictor.

        Raises:
            DatasetError: as :meth:`examples`.
        """
        return [to_dspy(example) for example in self.examples(split)]

    def _of(self, conversation: LabelledConversation, role: Role) -> Iterator[Example]:
        said = [
            HistoryMessage(
                role=turn.role,
                text=turn.text,
                is_continuation=turn.labels is None or turn.labels.is_continuation is not False,
            )
            for turn in conversation.turns
        ]
        for index, labelled in enumerate(conversation.turns):
            if labelled.labels is None:
                continue
            # The summaries of the rest are no query for a flow: with some beside the message, recall finds the
            # right one first in 43 to 51 of 100 turns, without them in 55. So they have a field of their own.
            history, summaries = prune(said[:index])
            day = conversation.day(index)
            turn = Turn(
                text=labelled.text,
                **dict(labelled.before),
                history=history,
                history_summaries=summaries,
                date=day,
                timezone=conversation.timezone,
                locale=conversation.locale,
            )
            yield Example(
                conversation_id=conversation.id,
                turn_id=conversation.turn_id(index),
                turn=turn,
                labels=with_normal_values(
                    labelled.labels, turn, self.flows, reading_context(self.flows, day, conversation.locale)
                ),
                tags=labelled.tags,
                role=role,
                line=self.lines[conversation.id],
            )

    def open_test(
        self, reason: str, log: str | Path | None = None, *, now: dt.datetime | None = None
    ) -> Path | None:
        """Open the test split for a final report, and log that it was opened.

        Args:
            reason: What for.
            log: Folder of ``.opened.jsonl``, to which a line is added; the dataset's own where None.
            now: Time of the line; the present where None.

        Returns:
            The log, or None where it could not be written, which also gives a warning.

        Raises:
            DatasetError: ``reason`` is empty.
        """
        if not reason.strip():
            raise DatasetError(
                "The test split is opened for no reason",
                where=str(self.path),
                remedy="Say which report needs it.",
            )
        self._opened = True
        return append_opening(
            Path(log if log is not None else self.path),
            {"reason": reason, "dataset": self.name, "splits": self.splits_fingerprint},
            now,
        )

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 over the content of the flows and of all conversations, roles not included."""
        held = [conversation.model_dump(mode="json") for conversation in self.conversations]
        return sha256({"flows": self.flows.checksum, "conversations": held})

    @cached_property
    def splits_fingerprint(self) -> str:
        """SHA-256 over the roles, as in ``splits.json``."""
        return roles_hash(group(self.roles))


def append_opening(folder: Path, entry: Mapping[str, Any], now: dt.datetime | None = None) -> Path | None:
    """Add a line to the log of what was opened for a final report.

    Args:
        folder: Of the log.
        entry: What was opened, and what for.
        now: Time of the line; the present where None.

    Returns:
        The log; None where it could not be written, which also gives a warning.
    """
    path = folder / OPENED_FILE
    time = (now or dt.datetime.now(dt.UTC)).isoformat(timespec="seconds")
    try:
        with path.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps({"time": time, **entry}, ensure_ascii=False) + "\n")
    except OSError as error:
        warnings.warn(f"The opening is not logged: {error}", UserWarning, stacklevel=3)
        return None
    return path


def to_dspy(example: Example) -> dspy.Example:
    """A labelled turn for DSPy: as :meth:`Dataset.to_dspy` says."""
    import dspy

    return dspy.Example(
        turn=example.turn.model_dump(mode="json", exclude_defaults=True),
        exclude=[example.conversation_id],
        # Not under the name 'labels', which is a method of DSPy's examples.
        gold=example.labels.model_dump(mode="json", exclude_none=True),
    ).with_inputs("turn", "exclude")


def draw(items: Sequence[T], size: int, seed: int) -> list[T]:
    """A sample by seed, in the order of the items; all of them where there are no more than ``size``."""
    if size >= len(items):
        return list(items)
    return [items[place] for place in sorted(random.Random(seed).sample(range(len(items)), size))]


def load_dataset(path: str | Path) -> Dataset:
    """Load a dataset folder: ``flows.yaml``, ``conversations.jsonl``, and ``splits.json`` where there is one.

    Without ``splits.json`` roles are decided in memory with seed 0; a warning and ``notes`` say so.

    Raises:
        DatasetError: at the first fault, with file, line, field and remedy; ``check_dataset`` lists them all.
    """
    reading = read(path, _raise)
    assert reading.registry is not None  # else a problem was raised
    for note in reading.notes:
        warnings.warn(note, UserWarning, stacklevel=2)
    for conversation in reading.conversations:
        warn_unsupported_language(conversation.locale)
    return Dataset(
        path=reading.path,
        flows=reading.registry,
        conversations=tuple(reading.conversations),
        roles=reading.roles,
        lines=reading.lines,
        notes=tuple(reading.notes),
    )


def _raise(problem: Problem) -> None:
    raise problem.error()


def seen_conversations(manifest: Mapping[str, Any]) -> frozenset[str]:
    """Ids of the conversations that a program was trained on: those of train, and of dev where labels moved the
    package's weights or it was refitted.

    Example:
        >>> roles = {"a": "train", "b": "dev_b", "c": "test"}
        >>> sorted(seen_conversations({"dataset": {"roles": roles}, "recipe": {"refit": True}}))
        ['a', 'b']
        >>> sorted(seen_conversations({"dataset": {"roles": roles}}))
        ['a']
    """
    refitted = bool((manifest.get("recipe") or {}).get("refit"))
    moved = "head" in manifest and manifest["head"] is None and manifest.get("shipped") != "base"
    parts = ("train", "dev_a", "dev_b") if refitted or moved else ("train",)
    return frozenset(name for name, role in _roles(manifest).items() if role in parts)


def describe_exposure(manifest: Mapping[str, Any], dataset: Dataset, role: Role) -> str:
    """A sentence on what a program has seen of a part; empty where the part is unchanged and unseen.

    Also empty for a dataset with another name, whose ids are of other conversations.
    """
    compiled = manifest.get("dataset") or {}
    if compiled.get("name") != dataset.name:
        return ""
    now = {each.id for each in dataset.conversations if dataset.roles[each.id] == role}
    then = {name for name, part in _roles(manifest).items() if part == role}
    seen = len(now & seen_conversations(manifest))
    remarks = []
    if seen:
        remarks.append(
            f"the program has learnt from {seen} of the {len(now)} conversations of {role}: figures flatter it"
        )
    if now != then:
        remarks.append(
            f"{role} is another part than when the program was compiled: {len(now - then)} conversations are new, "
            f"{len(then - now)} are gone"
        )
    elif not seen and compiled.get("fingerprint") != dataset.fingerprint:
        remarks.append("turns or labels of the dataset have changed since the program was compiled")
    return "; ".join(remarks)


def _roles(manifest: Mapping[str, Any]) -> dict[str, str]:
    return dict((manifest.get("dataset") or {}).get("roles") or {})
