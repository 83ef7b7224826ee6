"""Tables of the user's own: a message a row, in CSV or JSON, whose columns a map names."""

from __future__ import annotations

import ast
import contextlib
import datetime as dt
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from jazzmine_dspy.datasets.importers.source_reader import BadRowError, Part, SourceReader
from jazzmine_dspy.datasets.importers.table_rows import (
    ROLES,
    OrderError,
    Row,
    Rows,
    cell_value,
    columns_of,
    in_order,
    place_of,
)
from jazzmine_dspy.datasets.importers.writer import Provenance, label_flows
from jazzmine_dspy.datasets.replay import Replay
from jazzmine_dspy.datasets.schema import LabelledConversation, LabelledTurn
from jazzmine_dspy.models.errors import DatasetError
from jazzmine_dspy.models.flows import Flow
from jazzmine_dspy.models.parsing import MalformedError, from_json
from jazzmine_dspy.models.registry import FlowRegistry, reading_context
from jazzmine_dspy.models.slots import ReadingContext

_ROLE_WORDS = {
    "user": "user", "customer": "user", "client": "user", "human": "user", "visitor": "user", "caller": "user",
    "assistant": "assistant", "agent": "assistant", "bot": "assistant", "operator": "assistant",
    "system": "system", "colleague_assistant": "colleague_assistant",
}  # fmt: skip
_NO_FLOW = ("none", "-")


PROVENANCE = Provenance(
    title="A table of one's own",
    source="the user's own export",
    licence="the user's own",
    command="jazzmine-dspy datasets import",
    derived=(
        "One message for each row, one conversation for each value of the column mapped to `conversation`.",
        "Days from the column mapped to `date`, else from the one mapped to `order`.",
        "`flows` from the column mapped to `flow`: a flow that runs already is not started again.",
        "`commands` from `flow` and the columns mapped to `slots` and `commands`.",
        "The state before each message is not written: it is derived from the commands when the dataset is loaded.",
    ),
    left_out=(
        "No rewrites, sentiments, intents and entities: tables have no column for them.",
        "An empty cell is not a label; `none` in the column of flows says that the message starts nothing.",
    ),
)


def read(rows_of: Callable[[SourceReader, Path], Rows], reader: SourceReader) -> Sequence[Flow]:
    """Read a table.

    Args:
        rows_of: Reads the rows of its form.
        reader: Takes the conversations.

    Returns:
        Flows made from the labels, where there is no ``flows.yaml``.
    """
    registry = FlowRegistry.from_yaml(reader.flows) if reader.flows is not None else None
    labels: set[str] = set()
    for part in reader.parts:
        if part.path.is_dir():
            raise DatasetError("A folder is not a table", where=str(part.path), remedy="Name the file.")
        header, rows = rows_of(reader, part.path)
        table = _Table(
            reader, part, columns_of(header, reader.columns, part.path) if header else {}, registry
        )
        table.read(rows)
        labels |= table.labels
    if registry is not None:
        return []
    reader.notes.append(
        "There is no flows.yaml: flows were made from the labels, with no slots and their names for "
        "descriptions. Write better ones, then import again with --flows."
    )
    return label_flows(labels)


# --- conversations ---------------------------------------------------------------------------------


class _Table:
    """One table: its rows become conversations. A conversation with a row that cannot be read is left out whole,
    since what its later rows mean depends on that row."""

    def __init__(
        self, reader: SourceReader, part: Part, columns: Mapping[str, str], registry: FlowRegistry | None
    ) -> None:
        self._reader, self._part, self._path = reader, part, part.path
        self._columns, self._registry = columns, registry
        self._role_words = _ROLE_WORDS | {
            word.strip().casefold(): role
            for role in ROLES
            for word in reader.columns.get(role, "").split(",")
            if role in reader.columns
        }
        self._spoilt: set[str] = set()
        self._days: set[dt.date] = set()
        self.labels: set[str] = set()

    def read(self, rows: Iterable[tuple[int, Mapping[str, Any]]]) -> None:
        """Add the conversations of all rows."""
        notes = self._reader.notes
        chats: dict[str, list[Row]] = {}
        apart, last = "", None
        for line, raw in rows:
            with self._reader.row(self._path, line):
                cells = {what: cell_value(what, raw.get(column)) for what, column in self._columns.items()}
                name = self._name(cells, line)
                if name in chats and last != name and not apart:
                    apart = f"{self._path}:{line}: conversation {name!r} goes on after rows of another one"
                last = name
                with self._spoils(name):
                    row = self._placed(line, cells)
                chats.setdefault(name, []).append(row)
        if apart and "order" not in self._columns:
            notes.append(
                f"{apart}; its rows are taken in the order of the file. If two conversations share an id, rename one; "
                "--map order=COLUMN names a column to sort by."
            )
        unlabelled = 0
        for name in list(chats):
            chat = self._sorted(name, chats.pop(name))
            day = next((row.day for row in chat if row.day is not None), None)
            turns = list(self._turns(name, chat, day))
            if name in self._spoilt:
                continue
            if not any(turn.role == "user" for turn in turns):
                self._reader.bad(self._path, chat[0].line, f"Conversation {name!r} has no message of a user")
                continue
            whole = name if len(self._reader.parts) == 1 else f"{self._part.name}-{name}"
            self._reader.add(self._part, LabelledConversation(id=whole, date=day, turns=tuple(turns)))
            unlabelled += sum(turn.role == "user" and turn.labels is None for turn in turns)
        if self._spoilt:
            notes.append(
                f"{len(self._spoilt)} conversations were left out whole, since a row of each cannot be read: "
                f"{', '.join(sorted(self._spoilt)[:5])}{' …' if len(self._spoilt) > 5 else ''}."
            )
        if unlabelled:
            notes.append(
                f"{unlabelled} messages of users have no label: the cell is empty, or None or nan, as pandas writes "
                "it. Write `none` as the flow where nothing starts."
            )
        if self._days:
            notes.append(
                f"Messages are dated by the column {self._columns.get('date') or self._columns['order']!r}, from "
                f"{min(self._days)} to {max(self._days)}."
            )

    @contextlib.contextmanager
    def _spoils(self, name: str) -> Iterator[None]:
        """Leave out the conversation too where a row cannot be read."""
        try:
            yield
        except Exception:
            self._spoilt.add(name)
            raise

    def _placed(self, line: int, cells: Mapping[str, Any]) -> Row:
        place, stamp = (place_of(cells.get(what)) for what in ("order", "date"))
        if place is None and "order" in cells:
            raise self._bad("order", "write a number or a time such as 2026-03-02T10:15:00")
        if cells.get("date") is not None and (stamp is None or stamp.day is None):
            raise self._bad(
                "date",
                f"{str(cells['date'])[:60]!r} is not a day, or is ambiguous; write it as 2026-03-02",
            )
        day = dated.day if (dated := stamp or place) is not None else None
        self._days.update([day] if day is not None else [])
        return Row(line, cells, place, day)

    def _turns(self, name: str, rows: Sequence[Row], first: dt.date | None) -> Iterator[LabelledTurn]:
        replay, said, day = Replay(self._registry or {}), None, first
        for row in rows:
            day = row.day or day
            with self._reader.row(self._path, row.line), self._spoils(name):
                role = self._role(row.cells)
                text = row.cells["text"]
                if text is None or isinstance(text, dict | list):
                    raise self._bad(
                        "text", "there is no text; nan, which pandas writes for an empty cell, is not a text"
                    )
                data: dict[str, Any] = {"role": role, "text": str(text)}
                if role == "user":
                    if said is not None and self._registry:
                        # Not before the next message: the last one leads nowhere, nor does a flow that is unknown.
                        replay.say(said)
                    if day != first:
                        data["date"] = day
                    if labels := self._labels(row.cells, replay, reading_context(self._registry or {}, day)):
                        data["labels"] = labels
                turn = LabelledTurn.model_validate(data)
                said = turn if role == "user" else said
                yield turn

    def _bad(self, what: str, problem: str) -> BadRowError:
        return BadRowError(f"Column {self._columns.get(what, what)!r}: {problem}")

    def _name(self, cells: Mapping[str, Any], line: int) -> str:
        if "conversation" not in self._columns:
            return f"row-{line:05d}"
        value = cells["conversation"]
        if value is None or isinstance(value, dict | list | bool):
            raise self._bad("conversation", "there is no id; write the id of the conversation")
        return str(value)

    def _sorted(self, name: str, rows: Sequence[Row]) -> Sequence[Row]:
        places = [row.place for row in rows if row.place is not None]
        try:
            order = in_order(places, [row.line for row in rows]) if places else range(len(rows))
        except OrderError as error:
            self._spoilt.add(name)
            self._reader.bad(self._path, rows[error.args[1]].line, str(self._bad("order", error.args[0])))
            return rows
        return [rows[number] for number in order]

    def _role(self, cells: Mapping[str, Any]) -> str:
        if "role" not in self._columns:
            return "user"
        word = str(cells["role"] or "")[:60]
        if (role := self._role_words.get(word.casefold())) is None:
            raise self._bad(
                "role",
                f"{word!r}is not a role; write {', '.join(_ROLE_WORDS)}; or say whose word it is: --map user={word} or "
                f"--map assistant={word}",
            )
        return role

    # --- labels ----------------------------------------------------------------------------------------

    def _labels(self, cells: Mapping[str, Any], replay: Replay, at: ReadingContext) -> dict[str, Any]:
        flows = self._flows(cells.get("flow"))
        values = self._slots(cells.get("slots"))
        more = self._commands(cells.get("commands"))
        if flows is None and not values and not more:
            return {}
        before = replay.before
        new = [name for name in flows or () if name != before.flow]
        started = [name for name in new if name not in before.paused]
        begun = [
            {"type": "resume_flow" if name in before.paused else "start_flow", "flow": name} for name in new
        ]
        filled = self._filled(
            values, [*(flows or ()), before.flow], {} if new else before.slots.as_dict(), at
        )
        given = [command.get("flow") for command in more if command.get("type") == "start_flow"]
        labels: dict[str, Any] = {
            "flows": [*started, *(name for name in given if name and name not in started)]
        }
        # A table without slots and commands does not state what else a message does.
        if {"slots", "commands"} & self._columns.keys() and (begun or filled or more):
            begun = [command for command in begun if command["flow"] not in given]
            labels["commands"] = [*begun, *more, *filled]
        return labels

    def _flows(self, value: Any) -> list[str] | None:
        if value is None:
            return None
        names = value
        if isinstance(value, str) and (self._registry is None or value not in self._registry):
            names = (
                self._data("flow", value)
                if value.startswith(("[", "{", "(", '"', "'"))
                else [n.strip() for n in re.split(r"[;|,]", value) if n.strip()]
            )
        names = [names] if isinstance(names, str) else names
        if not isinstance(names, list) or not all(
            isinstance(n, str) and cell_value("flow", n) for n in names
        ):
            raise self._bad("flow", "write the name of a flow, several with ';' between them, or none")
        without = [name for name in names if name.casefold() not in _NO_FLOW]
        if without and len(without) < len(names):
            raise self._bad("flow", "none cannot stand next to other flows; remove one of them")
        for name in without:
            if self._registry is not None and name not in self._registry:
                raise self._bad(
                    "flow",
                    f"unknown flow {name[:60]!r}; add it to flows.yaml, or write one of: "
                    f"{', '.join(list(self._registry)[:8])}",
                )
            if self._registry is None and re.search(r"[\[\]{}\"]", name):
                raise self._bad(
                    "flow",
                    f'the name {name[:60]!r} has brackets or quotes; write several as ["a", "b"] or a; b',
                )
        self.labels.update(without)
        return without

    def _slots(self, value: Any) -> dict[str, Any]:
        if value is None:
            return {}
        if isinstance(value, str) and not value.startswith(("{", "[")):
            pairs = [pair.partition("=") for pair in value.split(";") if pair.strip()]
            if not all(name.strip() and sign for name, sign, _ in pairs):
                raise self._bad(
                    "slots",
                    f'{value[:60]!r} is neither JSON such as {{"order_id": "4471"}} nor order_id=4471; size=large',
                )
            return {name.strip(): text.strip() for name, _, text in pairs}
        data = self._data("slots", value)
        if not isinstance(data, dict):
            raise self._bad("slots", 'the JSON is not an object; write it as {"order_id": "4471"}')
        return data

    def _commands(self, value: Any) -> list[dict[str, Any]]:
        if value is None:
            return []
        if isinstance(value, str) and not value.startswith("["):
            value = [{"type": name.strip()} for name in value.split(";") if name.strip()]
        data = self._data("commands", value)
        if not isinstance(data, list) or not all(isinstance(command, dict) for command in data):
            raise self._bad(
                "commands", "write a JSON list as in conversations.jsonl, or names with ';' between them"
            )
        return data

    def _data(self, what: str, value: Any) -> Any:
        """What a JSON text holds, or the text of a Python list or object, which pandas writes."""
        if not isinstance(value, str):
            return value
        try:
            return from_json(value)
        except MalformedError as error:
            problem = error.problem
        with contextlib.suppress(ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
            data = ast.literal_eval(value)
            # Python joins texts that no comma parts, and keeps the last of two values of a key.
            if "".join(repr(data).split()) == "".join(value.split()):
                return from_json(json.dumps(data))
        raise self._bad(what, f"the JSON is broken: {problem}")

    def _filled(
        self,
        values: Mapping[str, Any],
        flows: list[str | None],
        held: Mapping[str, Any],
        at: ReadingContext,
    ) -> list[dict[str, Any]]:
        registry: Mapping[str, Flow] = self._registry or {}
        found: list[dict[str, Any]] = []
        for name, value in values.items():
            known = [flow for each in flows if (flow := registry.get(each or "")) is not None]
            slot = next((slot for flow in known if (slot := flow.slot(name)) is not None), None)
            if slot is None:
                of = (
                    f"the flow {', '.join(flow.name for flow in known)}"
                    if known
                    else "any flow that runs here"
                )
                raise self._bad(
                    "slots", f"unknown slot {name!r} of {of}; correct the name, or add it to flows.yaml"
                )
            if value is None:
                found.append({"type": "clear_slot" if name in held else "skip_slot", "name": name})
            else:
                kind = "correct_slot" if name in held else "set_slot"
                found.append({"type": kind, "name": name, "value": _value(slot, value, at)})
        return found


def _value(slot: Any, value: Any, at: ReadingContext) -> Any:
    """The value in the normal form of its type; a text of a table may need to be read first."""
    if isinstance(value, str) and slot.kind.label_error(slot, value):
        read = slot.kind.parse(slot, value, at)
        value = value if read is None else read
    return slot.kind.normalize(slot, value, at)
