"""Checking a dataset: all faults with their place and remedy, and figures that tell how easy it is; and its counts."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jazzmine_dspy.datasets.label_checks import catalogue, contradictions, doubtful_values, undated
from jazzmine_dspy.datasets.load import Dataset
from jazzmine_dspy.datasets.reader import Reading, read
from jazzmine_dspy.datasets.replay import disagreements, misplaced_commands
from jazzmine_dspy.datasets.schema import (
    CONVERSATIONS_FILE,
    FLOWS_FILE,
    ROLES,
    SPLITS_FILE,
    LabelledConversation,
    LabelledTurn,
    Problem,
    Role,
)
from jazzmine_dspy.datasets.split import delexicalise, near_duplicates, nearest
from jazzmine_dspy.models.base import Value
from jazzmine_dspy.models.commands import COMMAND_KINDS
from jazzmine_dspy.models.flows import Flow
from jazzmine_dspy.models.labels import Labels

_OWN_WORDS = 4
"""From this many words on, the same text under two roles is a leak; everybody says "yes please"."""

_NAMED = 10
"""Names of a list that a message shows."""


class Report(Value):
    """What ``check_dataset`` found.

    Args:
        near_duplicate_share: Share of the users' messages that nearly repeat another one, digits, case and
            punctuation aside; in [0.0, 1.0].
        nearest_train_label_accuracy: Share of test turns whose nearest training turn (by the edit distance of
            the sorted words) has the same flows and the same sequence of command kinds; None where one of the two
            parts has no labels.
    """

    path: str
    conversations: int
    turns: int
    labelled_turns: int
    flows: int
    turns_by_role: dict[Role, int]
    problems: tuple[Problem, ...]
    near_duplicate_share: float
    nearest_train_label_accuracy: float | None

    @property
    def errors(self) -> tuple[Problem, ...]:
        """The problems that keep the dataset from being used."""
        return tuple(problem for problem in self.problems if problem.severity == "error")

    @property
    def warnings(self) -> tuple[Problem, ...]:
        """The problems to be looked at."""
        return tuple(problem for problem in self.problems if problem.severity == "warning")

    @property
    def ok(self) -> bool:
        """Whether there is no error."""
        return not self.errors

    def to_json(self) -> dict[str, Any]:
        """The report as JSON data."""
        counts = {"ok": self.ok, "errors": len(self.errors), "warnings": len(self.warnings)}
        return counts | self.model_dump(mode="json")


@dataclass(frozen=True)
class _Said:
    """A user's message and where it stands."""

    conversation: LabelledConversation
    index: int
    turn: LabelledTurn
    role: Role | None
    line: int

    @property
    def key(self) -> str:
        return f"{self.conversation.id}/{self.conversation.turn_id(self.index)}"


def check_dataset(path: str | Path) -> Report:
    """Look for all faults of a dataset folder; broken lines are reported and left out of the rest.

    Args:
        path: Folder with ``flows.yaml``, ``conversations.jsonl`` and ``splits.json``.

    Raises:
        DatasetError: the folder does not exist.
    """
    problems: list[Problem] = []
    reading = read(path, problems.append)
    file = str(reading.path / CONVERSATIONS_FILE)
    said = [
        _Said(conversation, index, turn, reading.roles.get(conversation.id), reading.lines[conversation.id])
        for conversation in reading.conversations
        for index, turn in enumerate(conversation.turns)
        if turn.role == "user"
    ]
    problems += _label_problems(said, reading, file)
    share, repeated = _repeated(said, file)
    problems += repeated
    problems += _balance(said, reading)
    by_role = {role: sum(item.role == role for item in said) for role in ROLES}
    return Report(
        path=str(reading.path),
        conversations=len(reading.conversations),
        turns=len(said),
        labelled_turns=sum(item.turn.labels is not None for item in said),
        flows=len(reading.registry or ()),
        turns_by_role=by_role,
        problems=tuple(sorted(problems, key=lambda p: (p.severity, p.file, p.line or 0, p.field, p.message))),
        near_duplicate_share=share,
        nearest_train_label_accuracy=_nearest_accuracy(said),
    )


def _label_problems(said: Sequence[_Said], reading: Reading, file: str) -> Iterator[Problem]:
    flows: Mapping[str, Flow] = reading.registry or {}
    known = catalogue(flows)
    faults = [
        (item.conversation, item.index, fault)
        for item in said
        for fault in (
            *contradictions(item.turn),
            *misplaced_commands(item.turn, flows),
            *doubtful_values(item.conversation, item.index, known),
        )
    ]
    for conversation in reading.conversations if reading.registry is not None else ():
        derived = conversation.id in reading.derived
        faults += [
            (conversation, index, fault)
            for index, fault in disagreements(conversation, flows, derived=derived)
        ]
    for conversation, index, fault in faults:
        yield Problem(
            severity=fault.severity,
            file=file,
            line=reading.lines[conversation.id],
            field=f"turns.{index}.{fault.field}",
            message=fault.message,
            remedy=fault.remedy,
        )
    if message := undated(reading.conversations, known):
        yield Problem(
            severity="warning",
            file=file,
            line=next(reading.lines[each.id] for each in reading.conversations if each.date is None),
            field="date",
            message=message,
            remedy="Give each the day on which it began; for a table: --map date=COLUMN.",
        )


def _repeated(said: Sequence[_Said], file: str) -> tuple[float, list[Problem]]:
    texts = [delexicalise(item.turn.text) for item in said]
    alike = near_duplicates(texts)
    problems = []
    for number, item in enumerate(said):
        # Each pair once, at the later of the two; the likest stands for all.
        other = next((n for n in alike[number] if n < number and said[n].role != item.role), None)
        words = [word for word in texts[number].split() if word != "#"]
        if other is None or len(words) < _OWN_WORDS:
            continue
        same = texts[number] == texts[other]
        problems.append(
            Problem(
                severity="error" if same else "warning",
                file=file,
                line=item.line,
                field=f"turns.{item.index}.text",
                message=f"{'The same' if same else 'Nearly the same'} text as {said[other].key} in line "
                f"{said[other].line}, and the one is {item.role}, the other {said[other].role}",
                remedy="Give both conversations one role, or rewrite one of the two.",
            )
        )
    share = sum(map(bool, alike)) / len(said) if said else 0.0
    return share, problems


def _balance(said: Sequence[_Said], reading: Reading) -> Iterator[Problem]:
    splits = str(reading.path / SPLITS_FILE)
    for note in reading.notes:
        yield _warning(splits, "", note, "Fix the roles with `datasets split`.")
    flows: dict[Role, set[str]] = defaultdict(set)
    kinds: dict[Role, set[str]] = defaultdict(set)
    for item in said:
        if item.turn.labels is not None and item.role is not None:
            flows[item.role].update(item.turn.labels.flows or ())
            kinds[item.role].update(command.type for command in item.turn.labels.commands or ())
    wanted = (("flow", list(reading.registry or ()), flows), ("command", list(COMMAND_KINDS), kinds))
    lacking: dict[Role, list[str]] = defaultdict(list)
    for what, names, held in wanted:
        if not (everywhere := set().union(*held.values())):
            continue  # this label was not made at all
        for name in names:
            if name not in everywhere:
                file = str(reading.path / (FLOWS_FILE if what == "flow" else CONVERSATIONS_FILE))
                yield _warning(
                    file, "", f"No turn has the {what} {name!r}", "Label turns with it, or leave it out."
                )
        for role in ROLES:
            if held[role] and (absent := sorted(everywhere - held[role])):
                more = f" and {len(absent) - _NAMED} more" if len(absent) > _NAMED else ""
                named = ", ".join(map(repr, absent[:_NAMED]))
                lacking[role].append(f"the {what}{'s' if absent[1:] else ''} {named}{more}")
    for role in ROLES:
        if lacking[role]:
            yield _warning(
                splits,
                f"roles.{role}",
                f"The split {role!r} has no turn with {' or '.join(lacking[role])}",
                "Add turns, or divide again.",
            )
        if role not in reading.roles.values():
            yield _warning(splits, f"roles.{role}", f"The split {role!r} is empty", "Give it conversations.")


def _warning(file: str, field: str, message: str, remedy: str) -> Problem:
    return Problem(severity="warning", file=file, field=field, message=message, remedy=remedy)


def _gold(turn: LabelledTurn) -> tuple[tuple[str, ...] | None, tuple[str, ...] | None] | None:
    labels = turn.labels
    if labels is None or (labels.flows is None and labels.commands is None):
        return None
    kinds = None if labels.commands is None else tuple(command.type for command in labels.commands)
    return labels.flows, kinds


def _nearest_accuracy(said: Sequence[_Said]) -> float | None:
    train = [item.turn for item in said if item.role == "train" and _gold(item.turn)]
    test = [item.turn for item in said if item.role == "test" and _gold(item.turn)]
    if not train or not test:
        return None
    found = nearest([turn.text for turn in test], [turn.text for turn in train])
    return sum(_gold(turn) == _gold(train[number]) for turn, number in zip(test, found, strict=True)) / len(
        test
    )


class RoleStats(Value):
    """Counts of one role. Turns are the users' messages; lengths are means over them.

    ``labelled`` counts, for each label, the turns that have it. Names stand by falling count.
    """

    conversations: int
    turns: int
    labelled: dict[str, int]
    flows: dict[str, int]
    commands: dict[str, int]
    tags: dict[str, int]
    sentiment: dict[str, int]
    turns_per_conversation: float
    words_per_turn: float
    characters_per_turn: float


class DatasetStats(Value):
    """Counts of a dataset: all of it, and each role that has conversations."""

    name: str
    fingerprint: str
    total: RoleStats
    roles: dict[Role, RoleStats]


def dataset_stats(dataset: Dataset) -> DatasetStats:
    """Count what a dataset holds. The test part is counted, its texts are not shown."""
    by_role = {role: [c for c in dataset.conversations if dataset.roles[c.id] == role] for role in ROLES}
    return DatasetStats(
        name=dataset.name,
        fingerprint=dataset.fingerprint,
        total=_count(dataset.conversations),
        roles={role: _count(conversations) for role, conversations in by_role.items() if conversations},
    )


def _count(conversations: Sequence[LabelledConversation]) -> RoleStats:
    turns = [turn for conversation in conversations for turn in conversation.turns if turn.role == "user"]
    labels = [turn.labels for turn in turns if turn.labels is not None]
    scores = [label.sentiment for label in labels if label.sentiment is not None]
    return RoleStats(
        conversations=len(conversations),
        turns=len(turns),
        labelled={
            name: sum(getattr(label, name) is not None for label in labels) for name in Labels.model_fields
        },
        flows=_falling(name for label in labels for name in label.flows or ()),
        commands=_falling(command.type for label in labels for command in label.commands or ()),
        tags=_falling(tag for turn in turns for tag in turn.tags),
        sentiment={f"{score:g}": n for score, n in sorted(Counter(scores).items())},
        turns_per_conversation=_mean([sum(t.role == "user" for t in c.turns) for c in conversations]),
        words_per_turn=_mean([len(turn.text.split()) for turn in turns]),
        characters_per_turn=_mean([len(turn.text) for turn in turns]),
    )


def _falling(names: Iterable[str]) -> dict[str, int]:
    return dict(sorted(Counter(names).items(), key=lambda pair: (-pair[1], pair[0])))


def _mean(numbers: Sequence[int]) -> float:
    return round(sum(numbers) / len(numbers), 3) if numbers else 0.0
