"""The flows of one agent, by name, and the difference between two versions of them. Nothing is global."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from jazzmine_dspy.models.base import Shared, Value, sha256
from jazzmine_dspy.models.errors import FlowError, combined
from jazzmine_dspy.models.flows import Flow, Guard, Slot
from jazzmine_dspy.models.parsing import MalformedError, from_yaml, read_file, yaml_line
from jazzmine_dspy.models.slots import SLOT_TYPES, ReadingContext
from jazzmine_dspy.models.templates import checked_texts, flow_text_problems
from jazzmine_dspy.models.text import checked_text, did_you_mean
from jazzmine_dspy.models.turn import FlowView
from jazzmine_dspy.models.validators import is_usable, unknown_remedy


class FlowRegistry(Shared, Mapping[str, Flow]):
    """An immutable, ordered mapping of names to flows.

    Args:
        flows: Flows, or their JSON forms, or a mapping of names or ids to either; a mapping of jazzmine flows is
            accepted too: of their objects the public attributes are read.
        agent_id: Whose flows these are; part of the flows' ids.
        out_of_scope_share: Share of the messages, from 0 to below 1, that want none of these flows, if it is known: 0
            says that every message wants one. A run weighs by it how readily "none" is answered.
        region: Country whose phone numbers and ways to write dates the users have, as ISO 3166 alpha-2, such as "GB".
        currency: Currency of amounts that name none, as ISO 4217, such as "EUR".
        about: What the business is, in one line of at most 200 characters, such as "a web shop for home goods". A
            language model is told it.
        texts: What the assistant says, by language and key, in place of ``models/texts.yaml``:
            ``{"de": {"idle": "Was kann ich für Sie tun?"}}``.

    Raises:
        FlowError: a flow is malformed, a name is taken twice, a validator is unknown, region or currency is none,
            ``about`` is no such line, or a text has an unknown language or key or names what it cannot.
        InputError: ``agent_id`` is no text.

    Example:
        >>> registry = FlowRegistry([{"name": "track_order", "description": "Tell where an order is."}])
        >>> list(registry), "cancel_order" in registry
        (['track_order'], False)
    """

    def __init__(
        self,
        flows: Iterable[Any] | Mapping[Any, Any] = (),
        *,
        agent_id: str = "",
        out_of_scope_share: float | None = None,
        region: str | None = None,
        currency: str | None = None,
        about: str | None = None,
        texts: Mapping[str, Mapping[str, str]] | None = None,
    ) -> None:
        if isinstance(flows, Mapping) and isinstance(flows.get("flows"), list):
            raise FlowError(
                "This is the content of a file of flows, not its list of flows",
                where="flows",
                remedy="Pass the list under its key 'flows', as FlowRegistry(data['flows'], region=…), or read the "
                "file with FlowRegistry.from_yaml(path).",
            )
        items = flows.values() if isinstance(flows, Mapping) else flows
        self.agent_id = checked_text(agent_id, field="agent_id")
        self.out_of_scope_share = _share(out_of_scope_share)
        self.region = _code(region, "region", 2, "GB")
        self.currency = _code(currency, "currency", 3, "EUR")
        self.about = _about(about)
        self.texts = checked_texts(texts)
        self._flows = _by_name(((item, partial(_number, n)) for n, item in enumerate(items, start=1)), [])
        content: list[Any] = [flow.checksum() for flow in self._flows.values()]
        self.checksum: str = sha256([*content, self.habits] if self.habits else content)
        """SHA-256 over the content of all flows, in order, and over :attr:`habits` where there are any."""
        self.guarded: tuple[str, ...] = tuple(name for name, flow in self._flows.items() if flow.guards)
        """Names of the flows that have guards."""
        self.never_miss: tuple[str, ...] = tuple(
            name for name, flow in self._flows.items() if flow.never_miss
        )
        """Names of the flows that must not be missed."""
        fields = FlowView.model_fields
        self.views: tuple[FlowView, ...] = tuple(
            FlowView(**{name: getattr(flow, name) for name in fields}) for flow in self._flows.values()
        )

    @classmethod
    def from_yaml(cls, path: str | Path, *, agent_id: str = "") -> FlowRegistry:
        """Read flows from a YAML file: a list under the key ``flows``.

        Beside it may stand ``out_of_scope_share``, ``region``, ``currency``, ``about`` and ``texts``.

        Raises:
            FlowError: the file cannot be read, is no YAML, or holds a malformed flow; file and line are named.
        """
        path = Path(path)
        try:
            text = read_file(path)
        except (OSError, MalformedError) as error:
            problem = error.strerror if isinstance(error, OSError) else error.problem
            where = error.at(path) if isinstance(error, MalformedError) else str(path)
            raise FlowError(
                f"Cannot read the flows: {problem}",
                where=where,
                remedy="Name a YAML file of flows, in UTF-8.",
            ) from error
        return cls.from_yaml_text(text, where=path, agent_id=agent_id)

    @classmethod
    def from_yaml_text(cls, text: str, *, where: str | Path, agent_id: str = "") -> FlowRegistry:
        """The same from the file's text.

        Args:
            text: YAML.
            where: The file that errors name.
            agent_id: Agent that the flows belong to.

        Raises:
            FlowError: it is no YAML, or holds a malformed flow.
        """
        try:
            data = from_yaml(text)
        except MalformedError as error:
            raise FlowError(
                f"Not valid YAML: {error.problem}",
                where=error.at(where),
                remedy="Quote texts with ':' or '?'; nest lists and mappings less.",
            ) from error
        if not isinstance(data, dict) or not isinstance(data.get("flows"), list):
            raise FlowError(
                "No list of flows", where=str(where), remedy="Begin the file with 'flows:' and a list."
            )
        errors = [
            FlowError(
                f"Unknown key {key!r}",
                where=f"{where}:{yaml_line(text, [key])}, field {key}",
                remedy=did_you_mean(str(key), ["flows", *_BESIDE]),
            )
            for key in data
            if key not in ("flows", *_BESIDE) and not str(key).startswith("x-")
        ]

        def place(index: int, loc: Sequence[str | int]) -> str:
            item, number = data["flows"][index], f"number {index + 1}"
            name = item.get("name", number) if isinstance(item, dict) else number
            return f"{where}:{yaml_line(text, ['flows', index, *loc])}, flow {name!r}"

        beside: dict[str, Any] = {name: data.get(name) for name in _BESIDE}
        for name, value in beside.items():
            try:
                cls(**{name: value})
            except FlowError as error:
                errors += [
                    FlowError(each.message, where=f"{where}, {each.where}", remedy=each.remedy)
                    for each in (error, *error.others)
                ]
        flows = _by_name(((item, partial(place, index)) for index, item in enumerate(data["flows"])), errors)
        return cls(flows.values(), agent_id=agent_id, **beside)

    def __getitem__(self, name: str) -> Flow:
        return self._flows[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._flows)

    def __len__(self) -> int:
        return len(self._flows)

    @property
    def habits(self) -> dict[str, Any]:
        """Region, currency, ``about`` and texts, those given; what :meth:`from_yaml` reads beside the flows."""
        return {name: given for name in _BESIDE[1:] if (given := getattr(self, name))}

    def to_json(self) -> list[dict[str, Any]]:
        """The JSON form of all flows, defaults left out; what :meth:`from_yaml` reads."""
        data = [flow.model_dump(mode="json", exclude_defaults=True) for flow in self._flows.values()]
        return [
            each | {"responses": dict(each["responses"])} if "responses" in each else each for each in data
        ]


def reading_context(
    flows: Mapping[str, Flow], date: dt.date | None = None, locale: str = "en"
) -> ReadingContext:
    """Where and when something is said to these flows; of a plain mapping no region and no currency are known."""
    if isinstance(flows, FlowRegistry):
        return ReadingContext(date, locale, flows.region, flows.currency)
    return ReadingContext(date, locale)


def _code(value: Any, field: str, letters: int, example: str) -> str:
    if value is None or value == "":
        return ""
    if not isinstance(value, str) or not (value.isascii() and value.isalpha() and len(value) == letters):
        # A bare NO is what YAML takes for false.
        raise FlowError(
            f"{value!r} is not a valid {field}",
            where=f"field {field}",
            remedy=f'Write its {letters} letters in quotes, such as "{example}", or leave it out.',
        )
    return value.upper()


def _about(value: Any) -> str:
    if value is None:
        return ""
    if not isinstance(value, str) or len(value) > _LONGEST_ABOUT or len(value.strip().splitlines()) > 1:
        raise FlowError(
            "It is no line about the business",
            where="field about",
            remedy=f"Write one line of at most {_LONGEST_ABOUT} characters, or leave it out.",
        )
    return value.strip()


def _share(value: Any) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1:
        raise FlowError(
            f"{value!r} is not a share of messages",
            where="field out_of_scope_share",
            remedy="Give a number from 0 to below 1, or leave it out.",
        )
    return float(value)


_LONGEST_ABOUT = 200

_BESIDE = ("out_of_scope_share", "region", "currency", "about", "texts")
"""Keys that may stand next to ``flows``."""

_PARTS: dict[str | int, type[Value]] = {"slots": Slot, "guards": Guard}
"""What the lists within a flow hold, besides flows."""

Place = Callable[[Sequence[str | int]], str]
"""Where a field of a flow stands, as errors name it: file, line and flow."""


def _number(number: int, _loc: Sequence[str | int]) -> str:
    return f"flow {number}"


def _by_name(items: Iterable[tuple[Any, Place]], errors: list[FlowError]) -> dict[str, Flow]:
    """Flows by name, each with its place for errors; ``errors`` are those next to the flows.

    Raises:
        FlowError: the first error, with all others.
    """
    flows: dict[str, Flow] = {}
    for item, place in items:
        try:
            flow = _flow(item, place)
        except FlowError as error:
            errors += [error, *error.others]
        else:
            if flow.name in flows:
                errors.append(
                    FlowError(
                        f"Flow {flow.name!r} is defined twice",
                        where=place(()),
                        remedy="Rename one of the two.",
                    )
                )
            flows[flow.name] = flow
    if errors:
        raise combined(errors)
    return flows


def _flow(item: Any, place: Place) -> Flow:
    if isinstance(item, Flow):
        flow = item
    else:
        if not isinstance(item, Mapping):
            raise FlowError(
                f"{type(item).__name__} is not a flow",
                where=place(()),
                remedy="Pass Flow objects or mappings; flows of jazzmine through its to_registry of integrations.",
            )
        data = dict(item)
        try:
            flow = Flow.model_validate(data)
        except ValidationError as error:
            raise combined(
                [_field_error(place, each["loc"], *_explained(each)) for each in _distinct(error)]
            ) from error
    errors = [
        _field_error(place, loc, f"Flow {flow.name!r}: {what}", remedy)
        for loc, what, remedy in flow_text_problems(flow)
    ]
    errors += [
        _field_error(
            place,
            (*loc, "validator"),
            f"Unknown validator {slot.validator!r}",
            unknown_remedy(slot.validator),
        )
        for loc, slot in _slots(flow)
        if slot.validator is not None and not is_usable(slot.validator)
    ]
    if errors:
        raise combined(errors)
    return flow


def _distinct(error: ValidationError) -> list[ErrorDetails]:
    """The errors of a flow's fields. A misspelt key that is required is missing, too, and stands alone."""
    errors = sorted(error.errors(), key=lambda each: each["type"] != "extra_forbidden")
    misspelt = {each["loc"][:-1] for each in errors if each["type"] == "extra_forbidden"}
    return [each for each in errors if each["type"] != "missing" or each["loc"][:-1] not in misspelt]


def _slots(flow: Flow, loc: tuple[str | int, ...] = ()) -> Iterator[tuple[tuple[str | int, ...], Slot]]:
    """The slots of a flow and of the flows within it, each with its place."""
    for number, slot in enumerate(flow.slots):
        yield (*loc, "slots", number), slot
    for number, part in enumerate(flow.subflows):
        yield from _slots(part, (*loc, "subflows", number))


def _explained(error: ErrorDetails) -> tuple[str, str]:
    """What is wrong with a field, and what to do about it."""
    loc = error["loc"]
    if error["type"] == "missing" and len(loc) > 2 and (loc[-3], loc[-1]) == ("slots", "type"):
        slot = error["input"].get("name", loc[-2])
        return f"Slot {slot!r} has no type", f"Give it one of: {', '.join(SLOT_TYPES)}."
    if error["type"] == "extra_forbidden":
        within = next((part for part in reversed(loc[:-1]) if isinstance(part, str)), "")
        return f"Unknown key {loc[-1]!r}", did_you_mean(str(loc[-1]), _PARTS.get(within, Flow).model_fields)
    return error["msg"], "Correct this field."


def _field_error(place: Place, loc: Sequence[str | int], message: str, remedy: str) -> FlowError:
    field = ".".join(str(part) for part in loc)
    return FlowError(message, where=f"{place(loc)}, field {field}", remedy=remedy)


class FlowChange(NamedTuple):
    """A flow that one of two registries alone has, or that differs between them.

    Args:
        flow: Its name.
        kind: What became of it.
        parts: What of it changed, such as ``examples`` or ``slot order_id``; empty where it was added or removed.
    """

    flow: str
    kind: Literal["added", "removed", "changed"]
    parts: tuple[str, ...] = ()

    def in_words(self) -> str:
        """One line of it.

        Example:
            >>> FlowChange("track_order", "changed", ("examples", "slot order_id")).in_words()
            'track_order changed: examples, slot order_id'
        """
        return f"{self.flow} {self.kind}" + (f": {', '.join(self.parts)}" if self.parts else "")


def changes_between(before: FlowRegistry, after: FlowRegistry) -> tuple[FlowChange, ...]:
    """The flows that differ: those of ``after`` in its order, then those that are gone.

    Example:
        >>> old = FlowRegistry([{"name": "a", "description": "Do a."}, {"name": "b", "description": "Do b."}])
        >>> new = FlowRegistry([{"name": "b", "description": "Do b well."}, {"name": "c", "description": "Do c."}])
        >>> [each.in_words() for each in changes_between(old, new)]
        ['b changed: description', 'c added', 'a removed']
    """
    return (
        *(
            FlowChange(name, "changed", tuple(_parts(before[name], flow)))
            if name in before
            else FlowChange(name, "added")
            for name, flow in after.items()
            if name not in before or flow.checksum() != before[name].checksum()
        ),
        *(FlowChange(name, "removed") for name in before if name not in after),
    )


def _parts(before: Flow, after: Flow) -> Iterator[str]:
    for field in Flow.model_fields:
        if field != "slots" and getattr(before, field) != getattr(after, field):
            yield field
    slots = {slot.name: slot for slot in before.slots}, {slot.name: slot for slot in after.slots}
    changed = [name for name in (slots[0] | slots[1]) if slots[0].get(name) != slots[1].get(name)]
    yield from (f"slot {name}" for name in changed)
    if not changed and before.slots != after.slots:
        yield "order of slots"
