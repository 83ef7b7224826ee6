"""Which task each message of a STAR dialogue turned the wizard to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from jazzmine_dspy.datasets.importers.intake import BadRowError
from jazzmine_dspy.datasets.importers.source import OUT_OF_SCOPE
from jazzmine_dspy.datasets.schema import LabelledTurn, Labels, StateBefore
from jazzmine_dspy.models.messages import MessageRole
from jazzmine_dspy.models.turn import MAX_TEXT, ConversationStatus

_REFUSED = "out_of_scope"
_FREE = "custom"
_TALK = {"hello", "anything_else", "goodbye_1", "goodbye_2", _REFUSED, _FREE}
"""Replies that do nothing for a task."""


class Tasks:
    """The tasks, and which replies belong to which.

    Args:
        replies: Replies by task, as the tasks' files have them.
    """

    def __init__(self, replies: Mapping[str, Mapping[str, str]]) -> None:
        self.names = frozenset(replies)
        self._owners: dict[str, set[str]] = {}
        for task, held in replies.items():
            for reply in held:
                self._owners.setdefault(reply, set()).add(task)

    def owners(self, reply: str, among: Sequence[str]) -> set[str]:
        """Those of some tasks that a reply works for."""
        if reply in _TALK or reply.endswith("_bye"):
            return set()
        return self._owners.get(reply, set()) & set(among)


@dataclass
class _Said:
    """A user's message, and what the wizard did after it."""

    text: str
    flow: str | None
    begun: list[str] = field(default_factory=list)
    returned: bool = False
    refused: bool = False
    answered: bool = False
    worked: bool = False
    """Whether the wizard gave a known reply or queried an API; else nothing tells what it worked on."""
    shared: set[str] = field(default_factory=set)
    """Tasks that the first reply works for, where it works for several."""
    certain: bool = True


class _Dialogue:
    """Follows the wizard from task to task."""

    def __init__(self, tasks: Tasks, able: list[str]) -> None:
        self._tasks, self._able = tasks, able
        self._earlier: set[str] = set()
        self._open: list[_Said] = []  # messages since one that may have asked for the first task
        self.flow: str | None = None

    def hear(self, event: Mapping[str, Any], said: _Said) -> None:
        """Take in what the wizard did after a message."""
        match event["Action"]:
            case "select_task":
                self._begin(event["Task"], said)
            case "query":
                said.worked = True
                if event["APIName"] in self._tasks.names:
                    self._begin(event["APIName"], said)
            case "pick_suggestion" | "utter":
                self._reply(event.get("ActionLabel") or _FREE, said)

    def _reply(self, reply: str, said: _Said) -> None:
        said.answered = True
        said.worked |= reply != _FREE
        said.refused |= reply == _REFUSED
        owners = self._tasks.owners(reply, self._able)
        if len(owners) == 1:
            self._begin(next(iter(owners)), said)
        elif owners and not said.shared:
            said.shared = owners

    def move_on(self, said: _Said) -> None:
        """The wizard has done what it does after a message."""
        maybe = said.shared or (said.answered and not said.worked)
        if self.flow is None and (self._open or maybe):
            self._open.append(said)

    def _begin(self, task: str, said: _Said) -> None:
        if task not in self._tasks.names:
            raise BadRowError(f"Unknown task {task!r}: the folder 'tasks' has none such")
        if task == self.flow:
            return
        place = said
        if self.flow is None and self._open:
            place = self._first(task, said)
        place.returned |= task in self._earlier
        place.begun.append(task)
        self._earlier.add(task)
        self.flow = task

    def _first(self, task: str, said: _Said) -> _Said:
        """The message that the first task began with: where a question was asked that belongs to it."""
        first, *later = self._open
        if first.shared and task not in first.shared:
            return said
        if not first.shared:
            # One of these messages asked for the task, and the source does not say which.
            for other in (*self._open, said):
                other.certain = False
            return said
        for other in (*later, said):
            other.flow = task
        return first


def label_turns(data: Mapping[str, Any], tasks: Tasks) -> tuple[LabelledTurn, ...]:
    """The messages of a dialogue, and the labels of the user's.

    Raises:
        BadRowError: a task is unknown, or nobody says anything.
        KeyError: an event lacks a key.
    """
    able = [item["Task"] for item in data["Scenario"]["WizardCapabilities"]]
    dialogue = _Dialogue(tasks, able)
    order: list[_Said | str] = []
    said: _Said | None = None
    for event in data["Events"]:
        agent, action = event["Agent"], event["Action"]
        text = str(event.get("Text") or "").strip()
        if len(text) > MAX_TEXT:
            raise BadRowError(f"A text has {len(text):,} characters; {MAX_TEXT:,} are the limit")
        if agent == "User" and action == "utter" and text:
            if said is not None:
                dialogue.move_on(said)
            said = _Said(text, dialogue.flow)
            order.append(said)
        elif agent == "Wizard":
            if said is not None:
                dialogue.hear(event, said)
            if action in ("pick_suggestion", "utter") and text:
                order.append(text)
    if said is None:
        raise BadRowError("The user says nothing")
    return tuple(
        LabelledTurn(role=MessageRole.ASSISTANT, text=item)
        if isinstance(item, str)
        else _turn(item, several=len(able) > 1)
        for item in order
    )


def _turn(said: _Said, *, several: bool) -> LabelledTurn:
    status = ConversationStatus.IN_FLOW if said.flow else ConversationStatus.IDLE
    before = StateBefore(status=status, flow=said.flow)
    unknown = not said.worked and not said.begun and (several or said.flow is None)
    doubtful = unknown or not said.certain
    if not said.answered or doubtful:
        return LabelledTurn(role=MessageRole.USER, text=said.text, before=before)
    refused = said.refused and not said.begun
    intent = OUT_OF_SCOPE if refused else (said.begun[0] if said.begun else None)
    tags = ["switch"] * bool(said.begun and said.flow) + ["return"] * said.returned + [OUT_OF_SCOPE] * refused
    labels = Labels(flows=tuple(dict.fromkeys(said.begun)), intent=intent)
    return LabelledTurn(role=MessageRole.USER, text=said.text, before=before, labels=labels, tags=tuple(tags))
