"""Named things that can be added from outside: ours by importing them, a user's by decorator or entry point."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import EntryPoint, entry_points
from types import ModuleType
from typing import Any, TypeVar

from jazzmine_dspy.models.base import log
from jazzmine_dspy.models.errors import ExtensionError

T = TypeVar("T")

_NAME = re.compile(r"[a-z][a-z0-9_.-]{0,63}")
_OURS = "jazzmine_dspy."


class Extensions(Mapping[str, T]):
    """What is registered under a name, in this process or by an installed package.

    The first look-up reads which entry points of the group are installed. The module that an entry point names is
    imported when its name is looked up. A package that cannot be used raises when its name is looked up, and
    disturbs no other name: a name of ours stays ours, and a warning names the package that offers it too.

    Args:
        what: What is registered, in the singular, for errors.
        group: Group of entry points that packages offer theirs in.
        check: Turns what is added under a name into what is kept; a ``ValueError`` says why it cannot be used.

    Raises:
        KeyError: nothing has the name.
        ExtensionError: a name is taken twice or cannot be one, or what stands behind it cannot be used.

    Example:
        >>> greetings = Extensions("greeting", "example.greetings", lambda name, thing: str(thing))
        >>> greetings.add("hello", "Good day", origin="example.Hello")
        >>> list(greetings), greetings["hello"]
        (['hello'], 'Good day')
    """

    def __init__(self, what: str, group: str, check: Callable[[str, Any], T]) -> None:
        self.what = what
        self.group = group
        self._check = check
        self._values: dict[str, T] = {}
        self._origins: dict[str, str] = {}
        self._loaded: set[str] = set()

    def add(self, name: str, thing: Any, *, origin: str) -> None:
        """Register a thing.

        Args:
            name: Lower-case letters, digits, ``_``, ``.`` and ``-``; the first is a letter.
            thing: What ``check`` accepts.
            origin: Where it is defined, such as ``acme.types.Postcode``. The same origin may register again: a
                cell of a notebook is run twice.

        Raises:
            ExtensionError: see the class.
        """
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise ExtensionError(
                f"{name!r} cannot be the name of a {self.what}",
                where=origin,
                remedy="Use up to 64 lower-case letters, digits, '_', '.' and '-', and begin with a letter.",
            )
        if self._origins.get(name, origin) != origin:
            raise self._taken(name, self._origins[name], origin)
        try:
            self._values[name] = self._check(name, thing)
        except ValueError as error:
            raise ExtensionError(
                f"The {self.what} {name!r} cannot be used: {error}",
                where=origin,
                remedy="docs/guide/extending.md shows what it must have.",
            ) from error
        self._origins[name] = origin

    def __getitem__(self, name: str) -> T:
        points = self._points.get(name, [])
        if other := next((point for point in points if point.value != points[0].value), None):
            raise self._taken(name, _place(points[0]), _place(other))
        if points and name not in self._loaded:
            self._load(points[0])
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        ours = [name for name, origin in self._origins.items() if origin.startswith(_OURS)]
        return iter([*ours, *sorted({*self._values, *self._points} - set(ours))])

    def __len__(self) -> int:
        return len({*self._values, *self._points})

    @functools.cached_property
    def _points(self) -> dict[str, list[EntryPoint]]:
        """The entry points of installed packages by name, without those that would take a name of ours."""
        points: dict[str, list[EntryPoint]] = {}
        for point in entry_points(group=self.group):
            if (origin := self._origins.get(point.name, "")).startswith(_OURS):
                log.warning("%s", self._taken(point.name, origin, _place(point)))
            else:
                points.setdefault(point.name, []).append(point)
        return points

    def _load(self, point: EntryPoint) -> None:
        # Marked first: the module may itself look the name up, once it has registered it.
        self._loaded.add(point.name)
        try:
            thing = point.load()
            if not isinstance(thing, ModuleType):
                # A decorated class is there already, under the same origin.
                if self._values.get(point.name) is not thing:
                    named = hasattr(thing, "__qualname__")
                    origin = (
                        f"{thing.__module__}.{thing.__qualname__}" if named else point.value.replace(":", ".")
                    )
                    self.add(point.name, thing, origin=origin)
            elif point.name not in self._values:
                raise ValueError(f"importing {point.value} registers no {self.what} of this name")
        except Exception as error:
            self._loaded.discard(point.name)
            if isinstance(error, ExtensionError):
                raise
            raise ExtensionError(
                f"The {self.what} {point.name!r} cannot be loaded: {type(error).__name__}: {error}",
                where=_place(point),
                remedy="Fix the package that offers it, or uninstall it.",
            ) from error

    def _taken(self, name: str, first: str, second: str) -> ExtensionError:
        ours = " of jazzmine-dspy itself" if first.startswith(_OURS) else ""
        return ExtensionError(
            f"The name {name!r} is taken twice: there is a {self.what}{ours} in {first}, and one in {second}",
            where=second,
            remedy=f"Give the {self.what} another name.",
        )


def _place(point: EntryPoint) -> str:
    package = f" of {point.dist.name}" if point.dist is not None else ""
    return f"entry point {point.value}{package}"
