"""Slots, and what a type of slot is: the registry of types, and the base that each of them extends."""

from __future__ import annotations

import datetime as dt
import operator
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, NamedTuple, TypeVar

from pydantic import BeforeValidator, Field, StringConstraints, field_validator, model_validator
from pydantic_core import PydanticKnownError

from jazzmine_dspy.models.base import Value, log
from jazzmine_dspy.models.errors import format_error
from jazzmine_dspy.models.extensions import Extensions
from jazzmine_dspy.models.language import (
    Span,
    digits_from_words,
    intended_values,
    is_bare,
    is_english,
    is_sentence,
)
from jazzmine_dspy.models.patterns import asks_for_digits, check_expression
from jazzmine_dspy.models.patterns import breaks_pattern as breaks_pattern
from jazzmine_dspy.models.patterns import pattern_match as pattern_match
from jazzmine_dspy.models.patterns import pattern_matches as pattern_matches

Title = Annotated[str, StringConstraints(strip_whitespace=True, max_length=128)]
"""What users hear of a flow or a slot; one of blanks is none."""


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


class SlotType(ABC):
    """What kind of value a slot holds. There is one object for each type, in :data:`SLOT_TYPES`.

    To add a type, extend this class, or :class:`~jazzmine_dspy.models.slot_types.TextType` for values that are texts,
    and decorate the class with :func:`slot_type`. A type gives a ``schema`` and an ``example``. Most types then write
    :meth:`find` alone; the other methods follow from it.

    A value is what JSON can hold: text, number, true or false, or a list of texts. Methods get the slot, since some
    types depend on its ``options``, and where and when the text was said. They should not raise, whatever the value or
    the text. If one does, the turn goes on without its result: see :func:`call_type`.

    Attributes:
        name: The name that flows use.
        example: A value in normal form, as text; prompts show it next to the slot.
        example_shown: Whether prompts show the example.
        noise: Words that may stand around a value and add nothing, such as "number" around a phone number.
        no_denies: Whether "no" before a value denies it.
        ranged: Whether slots of the type may have ``min`` and ``max``; the type's ``check`` holds values to them.
        ranged_in_words: Whether these may be texts; the type's ``definition_error`` reads them.
        dated: Whether slots of the type may say with ``year`` that a value names its year.
    """

    example: ClassVar[str] = ""
    example_shown: ClassVar[bool] = True
    noise: ClassVar[tuple[str, ...]] = ()
    no_denies: ClassVar[bool] = False
    ranged: ClassVar[bool] = False
    ranged_in_words: ClassVar[bool] = False
    dated: ClassVar[bool] = False

    def __init__(self, name: str) -> None:
        self.name = name

    @abstractmethod
    def schema(self, slot: Slot) -> dict[str, Any]:
        """JSON Schema of a value, for the language model that writes one."""

    def find(self, slot: Slot, text: str, at: ReadingContext = ANYWHERE) -> list[Span]:
        """All values inside a text that are of this type beyond doubt, with their places; denied ones too."""
        return []

    def candidates(self, slot: Slot, text: str, at: ReadingContext = ANYWHERE) -> list[Any]:
        """The readings of a text that is nothing but one value: several if it is ambiguous, none if it is no value.

        By default the text if it matches the slot's ``pattern``, else what :meth:`find` returns between words that add
        nothing.
        """
        if (own := pattern_match(slot, text)) is not None:
            return [own]
        spans = self.find(slot, text, at)
        bare = bool(spans) and is_bare(text, spans, at.locale, self.noise)
        return intended_values(text, spans, no_denies=self.no_denies) if bare else []

    def parse(self, slot: Slot, text: str, at: ReadingContext = ANYWHERE) -> Any:
        """The only reading of a text that is nothing but one value; None if there are several, or none."""
        readings = self.candidates(slot, text, at)
        return readings[0] if len(readings) == 1 else None

    def find_values(self, slot: Slot, text: str, at: ReadingContext = ANYWHERE) -> list[Any]:
        """The values inside a longer text, without those that it denies. Not called for a slot with a pattern."""
        return intended_values(text, self.find(slot, text, at), no_denies=self.no_denies)

    def normalize(self, slot: Slot, value: Any, at: ReadingContext = ANYWHERE) -> Any:
        """The one form in which a value is stored and compared; what is no value of the type comes back as it is.

        Every value of a decision passes through it, whoever read the value.
        """
        parsed = self.parse(slot, value, at) if isinstance(value, str) else None
        return value if parsed is None else parsed

    def check(self, slot: Slot, value: Any, at: ReadingContext = ANYWHERE) -> str:
        """Why the slot cannot hold the value, as the user reads it; "" if it can.

        The slot's own ``pattern`` is checked afterwards.
        """
        return ""

    def is_attempt(self, slot: Slot, text: str, at: ReadingContext = ANYWHERE) -> bool:
        """Whether a text that is no value was at least meant as one, and not as a message of another kind.

        An attempt is rejected with the reason of :meth:`check`, and the question is repeated; other texts are not taken
        for a value at all. By default a few words that are no sentence and no question; if the slot's pattern asks for
        digits, with a digit.
        """
        digits = (
            slot.pattern is None
            or not asks_for_digits(slot.pattern)
            or any(map(str.isdigit, digits_from_words(text)))
        )
        return digits and not (is_english(at.locale) and is_sentence(text))

    def definition_error(self, slot: Slot) -> str:
        """What is wrong with the definition of a slot of this type; "" if nothing is."""
        return ""

    def label_error(self, slot: Slot, value: Any) -> str:
        """What a labelled value should be and is not, such as "a number"; "" if it fits."""
        normal = self.normalize(slot, value)
        if problem := self.check(slot, normal):
            return f"a value of the type {self.name} ({problem})"
        return "" if normal == value else f"in its normal form, {normal!r}"

    def spans(self, value: Any) -> list[str]:
        """The parts of a labelled value that a user says word by word, so that they occur in the conversation."""
        return []

    def prompt_text(self, slot: Slot) -> str:
        """What prompts say of a slot's type, besides its options."""
        return f"{self.name}, such as {self.example}" if self.example_shown and self.example else self.name


def _usable(name: str, thing: Any) -> SlotType:
    if not (isinstance(thing, type) and issubclass(thing, SlotType)):
        raise ValueError("it is not a subclass of SlotType")
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
        return cls

    return register


def _absent(value: Any) -> bool:
    return value is None


def _bound(value: Any) -> Any:
    """A number, or the text that a date or a time is bounded by: YAML makes dates of what looks like one."""
    if isinstance(value, dt.date):
        return value.isoformat()[:10]
    if value is None or (isinstance(value, int | float) and not isinstance(value, bool)):
        return None if value is None else float(value)
    if not isinstance(value, str) or not value.strip():
        raise ValueError("a bound is a number, a day or a time")
    try:
        return float(value)
    except ValueError:
        return value.strip()


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
        title: What users hear, such as "the date of birth"; without one they hear the name as words.
        ask, reask, confirm: What the assistant says to get, get again, or check the value.

    Example:
        >>> Slot(name="speed", type="choice", options=["standard", "express"]).required
        True
    """

    name: str = Field(min_length=1, max_length=64)
    title: Title = Field(default="", exclude_if=operator.not_)
    type: str = Field(json_schema_extra=lambda schema: schema.update(enum=list(SLOT_TYPES)))
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

    @field_validator("type")
    @classmethod
    def _is_registered(cls, name: str) -> str:
        if name not in SLOT_TYPES:
            *others, last = map(repr, SLOT_TYPES)
            raise PydanticKnownError("enum", {"expected": f"{', '.join(others)} or {last}"})
        return name

    @field_validator("pattern")
    @classmethod
    def _compiles(cls, pattern: str | None) -> str | None:
        if pattern is not None:
            check_expression(pattern)
        return pattern

    @property
    def kind(self) -> SlotType:
        """The object of the slot's type."""
        return SLOT_TYPES[self.type]

    @model_validator(mode="after")
    def _options_fit(self) -> Slot:
        if problem := self.kind.definition_error(self):
            raise ValueError(problem)
        least, most = self.min, self.max
        if (least, most) != (None, None) and not self.kind.ranged:
            raise ValueError(f"a slot of the type {self.type} has no min and max")
        if self.year is not None and not self.kind.dated:
            raise ValueError(f"a slot of the type {self.type} has no year")
        if not self.kind.ranged_in_words and any(isinstance(bound, str) for bound in (least, most)):
            raise ValueError(f"min and max of a slot of the type {self.type} are numbers")
        if isinstance(least, float) and isinstance(most, float) and least > most:
            raise ValueError(f"min {least:g} is greater than max {most:g}")
        return self


def call_type(
    slot: Slot,
    method: Literal["parse", "candidates", "find_values", "normalize", "check", "is_attempt", "label_error"],
    given: Any,
    default: Any,
    at: ReadingContext = ANYWHERE,
) -> Any:
    """Call a method of the slot's type, and log a warning if it raises.

    A type of another package may be broken; that costs its own slot a value, and not the whole turn.

    Args:
        slot: The slot.
        method: Name of the method.
        given: The value or the text that the method gets.
        default: The result if the type raises.
        at: Where and when the text was said.

    Returns:
        What the method returns, or ``default``.
    """
    arguments = (slot, given) if method == "label_error" else (slot, given, at)
    try:
        return getattr(slot.kind, method)(*arguments)
    except Exception as error:
        log.warning(
            "the slot type %r failed in %s for slot %r: %s", slot.type, method, slot.name, format_error(error)
        )
        return default


def out_of_range(slot: Slot, amount: float, what: str = "") -> str:
    """Why a number is not between the slot's ``min`` and ``max``, as the user is told; "" where it is."""
    least, most, said = slot.min, slot.max, f"{amount:,g}{what}"
    if (least is None or amount >= least) and (most is None or amount <= most):
        return ""
    if least is not None and most is not None:
        return f"{said} is not between {least:,g} and {most:,g}"
    return f"{said} is more than {most:,g}" if least is None else f"{said} is less than {least:,g}"
