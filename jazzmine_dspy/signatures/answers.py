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
)

from jazzmine_dspy.models.commands import UNDERSTOOD
from jazzmine_dspy.models.errors import AnswerError

_THOUGHT = r"think(?:ing)?|thoughts?|reason(?:ing)?|reflection|analysis|scratchpad|seed:think"
_PLACES = re.compile(
    # An object begins with a key or is empty; other braces are prose.
    r"(?P<object>\{(?=\s*[\"'}]))"
    rf"|[<\[◁]\s*(?P<end>/?)\s*(?P<tag>{_THOUGHT})\b[^<>\[\]◁▷]*[>\]▷]",
    re.I,
)
_END = re.compile(rf"[<\[◁]\s*/\s*(?:{_THOUGHT})\s*[>\]▷]", re.I)
_NESTED = re.compile(r"(?:[\"']\s{0,9}:|\[|\}\s{0,9},)\s{0,99}\Z")
_AFTER = re.compile(r"(?:\s|`|</\w+>|<\|\w+\|>)*\Z")
_TRAILING = re.compile(r'("(?:[^"\\]|\\.)*")|,(?=\s*[}\]])', re.S)
_BRACKET = re.compile(r"[\[{]")
_UNCLOSED = 8
"""Objects that begin and never close, which are stepped over before a text is given up."""


def objects(text: str) -> list[dict[str, Any]]:
    """The readable objects of a text outside of reasoning, in their order.

    Reasoning is what stands in tags for it (``<think>``, ``[THINK]``), what stands before a closing tag alone, and
    after an opening tag that never closes all but an object that ends the text.

    Raises:
        EOFError: there are none, and one breaks off.

    Example:
        >>> objects('<think>{"flows": ["B"]} or {</think>{"flows": ["A"]}')
        [{'flows': ['A']}]
    """
    whole = text.strip()
    if whole.startswith("{") and _closing(whole, 0) == len(whole):
        # Nothing stands around it: tags in it are texts of the answer.
        alone = parsed(whole)
        if isinstance(alone, dict):
            return [alone]
    found, broken = _scanned(whole)
    if not found:
        # A brace or a quotation mark in the reasoning may have swallowed the tag that ends it.
        *_, last = [0, *(tag.end() for tag in _END.finditer(whole))]
        if last:
            found, broken = _scanned(whole[last:])
    if not found and broken:
        raise EOFError
    return found


def texts(text: str) -> list[str] | None:
    """The last list of texts that a text holds outside of reasoning; None where it holds none.

    Example:
        >>> texts('<think>["B"]?</think>```json\\n["A", "C"]\\n```'), texts("[1]"), texts("[see below]")
        (['A', 'C'], None, None)
    """
    *_, start = [0, *(tag.end() for tag in _END.finditer(text))]
    found, position, unclosed = None, start, 0
    while unclosed < _UNCLOSED and (bracket := _BRACKET.search(text, position)):
        place, end = bracket.start(), _closing(text, bracket.start())
        if end is None:
            unclosed, position = unclosed + 1, place + 1
            continue
        # What lies inside of an unreadable object is no answer.
        data, position = parsed(text[place:end]) if bracket[0] == "[" else None, end
        if isinstance(data, list) and all(isinstance(each, str) for each in data):
            found = data
    return found


def _scanned(text: str) -> tuple[list[dict[str, Any]], bool]:
    """The objects, and whether one begins and never closes."""
    found: list[dict[str, Any]] = []
    open_thought, unclosed, position = False, 0, 0
    while place := _PLACES.search(text, position):
        position = place.end()
        if place["tag"]:
            if place["end"]:
                # The tag that opens it may stand in the prompt.
                found, open_thought, unclosed = [], False, 0
            elif not place[0].rstrip(">]▷").endswith("/"):
                closings = _END.finditer(text, position)
                same = (each.end() for each in closings if place["tag"].lower() in each[0].lower())
                end = next(same, None)
                open_thought, position = (True, position) if end is None else (False, end)
            continue
        end = _closing(text, place.start())
        if end is None:
            unclosed += 1
            if unclosed == _UNCLOSED:
                break
            continue
        if unclosed and _NESTED.search(text, max(0, place.start() - 120), place.start()):
            # What lies inside of an object that breaks off is no answer of its own, nor is its rest.
            position = end
            continue
        # Nor is what lies inside of an unreadable one.
        position = end
        data = parsed(text[place.start() : end])
        if isinstance(data, dict) and not (open_thought and not _AFTER.match(text, end)):
            found.append(data)
    return found, bool(unclosed) or open_thought


def _closing(text: str, start: int) -> int | None:
    """The place after the brace that closes the object at ``start``; None where it never closes."""
    depth, quote, position = 0, "", start
    while position < len(text):
        letter = text[position]
        if quote:
            if letter == "\\":
                position += 1
            elif letter == quote:
                quote = ""
        elif letter == '"' or (letter == "'" and text[position - 1] in "{[,: \n"):
            quote = letter
        elif letter in "{[":
            depth += 1
        elif letter in "}]":
            depth -= 1
            if depth == 0:
                return position + 1
        position += 1
    return None


def decoded(text: str) -> str:
    """The text inside of a JSON string, where that is all the answer: some models encode their JSON twice,
    or more often.

    Example:
        >>> decoded('"{\\\\"flows\\\\": []}"')
        '{"flows": []}'
    """
    *_, start = [0, *(tag.end() for tag in _END.finditer(text))]
    alone = (
        text[start:]
        .strip()
        .removeprefix("\ufeff")
        .removeprefix("```json")
        .removeprefix("```")
        .removesuffix("```")
        .strip()
    )
    if alone.startswith('"') and alone.endswith('"'):
        with contextlib.suppress(ValueError):
            return decoded(json.loads(alone))
    return text


def parsed(text: str) -> Any:
    """The value of a JSON text, trailing commas forgiven, or of a Python literal; None where it is neither."""
    # Texts in quotation marks are stepped over: a comma before a brace in them belongs to the answer.
    without_commas = _TRAILING.sub(lambda match: match[1] or "", text)
    for attempt in (text, without_commas):
        try:
            return json.loads(attempt)
        except ValueError:
            continue
        except RecursionError:
            return None
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError, TypeError):
        return None


A = TypeVar("A", bound=BaseModel)

ALIASES = "ABCDEFGH"
"""Short names of the candidate flows of a prompt, by position."""

_WRAPPERS = ("answer", "final_answer", "response", "result", "output")
"""Keys under which a model may put the whole answer, as an object or as its JSON."""
_WRAPPINGS = 3

if TYPE_CHECKING:
    CommandKind = str
else:
    # A choice among the kinds there are; only type checkers want it spelt out.
    CommandKind = Literal[tuple(UNDERSTOOD)]


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
    """Something named in the message."""

    name: str = Field(min_length=1)
    attributes: list[str] = Field(default_factory=list)


class CommandAnswer(_Answer):
    """One command on slots, on the flow stack, or about the talk itself."""

    type: CommandKind
    name: str | None = None
    value: str | int | float | bool | list[str] | None = None


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
            remedy="Ask again, or use a language model that holds its answer to a schema.",
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
    text = decoded(text)
    try:
        found = objects(text)
    except EOFError:
        raise error(
            "The answer breaks off", where=f"character {len(text.strip())}", remedy="Allow more tokens."
        ) from None
    listed = texts(text) if not found and model is SelectionAnswer else None
    if listed is not None:
        return {"flows": listed}
    if not found:
        raise error(
            "The answer holds no JSON object", where=f"text of {len(text.strip())} characters",
            remedy="Ask again.",
        )  # fmt: skip
    # Drafts and forms come before the answer.
    unwrapped = [_unwrapped(data, model.model_fields.keys()) for data in found]
    fitting = [data for data in unwrapped if model.model_fields.keys() <= data.keys()]
    return (fitting or found)[-1]


def _unwrapped(data: dict[str, Any], fields: Collection[str]) -> dict[str, Any]:
    """The object inside of ``{"answer": …}`` and the like; the object itself where it has a field of the answer."""
    for _ in range(_WRAPPINGS):
        if not data.keys().isdisjoint(fields):
            break
        named = [value for name, value in data.items() if name.casefold() in _WRAPPERS]
        inner = named[-1] if named else None
        if isinstance(inner, str):
            with contextlib.suppress(EOFError):
                inner = next(reversed(objects(decoded(inner))), None)
        if not isinstance(inner, dict):
            break
        data = inner
    return data
