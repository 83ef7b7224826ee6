"""Everyone's own export: a table with a message a row, whose columns a map names (D5)."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from jazzmine_dspy.datasets.importers.intake import BadRowError, Intake
from jazzmine_dspy.datasets.importers.kinds import importer
from jazzmine_dspy.datasets.importers.order import OrderError, Place, in_order, place_of
from jazzmine_dspy.datasets.importers.source import Gathered, PartName, Source, label_flows, named_files
from jazzmine_dspy.datasets.importers.speakers import ROLES, no_role, words_of
from jazzmine_dspy.datasets.importers.table import Row, csv_rows, decoded, json_rows
from jazzmine_dspy.datasets.replay import Replay
from jazzmine_dspy.datasets.schema import LabelledConversation, LabelledTurn
from jazzmine_dspy.models.commands import COMMAND_KINDS, COMMANDS
from jazzmine_dspy.models.errors import DatasetError
from jazzmine_dspy.models.parsing import MalformedError, from_json
from jazzmine_dspy.models.registry import FlowRegistry

COLUMNS = ("conversation", "role", "text", "flow", "slots", "commands", "order")
"""What a map may name; all but ``text`` may be missing from the table."""

_NOTHING = ("none", "-", "[]")
_DERIVED = (
    "One message for each row, one conversation for each value of the column mapped to `conversation`.",
    "`flows` from the column mapped to `flow`: a flow that runs already is not started again.",
    "`commands` from `flow` and the columns mapped to `slots` and `commands`.",
    "The state before each message is not written: it is derived from the commands when the dataset is loaded.",
)
_LEFT_OUT = (
    "No rewrites, sentiments, intents and entities: tables have no column for them.",
    "An empty cell is no label; `none` in the column of flows says that the message starts nothing.",
)


class _Said(NamedTuple):
    line: int
    cells: dict[str, Any]
    order: Place | None


_own_table = functools.partial(
    importer,
    source="the user's own export",
    licence="the user's own",
    derived=_DERIVED,
    left_out=_LEFT_OUT,
    own=True,
)


@_own_table("csv", title="A table of one's own (CSV)", layout=named_files(".csv"))
def csv_export(source: Source, intake: Intake) -> Gathered:
    """Read CSV; delimiter and Unicode encoding are told by the file."""
    return _gathered(source, intake, csv_rows)


@_own_table("jsonl", title="A table of one's own (JSON lines)", layout=named_files(".jsonl"))
def jsonl_export(source: Source, intake: Intake) -> Gathered:
    """Read one flat object a line."""
    return _gathered(source, intake, json_rows)


def _gathered(source: Source, intake: Intake, read: Any) -> Gathered:
    registry = FlowRegistry.from_yaml(source.flows) if source.flows is not None else None
    chats: dict[PartName, list[LabelledConversation]] = {}
    notes: list[str] = []
    made: set[str] = set()
    for part in source.parts:
        if part.path.is_dir():
            raise DatasetError("A folder is no table", where=str(part.path), remedy="Name the file.")
        header, rows = read(intake, part.path, decoded(intake, part.path, source.encoding))
        columns = _columns(header, source.columns, part.path)
        words = words_of(source.columns)
        table = _Table(part.path, columns, words, registry, intake, whole=len(source.parts) == 1)
        chats[part.name] = list(table.conversations(rows, part.name))
        made |= table.made
        notes += table.notes
    if registry is None:
        notes.append(
            "There is no flows.yaml: flows were made from the labels, with no slots and their names for "
            "descriptions. Write better ones, then import again with --flows."
        )
        flows = label_flows(made)
    else:
        flows = list(registry.values())
    return Gathered(flows, chats, notes)


def _columns(header: list[str], named: Mapping[str, str], path: Path) -> dict[str, str]:
    """The table's column for each thing that it has."""
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
    found = {
        what: there[named.get(what, what).casefold()]
        for what in COLUMNS
        if named.get(what, what).casefold() in there
    }
    if "text" not in found:
        raise DatasetError(
            "The column 'text' is missing",
            where=f"{path}:1",
            remedy=f"Say which column holds the messages: --map text=COLUMN. The columns are: "
            f"{', '.join(header) or 'none'}.",
        )
    return found


class _Table:
    """One table on its way to conversations. A conversation with a row that cannot be read is left out whole:
    what its later rows mean depends on that row."""

    def __init__(
        self,
        path: Path,
        columns: Mapping[str, str],
        words: Mapping[str, str],
        registry: FlowRegistry | None,
        intake: Intake,
        *,
        whole: bool,
    ) -> None:
        self._path, self._columns, self._registry, self._intake = path, columns, registry, intake
        self._words, self._whole = words, whole
        self.made: set[str] = set()
        self.notes: list[str] = []

    def conversations(self, rows: Iterator[Row], part: str) -> Iterator[LabelledConversation]:
        chats: dict[str, list[_Said]] = {}
        spoilt: set[str] = set()
        apart, last = "", None
        for row in rows:
            with self._intake.row(self._path, row.line):
                name = self._name(row)
                if name in chats and last != name and not apart:
                    apart = (
                        f"{self._path}:{row.line}: conversation {name!r} goes on after rows of another one"
                    )
                last = name
                try:
                    order = self._order(row) if "order" in self._columns else None
                except BadRowError:
                    spoilt.add(name)
                    raise
                chats.setdefault(name, []).append(_Said(row.line, row.cells, order))
        if apart and "order" not in self._columns:
            self.notes.append(
                f"{apart}; its rows are taken in the order of the file. If two conversations share an id, rename one; "
                "--map order=COLUMN names a column to sort by."
            )
        unlabelled = 0
        for name, said in chats.items():
            chat = self._conversation(name, self._sorted(name, said, spoilt), spoilt, part)
            if chat is not None:
                unlabelled += sum(turn.role == "user" and turn.labels is None for turn in chat.turns)
                yield chat
        if spoilt:
            self.notes.append(
                f"{len(spoilt)} conversations were left out whole, since a row of each cannot be read: "
                f"{', '.join(sorted(spoilt)[:5])}{' …' if len(spoilt) > 5 else ''}."
            )
        if unlabelled:
            self.notes.append(
                f"{unlabelled} messages of users have no label. Write `none` as the flow where nothing starts."
            )

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

    def _order(self, row: Row) -> Place:
        place = place_of(self._cell(row.cells, "order"))
        if place is None:
            raise self._bad("order", "write a number or a time such as 2026-03-02T10:15:00")
        return place

    def _sorted(self, name: str, said: list[_Said], spoilt: set[str]) -> list[_Said]:
        places = [each.order for each in said if each.order is not None]
        if not places:
            return said
        try:
            return [said[number] for number in in_order(places)]
        except OrderError as error:
            one, other = (said[number].line for number in error.rows)
            spoilt.add(name)
            what = str(error)
            if error.same:
                what = (
                    f"the place is that of line {one} in conversation {name!r} already; number the rows anew, or "
                    "rename one conversation"
                )
            self._intake.bad(self._path, other, str(self._bad("order", what)))
            return said

    def _conversation(
        self, name: str, said: list[_Said], spoilt: set[str], part: str
    ) -> LabelledConversation | None:
        turns: list[LabelledTurn] = []
        replay = Replay(self._registry or {})
        for each in said:
            read = len(turns)
            with self._intake.row(self._path, each.line):
                turn = self._turn(each.cells, replay)
                if turn.role == "user":
                    replay.say(turn)
                turns.append(turn)
            if len(turns) == read:
                spoilt.add(name)
        if name in spoilt or not any(turn.role == "user" for turn in turns):
            if name not in spoilt:
                self._intake.bad(self._path, said[0].line, f"Conversation {name!r} has no message of a user")
            return None
        return LabelledConversation(id=name if self._whole else f"{part}-{name}", turns=tuple(turns))

    def _turn(self, cells: Mapping[str, Any], replay: Replay) -> LabelledTurn:
        role = self._role(cells)
        text = self._cell(cells, "text")
        if text is None or isinstance(text, dict | list):
            raise self._bad("text", "there is no text")
        data: dict[str, Any] = {"role": role, "text": str(text)}
        if role == "user":
            labels = self._labels(cells, replay)
            if labels:
                data["labels"] = labels
        return LabelledTurn.model_validate(data)

    def _role(self, cells: Mapping[str, Any]) -> str:
        if "role" not in self._columns:
            return "user"
        said = str(self._cell(cells, "role") or "")
        if said.casefold() not in self._words:
            raise self._bad("role", no_role(said))
        return self._words[said.casefold()]

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
        # Nothing in a table without slots and commands says what else a message does.
        asked = "slots" in self._columns or "commands" in self._columns
        if asked and (begun or filled or more):
            begun = [command for command in begun if command["flow"] not in given]
            labels["commands"] = [*begun, *more, *filled]
        return labels

    def _flows(self, value: Any) -> list[str] | None:
        if value in (None, ""):
            return None
        if isinstance(value, str):
            if value.casefold() in _NOTHING:
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
        self.made.update(value)
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
        for command in data if isinstance(data, list) else ():
            if not isinstance(command, dict) or command.get("type") not in COMMAND_KINDS:
                said = command.get("type") if isinstance(command, dict) else command
                raise self._bad("commands", f"unknown command {said!r}; use: {', '.join(COMMAND_KINDS)}")
            try:
                COMMANDS.validate_python(command)
            except ValueError as error:
                raise self._bad(
                    "commands", f"{command['type']} lacks a field, or has a wrong one: {error}"
                ) from None
        if not isinstance(data, list):
            raise self._bad(
                "commands", "write a JSON list as in conversations.jsonl, or names with ';' between them"
            )
        return data

    def _json(self, what: str, value: Any) -> Any:
        if not isinstance(value, str):
            return value
        try:
            return from_json(value, unique=True)
        except MalformedError as error:
            raise self._bad(what, f"the JSON is broken: {error.problem}") from None

    def _filled(
        self, values: Mapping[str, Any], flows: list[str | None], held: Mapping[str, Any]
    ) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        for name, value in values.items():
            known = [
                self._registry[flow] for flow in flows if flow and self._registry and flow in self._registry
            ]
            slot = next((flow.slot(name) for flow in known if flow.slot(name) is not None), None)
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
                found.append({"type": kind, "name": name, "value": _value(slot, value)})
        return found


def _value(slot: Any, value: Any) -> Any:
    """The value in the normal form of its type; a text of a table may need to be read first."""
    if isinstance(value, str) and slot.kind.label_error(slot, value):
        read = slot.kind.parse(slot, value)
        value = value if read is None else read
    return slot.kind.normalize(slot, value)
