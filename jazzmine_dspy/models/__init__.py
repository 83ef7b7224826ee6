"""The contracts: what goes in, what comes out, what is stored. No I/O, no language model."""

from jazzmine_dspy.models.commands import COMMAND_KINDS, UNDERSTOOD, BaseCommand, Command, SlotValue, command
from jazzmine_dspy.models.decision import (
    STAGES,
    Degraded,
    Enhancement,
    Escalation,
    EscalationRule,
    LMCall,
    Recalled,
    Selection,
    SourceKind,
    Stage,
    StageRecord,
    TurnDecision,
    Usage,
)
from jazzmine_dspy.models.errors import EnhancementError, JazzmineError
from jazzmine_dspy.models.flows import Flow, Guard, Slot, SlotType
from jazzmine_dspy.models.messages import Conversation, Entity, Message, MessageRole
from jazzmine_dspy.models.registry import FlowRegistry, reading_context
from jazzmine_dspy.models.slot_types import SLOT_TYPES, ReadingContext, Span, TextType, slot_type
from jazzmine_dspy.models.turn import Confirming, ConversationStatus, FlowView, HistoryMessage, Turn

__all__ = [
    "COMMAND_KINDS",
    "SLOT_TYPES",
    "STAGES",
    "UNDERSTOOD",
    "BaseCommand",
    "Command",
    "Confirming",
    "Conversation",
    "ConversationStatus",
    "Degraded",
    "Enhancement",
    "EnhancementError",
    "Entity",
    "Escalation",
    "EscalationRule",
    "Flow",
    "FlowRegistry",
    "FlowView",
    "Guard",
    "HistoryMessage",
    "JazzmineError",
    "LMCall",
    "Message",
    "MessageRole",
    "ReadingContext",
    "Recalled",
    "Selection",
    "Slot",
    "SlotType",
    "SlotValue",
    "SourceKind",
    "Span",
    "Stage",
    "StageRecord",
    "TextType",
    "Turn",
    "TurnDecision",
    "Usage",
    "command",
    "reading_context",
    "slot_type",
]  # fmt: skip
