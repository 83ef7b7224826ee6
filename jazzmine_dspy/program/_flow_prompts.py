"""Prompts of flows, built once for each content (F16)."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from jazzmine_dspy.models.base import sha256
from jazzmine_dspy.models.flows import Flow

_KEPT = 512
_DEPTH = 6


class FlowPrompts:
    """Remembers the prompts of the flows that were chosen last, by their content: a flow that changes gets a new one.

    Args:
        kept: How many are remembered.

    Example:
        >>> prompts, flow = FlowPrompts(), Flow(name="track", description="Tell where <it> is.")
        >>> "&lt;it&gt;" in prompts.of(flow), prompts.of(flow) is prompts.of(flow.model_copy())
        (True, True)
    """

    def __init__(self, kept: int = _KEPT) -> None:
        self._kept = kept
        self._prompts: OrderedDict[str, str] = OrderedDict()

    def __len__(self) -> int:
        return len(self._prompts)

    def of(self, flow: Any) -> str:
        """The prompt of a flow, or of another system's flow object, without its examples."""
        key = (
            flow.checksum()
            if isinstance(flow, Flow)
            else sha256(f"{type(flow).__qualname__} {_content(flow)}")
        )
        if key not in self._prompts:
            self._prompts[key] = str(flow.build_prompt(verbose=False))
        self._prompts.move_to_end(key)
        while len(self._prompts) > self._kept:
            self._prompts.popitem(last=False)
        return self._prompts[key]


def _content(item: Any, depth: int = _DEPTH) -> str:
    """What an object holds, as text: equal content gives equal text, as deep as flows of flows go."""
    if item is None or isinstance(item, str | int | float | bool | bytes) or depth == 0:
        return repr(item)
    if isinstance(item, dict):
        return str([(str(key), _content(value, depth - 1)) for key, value in item.items()])
    if isinstance(item, list | tuple):
        return str([_content(part, depth - 1) for part in item])
    if isinstance(item, set | frozenset):
        return str(sorted(_content(part, depth - 1) for part in item))
    if callable(item) or not hasattr(item, "__dict__"):
        return repr(item)
    return f"{type(item).__qualname__} {_content(vars(item), depth - 1)}"
