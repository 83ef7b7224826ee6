"""The contracts: what goes in, what comes out, what is stored. No I/O, no language model."""

from jazzmine_dspy.models.commands import COMMAND_KINDS, Command, command
from jazzmine_dspy.models.decision import (
    STAGES,
    Enhancement,
    Escalation,
    EscalationRule,
    LMCall,
    Selection,
    SourceKind,
    Stage,
    StageRecord,
    TurnDecision,
    Usage,
)  # fmt: skip
from jazzmine_dspy.models.errors import EnhancementError, JazzmineError
from jazzmine_dspy.models.flows import Flow, Guard, Slot, SlotType
from jazzmine_dspy.models.messages import Conversation, Entity, Message, MessageRole
from jazzmine_dspy.models.registry import FlowRegistry
from jazzmine_dspy.models.slot_types import SLOT_TYPES, ReadingContext, Span, TextType, slot_type
from jazzmine_dspy.models.turn import Confirming, ConversationStatus, FlowView, HistoryMessage, Turn

__all__ = [
    "COMMAND_KINDS", "SLOT_TYPES", "STAGES", "Command", "Confirming", "Conversation", "ConversationStatus",
    "Enhancement", "EnhancementError", "Entity", "Escalation", "EscalationRule", "Flow", "FlowRegistry", "FlowView",
    "Guard", "HistoryMessage", "JazzmineError", "LMCall", "Message", "MessageRole", "ReadingContext", "Selection",
    "Slot", "SlotType", "SourceKind", "Span", "Stage", "StageRecord", "TextType", "Turn", "TurnDecision", "Usage",
    "command", "slot_type",
]  # fmt: skip
