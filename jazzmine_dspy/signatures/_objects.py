"""The objects that a language model's text holds as its answer: what it thought before is no part of it."""

from __future__ import annotations

import ast
import contextlib
import json
import re
from collections.abc import Iterator
from typing import Any

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
                end = next(_ends(text, position, place["tag"]), None)
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


def _ends(text: str, start: int, tag: str) -> Iterator[int]:
    """Where tags end that close the one of this name."""
    for closing in _END.finditer(text, start):
        if tag.lower() in closing[0].lower():
            yield closing.end()


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
