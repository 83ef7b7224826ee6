"""Validators: functions of your own that decide whether a slot may hold a value, registered by name."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

from jazzmine_dspy.models.base import log, start_in_thread
from jazzmine_dspy.models.errors import DeadlineError, ExtensionError, InputError, format_error
from jazzmine_dspy.models.extensions import Extensions
from jazzmine_dspy.models.text import did_you_mean

F = TypeVar("F", bound=Callable[..., Any])

COMMAND: ContextVar[bool] = ContextVar("jazzmine_command", default=False)
"""Whether a command of the command line runs. It imports no module of a project, so its validators are unknown."""

VALIDATION_DEADLINE = 2.0
"""Seconds that a validator may take."""

_LATE = DeadlineError("No answer in time")

MAX_REASON = 300
"""Characters of a reason."""


class Validation(NamedTuple):
    """What a validator says of a value; true in a condition if the value is valid.

    Args:
        valid: Whether the slot may hold the value.
        reason: Why not, as the user reads it.
        failure: Why the validator gave no answer: it raised, hung, or returned something else. Then ``valid`` is False.
    """

    valid: bool
    reason: str = ""
    failure: str = ""

    def __bool__(self) -> bool:
        return self.valid


@dataclass(frozen=True)
class _Validator:
    function: Callable[..., Any]
    takes_slots: bool
    is_async: bool

    def call(self, value: Any, slots: Mapping[str, Any]) -> Any:
        return self.function(value, dict(slots)) if self.takes_slots else self.function(value)


def _usable(_name: str, function: Any) -> _Validator:
    if not callable(function):
        raise ValueError("it cannot be called")
    own_call = getattr(function, "__call__", None)  # noqa: B004
    is_async = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(own_call)
    try:
        signature = inspect.signature(function)
    except ValueError:
        # Some functions of C have no signature.
        return _Validator(function, False, is_async)
    alone, both = _takes(signature, None), _takes(signature, None, {})
    if not (alone or both):
        raise ValueError("it does not take a value, or a value and the other slots")
    needs_slots = not alone or [*signature.parameters][1:2] == ["slots"]
    return _Validator(function, both and needs_slots, is_async)


def _takes(signature: inspect.Signature, *arguments: Any) -> bool:
    try:
        return bool(signature.bind(*arguments))
    except TypeError:
        return False


VALIDATORS: Extensions[_Validator] = Extensions("validator", "jazzmine_dspy.validators", _usable)
"""The registered validators by name: those of this process, and those of installed packages."""


class ValidatorRegistry:
    """The validators that flows name as ``validator`` of a slot.

    A validator takes the value in its normal form. It returns True, False, or the reason for a refusal as a text. With
    a second argument it also gets the other values of the flow, by name, and is called again when one of them changes.
    It may be async. The registry stores functions only, nothing about a conversation.

    Example:
        >>> @ValidatorRegistry.register("even")
        ... def even(value):
        ...     return value % 2 == 0 or f"{value} is odd"
        >>> bool(ValidatorRegistry.validate("even", 4)), ValidatorRegistry.validate("even", 3).reason
        (True, '3 is odd')
    """

    @staticmethod
    def register(name: str, function: Callable[..., Any] | None = None) -> Any:
        """Register a function under a name; without the function, give the decorator that does.

        Args:
            name: Up to 64 lower-case letters, digits, ``_``, ``.`` and ``-``; the first is a letter.
            function: Takes a value, or a value and a mapping of the flow's other values.

        Raises:
            ExtensionError: the name is taken or cannot be one, or the function takes other arguments.
        """

        def add(function: F) -> F:
            kind = function if hasattr(function, "__qualname__") else type(function)
            module = getattr(kind, "__module__", "builtins")
            VALIDATORS.add(name, function, origin=f"{module}.{kind.__qualname__}")
            return function

        return add if function is None else add(function)

    @staticmethod
    def validate(
        name: str,
        value: Any,
        slots: Mapping[str, Any] | None = None,
        *,
        deadline: float = VALIDATION_DEADLINE,
    ) -> Validation:
        """Ask a validator about a value.

        Args:
            name: The name that the validator was registered under.
            value: The value, in the normal form of its slot.
            slots: The other values of the flow.
            deadline: Seconds that it may take.

        Returns:
            What the validator says. One that raises, is late, or returns anything else than True, False or a text
            refuses the value, with the cause in ``failure`` and in a warning.

        Raises:
            ExtensionError: no validator has the name.
        """
        done = _in_thread(name, value, slots)
        try:
            return done.result(deadline)
        except TimeoutError:
            return _failed(name, value, _LATE)

    @staticmethod
    async def avalidate(
        name: str,
        value: Any,
        slots: Mapping[str, Any] | None = None,
        *,
        deadline: float = VALIDATION_DEADLINE,
    ) -> Validation:
        """The same as :meth:`validate`, without blocking the event loop."""
        task = (
            asyncio.ensure_future(_acalled(name, value, slots))
            if _validator(name).is_async
            else asyncio.wrap_future(_in_thread(name, value, slots))
        )
        try:
            # Unlike a timeout this does not wait for a task that refuses to be cancelled.
            await asyncio.wait([task], timeout=deadline)
            if task.cancelled():
                return _failed(name, value, asyncio.CancelledError())
            return task.result() if task.done() else _failed(name, value, _LATE)
        finally:
            task.cancel()


def takes_slots(name: str) -> bool:
    """Whether a validator looks at the other values of the flow.

    Raises:
        ExtensionError: no validator has the name.
    """
    return _validator(name).takes_slots


def is_usable(name: str) -> bool:
    """Whether flows may name a validator: it is registered, or a command runs, which goes on without it."""
    if name in VALIDATORS:
        return True
    if COMMAND.get():
        log.warning("the validator %r is attached in Python; this command does not run it", name)
    return COMMAND.get()


_NOT_RUN = _Validator(lambda _value: True, takes_slots=False, is_async=False)


def _validator(name: str) -> _Validator:
    if not is_usable(name):
        raise ExtensionError(f"Unknown validator {name!r}", remedy=unknown_remedy(name))
    return VALIDATORS.get(name, _NOT_RUN)


def unknown_remedy(name: str) -> str:
    """What to do about a name that no validator has."""
    register = "Register it with ValidatorRegistry.register before the flows are loaded."
    return f"{did_you_mean(name, VALIDATORS)} {register}".strip()


def _in_thread(name: str, value: Any, slots: Mapping[str, Any] | None) -> Future[Validation]:
    """Call a validator in a daemon thread of its own, so that one that hangs delays neither turns nor the exit."""
    validator = _validator(name)

    def call() -> Any:
        result = validator.call(value, slots or {})
        return asyncio.run(result) if validator.is_async else result

    return start_in_thread(lambda: _called(name, value, call))


async def _acalled(name: str, value: Any, slots: Mapping[str, Any] | None) -> Validation:
    try:
        result = await _validator(name).call(value, slots or {})
    except (Exception, SystemExit) as error:
        # An exit would end the event loop.
        return _failed(name, value, error)
    return _called(name, value, lambda: result)


def _called(name: str, value: Any, call: Callable[[], Any]) -> Validation:
    try:
        result = call()
    except BaseException as error:
        # An exit, too: it would end the thread without an answer.
        return _failed(name, value, error)
    if isinstance(result, bool):
        return Validation(result, "" if result else f"{value!r} is not valid")
    if isinstance(result, str) and result.strip():
        reason = " ".join(result.encode("utf-8", "replace").decode().split())
        return Validation(False, reason[:MAX_REASON].removesuffix("."))
    what = "an empty text" if isinstance(result, str) else type(result).__name__
    remedy = "Return True, False, or the reason for a refusal."
    return _failed(name, value, InputError(f"The validator returned {what}", where=name, remedy=remedy))


def _failed(name: str, value: Any, error: BaseException) -> Validation:
    cause = format_error(error)
    log.warning("the validator %r failed, and the value is refused: %s", name, cause)
    return Validation(False, f"{value!r} cannot be checked at the moment", f"validator {name}: {cause}")
