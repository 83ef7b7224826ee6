"""Deciders as DSPy's callbacks see modules: each is a span of ``mlflow.dspy.autolog`` and of its like."""

from __future__ import annotations

import functools
import logging
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import dspy
from dspy.utils.callback import ACTIVE_CALL_ID

log = logging.getLogger("jazzmine_dspy")


@dataclass
class Span:
    """What callbacks are told at the end; None where nobody watches."""

    outputs: Mapping[str, Any] | None = None
    watched: bool = False


@functools.cache
def _named(name: str) -> dspy.Module:
    # Callbacks name a span by the class of the module.
    found: dspy.Module = type(name, (dspy.Module,), {})()
    return found


@contextmanager
def observed(name: str, inputs: Mapping[str, Any]) -> Iterator[Span]:
    """Tell DSPy's callbacks of a part of a turn, while it is under way.

    Args:
        name: What the part is called, such as ``SelectStage``.
        inputs: What it is given.
    """
    callbacks = list(dspy.settings.get("callbacks") or ())
    if not callbacks:
        yield Span()
        return
    span, call_id, module = Span(watched=True), uuid.uuid4().hex, _named(name)
    parent = ACTIVE_CALL_ID.get()
    for callback in callbacks:
        _tell(callback.on_module_start, call_id=call_id, instance=module, inputs=dict(inputs))
    ACTIVE_CALL_ID.set(call_id)
    failure: BaseException | None = None
    try:
        yield span
    except BaseException as error:
        failure = error
        raise
    finally:
        ACTIVE_CALL_ID.set(parent)
        for callback in reversed(callbacks):
            _tell(callback.on_module_end, call_id=call_id, outputs=span.outputs, exception=failure)


def _tell(hear: Callable[..., Any], **said: Any) -> None:
    try:
        hear(**said)
    except Exception as error:
        log.warning("a callback failed: %s", type(error).__name__)
