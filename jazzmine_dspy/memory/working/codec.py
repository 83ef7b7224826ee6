"""Between a state and the bytes that are kept."""

from __future__ import annotations

import functools
from typing import Any, get_origin

from pydantic import ValidationError
from pydantic_core import PydanticSerializationError, from_json

from jazzmine_dspy.memory.errors import UnreadableRecordError
from jazzmine_dspy.memory.working.records import Stored
from jazzmine_dspy.memory.working.state import SCHEMA_VERSION, WorkingMemory
from jazzmine_dspy.models.errors import InputError

_DIGITS = bytes.maketrans(b"0123456789E", b"0000000000e")

MAX_BYTES = 4 * 1024 * 1024
"""A record may have this many bytes; a state that needs more holds what belongs elsewhere."""

_CURRENT = f'{{"schema_version":{SCHEMA_VERSION},'.encode()


class JsonCodec:
    """States as JSON. The version is kept by the backend and not in the record.

    Args:
        max_bytes: Limit of a record.
    """

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self.max_bytes = max_bytes

    def encode(self, state: WorkingMemory) -> bytes:
        """A state as bytes.

        Raises:
            InputError: it cannot be stored: over the limit, or a text that is none.
        """
        where = f"conversation {state.conversation_id!r}"
        try:
            # What is of a wrong type is found when the record is read back, and told better.
            data = state.model_dump_json(exclude={"version"}, warnings="none").encode()
        except (PydanticSerializationError, UnicodeEncodeError) as error:
            raise InputError(
                f"The state cannot be stored: {error}", where=where, remedy="Keep JSON values only."
            ) from error
        return checked_size(data, self.max_bytes, where)

    def decode(self, data: bytes | None, *, version: int, conversation_id: str) -> WorkingMemory:
        """A state from bytes.

        Raises:
            UnreadableRecordError: the bytes are no state of this conversation.
        """
        state = self._current(data)
        if state is None:
            try:
                state = WorkingMemory.model_validate(
                    {**self.parsed(data, conversation_id), "version": version}
                )
            except ValidationError as error:
                raise unreadable(conversation_id, causes(error)) from error
        if state.conversation_id != conversation_id:
            raise unreadable(conversation_id, f"it is of conversation {state.conversation_id!r}")
        return at_version(state, version)

    def read_back(self, data: bytes, *, version: int, conversation_id: str) -> WorkingMemory:
        """A state from the bytes that :meth:`encode` has just made of it.

        Raises:
            UnreadableRecordError: it would not be read.
        """
        # What is no finite number was written as null, so nobody need look for it.
        if type(self).decode is JsonCodec.decode and data.startswith(_CURRENT):
            try:
                return at_version(WorkingMemory.model_validate_json(data), version)
            except ValidationError as error:
                raise unreadable(conversation_id, causes(error)) from error
        return self.decode(data, version=version, conversation_id=conversation_id)

    def _current(self, data: bytes | None) -> WorkingMemory | None:
        """A state of this version's schema as this package writes it, by the short way; else None."""
        # The parser takes NaN and 1e999 for numbers, and JSON values are not looked at.
        if data is None or not data.startswith(_CURRENT):
            return None
        if b"NaN" in data or b"Infinity" in data or _may_overflow(data):
            return None
        try:
            return WorkingMemory.model_validate_json(data)
        except ValidationError:
            return None

    def parsed(self, data: bytes | None, conversation_id: str) -> dict[str, Any]:
        """The record as a mapping.

        Raises:
            UnreadableRecordError: it is no JSON mapping, or of a schema that is not read.
        """
        if data is None:
            raise unreadable(conversation_id, "what is stored is no text")
        try:
            record = from_json(data, allow_inf_nan=False)
        except ValueError as error:
            raise unreadable(conversation_id, f"it is not JSON: {error}") from error
        if not isinstance(record, dict):
            raise unreadable(conversation_id, f"it is a {type(record).__name__}, not a mapping")
        check_schema(record.get("schema_version", SCHEMA_VERSION), conversation_id)
        return record


def _may_overflow(data: bytes) -> bool:
    """Whether a number of a JSON text may be too large for a float: an exponent of three digits, or 300 digits.

    Ids are full of digits around an "e", so what stands within a text is told from a number by what is before it.
    """
    # Digits made alike are found many times faster than by a pattern.
    alike = data.translate(_DIGITS, b"+")
    if b"0" * 300 in alike:
        return True
    at = alike.find(b"0e000")
    while at >= 0:
        before = alike[max(0, at - 400) : at].rstrip(b"0.").rstrip(b"-").rstrip()
        if before[-1:] in (b":", b"[", b","):
            return True
        at = alike.find(b"0e000", at + 1)
    return False


def at_version(state: WorkingMemory, version: int) -> WorkingMemory:
    """The state that is given, which nobody else has, with this version."""
    # Not by assignment, which would validate the whole state again.
    state.__dict__["version"] = version
    return state


def checked_size(data: bytes, limit: int, where: str) -> bytes:
    """The bytes, if they are not too many.

    Raises:
        InputError: they are.
    """
    if len(data) > limit:
        raise InputError(
            f"The state has {len(data):,} bytes, of {limit:,} at most",
            where=where,
            remedy="Keep large tool results elsewhere, and a reference to them here.",
        )
    return data


def check_schema(found: Any, conversation_id: str) -> None:
    """Refuse the schemas from before the first release. Newer ones are read: what is unknown is carried along.

    Raises:
        UnreadableRecordError: it is one of them, or no number.
    """
    if not isinstance(found, int) or isinstance(found, bool):
        raise unreadable(conversation_id, "its schema_version is no number")
    if found < SCHEMA_VERSION:
        raise unreadable(
            conversation_id,
            f"it is of schema {found}, from before the first release, which had {SCHEMA_VERSION}; the conversation "
            "begins anew",
        )


def unreadable(conversation_id: str, cause: str) -> UnreadableRecordError:
    """The error for a record, with its cause."""
    return UnreadableRecordError(
        f"The record cannot be read: {cause}",
        where=f"conversation {conversation_id!r}",
        remedy="It is set aside; see `jazzmine-dspy memory show`.",
    )


def causes(error: ValidationError) -> str:
    """What Pydantic found, without values and the names that conversations bring: they may be personal."""
    found = [
        f"{_field(one['loc'])}: {one['msg']}"
        for one in error.errors(include_input=False, include_url=False, include_context=False)
    ]
    return "; ".join(found[:3]) + (f"; and {len(found) - 3} more" if len(found) > 3 else "")


def _field(loc: tuple[int | str, ...]) -> str:
    """A place in a record, with a star for each name that is no field of our models."""
    fields, mappings = _names()
    path: list[str] = []
    for part in loc:
        is_field = part in fields and not (path and path[-1] in mappings)
        path.append(str(part) if isinstance(part, int) or is_field else "*")
    return ".".join(path) or "(root)"


@functools.cache
def _names() -> tuple[frozenset[str], frozenset[str]]:
    """The names of all fields of stored records, and of those that are mappings."""
    models = [Stored]
    for model in models:
        models += model.__subclasses__()
    fields = {name: field.annotation for model in models for name, field in model.model_fields.items()}
    return frozenset(fields), frozenset(n for n, kind in fields.items() if get_origin(kind) is dict)
