"""Bases of the models: for frozen values, for records that change, and for what copies share."""

from __future__ import annotations

import asyncio
import contextvars
import hashlib
import json
import logging
import math
import os
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from functools import partial
from typing import Annotated, Any, Self, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema

from jazzmine_dspy.models.errors import InputError

K = TypeVar("K")
V = TypeVar("V")
T = TypeVar("T")

log = logging.getLogger("jazzmine_dspy")
"""The logger of the package."""


class Shared:
    """Base of what the copies of a program share: a client, an index, a store of answers."""

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self


class Value(BaseModel):
    """A frozen, hashable value; unknown fields are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Record(BaseModel):
    """A record that lives: validated on construction and on assignment, NaN refused."""

    model_config = ConfigDict(validate_assignment=True, allow_inf_nan=False, extra="forbid")


def without_derived(data: Any, *names: str) -> Any:
    """What a model is built from, less the fields that it derives: dumped for readers, worked out anew when loaded."""
    return {key: value for key, value in data.items() if key not in names} if isinstance(data, dict) else data


def freeze(value: Any) -> Any:
    """Turn JSON data into hashable data: lists to tuples, mappings to :class:`FrozenMap`.

    Raises:
        ValueError: ``value`` holds what JSON has not: a set, an object, NaN, half a surrogate pair.
    """
    if isinstance(value, Mapping | FrozenMap):
        return FrozenMap.of(value)
    if isinstance(value, list | tuple):
        return tuple(freeze(item) for item in value)
    return _scalar(value)


def _scalar(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError("NaN and infinities are not allowed")
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError as error:
            raise ValueError("not a text: half a surrogate pair") from error
        # A member of an enumeration comes back from JSON as its text.
        return str(value)
    if value is not None and not isinstance(value, bool | int | float):
        raise ValueError(f"{type(value).__name__} is not a JSON value")
    return value


def _json(value: Any) -> Any:
    if isinstance(value, Mapping):
        named = {_scalar(str(name)): _json(item) for name, item in value.items()}
        if len(named) != len(value):
            raise ValueError("two names are the same text")
        return named
    if isinstance(value, list | tuple):
        return [_json(item) for item in value]
    return _scalar(value)


Text = Annotated[str, AfterValidator(_scalar)]
"""Text that can be stored and sent: without halves of surrogate pairs, which JSON from outside may hold."""

JsonData = Annotated[Any, AfterValidator(_json)]
"""Any JSON value, nested as deep as it likes; anything else is refused, so that what is stored comes back equal."""


class _FromText:
    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        anything = handler(source)
        return core_schema.json_or_python_schema(
            json_schema=anything,
            python_schema=core_schema.no_info_after_validator_function(_json, anything),
        )


StoredJson = Annotated[Any, _FromText]
"""A :data:`JsonData` of which JSON text is not looked through again: for records whose readers refuse NaN."""


def thaw(value: Any) -> Any:
    """Turn frozen data back to what ``json`` would give; the inverse of :func:`freeze`."""
    if isinstance(value, FrozenMap):
        return value.as_dict()
    if isinstance(value, tuple):
        return [thaw(item) for item in value]
    return value


class FrozenMap(tuple[tuple[str, Any], ...]):
    """A hashable mapping of names to JSON values, kept in the order of the names: equal content, equal value.

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
            named = {_scalar(str(name)): value for name, value in pairs}
        except (TypeError, ValueError) as error:
            raise ValueError("expected a mapping of names to values") from error
        return cls((name, freeze(named[name])) for name in sorted(named))

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(
            cls.of,
            json_schema_input_schema=core_schema.dict_schema(),
            serialization=core_schema.plain_serializer_function_ser_schema(
                cls.as_dict, return_schema=core_schema.dict_schema()
            ),
        )

    @property
    def names(self) -> tuple[str, ...]:
        """The names, in order."""
        return tuple(name for name, _ in self)

    def __getitem__(self, key: Any) -> Any:
        return thaw(dict(self)[key]) if isinstance(key, str) else super().__getitem__(key)

    def get(self, key: str, default: Any = None) -> Any:
        """The value under a name, or the default."""
        return self[key] if key in self.names else default

    def as_dict(self) -> dict[str, Any]:
        """A plain dictionary of the same content."""
        return {name: thaw(value) for name, value in self}


class FrozenDict(dict[K, V]):
    """A dictionary that refuses every change, for values that are hashed and shared.

    Example:
        >>> FrozenDict(idle=0.1)["idle"]
        0.1
        >>> FrozenDict(idle=0.1).update(idle=0.2)
        Traceback (most recent call last):
            ...
        TypeError: This mapping is frozen: build a new one.
    """

    __slots__ = ()

    def _refuse(self, *_args: Any, **_kwargs: Any) -> Any:
        raise TypeError("This mapping is frozen: build a new one.")

    __setitem__ = __delitem__ = __ior__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (dict(self),)


def frozen_dict(value: Any) -> Any:
    """A frozen copy, of the dictionaries inside too."""
    if isinstance(value, dict):
        return FrozenDict({key: frozen_dict(item) for key, item in value.items()})
    return value


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


def start_in_thread(call: Callable[[], T]) -> Future[T]:
    """Call a function in a daemon thread of its own, with the caller's context; the future gets its errors too.

    One that hangs delays neither other calls nor the end of the process.
    """
    result: Future[T] = Future()
    result.set_running_or_notify_cancel()

    def work() -> None:
        try:
            result.set_result(call())
        except BaseException as error:
            result.set_exception(error)

    context = contextvars.copy_context()
    threading.Thread(target=context.run, args=(work,), daemon=True, name="jazzmine-call").start()
    return result


async def in_thread(call: Callable[..., T], *args: Any) -> T:
    """The same without blocking the event loop; cancelling leaves the thread behind."""
    return await asyncio.wrap_future(start_in_thread(partial(call, *args)))


def forked(pid: int, what: str) -> InputError:
    """The error for the use of what the parent process loaded: its threads, locks and connections stay the parent's.

    Args:
        pid: Id of the process that loaded it.
        what: What it is, as errors name it.
    """
    return InputError(
        f"This process was forked after {what} was loaded",
        where=f"process {os.getpid()}, a fork of {pid}",
        remedy="Load after the fork: in each worker (with gunicorn without preload_app), or spawn the process.",
    )
