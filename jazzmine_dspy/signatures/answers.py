"""What a language model may answer, as strict Pydantic models, and how its text is read."""

from __future__ import annotations

import ast
import contextlib
import functools
import json
import math
import re
from collections.abc import Collection
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    create_model,
    model_validator,
)
from pydantic_core import from_json

from jazzmine_dspy.models.commands import KINDS, StartFlow
from jazzmine_dspy.models.errors import AnswerError

_TAG = r"(?:think(?:ing)?|thoughts?|reason(?:ing)?|reflection|analysis|scratchpad|seed:think)"
_THOUGHT = re.compile(
    rf"\A.*?[<\[◁]\s*/\s*{_TAG}\s*[>\]▷]|\A\s*[<\[◁]\s*{_TAG}\b[^<>\[\]◁▷]*[>\]▷].*",
    re.IGNORECASE | re.DOTALL,
)
"""All up to the end of the first thought, whose opening tag may stand in the prompt, or an unfinished thought."""

_FENCE = re.compile(r"\A\s*```\w*\s|```\s*\Z")
_OBJECT = re.compile(r"\{(?=\s*[\"'}])")
"""The begin of an object, which has a key or is empty; other braces are prose."""

_TRAILING = re.compile(r'("(?:[^"\\]|\\.)*")|,(?=\s*[}\]])', re.DOTALL)
_AROUND = " \t\r\n`"
"""What may stand around an answer that is the end of a text."""

_MOST_OBJECTS = 64
_MOST_ENCODINGS = 4
_DECODER = json.JSONDecoder()


def values(text: str, *, encodings: int = _MOST_ENCODINGS) -> list[Any]:
    """What may be the answer of a text: one value that is all of it, else its objects, of which the last counts.

    Args:
        text: The text; one that is encoded as a JSON string is decoded.
        encodings: How often it may be encoded.

    Raises:
        EOFError: there is no object, and one breaks off.

    Example:
        >>> values('<think>{"flows": ["B"]} or {</think>{"flows": ["A"]}')
        [{'flows': ['B']}, {'flows': ['A']}]
        >>> values('<think>or {</think>"[\\\\"A\\\\"]"')
        [['A']]
        >>> values('<think>{"flows": ["B"]}</think> None.')
        []
    """
    text = text.removeprefix("\ufeff").strip()
    thoughtless = _THOUGHT.sub("", text, count=1)
    for part in (text, thoughtless):
        value = parsed(_FENCE.sub("", part))
        if isinstance(value, str) and encodings:
            return values(value, encodings=encodings - 1)
        if isinstance(value, dict | list):
            return [value]
        if part is text:
            # An object that ends the text is no thought, and tags in it are texts of the answer.
            with contextlib.suppress(EOFError):
                found, rest = _objects(text)
                if found and not rest.strip(_AROUND):
                    return found
    found, rest = _objects(thoughtless)
    begin, end = ("{", "}") if "{" in rest else ("[", "]")
    last = parsed(rest[rest.find(begin) : rest.rfind(end) + 1])
    return [*found, last] if isinstance(last, dict | list) else found


def _objects(text: str) -> tuple[list[Any], str]:
    """The JSON objects of a text, and what follows the last one.

    Raises:
        EOFError: there are none, and one breaks off.
    """
    found, position, end = [], 0, 0
    for _ in range(_MOST_OBJECTS):
        if (begin := _OBJECT.search(text, position)) is None:
            break
        try:
            data, end = _DECODER.raw_decode(text, begin.start())
            found.append(data)
            position = end
        except json.JSONDecodeError as error:
            if error.pos >= len(text) or error.msg.startswith("Unterminated"):
                if found:
                    break
                raise EOFError from None
            position = begin.end()
        except RecursionError:
            break
    return found, text[end:]


def parsed(text: str) -> Any:
    """The value of a JSON text, trailing commas forgiven, or of a Python literal; None where it is neither."""
    # Texts in quotation marks are stepped over: a comma before a brace in them belongs to the answer.
    without_commas = _TRAILING.sub(lambda match: match[1] or "", text)
    for attempt in (text, without_commas):
        with contextlib.suppress(ValueError):
            return from_json(attempt)
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError, TypeError):
        return None


A = TypeVar("A", bound=BaseModel)

START = StartFlow.name_of_kind()

ALIASES = "ABCDEFGH"
"""Short names of the candidate flows of a prompt, by position."""

_WRAPPERS = ("answer", "final_answer", "response", "result", "output")
"""Keys under which a model may put the whole answer, as an object or as its JSON."""
_WRAPPINGS = 3

if TYPE_CHECKING:
    CommandKind = str
else:
    # A choice among the kinds there are; only type checkers want it spelt out.
    CommandKind = Literal[tuple(KINDS)]


def _clamped(score: Any) -> float:
    """Hold a finite score in [-1, 1]; words, booleans, NaN and infinities are no scores."""
    if isinstance(score, bool) or not isinstance(score, int | float):
        raise ValueError("not a number")
    if isinstance(score, float) and not math.isfinite(score):
        raise ValueError("not a finite number")
    # Compared before it becomes a float: a whole number may be too large for one.
    return float(min(1, max(-1, score)))


def _said(text: str) -> str:
    if not text.strip():
        raise ValueError("the text is empty")
    return text


class _Answer(BaseModel):
    # Strict: "false" is no truth value, null is no text, and a text is no list of letters.
    model_config = ConfigDict(strict=True, extra="ignore", frozen=True, allow_inf_nan=False)


class EntityAnswer(_Answer):
    """Something named in the message. A bare text is its name."""

    name: str = Field(min_length=1)
    attributes: list[str] = Field(default_factory=list)

    @model_validator(mode="before")
    @classmethod
    def _named(cls, data: Any) -> Any:
        return {"name": data} if isinstance(data, str) else data


class CommandAnswer(_Answer):
    """One command on slots, on the flow stack, or about the talk itself; or a flow to start, by its letter.

    Written as an object, as its bare kind, or with the kind as the key of its name.

    Example:
        >>> [CommandAnswer.model_validate(each).name for each in ({"set_slot": "size", "value": "XL"}, "ask", "B")]
        ['size', None, 'B']
    """

    type: CommandKind
    name: str | None = None
    value: str | int | float | bool | list[str] | None = None

    @model_validator(mode="before")
    @classmethod
    def _spelt_out(cls, data: Any) -> Any:
        if isinstance(data, str):
            # A letter starts its flow.
            return {"type": data} if data in KINDS else {"type": START, "name": data}
        if not isinstance(data, dict) or "name" in data:
            return data
        kind = data.get("type") or next(iter(data), None)
        # What it names may stand under the kind, or as a flow.
        return {"type": kind, "name": data.get(kind, data.get("flow")), **data} if kind in KINDS else data

    def written(self) -> Any:
        """The shortest way to write it, which is the one that prompts ask for."""
        if self.name is None and self.value is None:
            return self.type
        if self.type == START:
            return self.name
        return {self.type: self.name} | ({} if self.value is None else {"value": self.value})


class EnhancementAnswer(_Answer):
    """Answer to EnhanceMessage."""

    enhanced_query: Annotated[str, Field(min_length=1), AfterValidator(_said)]
    sentiment_score: Annotated[float, BeforeValidator(_clamped)]
    intent: str
    entities: list[EntityAnswer]
    is_cancellation: bool
    is_continuation: bool


class SelectionAnswer(_Answer):
    """Answer to SelectFlows: aliases, in order; none at all where no flow fits."""

    flows: list[str]


class UnderstandingAnswer(_Answer):
    """Answer to UnderstandMessage."""

    commands: list[CommandAnswer]


class DecisionAnswer(EnhancementAnswer, SelectionAnswer, UnderstandingAnswer):
    """Answer to DecideTurn: all three in one."""


@functools.cache
def only(model: type[BaseModel], fields: tuple[str, ...]) -> type[BaseModel]:
    """An answer of which only some fields are asked; what else it holds is not looked at.

    Example:
        >>> read_answer(only(DecisionAnswer, ("flows",)), '{"flows": []}').model_dump()
        {'flows': []}
    """
    if set(fields) >= set(model.model_fields):
        return model
    kept: dict[str, Any] = {n: (f.annotation, f) for n, f in model.model_fields.items() if n in fields}
    return create_model(model.__name__, __base__=_Answer, **kept)


def read_answer(model: type[A], text: str, error: type[AnswerError] = AnswerError) -> A:
    """Read a model's text as an answer.

    Recovered: code fences, prose around the object, reasoning before it (in tags or not), dictionaries written as in
    Python, trailing commas, keys too many, an answer encoded twice or wrapped in ``{"answer": …}``. Of several
    objects that have the model's fields the last is the answer. A selection may also be a bare list of texts.
    Everything else is refused: no object, a truncated one, a missing key, a value of another type.

    Raises:
        AnswerError: or the subclass given as ``error``; names what is wrong.

    Example:
        >>> read_answer(SelectionAnswer, "Sure! ```json\\n{'flows': ['B',],}\\n```").flows
        ['B']
        >>> read_answer(SelectionAnswer, '```json\\n["B", "A"]\\n```').flows
        ['B', 'A']
        >>> read_answer(SelectionAnswer, '{"answer": "{\\\\"flows\\\\": []}"}').flows
        []
        >>> read_answer(SelectionAnswer, '<think>{"flows": ["B"]}?</think>{"flows": ["A"]}').flows
        ['A']
    """
    data = _object(model, text, error)
    try:
        return model.model_validate(data)
    except ValidationError as problem:
        first = problem.errors()[0]
        field = ".".join(str(part) for part in first["loc"])
        refusal = error(
            f"The answer does not fit: {first['msg']}", where=f"field {field}",
            remedy="Ask again, or use a language model that follows a schema.",
        )  # fmt: skip
        refusal.readable, refusal.refused = _readable(model, data, problem)
        raise refusal from problem


def _readable(
    model: type[BaseModel], data: dict[str, Any], problem: ValidationError
) -> tuple[dict[str, Any], dict[str, str]]:
    """The fields that fit, and for each other field why not; neither where a field is missing or none fits."""
    reasons: dict[str, str] = {}
    for each in problem.errors(include_input=False, include_url=False):
        reasons.setdefault(str(each["loc"][0]), str(each["msg"]))
    fitting = tuple(name for name in model.model_fields if name not in reasons)
    if not fitting or not model.model_fields.keys() <= data.keys():
        return {}, {}
    fields = only(model, fitting).model_validate(data)
    return {name: getattr(fields, name) for name in fitting}, reasons


def _object(model: type[BaseModel], text: str, error: type[AnswerError]) -> dict[str, Any]:
    try:
        candidates = values(text)
    except EOFError:
        raise error(
            "The answer breaks off", where=f"character {len(text.strip())}", remedy="Allow more tokens."
        ) from None
    listed = candidates[-1] if candidates else None
    if (
        model is SelectionAnswer
        and isinstance(listed, list)
        and all(isinstance(each, str) for each in listed)
    ):
        return {"flows": listed}
    if not (found := [each for each in candidates if isinstance(each, dict)]):
        raise error(
            "The answer has no JSON object", where=f"text of {len(text.strip())} characters",
            remedy="Ask again.",
        )  # fmt: skip
    # Drafts and forms come before the answer.
    unwrapped = [_unwrapped(data, model.model_fields.keys()) for data in found]
    return ([data for data in unwrapped if model.model_fields.keys() <= data.keys()] or found)[-1]


def _unwrapped(data: dict[str, Any], fields: Collection[str]) -> dict[str, Any]:
    """The object inside of ``{"answer": …}`` and the like; the object itself where it has a field of the answer."""
    for _ in range(_WRAPPINGS):
        if not data.keys().isdisjoint(fields):
            break
        named = [value for name, value in data.items() if name.casefold() in _WRAPPERS]
        inner = named[-1] if named else None
        if isinstance(inner, str):
            with contextlib.suppress(EOFError):
                inner = next(reversed(values(inner)), None)
        if not isinstance(inner, dict):
            break
        data = inner
    return data
