"""A record of ours in two parts: what jazzmine has a field for, and the rest; and the two put together again.

The rest is kept as nodes, one for each record that has any: ``own`` are fields that jazzmine does not have,
``over`` fields whose value it can't tell apart from another, each as ``[what its value reads as, ours]``.
The other way about, what jazzmine holds and we can't is carried in the record under :data:`CARRIED`, as
``field: [how ours would be written, theirs]``, both as JSON text, and is written back while ours stays.
"""

from __future__ import annotations

import json
import math
from typing import Any

from pydantic import ValidationError
from pydantic_core import from_json

from jazzmine_dspy.integrations.jazzmine.working_memory._kinds import STATUSES, Json, Kind, has_ended

CARRIED = "jazzmine"
Node = dict[str, Any]

_AROUND = 16
"""Levels of a record around a value, at most and with some to spare."""
_DEEPEST = 200
"""Levels at which readers of JSON give up."""


class MisshapenError(ValueError):
    """Something is no record where one should be."""


def split(kind: Kind, ours: Json, spent: list[str]) -> tuple[Json, Node]:
    """A record of ours, complete and as JSON, in two: theirs, and the node of the rest, empty if none is.

    What was carried for jazzmine and is no longer its value is taken out of ``ours``, and named in ``spent``.
    """
    if kind.alike and ours.keys() == kind.known:
        return ours, {}
    parts: Json = {}
    nodes: Json = {}
    for name, of in kind.one.items():
        parts[name] = None
        if ours.get(name) is not None:
            parts[name], node = split(of, ours[name], spent)
            if node or has_ended(parts[name]):
                # That there is a node says that one which has ended is ours.
                nodes[name] = node
    for name, of in kind.many.items():
        pairs = [split(of, item, spent) for item in ours[name]]
        parts[name] = [theirs for theirs, _ in pairs]
        if found := [[number, node] for number, (_, node) in enumerate(pairs) if node]:
            nodes[name] = found
    for name, of in kind.named.items():
        named = {key: split(of, item, spent) for key, item in ours[name].items()}
        parts[name] = {key: theirs for key, (theirs, _) in named.items()}
        if by_key := {key: node for key, (_, node) in named.items() if node}:
            nodes[name] = by_key
    special = kind.to_theirs(ours)
    theirs = {name: parts.get(name, special.get(name, ours.get(name))) for name in kind.fields}
    for name, (canonical, original) in list(ours.get(CARRIED, {}).items()):
        if theirs.get(name) == json.loads(canonical):
            theirs[name] = json.loads(original)
        else:
            del ours[CARRIED][name]
            spent.append(name)
    if not ours.get(CARRIED, True):
        del ours[CARRIED]
    return theirs, _node(kind, ours, theirs, nodes)


def _node(kind: Kind, ours: Json, theirs: Json, nodes: Json) -> Node:
    own = {
        name: value
        for name, value in ours.items()
        if name not in kind.known
        and name != CARRIED
        and not (name in kind.defaults and kind.defaults[name] == value)
    }
    back = kind.to_ours(theirs)
    over = {name: [value, ours[name]] for name, value in back.items() if value != ours[name]}
    node = {name: content for name, content in (("own", own), ("over", over), ("parts", nodes)) if content}
    return {"id": _identity(kind, theirs), **node} if node else {}


def _identity(kind: Kind, theirs: Json) -> list[Any]:
    return [theirs.get(name) for name in kind.identity]


def join(kind: Kind, theirs: Any, node: Node | None, *, same: bool, lenient: bool) -> Json:
    """A record of theirs and the rest of ours, put together.

    Args:
        same: The rest was written with this very record; else it is joined where it still fits.
        lenient: Show what ours can't hold as the field's default, and carry it.

    Raises:
        MisshapenError: something in ``theirs`` is no record, or holds what nothing may take the place of.
    """
    if not isinstance(theirs, dict):
        raise MisshapenError(f"a {type(theirs).__name__} in place of a {kind.model.__name__}")
    if kind.alike and not node and not lenient and theirs.keys() <= kind.known:
        return theirs
    if node is not None and not same and node.get("id") != _identity(kind, theirs):
        node = None
    ours: Json = {name: theirs[name] for name in kind.fields if name in theirs}
    nodes = node.get("parts", {}) if node else {}
    for name, of in kind.one.items():
        whole = theirs.get(name) or None
        if has_ended(whole) and not (same and name in nodes):
            whole = None
        ours[name] = None if whole is None else join(of, whole, nodes.get(name), same=same, lenient=lenient)
    for name, of in kind.many.items():
        items = _of_type(list, theirs.get(name, []), name)
        found = _by_number(of, items, nodes.get(name, []), same)
        ours[name] = [
            join(of, item, found.get(n), same=same, lenient=lenient) for n, item in enumerate(items)
        ]
    for name, of in kind.named.items():
        by_key = nodes.get(name, {})
        ours[name] = {
            _text(key, name): join(of, item, by_key.get(key), same=same, lenient=lenient)
            for key, item in _of_type(dict, theirs.get(name, {}), name).items()
        }
    ours.update(kind.to_ours(theirs))
    for name in kind.known - kind.model.model_fields.keys():
        ours.pop(name, None)
    if carried := _carried(kind, theirs, ours, _mended(kind, ours) if lenient else set()):
        ours[CARRIED] = carried
    if node:
        for name, (then, now) in node.get("over", {}).items():
            if ours.get(name) == then:
                ours[name] = now
        ours.update(node.get("own", {}))
    return ours


def _of_type(wanted: type[Any], value: Any, name: str) -> Any:
    if not isinstance(value, wanted):
        raise MisshapenError(f"{name} is a {type(value).__name__}")
    return value


def _text(key: str, name: str) -> str:
    if not _comes_back(key):
        raise MisshapenError(f"a name in {name} is no text")
    return key


def _by_number(kind: Kind, items: list[Any], nodes: list[Any], same: bool) -> dict[int, Node]:
    """The nodes of a list by the number of their item; jazzmine may have taken some away or put some in."""
    if same:
        return dict(nodes)
    found: dict[int, Node] = {}
    for _, node in nodes:
        fitting = (
            number
            for number, item in enumerate(items)
            if number not in found and isinstance(item, dict) and _identity(kind, item) == node.get("id")
        )
        if (number := next(fitting, None)) is not None:
            found[number] = node
    return found


def _carried(kind: Kind, theirs: Json, ours: Json, mended: set[str]) -> dict[str, list[str]]:
    special = kind.to_theirs({**kind.defaults, **ours})
    carried = {}
    for name, original in theirs.items():
        if name not in kind.known:
            carried[name] = ["null", json.dumps(original)]
            continue
        if name in kind.parts:
            canonical = None if has_ended(original) and ours.get(name) is None else original
        else:
            canonical = special.get(name, ours.get(name, original))
        if name == "status" and "active_flow" in kind.parts and original not in STATUSES:
            continue  # jazzmine can't read it either; what follows from the rest heals it
        if name in mended or canonical != original:
            carried[name] = [json.dumps(canonical), json.dumps(original)]
    return carried


def _mended(kind: Kind, ours: Json) -> set[str]:
    """Put a default in the place of what our model refuses; the names of the fields."""
    mended = {
        name
        for name in kind.model.model_fields
        if name in ours and name not in kind.parts and not _comes_back(ours[name])
    }
    for name in mended:
        if name in kind.strict:
            raise MisshapenError(f"{name} holds what cannot be stored")
        ours[name] = _storable(ours[name])
    whole = {name: value for name, value in ours.items() if name not in kind.parts}
    try:
        kind.model.model_validate(whole)
    except ValidationError as error:
        for details in error.errors(include_url=False, include_context=False, include_input=False):
            name = str(details["loc"][0]) if details["loc"] else ""
            known = name in kind.fallback or name in kind.defaults
            if name in ours and known and name not in kind.strict:
                ours[name] = kind.fallback.get(name, kind.defaults.get(name))
                mended.add(name)
    return mended


def _comes_back(value: Any) -> bool:
    """Whether a value of JSON as Python reads it can be stored and read again: no NaN, no half of a surrogate pair,
    not nested so deep that readers of JSON give up."""
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
        from_json(b"[" * _AROUND + text + b"]" * _AROUND)
    except (ValueError, RecursionError):
        return False
    return True


def _storable(value: Any, around: int = _AROUND) -> Any:
    """A value that does not come back, with what keeps it from it put right; it is None from where it is too deep."""
    if isinstance(value, dict | list) and around == _DEEPEST:
        return None
    if isinstance(value, dict):
        return {_storable(name): _storable(item, around + 1) for name, item in value.items()}
    if isinstance(value, list):
        return [_storable(item, around + 1) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return value
