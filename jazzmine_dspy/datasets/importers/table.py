"""Tables of the user's own: a message a row, in CSV or lines of JSON, whose columns a map names."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from jazzmine_dspy.datasets.importers.label_flows import label_flows
from jazzmine_dspy.datasets.importers.source_reader import BadRowError, Part, SourceReader
from jazzmine_dspy.datasets.importers.table_rows import (
    OrderError,
    Row,
    csv_rows,
    in_order,
    json_rows,
    place_of,
)
from jazzmine_dspy.datasets.importers.writer import Provenance
from jazzmine_dspy.datasets.replay import Replay
from jazzmine_dspy.datasets.schema import LabelledConversation, LabelledTurn
from jazzmine_dspy.models.errors import DatasetError
from jazzmine_dspy.models.flows import Flow
from jazzmine_dspy.models.parsing import MalformedError, from_json
from jazzmine_dspy.models.registry import FlowRegistry

COLUMNS = ("conversation", "role", "text", "flow", "slots", "commands", "order")
"""What a map may name; all but ``text`` may be missing from the table."""
ROLES = ("user", "assistant", "system", "colleague_assistant")
"""Roles that a map may give further words for, as ``user=patient,guest``."""

_ROLE_WORDS = {
    "user": "user", "customer": "user", "client": "user", "human": "user", "visitor": "user", "caller": "user",
    "assistant": "assistant", "agent": "assistant", "bot": "assistant", "operator": "assistant",
    "system": "system", "colleague_assistant": "colleague_assistant",
}  # fmt: skip
_NO_FLOW = ("none", "-", "[]")


def provenance(form: str) -> Provenance:
    """The facts for the card of a dataset made from a table.

    Args:
        form: Of the table, such as CSV.
    """
    return Provenance(
        title=f"A table of one's own ({form})",
        source="the user's own export",
        licence="the user's own",
        command="jazzmine-dspy datasets import",
        derived=(
            "One message for each row, one conversation for each value of the column mapped to `conversation`.",
            "`flows` from the column mapped to `flow`: a flow that runs already is not started again.",
            "`commands` from `flow` and the columns mapped to `slots` and `commands`.",
            "The state before each message is not written: it is derived from the commands when the dataset is loaded.",
        ),
        left_out=(
            "No rewrites, sentiments, intents and entities: tables have no column for them.",
            "An empty cell is no label; `none` in the column of flows says that the message starts nothing.",
        ),
    )


def read_csv(reader: SourceReader) -> Sequence[Flow]:
    """Read CSV; the delimiter and a Unicode encoding are detected."""
    return _read(reader, csv_rows)


def read_jsonl(reader: SourceReader) -> Sequence[Flow]:
    """Read one flat object a line."""
    return _read(reader, json_rows)


def _read(
    reader: SourceReader, rows_of: Callable[[SourceReader, Path], tuple[list[str], list[Row]]]
) -> list[Flow]:
    registry = FlowRegistry.from_yaml(reader.flows) if reader.flows is not None else None
    labels: set[str] = set()
    for part in reader.parts:
        if part.path.is_dir():
            raise DatasetError("A folder is no table", where=str(part.path), remedy="Name the file.")
        header, rows = rows_of(reader, part.path)
        table = _Table(reader, part, _columns(header, reader.columns, part.path), registry)
        table.read(rows)
        labels |= table.labels
    if registry is not None:
        return []
    reader.notes.append(
        "There is no flows.yaml: flows were made from the labels, with no slots and their names for "
        "descriptions. Write better ones, then import again with --flows."
    )
    return label_flows(labels)


def _columns(header: list[str], named: Mapping[str, str], path: Path) -> dict[str, str]:
    """The table's column for each of :data:`COLUMNS` that it has."""
    there = {name.casefold(): name for name in header}
    for what, column in named.items():
        if what in ROLES:
            continue
        if what not in COLUMNS:
            raise DatasetError(
                f"Unknown {what!r} in the map",
                where=f"--map {what}={column}",
                remedy=f"Use: {', '.join((*COLUMNS, *ROLES))}.",
            )
        if column.casefold() not in there:
            raise DatasetError(
                f"The column {column!r} is missing",
                where=f"{path}:1",
                remedy=f"Correct --map {what}={column}; the columns are: {', '.join(header) or 'none'}.",
            )
    columns = {
        what: there[column] for what in COLUMNS if (column := named.get(what, what).casefold()) in there
    }
    if "text" not in columns:
        raise DatasetError(
            "The column 'text' is missing",
            where=f"{path}:1",
            remedy=f"Say which column holds the messages: --map text=COLUMN. The columns are: "
            f"{', '.join(header) or 'none'}.",
        )
    return columns


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
        self.labels: set[str] = set()

    def read(self, rows: Sequence[Row]) -> None:
        """Add the conversations of all rows."""
        notes = self._reader.notes
        chats: dict[str, list[Row]] = {}
        apart, last = "", None
        for row in rows:
            with self._reader.row(self._path, row.line):
                name = self._name(row)
                if name in chats and last != name and not apart:
                    apart = (
                        f"{self._path}:{row.line}: conversation {name!r} goes on after rows of another one"
                    )
                last = name
                with self._spoils(name):
                    place = place_of(self._cell(row.cells, "order")) if "order" in self._columns else None
                    if place is None and "order" in self._columns:
                        raise self._bad("order", "write a number or a time such as 2026-03-02T10:15:00")
                    chats.setdefault(name, []).append(row._replace(place=place))
        if apart and "order" not in self._columns:
            notes.append(
                f"{apart}; its rows are taken in the order of the file. If two conversations share an id, rename one; "
                "--map order=COLUMN names a column to sort by."
            )
        unlabelled = 0
        for name, chat in chats.items():
            turns = list(self._turns(name, self._sorted(name, chat)))
            if name in self._spoilt:
                continue
            if not any(turn.role == "user" for turn in turns):
                self._reader.bad(self._path, chat[0].line, f"Conversation {name!r} has no message of a user")
                continue
            whole = len(self._reader.parts) == 1
            conversation = LabelledConversation(
                id=name if whole else f"{self._part.name}-{name}", turns=tuple(turns)
            )
            self._reader.add(self._part, conversation)
            unlabelled += sum(turn.role == "user" and turn.labels is None for turn in turns)
        if self._spoilt:
            names = ", ".join(sorted(self._spoilt)[:5])
            notes.append(
                f"{len(self._spoilt)} conversations were left out whole, since a row of each cannot be read: "
                f"{names}{' …' if len(self._spoilt) > 5 else ''}."
            )
        if unlabelled:
            notes.append(
                f"{unlabelled} messages of users have no label. Write `none` as the flow where nothing starts."
            )

    @contextlib.contextmanager
    def _spoils(self, name: str) -> Iterator[None]:
        """Leave out the conversation too where a row cannot be read."""
        try:
            yield
        except Exception:
            self._spoilt.add(name)
            raise

    def _turns(self, name: str, rows: Sequence[Row]) -> Iterator[LabelledTurn]:
        replay = Replay(self._registry or {})
        for row in rows:
            with self._reader.row(self._path, row.line), self._spoils(name):
                role = self._role(row.cells)
                text = self._cell(row.cells, "text")
                if text is None or isinstance(text, dict | list):
                    raise self._bad("text", "there is no text")
                data: dict[str, Any] = {"role": role, "text": str(text)}
                if role == "user" and (labels := self._labels(row.cells, replay)):
                    data["labels"] = labels
                turn = LabelledTurn.model_validate(data)
                if role == "user":
                    replay.say(turn)
                yield turn

    def _cell(self, cells: Mapping[str, Any], what: str) -> Any:
        value = cells.get(self._columns.get(what, ""))
        return value.strip() if isinstance(value, str) else value

    def _bad(self, what: str, problem: str) -> BadRowError:
        return BadRowError(f"Column {self._columns.get(what, what)!r}: {problem}")

    def _name(self, row: Row) -> str:
        if "conversation" not in self._columns:
            return f"row-{row.line:05d}"
        value = self._cell(row.cells, "conversation")
        if value in (None, "") or isinstance(value, dict | list | bool):
            raise self._bad("conversation", "there is no id; write the one of its conversation")
        return str(value)

    def _sorted(self, name: str, rows: Sequence[Row]) -> Sequence[Row]:
        places = [row.place for row in rows if row.place is not None]
        try:
            order = in_order(places, [row.line for row in rows]) if places else range(len(rows))
        except OrderError as error:
            self._spoilt.add(name)
            self._reader.bad(self._path, rows[error.row].line, str(self._bad("order", str(error))))
            return rows
        return [rows[number] for number in order]

    def _role(self, cells: Mapping[str, Any]) -> str:
        if "role" not in self._columns:
            return "user"
        word = str(self._cell(cells, "role") or "")
        if (role := self._role_words.get(word.casefold())) is None:
            known = ", or ".join(
                ", ".join(known for known, role in _ROLE_WORDS.items() if role == wanted)
                for wanted in ("user", "assistant")
            )
            problem = f"{word!r} is no role; write {known}; or say whose word it is"
            raise self._bad("role", f"{problem}: --map user={word} or --map assistant={word}")
        return role

    # --- labels ----------------------------------------------------------------------------------------

    def _labels(self, cells: Mapping[str, Any], replay: Replay) -> dict[str, Any]:
        flows = self._flows(self._cell(cells, "flow"))
        values = self._slots(self._cell(cells, "slots"))
        more = self._commands(self._cell(cells, "commands"))
        before = replay.before
        new = [name for name in flows or () if name != before.flow]
        started = [name for name in new if name not in before.paused]
        begun = [
            {"type": "resume_flow" if name in before.paused else "start_flow", "flow": name} for name in new
        ]
        filled = self._filled(values, [*(flows or ()), before.flow], {} if new else before.slots.as_dict())
        given = [command.get("flow") for command in more if command.get("type") == "start_flow"]
        labels: dict[str, Any] = {}
        if flows is not None or values or more:
            labels["flows"] = [*started, *(name for name in given if name and name not in started)]
        # A table without slots and commands does not state what else a message does.
        complete = "slots" in self._columns or "commands" in self._columns
        if complete and (begun or filled or more):
            begun = [command for command in begun if command["flow"] not in given]
            labels["commands"] = [*begun, *more, *filled]
        return labels

    def _flows(self, value: Any) -> list[str] | None:
        if value in (None, ""):
            return None
        if isinstance(value, str):
            if value.casefold() in _NO_FLOW:
                return []
            whole = self._registry is not None and value in self._registry
            value = [value] if whole else [name.strip() for name in re.split(r"[;|,]", value) if name.strip()]
        if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
            raise self._bad("flow", "write the name of a flow, several with ';' between them, or none")
        for name in value:
            if self._registry is not None and name not in self._registry:
                known = ", ".join(list(self._registry)[:8])
                raise self._bad(
                    "flow", f"unknown flow {name!r}; add it to flows.yaml, or write one of: {known}"
                )
        self.labels.update(value)
        return value

    def _slots(self, value: Any) -> dict[str, Any]:
        if value in (None, "", {}):
            return {}
        if isinstance(value, str) and not value.startswith(("{", "[")):
            pairs = [pair.partition("=") for pair in value.split(";") if pair.strip()]
            if not all(name.strip() and sign for name, sign, _ in pairs):
                raise self._bad(
                    "slots",
                    f'{value[:60]!r} is neither JSON such as {{"order_id": "4471"}} nor order_id=4471; size=large',
                )
            return {name.strip(): text.strip() for name, _, text in pairs}
        data = self._json("slots", value)
        if not isinstance(data, dict):
            raise self._bad("slots", 'the JSON is no object; write such as {"order_id": "4471"}')
        return data

    def _commands(self, value: Any) -> list[dict[str, Any]]:
        if value in (None, "", []):
            return []
        if isinstance(value, str) and not value.startswith("["):
            value = [{"type": name.strip()} for name in value.split(";") if name.strip()]
        data = self._json("commands", value)
        if not isinstance(data, list) or not all(isinstance(command, dict) for command in data):
            raise self._bad(
                "commands", "write a JSON list as in conversations.jsonl, or names with ';' between them"
            )
        return data

    def _json(self, what: str, value: Any) -> Any:
        if not isinstance(value, str):
            return value
        try:
            return from_json(value)
        except MalformedError as error:
            raise self._bad(what, f"the JSON is broken: {error.problem}") from None

    def _filled(
        self, values: Mapping[str, Any], flows: list[str | None], held: Mapping[str, Any]
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
                problem = f"unknown slot {name!r} of {of}; correct the name, or add it to flows.yaml"
                raise self._bad("slots", problem)
            if value is None:
                found.append({"type": "clear_slot" if name in held else "skip_slot", "name": name})
            else:
                kind = "correct_slot" if name in held else "set_slot"
                found.append({"type": kind, "name": name, "value": _value(slot, value)})
        return found


def _value(slot: Any, value: Any) -> Any:
    """The value in the normal form of its type; a text of a table may need to be read first."""
    if isinstance(value, str) and slot.kind.label_error(slot, value):
        read = slot.kind.parse(slot, value)
        value = value if read is None else read
    return slot.kind.normalize(slot, value)
