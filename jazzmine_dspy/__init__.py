"""Understanding and routing for assistants, compiled against labelled conversations.

Names are imported when they are first used, so that importing the package stays cheap.

Example:
    >>> from jazzmine_dspy import Turn
    >>> Turn(text="where is my order?").status.value
    'idle'
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from jazzmine_dspy._version import __version__ as __version__

if TYPE_CHECKING:
    from jazzmine_dspy.artifacts import load, save
    from jazzmine_dspy.datasets import load_dataset
    from jazzmine_dspy.eval.dspy_metric import metric
    from jazzmine_dspy.memory.messages import InMemoryMessageStore, SqlMessageStore
    from jazzmine_dspy.memory.procedural import QdrantProceduralMemory
    from jazzmine_dspy.memory.working import InMemoryWorkingMemoryStore, RedisWorkingMemoryStore
    from jazzmine_dspy.models.decision import TurnDecision
    from jazzmine_dspy.models.errors import EnhancementError, JazzmineError
    from jazzmine_dspy.models.flows import Flow, Slot
    from jazzmine_dspy.models.history import trim_to_current_episode
    from jazzmine_dspy.models.messages import Conversation, Entity, Message, MessageRole, TurnTrace
    from jazzmine_dspy.models.registry import FlowRegistry
    from jazzmine_dspy.models.turn import ConversationState, NLUContext, Turn
    from jazzmine_dspy.models.turn import FlowView as FlowInfo
    from jazzmine_dspy.models.validators import ValidatorRegistry
    from jazzmine_dspy.program.decision_cache import DecisionCache
    from jazzmine_dspy.program.lm.enhancement import parse_enhancement
    from jazzmine_dspy.program.policy import Policy
    from jazzmine_dspy.program.selector import FlowSelectionResult, FlowSelector
    from jazzmine_dspy.program.turn import TurnProgram
    from jazzmine_dspy.runtime import MessageRoute, Runtime, process_message
    from jazzmine_dspy.runtime.enhancer import MessageEnhancer

_HOMES = {
    "load": "artifacts",
    "save": "artifacts",
    "load_dataset": "datasets",
    "metric": "eval.dspy_metric",
    "TurnProgram": "program.turn",
    "DecisionCache": "program.decision_cache",
    "Policy": "program.policy",
    "Runtime": "runtime",
    "MessageEnhancer": "runtime.enhancer",
    "MessageRoute": "runtime",
    "process_message": "runtime",
    "FlowSelector": "program.selector",
    "FlowSelectionResult": "program.selector",
    "parse_enhancement": "program.lm.enhancement",
    "trim_to_current_episode": "models.history",
    "Turn": "models.turn",
    "NLUContext": "models.turn",
    "ConversationState": "models.turn",
    "FlowInfo": "models.turn:FlowView",
    "TurnDecision": "models.decision",
    "Flow": "models.flows",
    "FlowRegistry": "models.registry",
    "Slot": "models.flows",
    "Message": "models.messages",
    "MessageRole": "models.messages",
    "Entity": "models.messages",
    "Conversation": "models.messages",
    "TurnTrace": "models.messages",
    "InMemoryWorkingMemoryStore": "memory.working",
    "RedisWorkingMemoryStore": "memory.working",
    "InMemoryMessageStore": "memory.messages",
    "SqlMessageStore": "memory.messages",
    "QdrantProceduralMemory": "memory.procedural",
    "ValidatorRegistry": "models.validators",
    "EnhancementError": "models.errors",
    "JazzmineError": "models.errors",
}

__all__ = [
    "Conversation", "ConversationState", "DecisionCache", "EnhancementError", "Entity", "Flow", "FlowInfo",
    "FlowRegistry", "FlowSelectionResult", "FlowSelector", "InMemoryMessageStore", "InMemoryWorkingMemoryStore",
    "JazzmineError", "Message", "MessageEnhancer", "MessageRole", "MessageRoute", "NLUContext", "Policy",
    "QdrantProceduralMemory", "RedisWorkingMemoryStore", "Runtime", "Slot", "SqlMessageStore", "Turn", "TurnDecision",
    "TurnProgram", "TurnTrace", "ValidatorRegistry", "load", "load_dataset", "metric", "parse_enhancement",
    "process_message", "save", "trim_to_current_episode",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, _, other = home.partition(":")
    value = getattr(import_module(f"{__name__}.{module}"), other or name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
