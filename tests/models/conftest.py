"""Every model of `jazzmine_dspy.models`, and a hypothesis strategy for each, read off its fields."""

from __future__ import annotations

import datetime as dt
import enum
import importlib
import pkgutil
import types
import typing
from collections.abc import Callable
from typing import Any

import annotated_types
import pytest
from hypothesis import strategies as st
from pydantic import BaseModel

import jazzmine_dspy.models as models
from jazzmine_dspy.models.base import FrozenMap, JsonData, Record, Value
from jazzmine_dspy.models.flows import Flow, Slot
from jazzmine_dspy.models.slots import SLOT_TYPES
from jazzmine_dspy.models.turn import Turn

SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
)
JSON = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
MAPPINGS = st.dictionaries(st.text(), JSON, max_size=4)


def every_model() -> list[type[BaseModel]]:
    found: dict[str, type[BaseModel]] = {}
    for info in pkgutil.iter_modules(models.__path__):
        module = importlib.import_module(f"{models.__name__}.{info.name}")
        for name, member in vars(module).items():
            here = isinstance(member, type) and member.__module__ == module.__name__
            # NLUContext is a turn without its message, and is stored nowhere.
            stored = here and name != "NLUContext"
            if stored and issubclass(member, BaseModel) and member.model_fields:
                found[name] = member
    return list(found.values())


MODELS = every_model()


def strategy(annotation: Any, metadata: typing.Sequence[Any] = ()) -> st.SearchStrategy[Any]:
    """Values in their JSON form or as Python objects, whichever comes first."""
    origin, args = typing.get_origin(annotation), typing.get_args(annotation)
    if annotation == JsonData or annotation is Any:
        return JSON
    if origin is typing.Annotated:
        # A bound may stand by itself or in a field's.
        return strategy(args[0], [bound for each in args[1:] for bound in getattr(each, "metadata", [each])])
    if origin in (types.UnionType, typing.Union):
        return st.one_of(*(strategy(arg, metadata) for arg in args))
    if origin is typing.Literal:
        return st.sampled_from(args)
    if origin is list or (origin is tuple and args[-1:] == (...,)):
        return st.lists(strategy(args[0]), max_size=3)
    if origin is tuple:
        return st.tuples(*(strategy(arg) for arg in args))
    if origin is dict:
        return st.dictionaries(strategy(args[0]), strategy(args[1]), max_size=3)
    if annotation is FrozenMap:
        return MAPPINGS
    if annotation is type(None):
        return st.none()
    if isinstance(annotation, type) and issubclass(annotation, enum.Enum):
        return st.sampled_from(list(annotation))
    if isinstance(annotation, type) and issubclass(annotation, tuple):  # a named one
        return st.builds(annotation, *(strategy(hint) for hint in typing.get_type_hints(annotation).values()))
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return of_model(annotation)
    return _scalar(annotation, metadata)


def _scalar(annotation: Any, metadata: typing.Sequence[Any]) -> st.SearchStrategy[Any]:
    def bound(kind: type, name: str) -> Any:
        return next((getattr(one, name) for one in metadata if isinstance(one, kind)), None)

    low, high = bound(annotated_types.Ge, "ge"), bound(annotated_types.Le, "le")
    if annotation is bool:
        return st.booleans()
    if annotation is int:
        return st.integers(low, high)
    if annotation is float:
        return st.floats(low, high, allow_nan=False, allow_infinity=False)
    pattern = next((one.pattern for one in metadata if getattr(one, "pattern", None)), None)
    if annotation is str and pattern is not None:
        return st.from_regex(pattern, fullmatch=True)
    if annotation is str:
        least, most = bound(annotated_types.MinLen, "min_length"), bound(annotated_types.MaxLen, "max_length")
        return st.text(min_size=least or 0, max_size=min(most or 40, 40))
    if annotation is dt.date:
        return st.dates()
    raise NotImplementedError(f"no strategy for {annotation!r}")


def of_model(model: type[BaseModel]) -> st.SearchStrategy[Any]:
    return st.deferred(lambda: _of_model(model))


def _of_model(model: type[BaseModel]) -> st.SearchStrategy[Any]:
    fields = {
        name: strategy(field.annotation, field.metadata)
        for name, field in model.model_fields.items()
        if not (model is Flow and name in ("kind", "subflows", "condition_expr", "slots"))
    }
    # What a validator asks for beyond the types.
    if model is Slot:
        fields["type"] = st.sampled_from(list(SLOT_TYPES))
        fields["pattern"] = st.sampled_from([None, r"\d{4}", "A|B", r"[^\W\d]+"])
        ranged = st.sampled_from(
            [name for name, kind in SLOT_TYPES.items() if kind.ranged and not kind.ranged_in_words]
        )
        low, high = (st.none() | st.floats(*ends) for ends in ((-1e6, 0.0), (0.0, 1e6)))
        years, fields["year"] = fields["year"], st.none()
        within = st.builds(Slot, **fields | {"type": ranged, "min": low, "max": high})
        days = {
            "year": years,
            "min": st.none() | st.just("today"),
            "max": st.none() | st.dates(dt.date(2030, 1, 1)).map(str),
        }
        within |= st.builds(Slot, **fields | days | {"type": st.just("date")})
        fields |= {"min": st.none(), "max": st.none()}
        plain = st.builds(
            Slot, **fields | {"type": st.sampled_from([name for name in SLOT_TYPES if name != "choice"])}
        )
        options = st.lists(st.text(), min_size=1, max_size=3)
        return within | plain | st.builds(Slot, **fields | {"type": st.just("choice"), "options": options})
    if model is Turn:
        fields["text"] = st.text(min_size=1, max_size=200).filter(lambda text: bool(text.strip()))
    if model is Flow:
        fields["slots"] = st.lists(of_model(Slot), max_size=2, unique_by=lambda slot: slot.name)
        leaf = st.builds(Flow, **fields)
        parts = {"subflows": st.lists(leaf, min_size=1, max_size=2), "condition_expr": st.text(min_size=1)}
        kinds = st.sampled_from(["sequential", "parallel", "conditional"])
        return leaf | st.builds(Flow, **fields, **parts, kind=kinds)
    return st.builds(model, **fields)


@pytest.fixture
def values_of() -> Callable[[type[BaseModel]], st.SearchStrategy[Any]]:
    return of_model


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    chosen = {"model": MODELS, "record": [m for m in MODELS if issubclass(m, Record)],
              "value": [m for m in MODELS if issubclass(m, Value)]}  # fmt: skip
    for name, which in chosen.items():
        if name in metafunc.fixturenames:
            metafunc.parametrize(name, which, ids=lambda model: model.__name__)
