"""Texts from outside to data: JSON, YAML and TOML, each by its library, with one error for all three."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import pydantic_core

FILE_BYTES = 256 * 2**20
"""Size of a file that is read whole, and of a line of a longer one."""


class MalformedError(ValueError):
    """A text from outside cannot be read; callers put it into an error of their own.

    Args:
        problem: What is wrong, without the place.
        line: Where, from 1; None where it is not known.
    """

    def __init__(self, problem: str, line: int | None = None) -> None:
        super().__init__(f"{problem} (line {line})" if line else problem)
        self.problem = problem
        self.line = line

    def at(self, path: str | Path) -> str:
        """The place in a file, as errors name it."""
        return f"{path}:{self.line}" if self.line else str(path)


def read_file(path: str | Path, *, limit: int = FILE_BYTES) -> str:
    """A whole UTF-8 file, with or without a byte-order mark.

    Raises:
        OSError: it cannot be opened or read.
        MalformedError: it is too large, or no UTF-8.
    """
    with Path(path).open("rb") as stream:
        data = stream.read(limit + 1)
    if len(data) > limit:
        raise MalformedError(f"larger than {limit:,} bytes")
    return _text(data)


def lines_of(path: str | Path, *, limit: int = FILE_BYTES) -> Iterator[tuple[int, bytes]]:
    """The lines of a file that are not blank, with their numbers from 1; memory holds one of them.

    Raises:
        OSError: it cannot be opened or read.
        MalformedError: a line is too long.
    """
    number = 0
    with Path(path).open("rb") as stream:
        while raw := stream.readline(limit + 1):
            number += 1
            if len(raw) > limit:
                raise MalformedError(f"the line has more than {limit:,} bytes", number)
            if raw.strip():
                yield number, raw


def from_json(text: str | bytes) -> Any:
    """Data of a JSON text, without NaN and infinity.

    Args:
        text: The text; bytes are UTF-8, with or without a byte-order mark.

    Raises:
        MalformedError: it is not JSON, or nested too deeply.

    Example:
        >>> from_json('{"a": [1, 2.5]}')
        {'a': [1, 2.5]}
    """
    decoded = (_text(text) if isinstance(text, bytes) else text).removeprefix("\ufeff")
    return _parsed(lambda: pydantic_core.from_json(decoded, allow_inf_nan=False))


def from_yaml(text: str) -> Any:
    """Data of a YAML text, by the safe loader.

    Raises:
        MalformedError: it is not YAML, or a mapping has a key twice, of which YAML would keep the last.

    Example:
        >>> from_yaml("flows: [a, b]")
        {'flows': ['a', 'b']}
    """
    return _parsed(lambda: _loader()(text).get_single_data())


@lru_cache(maxsize=1)
def _loader() -> Any:
    """The safe loader of PyYAML, without keys that stand twice."""
    import yaml

    class Loader(yaml.SafeLoader):
        def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
            names = [str(key.value) for key, _ in node.value]
            for place, (key, _) in enumerate(node.value):
                if names[place] in names[:place] and isinstance(key, yaml.ScalarNode):
                    problem = f"the key {key.value!r} stands twice"
                    raise yaml.constructor.ConstructorError(None, None, problem, key.start_mark)
            return super().construct_mapping(node, deep)

    return Loader


def yaml_line(text: str, path: Iterable[str | int]) -> int:
    """The line, from 1, of a value in a YAML text, or of the nearest value around it that there is.

    Args:
        text: YAML that :func:`from_yaml` reads.
        path: Keys, and places in lists from 0.

    Example:
        >>> yaml_line("flows:\\n- name: a\\n- name: b\\n  slots: []", ["flows", 1, "slots", 0, "type"])
        4
    """
    import yaml

    node, line = _nodes(text), 0
    for part in path:
        if isinstance(node, yaml.MappingNode):
            pair = next((pair for pair in node.value if pair[0].value == part), None)
        elif isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
            pair = (node.value[part], node.value[part])
        else:
            pair = None
        if pair is None:
            break
        line, node = pair[0].start_mark.line, pair[1]
    return int(line) + 1


@lru_cache(maxsize=1)
def _nodes(text: str) -> Any:
    """The nodes of a YAML text, made once for all errors of a file."""
    import yaml

    return yaml.compose(text, Loader=yaml.SafeLoader)


def from_toml(text: str) -> dict[str, Any]:
    """Data of a TOML text.

    Raises:
        MalformedError: it is not TOML.
    """
    return dict(_parsed(lambda: tomllib.loads(text)))


def _parsed(parse: Callable[[], Any]) -> Any:
    """What a parser returns; the many types that it raises on a malformed text become one."""
    try:
        return parse()
    except Exception as error:
        # PyYAML tells the place in a mark, the others in their message.
        if mark := getattr(error, "problem_mark", None):
            raise MalformedError(getattr(error, "problem", None) or "unreadable", mark.line + 1) from error
        place = re.search(r"\bline (\d+),? ", told := str(error) or type(error).__name__)
        if place is None:
            raise MalformedError(told) from error
        raise MalformedError(told.replace(place[0], ""), int(place[1])) from error


def _text(data: bytes) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise MalformedError(f"not UTF-8: {error.reason} at byte {error.start}", line) from None


def cache_folder() -> Path:
    """Where files of models are kept: `$JAZZMINE_CACHE_DIR`, else `jazzmine-dspy` in the user's cache."""
    if own := os.environ.get("JAZZMINE_CACHE_DIR"):
        return Path(own)
    home = os.environ.get("XDG_CACHE_HOME")
    return (Path(home) if home else Path.home() / ".cache") / "jazzmine-dspy"
