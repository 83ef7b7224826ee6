"""Who answers a stage: one source for each stage and kind, ours and those of other packages."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from jazzmine_dspy.models.decision import STAGES, SourceKind, Stage
from jazzmine_dspy.models.errors import InputError
from jazzmine_dspy.models.extensions import Extensions
from jazzmine_dspy.program.bindings import Bindings
from jazzmine_dspy.program.policy import Policy
from jazzmine_dspy.program.stage import Source

_KIND = re.compile(r"[a-z][a-z0-9_]{0,31}")

S = TypeVar("S", bound=type[Source[Any]])


def _checked(name: str, thing: Any) -> type[Source[Any]]:
    stage, _, kind = name.partition(".")
    if stage not in STAGES or not kind:
        raise ValueError(f"its name must be STAGE.KIND, the stage one of {', '.join(STAGES)}")
    if not _KIND.fullmatch(kind):
        raise ValueError(f"{kind!r} is no kind: use up to 32 lower-case letters, digits and '_'")
    if not (inspect.isclass(thing) and issubclass(thing, Source)):
        raise ValueError("it is no subclass of jazzmine_dspy.program.stage.Source")
    if inspect.isabstract(thing):
        raise ValueError("it has no method 'steps'")
    return thing


SOURCES: Extensions[type[Source[Any]]] = Extensions("source", "jazzmine_dspy.sources", _checked)
"""By ``STAGE.KIND``. A package offers its own as entry points of these names."""


def source(stage: Stage, kind: SourceKind) -> Callable[[S], S]:
    """Register a source, by which policies and recipes can name its kind in the order of that stage.

    Args:
        stage: The stage that it answers.
        kind: Its name in orders: lower-case letters, digits and ``_``. No other source of the stage may have it.

    Raises:
        ExtensionError: the stage is unknown, the kind is taken, or the class is no source.

    Example:
        >>> from jazzmine_dspy.program.stage import Answer
        >>> @source("understand", "silence")
        ... class Silence(Source):
        ...     def steps(self, context):
        ...         yield from ()
        ...         return Answer([], confidence=0.9)
        >>> SOURCES["understand.silence"].__name__
        'Silence'
    """

    def register(made: S) -> S:
        SOURCES.add(f"{stage}.{kind}", made, origin=f"{made.__module__}.{made.__qualname__}")
        return made

    return register


def sources_of(
    stage: Stage, bindings: Bindings, policy: Policy
) -> list[tuple[SourceKind, Callable[[], Source[Any]]]]:
    """The kinds of a stage's sources, in the policy's order, each with what makes the source when it is asked."""

    def made(kind: SourceKind) -> Source[Any]:
        return SOURCES[f"{stage}.{kind}"](stage, kind, bindings, policy)

    return [(kind, partial(made, kind)) for kind in policy.orders[stage]]


def check_orders(policy: Policy) -> None:
    """See that there is a source for every kind that a policy names.

    Raises:
        InputError: an order is missing, names a source that nobody registered or one twice, or does not end with the
            floor.
        ExtensionError: a source of another package cannot be loaded.
    """
    for stage in STAGES:
        order, where = policy.orders.get(stage, ()), f"orders.{stage}"
        for kind in order:
            if f"{stage}.{kind}" not in SOURCES:
                known = sorted(name.partition(".")[2] for name in SOURCES if name.startswith(f"{stage}."))
                raise InputError(
                    f"The policy names the source {kind!r}, which nobody registered for the stage {stage!r}",
                    where=where,
                    remedy=f"Use one of {', '.join(known)}, or install the package that has it.",
                )
        if not order or order[-1] != "floor" or len(set(order)) != len(order):
            raise InputError(
                f"The order of the stage {stage!r} does not end with the floor, or names a source twice",
                where=where,
                remedy="Name each source once, 'floor' last: it always answers.",
            )


def identity_of(policy: Policy) -> list[list[str]]:
    """What tells the sources of a policy apart from others of the same names."""
    named = [(f"{stage}.{kind}") for stage, order in policy.orders.items() for kind in order]
    found = [(name, SOURCES[name]) for name in named]
    return [[name, made.__module__, made.__qualname__, made.fingerprint] for name, made in found]
