"""Bases of the models: one for frozen values, one for records that change."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema

class Value(BaseModel):
    """A frozen, hashable value; unknown fields are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Record(BaseModel):
    """A record that lives: validated on construction and on assignment, NaN refused."""

    model_config = ConfigDict(validate_assignment=True, allow_inf_nan=False, extra="forbid")


def freeze(value: Any) -> Any:
    """Turn JSON-like data into hashable data: lists to tuples, mappings to :class:`FrozenMap`."""
    if isinstance(value, Mapping | FrozenMap):
        return FrozenMap.of(value)
    if isinstance(value, list | tuple):
        return tuple(freeze(item) for item in value)
    return value


def thaw(value: Any) -> Any:
    """Turn frozen data back to what ``json`` would give; the inverse of :func:`freeze`."""
    if isinstance(value, FrozenMap):
        return value.as_dict()
    if isinstance(value, tuple):
        return [thaw(item) for item in value]
    return value


class FrozenMap(tuple[tuple[str, Any], ...]):
    """A hashable mapping of names to JSON values, kept in the order given.

    Example:
        >>> held = FrozenMap.of({"order_id": "4471", "items": ["cup", "plate"]})
        >>> held["order_id"], "speed" in held.names, held.as_dict()["items"]
        ('4471', False, ['cup', 'plate'])
    """

    __slots__ = ()

    @classmethod
    def of(cls, data: Any) -> FrozenMap:
        """Build from a mapping, from pairs, or from another of its kind.

        Raises:
            ValueError: ``data`` is neither a mapping nor a sequence of pairs.
        """
        if isinstance(data, cls):
            return data
        pairs = data.items() if isinstance(data, Mapping) else data
        try:
            return cls((str(name), freeze(value)) for name, value in pairs)
        except (TypeError, ValueError) as error:
            raise ValueError("expected a mapping of names to values") from error

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(
            cls.of,
            json_schema_input_schema=core_schema.dict_schema(),
            serialization=core_schema.plain_serializer_function_ser_schema(cls.as_dict),
        )

    @property
    def names(self) -> tuple[str, ...]:
        """The names, in order."""
        return tuple(name for name, _ in self)

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, str):
            for name, value in self:
                if name == key:
                    return thaw(value)
            raise KeyError(key)
        return super().__getitem__(key)

    def get(self, key: str, default: Any = None) -> Any:
        """The value under a name, or the default."""
        return self[key] if key in self.names else default

    def as_dict(self) -> dict[str, Any]:
        """A plain dictionary of the same content."""
        return {name: thaw(value) for name, value in self}


def canonical_json(data: Any) -> str:
    """JSON with sorted keys and no white space, the same on every machine."""
    return json.dumps(data, sort_keys=True, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def sha256(data: Any) -> str:
    """SHA-256, in hex, over text, bytes, or the canonical JSON of anything else."""
    if isinstance(data, str):
        data = data.encode()
    if not isinstance(data, bytes):
        data = canonical_json(data).encode()
    return hashlib.sha256(data).hexdigest()
