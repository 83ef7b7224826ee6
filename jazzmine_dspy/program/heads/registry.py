"""Kinds of heads: by stage and name, ours and those of other packages, so that an artefact can name what it holds."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, Self, TypeVar, cast, runtime_checkable

from jazzmine_dspy.models.decision import STAGES, Stage
from jazzmine_dspy.models.extensions import Extensions
from jazzmine_dspy.program.ports import HeadPort

if TYPE_CHECKING:
    from numpy.typing import NDArray

H = TypeVar("H", bound=type[Any])


class HeadState(NamedTuple):
    """All that a head knows: arrays of numbers by name, and the rest as JSON."""

    arrays: dict[str, NDArray[Any]]
    settings: dict[str, Any]


@runtime_checkable
class StoredHead(HeadPort[Any], Protocol):
    """A head that an artefact can hold.

    A class that can also be trained by a run has a class method ``train(examples, seed)``, which takes
    :class:`~jazzmine_dspy.program.ports.HeadExample` and returns a head.
    """

    def to_state(self) -> HeadState:
        """All that it knows; equal heads have equal states."""
        ...

    @classmethod
    def from_state(cls, state: HeadState) -> Self:
        """The inverse of :meth:`to_state`.

        Raises:
            ArtifactError: the state is of another format.
        """
        ...


def _checked(name: str, thing: Any) -> type[StoredHead]:
    stage, _, kind = name.partition(".")
    if stage not in STAGES or not kind:
        raise ValueError(f"its name must be STAGE.KIND, the stage one of {', '.join(STAGES)}")
    if not inspect.isclass(thing):
        raise ValueError("it is no class")
    methods = ("texts", "predict", "to_state", "from_state")
    if missing := [name for name in methods if not callable(getattr(thing, name, None))]:
        raise ValueError(f"it has no method {missing[0]!r}")
    return cast("type[StoredHead]", thing)


HEADS: Extensions[type[StoredHead]] = Extensions("head", "jazzmine_dspy.heads", _checked)
"""By ``STAGE.KIND``. A package offers its own as entry points of these names."""


def head(stage: Stage, kind: str) -> Callable[[H], H]:
    """Register a class of heads for a stage.

    Args:
        stage: The stage whose value it predicts.
        kind: Its name in artefacts and recipes.

    Raises:
        ExtensionError: the stage is unknown, the kind is taken, or a method is missing.
    """

    def register(made: H) -> H:
        HEADS.add(f"{stage}.{kind}", made, origin=f"{made.__module__}.{made.__qualname__}")
        return made

    return register
