"""What a program is bound to at run time, and what prepares it for the first turn; none of it is saved."""

from __future__ import annotations

import importlib
import os
import threading
import time
import weakref
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, TypedDict, Unpack

import dspy

from jazzmine_dspy.lm.dspy_api import main_thread_config, select_backend, thread_local_overrides
from jazzmine_dspy.lm.engines import unwrap
from jazzmine_dspy.lm.native import configure_for_provider
from jazzmine_dspy.models.base import Shared, log
from jazzmine_dspy.models.decision import STAGES, Stage
from jazzmine_dspy.models.errors import InputError, format_error
from jazzmine_dspy.program.decision_cache import DecisionCache
from jazzmine_dspy.program.ports import EmbedderPort, HeadPort, RecallPort

BUILT_IN = ("local", "lm", "fallback")
"""Deciders that every program has."""


class Ports(TypedDict, total=False):
    """What can be bound, by name."""

    recall: RecallPort | None
    embedder: EmbedderPort | None
    heads: Mapping[Stage, HeadPort[Any] | None]
    deciders: Mapping[str, Any]
    lm: dspy.LM | None
    clock: Callable[[], float]
    cache: DecisionCache | None


@dataclass(frozen=True)
class Bindings(Shared):
    """What a program is bound to. Copying a program copies no client: ``__deepcopy__`` gives the same object."""

    recall: RecallPort | None = None
    embedder: EmbedderPort | None = None
    heads: Mapping[Stage, HeadPort[Any]] = field(default_factory=lambda: MappingProxyType({}))
    deciders: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    """Those of others, each a :class:`~jazzmine_dspy.program.decider.Decider`."""
    lm: dspy.LM | None = None
    clock: Callable[[], float] = time.monotonic
    dspy_lm: dspy.LM | None = None
    """The language model of DSPy's settings when ``lm`` was bound."""
    cache: DecisionCache | None = None
    pid: int = field(default_factory=os.getpid)
    """The process in which the parts were loaded."""

    def __reduce__(self) -> tuple[type[Bindings], tuple[()]]:
        if self != Bindings():
            raise InputError(
                "A program with bound parts (index, embedder, heads, language model) cannot be pickled",
                where="program.bindings",
                remedy="Use jazzmine_dspy.save(program, folder) and load(folder), or program.save('x.json').",
            )
        return Bindings, ()

    def lm_for(self, predictor: dspy.Predict | None = None) -> dspy.LM | None:
        """The language model that answers, by DSPy's settings at the time of the call; None where there is none.

        In this order: the predictor's own (``set_lm``), one of a ``dspy.context(lm=…)`` entered after ``bind``, the
        bound one, and the one of ``dspy.configure``. A context that names the configured model, or the one that was in
        force at ``bind``, does not replace the bound one: every ``dspy.context`` carries these on.

        Args:
            predictor: The predictor that is to ask; None where any of the program's may.
        """
        own = getattr(predictor, "lm", None)
        if own is not None or self.lm is None:
            return own or dspy.settings.lm
        entered = thread_local_overrides.get().get("lm")
        known = (None, self.dspy_lm, main_thread_config.lm)
        return self.lm if any(entered is one for one in known) else entered

    def but(self, **ports: Unpack[Ports]) -> Bindings:
        """The same with some ports changed; heads and deciders that are not named stay, None takes one away.

        Raises:
            InputError: there is no such port, no such stage for a head, or the name of a decider is built in.
        """
        if unknown := [name for name in ports if name not in Ports.__annotations__]:
            known = ", ".join(Ports.__annotations__)
            raise InputError(
                f"Nothing is bound as {unknown[0]!r}", where="bind", remedy=f"Use one of {known}."
            )
        changes: dict[str, Any] = {**ports}
        if "lm" in ports:
            changes["dspy_lm"] = dspy.settings.lm
        if "heads" in ports:
            merged = {**self.heads, **ports["heads"]}
            if strange := [stage for stage in merged if stage not in STAGES]:
                remedy = f"Use one of {', '.join(STAGES)}."
                raise InputError(f"There is no stage {strange[0]!r}", where="heads", remedy=remedy)
            bound_heads = {stage: head for stage in STAGES if (head := merged.get(stage)) is not None}
            changes["heads"] = MappingProxyType(bound_heads)
        if "deciders" in ports:
            named = {**self.deciders, **ports["deciders"]}
            if taken := [name for name in named if name in BUILT_IN]:
                remedy = "Bind yours by another name, and let the policy name it."
                raise InputError(f"The decider {taken[0]!r} is built in", where="deciders", remedy=remedy)
            changes["deciders"] = MappingProxyType(
                {name: one for name, one in named.items() if one is not None}
            )
        return replace(self, **changes)


READY: weakref.WeakSet[dspy.BaseLM] = weakref.WeakSet()
"""Language models for which nothing is left to be imported."""

LOADING_S = 60.0
"""Seconds that the first load of an embedding model may take; after that the turn goes on without it."""


def build_index(recall: object) -> None:
    """Build an index before the first turn asks it; a failure is logged, and decisions say so again.

    An index without ``build`` builds nothing.
    """
    build = getattr(recall, "build", None)
    if build is None:
        return
    try:
        build()
    except Exception as error:
        log.warning("the index of the flows is not built yet: %s", format_error(error))


def make_ready(lm: dspy.BaseLM) -> None:
    """Import what the first call would import: LiteLLM, for models that DSPy asks through it, takes seconds."""
    native = True
    # If it fails, the call will say what is wrong with the model.
    with suppress(Exception):
        asked, engine = unwrap(configure_for_provider(lm))
        native = not isinstance(engine, str) or bool(select_backend(asked).native)
    if not native:
        # Not told by sys.modules: another thread may be importing it, and is waited for here.
        with suppress(ImportError):
            importlib.import_module("litellm")
    READY.add(lm)


def make_ready_soon(lm: dspy.BaseLM) -> None:
    """The same in a thread of its own, as soon as the model is known."""
    if lm not in READY:
        threading.Thread(target=make_ready, args=(lm,), daemon=True, name="jazzmine-first-call").start()
