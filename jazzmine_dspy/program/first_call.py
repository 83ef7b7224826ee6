"""What the first turn takes beside itself, imports and weights: no deadline counts it."""

from __future__ import annotations

import importlib
import logging
import os
import threading
import weakref
from collections.abc import Callable

import dspy
from dspy.clients.backend_selection import select_backend

from jazzmine_dspy.models.errors import format_error
from jazzmine_dspy.program.bindings import Bindings

log = logging.getLogger("jazzmine_dspy")

_READY: weakref.WeakSet[dspy.BaseLM] = weakref.WeakSet()


LOADING_S = 60.0
"""Seconds that the first load of an embedding model may take; after that the turn goes on without it."""


def unloaded(bindings: Bindings) -> Callable[[], None] | None:
    """What loads the weights of the embedding model; None where they are there, or come with the first text."""
    embedder = bindings.embedder
    return None if getattr(embedder, "loaded", True) else getattr(embedder, "load", None)


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


def is_ready(lm: dspy.BaseLM) -> bool:
    """Whether nothing is left to be done before this model is asked."""
    return lm in _READY


def make_ready(lm: dspy.BaseLM) -> None:
    """Import what the first call would import: LiteLLM, for models that DSPy asks through it, takes seconds."""
    if isinstance(lm, dspy.LM) and isinstance(lm.engine, str) and not _native(lm):
        # Else it fetches a list of prices from the network as it is imported.
        os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
        # Not told by sys.modules: another thread may be importing it, and is waited for here.
        importlib.import_module("litellm")
    _READY.add(lm)


def make_ready_soon(lm: dspy.BaseLM) -> None:
    """The same in a thread of its own, as soon as the model is known."""
    if not is_ready(lm):
        threading.Thread(target=make_ready, args=(lm,), daemon=True, name="jazzmine-first-call").start()


def _native(lm: dspy.LM) -> bool:
    try:
        return bool(select_backend(lm).native)
    except Exception:
        # The call will say what is wrong with it.
        return True
