"""A table of records in this process."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any, Generic

from jazzmine_dspy.memory.messages._checks import check_ids, check_same, damaged, left_out, not_stored
from jazzmine_dspy.memory.messages._records import R, UnreadableError, decode, encode, given, overlay, pack


class Table(Generic[R]):
    """Records of one kind as text, found by id and by the columns named."""

    def __init__(self, kind: type[R], *columns: str) -> None:
        self.kind = kind
        self.columns = columns
        self.texts: dict[str, str] = {}
        self._values: dict[str, dict[str, str]] = {}
        self._index: dict[tuple[str, str], dict[str, None]] = {}

    def put(self, record: R, record_id: str, text: str) -> None:
        values = {name: getattr(record, name) for name in self.columns}
        # An id that stays under its value stays at its place.
        for name, value in self._values.get(record_id, {}).items():
            if value != values[name]:
                self._index[name, value].pop(record_id)
        for name, value in values.items():
            self._index.setdefault((name, value), {})[record_id] = None
        self.texts[record_id] = text
        self._values[record_id] = values

    def drop(self, record_id: str) -> bool:
        for name, value in self._values.pop(record_id, {}).items():
            held = self._index[name, value]
            held.pop(record_id)
            if not held:
                del self._index[name, value]
        return self.texts.pop(record_id, None) is not None

    def ids(self, column: str, value: str) -> dict[str, None]:
        return self._index.get((column, value), {})

    def read(self, record_id: str) -> R:
        return decode(self.kind, self.texts[record_id], id=record_id, **self._values[record_id])

    def get(self, record_id: str) -> R | None:
        check_ids(id=record_id)
        if record_id not in self.texts:
            return None
        try:
            return self.read(record_id)
        except UnreadableError as error:
            raise damaged(self.kind, record_id, str(error)) from error

    def kept(self, record_id: str) -> R:
        found = self.get(record_id)
        if found is None:
            raise not_stored(self.kind, record_id)
        return found

    def change(self, record_id: str, changes: dict[str, Any], fields: Iterable[str]) -> None:
        data = overlay(self.kept(record_id), self.texts[record_id], changes, list(fields))
        text = encode(self.kind, record_id, data)
        self.put(decode(self.kind, text), record_id, text)

    def add(self, record: R, record_id: str, own: Collection[str]) -> None:
        """Keep a new record, or lay what is given of one that is the same over it."""
        data = pack(record, record_id)
        if record_id not in self.texts:
            self.put(record, record_id, encode(self.kind, record_id, data))
            return
        check_same(self.kept(record_id), record, record_id)
        self.change(record_id, data, given(record) - frozenset(own))

    def replace(self, record: R, record_id: str) -> None:
        """Keep a new record, or lay all of it over the one kept; a damaged one is replaced whole."""
        data = pack(record, record_id)
        if record_id in self.texts:
            try:
                data = overlay(self.read(record_id), self.texts[record_id], data, list(data))
            except UnreadableError as error:
                left_out(self.kind, record_id, f"{error}; replaced")
        self.put(record, record_id, encode(self.kind, record_id, data))

    def add_all(self, records: Sequence[tuple[str, R]], own: Collection[str]) -> None:
        """Keep them all, or none."""
        before = {record_id: self.texts.get(record_id) for record_id, _ in records}
        try:
            for record_id, record in records:
                self.add(record, record_id, own)
        except BaseException:
            for record_id, text in before.items():
                if text is None:
                    self.drop(record_id)
                else:
                    self.texts[record_id] = text
            raise
