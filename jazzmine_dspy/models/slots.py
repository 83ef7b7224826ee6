"""Slots, and what a type of slot is: the registry of types, and the base that each of them extends."""

from __future__ import annotations

import datetime as dt
import functools
import inspect
import logging
from abc import ABCMeta, abstractmethod
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, NamedTuple, TypeVar

from pydantic import (
    BeforeValidator,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    field_validator,
    model_validator,
)
from pydantic_core import CoreSchema, PydanticKnownError, core_schema

from jazzmine_dspy.models.base import Value
from jazzmine_dspy.models.errors import format_error
from jazzmine_dspy.models.extensions import Extensions
from jazzmine_dspy.models.language import is_english, is_sentence, said_digits
from jazzmine_dspy.models.patterns import asks_for_digits, check_expression
from jazzmine_dspy.models.patterns import breaks_pattern as breaks_pattern
from jazzmine_dspy.models.patterns import pattern_match as pattern_match
from jazzmine_dspy.models.patterns import pattern_matches as pattern_matches


class ReadingContext(NamedTuple):
    """What a text means depends on where and when it is said.

    Args:
        date: The user's local date; words such as "tomorrow" count from it.
        locale: The user's language, such as ``en`` or ``de-AT``.
        region: Country whose habits hold, as ISO 3166 alpha-2; "" where the registry names none.
        currency: Currency of an amount that names none, as ISO 4217; "" where the registry names none.
    """

    date: dt.date | None = None
    locale: str = "en"
    region: str = ""
    currency: str = ""


ANYWHERE = ReadingContext()
"""Where nothing is known of the place and the day."""


C = TypeVar("C", bound="type[SlotType]")

log = logging.getLogger("jazzmine_dspy")


class _Types(ABCMeta):
    """Makes the class itself list the registered types, as an enumeration does."""

    def __iter__(cls) -> Iterator[SlotType]:
        return iter(SLOT_TYPES.values())

    def __len__(cls) -> int:
        return len(SLOT_TYPES)


class SlotType(str, metaclass=_Types):
    """What kind of value a slot holds. There is one object for each type; it is its own name as text.

    ``SlotType("date")`` and ``SlotType.DATE`` are that object; iterating over ``SlotType`` gives all registered
    types. To add a type, extend this class, or :class:`~jazzmine_dspy.models.slot_types.TextType` for values that
    are texts, and decorate the class with :func:`slot_type`.

    A value is what JSON can hold: text, number, true or false, or a list of texts. Methods get the slot, since some
    types depend on its ``options``, and where and when the text was said; one that needs no ``at`` may leave it out of
    its arguments. They should not raise, whatever the value or the text. If one does, a turn goes on without what it
    would have said: see :func:`ask_type`.

    Attributes:
        example: A value in normal form, as text; prompts show it beside the slot.
        example_shown: Whether prompts show the example.
        ranged: Whether slots of the type may have ``min`` and ``max``; the type's ``check`` holds values to them.
        ranged_in_words: Whether these may be texts; the type's ``misdefined`` reads them.
        dated: Whether slots of the type may say with ``year`` that a value names its year.

    Raises:
        ValueError: no type of that name is registered; the message lists the known ones.

    Example:
        >>> SlotType("date") is SlotType.DATE, SlotType.DATE == "date"
        (True, True)
    """

    TEXT: ClassVar[SlotType]
    NUMBER: ClassVar[SlotType]
    MONEY: ClassVar[SlotType]
    DATE: ClassVar[SlotType]
    TIME: ClassVar[SlotType]
    DURATION: ClassVar[SlotType]
    PHONE: ClassVar[SlotType]
    EMAIL: ClassVar[SlotType]
    BOOLEAN: ClassVar[SlotType]
    CHOICE: ClassVar[SlotType]
    LIST: ClassVar[SlotType]

    example: ClassVar[str] = ""
    example_shown: ClassVar[bool] = True
    ranged: ClassVar[bool] = False
    ranged_in_words: ClassVar[bool] = False
    dated: ClassVar[bool] = False

    def __new__(cls, name: str) -> SlotType:
        """The registered type of that name; for a class that extends this one, a new object."""
        return _registered(name) if cls is SlotType else str.__new__(cls, name)

    @abstractmethod
    def schema(self, slot: Slot) -> dict[str, Any]:
        """JSON Schema of a value, for the language model that writes one."""

    @abstractmethod
    def read(self, slot: Slot, text: str, at: ReadingContext = ANYWHERE) -> Any:
        """The value, where the whole text is nothing but one: the user was asked for it. Otherwise None.

        The slot's own ``pattern`` is for this method to apply; see :func:`pattern_match`.
        """

    def candidates(self, slot: Slot, text: str, at: ReadingContext = ANYWHERE) -> list[Any]:
        """The readings of a text that is nothing but one value: several where it is ambiguous, none where it is none.

        A type whose texts may be ambiguous extends :class:`Ambiguous`, so that :meth:`read` gives the only reading.
        """
        value = _call(self, "read", slot, text, at)
        return [] if value is None else [value]

    def occurrences(self, slot: Slot, text: str, at: ReadingContext = ANYWHERE) -> list[Any]:
        """All values inside a longer text that are of this type beyond doubt; not asked of a slot with a pattern."""
        return []

    def normal(self, slot: Slot, value: Any, at: ReadingContext = ANYWHERE) -> Any:
        """The one form in which a value is kept and compared; what is no value of the type comes back as it is.

        Every value of a decision has passed through it, whoever found the value.
        """
        return value

    def check(self, slot: Slot, value: Any, at: ReadingContext = ANYWHERE) -> str:
        """Why the slot cannot hold the value, as the user is told when asked again; "" where it can.

        The slot's own ``pattern`` is checked afterwards.
        """
        return ""

    def attempt(self, slot: Slot, text: str, at: ReadingContext = ANYWHERE) -> bool:
        """Whether a text that is no value was at least meant as one, and not as a message of another kind.

        What was meant as one is refused with the reason of :meth:`check` and asked for again; the rest is not taken for
        a value at all. By default a few words that are no sentence and no question; where the slot's pattern asks for
        digits, with a digit.
        """
        digits = (
            slot.pattern is None
            or not asks_for_digits(slot.pattern)
            or any(map(str.isdigit, said_digits(text)))
        )
        return digits and not (is_english(at.locale) and is_sentence(text))

    def misdefined(self, slot: Slot) -> str:
        """What is wrong with the definition of a slot of this type; "" where nothing is."""
        return ""

    def misfit(self, slot: Slot, value: Any) -> str:
        """What a labelled value should be and is not, such as "a number"; "" where it fits."""
        normal = self.normal(slot, value)
        if self.check(slot, normal):
            return f"a value of the type {self}"
        return "" if normal == value else f"in its normal form, {normal!r}"

    def verbatim(self, value: Any) -> list[str]:
        """The parts of a labelled value that a user says word by word, so that they occur in the conversation."""
        return []

    def shown(self, slot: Slot) -> str:
        """What prompts say of a slot's type, besides its options."""
        return f"{self}, such as {self.example}" if self.example_shown and self.example else str(self)

    @property
    def value(self) -> str:
        """The name as plain text."""
        return str(self)

    @property
    def name(self) -> str:
        """The name in capitals, as an attribute of the class has it."""
        return str(self).upper()

    def __repr__(self) -> str:
        return f"<SlotType.{self.name}: {str(self)!r}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return (SlotType, (str(self),))

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(
            _registered,
            ref="SlotType",
            serialization=core_schema.plain_serializer_function_ser_schema(
                str, return_schema=core_schema.str_schema(), when_used="json"
            ),
        )

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return {
            "title": "SlotType",
            "description": "What kind of value a slot holds.",
            "type": "string",
            "enum": list(SLOT_TYPES),
        }


def _call(kind: SlotType, method: str, slot: Slot, given: Any, at: ReadingContext) -> Any:
    """Call a method with the context where it takes one."""
    called = getattr(kind, method)
    return (
        called(slot, given, at) if _contextual(getattr(called, "__func__", called)) else called(slot, given)
    )


@functools.lru_cache(maxsize=256)
def _contextual(function: Callable[..., Any]) -> bool:
    try:
        inspect.signature(function).bind("self", "slot", "given", "at")
    except TypeError:
        return False
    return True


class Ambiguous(SlotType):
    """A base for types whose texts may have several readings: they say which, and :meth:`read` gives the only one."""

    @abstractmethod
    def candidates(self, slot: Slot, text: str, at: ReadingContext = ANYWHERE) -> list[Any]:
        """The readings of a text that is nothing but one value."""

    def read(self, slot: Slot, text: str, at: ReadingContext = ANYWHERE) -> Any:
        """The only reading; None where there are several, or none."""
        found = self.candidates(slot, text, at)
        return found[0] if len(found) == 1 else None


def _registered(name: Any) -> SlotType:
    found = SLOT_TYPES.get(name) if isinstance(name, str) else None
    if found is None:
        *others, last = (repr(known) for known in SLOT_TYPES)
        raise PydanticKnownError("enum", {"expected": f"{', '.join(others)} or {last}"})
    return found


def _usable(name: str, thing: Any) -> SlotType:
    if not (isinstance(thing, type) and issubclass(thing, SlotType)):
        raise ValueError("it is no class that extends SlotType")
    if missing := sorted(getattr(thing, "__abstractmethods__", ())):
        raise ValueError(f"it lacks {', '.join(missing)}")
    if not thing.example:
        raise ValueError("it has no example")
    return thing(name)


SLOT_TYPES: Extensions[SlotType] = Extensions("slot type", "jazzmine_dspy.slot_types", _usable)
"""The registered types by name: the built-in ones, and those of decorators and of installed packages."""


def slot_type(name: str) -> Callable[[C], C]:
    """Register a class as the slot type of a name, so that flows may use it.

    Raises:
        ExtensionError: the name is taken or cannot be one, or the class lacks a method or an example.
    """

    def register(cls: C) -> C:
        SLOT_TYPES.add(name, cls, origin=f"{cls.__module__}.{cls.__qualname__}")
        if cls.__module__.startswith("jazzmine_dspy."):
            setattr(SlotType, name.upper(), SLOT_TYPES[name])
        return cls

    return register


def _absent(value: Any) -> bool:
    return value is None


def _bound(given: Any) -> Any:
    """A number, or the text that a date or a time is bounded by: YAML makes dates of what looks like one."""
    if isinstance(given, dt.date):
        return given.isoformat()[:10]
    if given is None or (isinstance(given, int | float) and not isinstance(given, bool)):
        return None if given is None else float(given)
    if not isinstance(given, str) or not given.strip():
        raise ValueError("a bound is a number, a day or a time")
    try:
        return float(given)
    except ValueError:
        return given.strip()


if TYPE_CHECKING:
    # Types that count have numbers here, and those of days and times also texts: each knows its own.
    Bound = Any
else:
    Bound = Annotated[float | str | None, BeforeValidator(_bound)]


class Slot(Value):
    """A value that a flow needs.

    Args:
        name: Name, unique in its flow.
        type: Kind of the value; there is no default, since a guess would misread values.
        pattern: Regular expression that a whole text value matches.
        options: The names to choose from, for ``choice``.
        min, max: The least and the greatest value, for ``number`` and ``money``; how many, for ``list``. For ``date`` a
            day, in words ("today") or as ``YYYY-MM-DD``; for ``time`` a time such as ``09:00``.
        year: Whether a ``date`` has to name its year: ``required`` or ``optional``. The default is ``required`` for a
            date of birth, that is for a slot with ``max: today`` whose name or description says so.
        ask, reask, confirm: What the assistant says to get, get again, or check the value.

    Example:
        >>> Slot(name="speed", type="choice", options=["standard", "express"]).required
        True
    """

    name: str = Field(min_length=1, max_length=64)
    type: SlotType
    description: str = ""
    required: bool = True
    options: tuple[str, ...] = ()
    pattern: str | None = None
    # Left out of the JSON form where they are not given: flows without them keep their checksums.
    min: Bound = Field(default=None, exclude_if=_absent)
    max: Bound = Field(default=None, exclude_if=_absent)
    year: Literal["required", "optional"] | None = Field(default=None, exclude_if=_absent)
    ask: str = ""
    reask: str = ""
    confirm: str = ""
    validator: str | None = None

    @field_validator("pattern")
    @classmethod
    def _compiles(cls, pattern: str | None) -> str | None:
        if pattern is not None:
            check_expression(pattern)
        return pattern

    @model_validator(mode="after")
    def _options_fit(self) -> Slot:
        if problem := self.type.misdefined(self):
            raise ValueError(problem)
        least, most = self.min, self.max
        if (least, most) != (None, None) and not self.type.ranged:
            raise ValueError(f"a slot of the type {self.type} has no min and max")
        if self.year is not None and not self.type.dated:
            raise ValueError(f"a slot of the type {self.type} has no year")
        if not self.type.ranged_in_words and any(isinstance(bound, str) for bound in (least, most)):
            raise ValueError(f"min and max of a slot of the type {self.type} are numbers")
        if isinstance(least, float) and isinstance(most, float) and least > most:
            raise ValueError(f"min {least:g} is greater than max {most:g}")
        return self


def ask_type(
    slot: Slot,
    method: Literal["read", "candidates", "occurrences", "normal", "check", "attempt", "misfit"],
    given: Any,
    otherwise: Any,
    at: ReadingContext = ANYWHERE,
) -> Any:
    """What the slot's type says of a value or a text; ``otherwise`` where the type raises, with a warning.

    A type of another package may be broken; that costs its own slot a value, and not the whole turn.
    """
    try:
        return _call(slot.type, method, slot, given, at)
    except Exception as error:
        log.warning(
            "the slot type %r failed in %s for slot %r: %s",
            slot.type.value,
            method,
            slot.name,
            format_error(error),
        )
        return otherwise


def out_of_range(slot: Slot, amount: float, what: str = "") -> str:
    """Why a number is not between the slot's ``min`` and ``max``, as the user is told; "" where it is."""
    least, most = slot.min, slot.max
    if (least is None or amount >= least) and (most is None or amount <= most):
        return ""
    said = f"{amount:,g}{what}"
    if least is not None and most is not None:
        return f"{said} is not between {least:,g} and {most:,g}"
    return f"{said} is less than {least:,g}" if least is not None else f"{said} is more than {most:,g}"
